#include "ops/sort/keys.h"

#include <algorithm>

#include "dispatch/axes.h"

namespace fl::kernels {
namespace {

template <class T>
constexpr bool kReal = std::is_floating_point_v<T> || std::is_class_v<T>;
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
Key<T> key_of(T v, bool descending) {
  using K = Key<T>;
  K k;
  if constexpr (sizeof(T) == 8) {
    constexpr K top = K(1) << 63;
    if constexpr (kReal<T>) {
      const K b = std::bit_cast<K>(v == 0 ? T(0) : v);
      k = v != v ? ~K(0) : b & top ? ~b : b | top;
    } else {
      k = static_cast<K>(v) ^ top;
    }
  } else {
    constexpr K top = K(1) << 31;
    if constexpr (kReal<T>) {
      const float f = static_cast<float>(v);
      const K b = std::bit_cast<K>(f == 0 ? 0.0f : f);
      k = f != f ? ~K(0) : b & top ? ~b : b | top;
    } else {
      k = static_cast<K>(static_cast<int32_t>(v)) ^ top;
    }
  }
  return descending ? static_cast<K>(~k) : k;
}

uint64_t digit_source(uint64_t packed) { return packed >> 32; }
uint64_t digit_source(const WideKey& w) { return w.key; }

// Least significant digit first, 11 bits at a time; digits that all elements share are skipped.
template <class E>
void radix_sort(std::vector<E>& items, std::vector<E>& other, int bits) {
  constexpr int kBits = 11, kSize = 1 << kBits;
  const int passes = (bits + kBits - 1) / kBits;
  std::vector<uint32_t> count(static_cast<size_t>(passes) * kSize, 0);
  for (const E& e : items) {
    const uint64_t k = digit_source(e);
    for (int p = 0; p < passes; ++p) ++count[static_cast<size_t>(p * kSize) + ((k >> (p * kBits)) & (kSize - 1))];
  }
  other.resize(items.size());
  for (int p = 0; p < passes; ++p) {
    uint32_t* c = &count[static_cast<size_t>(p * kSize)];
    const uint64_t any = (digit_source(items[0]) >> (p * kBits)) & (kSize - 1);
    if (c[any] == items.size()) continue;
    uint32_t at = 0;
    for (int i = 0; i < kSize; ++i) {
      const uint32_t n = c[i];
      c[i] = at;
      at += n;
    }
    for (const E& e : items) other[c[(digit_source(e) >> (p * kBits)) & (kSize - 1)]++] = e;
    items.swap(other);
  }
}

template <class E>
void sort_items(std::vector<E>& items, std::vector<E>& other, int bits) {
  if (items.size() < 256 || items.size() > 0xffffffffu) {
    std::sort(items.begin(), items.end());
    return;
  }
  radix_sort(items, other, bits);
}

int64_t position(uint64_t packed) { return static_cast<int64_t>(packed & 0xffffffffu); }
int64_t position(const WideKey& w) { return static_cast<int64_t>(w.at); }

// Calls f with the items of a row: packed into 64 bits where key and position fit, else wide.
template <class T, class F>
void with_items(SortScratch& scratch, const T* x, int64_t n, int64_t stride, bool descending, F&& f) {
  if constexpr (sizeof(T) < 8) {
    if (n <= 0xffffffff) {
      auto& items = scratch.packed;
      items.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i)
        items[static_cast<size_t>(i)] = static_cast<uint64_t>(key_of(x[i * stride], descending)) << 32 | static_cast<uint64_t>(i);
      f(items, scratch.packed_other, 32);
      return;
    }
  }
  auto& items = scratch.wide;
  items.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {key_of(x[i * stride], descending), static_cast<uint64_t>(i)};
  f(items, scratch.wide_other, sizeof(T) == 8 ? 64 : 32);
}

template <class T, class Items>
void write(const T* x, int64_t stride, const Items& items, int64_t n, void* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) indices[i] = position(items[static_cast<size_t>(i)]);
  if (values)
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(values)[i] = x[indices[i] * stride];
}

// The first k in order: candidates are what beats the k-th of those so far, sorted out whenever there are too many.
template <class T>
void few_of_many(SortScratch& scratch, const T* x, int64_t n, int64_t stride, int64_t k, bool descending, void* values, int64_t* indices) {
  constexpr int64_t kRun = 64;
  auto& best = scratch.wide;
  best.clear();
  Key<T> limit = ~Key<T>(0);
  const size_t most = static_cast<size_t>(4 * k + kRun);
  Key<T> keys[kRun];
  for (int64_t i = 0; i < n; i += kRun) {
    const int64_t m = std::min(kRun, n - i);
    bool any = false;
    for (int64_t j = 0; j < m; ++j) {
      keys[j] = key_of(x[(i + j) * stride], descending);
      any |= keys[j] <= limit;
    }
    if (!any) continue;
    for (int64_t j = 0; j < m; ++j)
      if (keys[j] <= limit) best.push_back({keys[j], static_cast<uint64_t>(i + j)});
    if (best.size() < most) continue;
    std::nth_element(best.begin(), best.begin() + (k - 1), best.end());
    best.resize(static_cast<size_t>(k));
    limit = static_cast<Key<T>>(best[static_cast<size_t>(k - 1)].key);
  }
  std::partial_sort(best.begin(), best.begin() + k, best.end());
  write(x, stride, best, k, values, indices);
}

}  // namespace

void sort_row(SortScratch& scratch, const void* x, DType type, int64_t n, int64_t stride, bool descending, void* values, int64_t* indices) {
  if (n == 0) return;
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    const T* v = static_cast<const T*>(x);
    with_items(scratch, v, n, stride, descending, [&](auto& items, auto& other, int bits) {
      sort_items(items, other, bits);
      write(v, stride, items, n, values, indices);
    });
  });
}

void top_row(SortScratch& scratch, const void* x, DType type, int64_t n, int64_t stride, int64_t k, bool largest, bool sorted, void* values,
             int64_t* indices) {
  if (k == 0) return;
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    const T* v = static_cast<const T*>(x);
    if (k <= 64 && n >= 16 * k) return few_of_many(scratch, v, n, stride, k, largest, values, indices);
    with_items(scratch, v, n, stride, largest, [&](auto& items, auto&, int) {
      std::nth_element(items.begin(), items.begin() + (k - 1), items.end());  // leaves the k-th at k - 1
      if (sorted) std::sort(items.begin(), items.begin() + k);
      write(v, stride, items, k, values, indices);
    });
  });
}

}  // namespace fl::kernels
