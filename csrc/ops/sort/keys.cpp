#include "ops/sort/keys.h"

#include <algorithm>

#include "dispatch/axes.h"
#include "dispatch/each.h"
#include "ops/sort/runs.h"

namespace fl::kernels {
namespace {

constexpr int64_t kRun = 1024;  // elements whose keys are made at a time

// Calls f(keys, first, count) for runs of a row. Keys have 64 bits where the elements have, else 32.
template <class K, class F>
void over_keys(const Row& x, bool descending, F&& f) {
  const DType type = compute_type(x.type);
  const int64_t item = static_cast<int64_t>(item_size(x.type));
  alignas(64) char gathered[kRun * 8], converted[kRun * 8];
  alignas(64) K keys[kRun];
  for (int64_t i = 0; i < x.n; i += kRun) {
    const int64_t m = std::min(kRun, x.n - i);
    const void* run = static_cast<const char*>(x.data) + i * x.stride * item;
    if (x.stride != 1) {
      by_size(static_cast<size_t>(item), [&](auto unit) {
        using U = decltype(unit);
        for (int64_t j = 0; j < m; ++j) reinterpret_cast<U*>(gathered)[j] = static_cast<const U*>(run)[j * x.stride];
      });
      run = gathered;
    }
    if (type != x.type) {
      convert_elements(converted, type, run, x.type, m);
      run = converted;
    }
    sort_keys(run, type, m, descending, keys);
    f(static_cast<const K*>(keys), i, m);
  }
}

uint64_t packed(uint32_t key, int64_t at) { return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(at); }

uint64_t key_of(uint64_t packed) { return packed >> 32; }
uint64_t key_of(const WideKey& w) { return w.key; }

// Least significant digit first, 11 bits at a time; digits that all elements share are skipped.
template <class E>
void radix_sort(std::vector<E>& items, std::vector<E>& other, int bits) {
  constexpr int kBits = 11, kSize = 1 << kBits;
  const int passes = (bits + kBits - 1) / kBits;
  std::vector<uint32_t> count(static_cast<size_t>(passes) * kSize, 0);
  for (const E& e : items) {
    const uint64_t k = key_of(e);
    for (int p = 0; p < passes; ++p) ++count[static_cast<size_t>(p * kSize) + ((k >> (p * kBits)) & (kSize - 1))];
  }
  other.resize(items.size());
  for (int p = 0; p < passes; ++p) {
    uint32_t* c = &count[static_cast<size_t>(p * kSize)];
    const uint64_t any = (key_of(items[0]) >> (p * kBits)) & (kSize - 1);
    if (c[any] == items.size()) continue;
    uint32_t at = 0;
    for (int i = 0; i < kSize; ++i) {
      const uint32_t n = c[i];
      c[i] = at;
      at += n;
    }
    for (const E& e : items) other[c[(key_of(e) >> (p * kBits)) & (kSize - 1)]++] = e;
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

// Where key and position fit into 64 bits they are packed; f gets how an item is made, two buffers, and a key's bits.
template <class F>
void with_items(SortScratch& scratch, const Row& x, F&& f) {
  auto wide = [](uint64_t key, int64_t at) { return WideKey{key, static_cast<uint64_t>(at)}; };
  if (item_size(x.type) == 8) f(uint64_t{}, wide, scratch.wide, scratch.wide_other, 64);
  else if (x.n <= 0xffffffff) f(uint32_t{}, packed, scratch.packed, scratch.packed_other, 32);
  else f(uint32_t{}, wide, scratch.wide, scratch.wide_other, 32);
}

template <class K, class Make, class Items>
void all_items(const Row& x, bool descending, const Make& make, Items& items) {
  items.resize(static_cast<size_t>(x.n));
  over_keys<K>(x, descending, [&](const K* keys, int64_t first, int64_t m) {
    for (int64_t j = 0; j < m; ++j) items[static_cast<size_t>(first + j)] = make(keys[j], first + j);
  });
}

template <class Items>
void write(const Row& x, const Items& items, int64_t n, void* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) indices[i] = position(items[static_cast<size_t>(i)]);
  if (!values) return;
  by_size(item_size(x.type), [&](auto unit) {
    using U = decltype(unit);
    for (int64_t i = 0; i < n; ++i) static_cast<U*>(values)[i] = static_cast<const U*>(x.data)[indices[i] * x.stride];
  });
}

void keep_least(const uint32_t* keys, int64_t first, int64_t n, uint64_t* best, int64_t k) { keep_least_32(keys, first, n, best, k); }
void keep_least(const uint64_t* keys, int64_t first, int64_t n, WideKey* best, int64_t k) { keep_least_64(keys, first, n, best, k); }

// The first k in order, of 0 < k <= n.
template <class K, class Make, class Items>
void few_of_many(const Row& x, int64_t k, bool descending, const Make& make, Items& best) {
  best.clear();
  over_keys<K>(x, descending, [&](const K* keys, int64_t first, int64_t m) {
    int64_t j = 0;
    for (; j < m && static_cast<int64_t>(best.size()) < k; ++j) best.push_back(make(keys[j], first + j));
    if (j > 0) std::sort(best.begin(), best.end());
    if (j < m) keep_least(keys + j, first + j, m - j, best.data(), k);
  });
}

}  // namespace

void sort_row(SortScratch& scratch, const Row& x, bool descending, void* values, int64_t* indices) {
  if (x.n == 0) return;
  with_items(scratch, x, [&]<class K>(K, auto make, auto& items, auto& other, int bits) {
    all_items<K>(x, descending, make, items);
    sort_items(items, other, bits);
    write(x, items, x.n, values, indices);
  });
}

void top_row(SortScratch& scratch, const Row& x, int64_t k, bool largest, bool sorted, void* values, int64_t* indices) {
  if (k == 0) return;
  with_items(scratch, x, [&]<class K, class Items>(K, auto make, Items& items, Items&, int) {
    if constexpr (sizeof(items[0]) == 2 * sizeof(K))
      if (k <= kFewest && k <= x.n / 2) {
        few_of_many<K>(x, k, largest, make, items);
        return write(x, items, k, values, indices);
      }
    all_items<K>(x, largest, make, items);
    std::nth_element(items.begin(), items.begin() + (k - 1), items.end());  // leaves the k-th at k - 1
    if (sorted) std::sort(items.begin(), items.begin() + k);
    write(x, items, k, values, indices);
  });
}

}  // namespace fl::kernels
