#include "ops/sort/keys.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "dispatch/axes.h"
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

// How an item is made of a key and its position, and taken apart. Packed items hold the key less the row's smallest
// above the position, and compare as they are.
struct Packing {
  uint64_t low = 0;
  int shift = 32, bits = 32;  // of the position, of the key
  uint64_t item(uint64_t key, int64_t at) const { return (key - low) << shift | static_cast<uint64_t>(at); }
  uint64_t key(uint64_t item) const { return item >> shift; }
  int64_t at(uint64_t item) const { return static_cast<int64_t>(item & ((uint64_t{1} << shift) - 1)); }
};
struct Wide {
  int bits = 64;
  WideKey item(uint64_t key, int64_t at) const { return {key, static_cast<uint64_t>(at)}; }
  uint64_t key(const WideKey& w) const { return w.key; }
  int64_t at(const WideKey& w) const { return static_cast<int64_t>(w.at); }
};

constexpr int kDigit = 11, kDigits = 1 << kDigit;

// Least significant digit first; digits that all elements share are skipped.
template <class E, class P>
void radix_sort(Buffer<E>& items, Buffer<E>& other, const P p) {
  const int passes = (p.bits + kDigit - 1) / kDigit;
  std::vector<uint32_t> count(static_cast<size_t>(passes) * kDigits, 0);
  for (const E& e : items) {
    const uint64_t k = p.key(e);
    for (int i = 0; i < passes; ++i) ++count[static_cast<size_t>(i * kDigits) + ((k >> (i * kDigit)) & (kDigits - 1))];
  }
  other.resize(items.size());
  for (int i = 0; i < passes; ++i) {
    uint32_t* c = &count[static_cast<size_t>(i * kDigits)];
    const auto digit = [p, i](const E& e) { return (p.key(e) >> (i * kDigit)) & (kDigits - 1); };
    if (c[digit(items[0])] == items.size()) continue;
    uint32_t at = 0;
    for (int d = 0; d < kDigits; ++d) {
      const uint32_t n = c[d];
      c[d] = at;
      at += n;
    }
    E* to = other.data();
    for (const E& e : items) to[c[digit(e)]++] = e;
    std::swap(items, other);
  }
}

// f(keys' type, packing, items, a second buffer): packed where key and position fit into 64 bits.
template <class F>
void with_items(SortScratch& scratch, const Row& x, F&& f) {
  if (item_size(x.type) == 8) f(uint64_t{}, Wide{}, scratch.wide, scratch.wide_other);
  else if (x.n <= 0xffffffff) f(uint32_t{}, Packing{}, scratch.packed, scratch.packed_other);
  else f(uint32_t{}, Wide{32}, scratch.wide, scratch.wide_other);
}
// Also packed where the row's keys of 64 bits lie close together.
template <class F>
void with_close_items(SortScratch& scratch, const Row& x, bool descending, F&& f) {
  if (item_size(x.type) != 8) return with_items(scratch, x, f);
  uint64_t low = ~uint64_t{0}, high = 0;
  over_keys<uint64_t>(x, descending, [&](const uint64_t* keys, int64_t, int64_t m) { widen_key_bounds(keys, m, &low, &high); });
  const Packing p{.low = low, .shift = static_cast<int>(std::bit_width(static_cast<uint64_t>(x.n - 1))),
                  .bits = static_cast<int>(std::bit_width(high - low))};
  if (p.shift + p.bits <= 64) f(uint64_t{}, p, scratch.packed, scratch.packed_other);
  else with_items(scratch, x, f);
}

template <class K, class P, class Items>
void all_items(const Row& x, bool descending, const P p, Items& items) {
  items.resize(static_cast<size_t>(x.n));
  over_keys<K>(x, descending, [&](const K* keys, int64_t first, int64_t m) {
    for (int64_t j = 0; j < m; ++j) items[static_cast<size_t>(first + j)] = p.item(keys[j], first + j);
  });
}

template <class P, class Item>
void write(const Row& x, const P p, const Item* items, int64_t n, void* values, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) indices[i] = p.at(items[i]);
  if (!values) return;
  by_size(item_size(x.type), [&](auto unit) {
    using U = decltype(unit);
    for (int64_t i = 0; i < n; ++i) static_cast<U*>(values)[i] = static_cast<const U*>(x.data)[indices[i] * x.stride];
  });
}

void keep_least(const uint32_t* keys, int64_t first, int64_t n, uint64_t* best, int64_t* count, int64_t k) { keep_least_32(keys, first, n, best, count, k); }
void keep_least(const uint64_t* keys, int64_t first, int64_t n, WideKey* best, int64_t* count, int64_t k) { keep_least_64(keys, first, n, best, count, k); }

// The first k of 0 < k <= n; whether they are in order.
template <class K, class P, class Items>
bool few_of_many(const Row& x, int64_t k, bool descending, const P p, Items& best) {
  best.resize(static_cast<size_t>(k * kRoom));
  int64_t count = 0;
  over_keys<K>(x, descending, [&](const K* keys, int64_t first, int64_t m) {
    int64_t j = 0;
    for (; j < m && first + j < k; ++j) best[static_cast<size_t>(count++)] = p.item(keys[j], first + j);
    if (j == m) return;
    if (first + j == k) {  // from here on the k-th is the largest
      if (k <= kInserted) std::sort(best.begin(), best.begin() + k);
      else std::nth_element(best.begin(), best.begin() + (k - 1), best.begin() + k);
    }
    keep_least(keys + j, first + j, m - j, best.data(), &count, k);
  });
  if (k <= kInserted) return true;
  std::nth_element(best.begin(), best.begin() + (k - 1), best.begin() + count);
  return false;
}

// The item of rank `rank`: of the elements those stay whose leading digits are its own.
template <class K, class P, class Items>
auto ranked_item(const Row& x, int64_t rank, const P p, Items& items) {
  constexpr int64_t kSmall = 2048;  // fewer are not worth counting
  int shift = p.bits;               // of the digits that are told apart already
  std::vector<int64_t> count;
  // Of the elements that each(f) calls f(key) for, the digit of the ranked one; its rank becomes that among those who share it.
  const auto choose = [&](auto&& each) {
    shift = std::max(0, shift - kDigit);
    count.assign(kDigits, 0);
    each([&](uint64_t key) { ++count[(key >> shift) & (kDigits - 1)]; });
    uint64_t digit = 0;
    while (rank >= count[digit]) rank -= count[digit++];
    return digit;
  };
  if (x.n <= kSmall) {
    all_items<K>(x, false, p, items);
  } else {
    const uint64_t digit = choose([&](auto&& f) {
      over_keys<K>(x, false, [&](const K* keys, int64_t, int64_t m) {
        for (int64_t j = 0; j < m; ++j) f(keys[j]);
      });
    });
    items.resize(static_cast<size_t>(count[digit]) + 1);  // one more is written, and then no longer counted
    size_t kept = 0;
    over_keys<K>(x, false, [&](const K* keys, int64_t first, int64_t m) {
      for (int64_t j = 0; j < m; ++j) {
        items[kept] = p.item(keys[j], first + j);
        kept += (uint64_t{keys[j]} >> shift & (kDigits - 1)) == digit;
      }
    });
    items.resize(kept);
  }
  while (static_cast<int64_t>(items.size()) > kSmall && shift > 0) {
    const uint64_t digit = choose([&](auto&& f) {
      for (const auto& e : items) f(p.key(e));
    });
    const auto end = std::remove_if(items.begin(), items.end(), [&](const auto& e) { return (p.key(e) >> shift & (kDigits - 1)) != digit; });
    items.resize(static_cast<size_t>(end - items.begin()));
  }
  const auto at = items.begin() + rank;
  if (shift > 0) std::nth_element(items.begin(), at, items.end());  // else equal keys in the order of their positions
  return *at;
}

}  // namespace

void sort_row(SortScratch& scratch, const Row& x, bool descending, void* values, int64_t* indices) {
  if (x.n == 0) return;
  with_close_items(scratch, x, descending, [&]<class K>(K, const auto& p, auto& items, auto& other) {
    all_items<K>(x, descending, p, items);
    if (std::is_sorted(items.begin(), items.end())) {  // which most rows show at once that are not
    } else if (x.n < 256 || x.n > 0xffffffff) {
      std::sort(items.begin(), items.end());
    } else {
      radix_sort(items, other, p);
    }
    write(x, p, items.data(), x.n, values, indices);
  });
}

void top_row(SortScratch& scratch, const Row& x, int64_t k, bool largest, bool sorted, void* values, int64_t* indices) {
  if (k == 0) return;
  with_items(scratch, x, [&]<class K, class Items>(K, const auto& p, Items& items, Items&) {
    const auto of_all = [&] {
      all_items<K>(x, largest, p, items);
      std::nth_element(items.begin(), items.begin() + (k - 1), items.end());
    };
    bool in_order = false;
    if constexpr (sizeof(items[0]) == 2 * sizeof(K)) {
      if (k <= x.n / 4) in_order = few_of_many<K>(x, k, largest, p, items);
      else of_all();
    } else {
      of_all();
    }
    if (sorted && !in_order) std::sort(items.begin(), items.begin() + k);
    write(x, p, items.data(), k, values, indices);
  });
}

void rank_row(SortScratch& scratch, const Row& x, int64_t rank, void* value, int64_t* index) {
  with_items(scratch, x, [&]<class K, class Items>(K, const auto& p, Items& items, Items&) {
    const auto item = ranked_item<K>(x, rank, p, items);
    write(x, p, &item, 1, value, index);
  });
}

int64_t count_nan(const Row& x, int64_t* first) {
  int64_t count = 0;
  *first = -1;
  if (!is_float(x.type)) return 0;
  const auto run = [&](const auto* keys, int64_t begin, int64_t m) {  // the largest key of all
    using K = std::remove_cvref_t<decltype(*keys)>;
    int64_t found = 0;
#pragma omp simd reduction(+ : found)
    for (int64_t j = 0; j < m; ++j) found += keys[j] == static_cast<K>(~K{0});
    if (found > 0 && count == 0) *first = begin + (std::find(keys, keys + m, static_cast<K>(~K{0})) - keys);
    count += found;
  };
  if (item_size(x.type) == 8) over_keys<uint64_t>(x, false, run);
  else over_keys<uint32_t>(x, false, run);
  return count;
}

}  // namespace fl::kernels
