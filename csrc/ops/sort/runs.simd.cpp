#include "ops/sort/runs.h"

#include <algorithm>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/vmath_basic.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T, class K>
void keys_of(const void* x_raw, int64_t n, bool descending, void* keys_raw) {
  constexpr K top = K(1) << (8 * sizeof(K) - 1);
  const K flip = descending ? ~K(0) : K(0);
  const T* x = static_cast<const T*>(x_raw);
  K* keys = static_cast<K*>(keys_raw);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    K k;
    if constexpr (std::is_floating_point_v<T>) {
      const K b = vm::bits<K>(v == 0 ? T(0) : v);
      const K negative = K(0) - (b >> (8 * sizeof(K) - 1));  // all ones or none
      k = b ^ (negative | top);
      k = v != v ? ~K(0) : k;
    } else {
      k = static_cast<K>(v) ^ top;
    }
    keys[i] = k ^ flip;
  }
}

constexpr int64_t kGroup = 16;

// Bit j: keys[j] < limit, for a group of keys.
uint32_t below(const uint32_t* keys, uint32_t limit) {
#if defined(__AVX512F__)
  return _mm512_cmplt_epu32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(static_cast<int>(limit)));
#elif defined(__AVX2__)
  const __m256i top = _mm256_set1_epi32(static_cast<int>(0x80000000u)), bound = _mm256_set1_epi32(static_cast<int>(limit ^ 0x80000000u));
  uint32_t mask = 0;
  for (int j = 0; j < kGroup; j += 8) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + j));
    mask |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bound, _mm256_xor_si256(v, top))))) << j;
  }
  return mask;
#else
  uint32_t mask = 0;
  for (int j = 0; j < kGroup; ++j) mask |= static_cast<uint32_t>(keys[j] < limit) << j;
  return mask;
#endif
}
uint32_t below(const uint64_t* keys, uint64_t limit) {
  uint32_t mask = 0;
#if defined(__AVX512F__)
  const __m512i bound = _mm512_set1_epi64(static_cast<long long>(limit));
  for (int j = 0; j < kGroup; j += 8)
    mask |= static_cast<uint32_t>(_mm512_cmplt_epu64_mask(_mm512_loadu_si512(keys + j), bound)) << j;
#else
  for (int j = 0; j < kGroup; ++j) mask |= static_cast<uint32_t>(keys[j] < limit) << j;
#endif
  return mask;
}

uint64_t item_of(uint32_t key, int64_t at) { return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(at); }
WideKey item_of(uint64_t key, int64_t at) { return {key, static_cast<uint64_t>(at)}; }
uint32_t key_of(uint64_t item) { return static_cast<uint32_t>(item >> 32); }
uint64_t key_of(const WideKey& item) { return item.key; }

// f(j) for every key that may be below limit().
template <class K, class Limit, class F>
void over_small(const K* keys, int64_t n, const Limit& limit, const F& f) {
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup)
    for (uint32_t mask = below(keys + i, limit()); mask != 0; mask &= mask - 1) f(i + __builtin_ctz(mask));
  for (; i < n; ++i) f(i);
}

// A later element of an equal key does not take the place of an earlier one.
template <class K, class Item>
void keep_least(const K* keys, int64_t first, int64_t n, Item* best, int64_t* count, int64_t k) {
  if (k <= kInserted) {
    over_small(keys, n, [&] { return key_of(best[k - 1]); }, [&](int64_t j) {
      const K key = keys[j];
      if (key >= key_of(best[k - 1])) return;
      int64_t p = k - 1;
#pragma GCC unroll 1  // else GCC, which knows that k is small, keeps every place in a register of its own
      for (; p > 0; --p) {
        if (key >= key_of(best[p - 1])) break;
        best[p] = best[p - 1];
      }
      best[p] = item_of(key, first + j);
    });
    return;
  }
  // Candidates are collected; when there are enough, the k least of them stay.
  K limit = key_of(best[k - 1]);
  over_small(keys, n, [&] { return limit; }, [&](int64_t j) {
    if (keys[j] >= limit) return;
    best[(*count)++] = item_of(keys[j], first + j);
    if (*count < kRoom * k) return;
    std::nth_element(best, best + (k - 1), best + *count);
    *count = k;
    limit = key_of(best[k - 1]);
  });
}

}  // namespace

void sort_keys(const void* x, DType type, int64_t n, bool descending, void* keys) {
  switch (type) {
    case DType::Int32: return keys_of<int32_t, uint32_t>(x, n, descending, keys);
    case DType::Float32: return keys_of<float, uint32_t>(x, n, descending, keys);
    case DType::Int64: return keys_of<int64_t, uint64_t>(x, n, descending, keys);
    default: return keys_of<double, uint64_t>(x, n, descending, keys);
  }
}

void widen_key_bounds(const uint64_t* keys, int64_t n, uint64_t* low, uint64_t* high) {
  uint64_t least = *low, most = *high;
#pragma omp simd reduction(min : least) reduction(max : most)
  for (int64_t i = 0; i < n; ++i) {
    least = keys[i] < least ? keys[i] : least;
    most = keys[i] > most ? keys[i] : most;
  }
  *low = least;
  *high = most;
}

void keep_least_32(const uint32_t* keys, int64_t first, int64_t n, uint64_t* best, int64_t* count, int64_t k) { keep_least(keys, first, n, best, count, k); }
void keep_least_64(const uint64_t* keys, int64_t first, int64_t n, WideKey* best, int64_t* count, int64_t k) { keep_least(keys, first, n, best, count, k); }

}  // namespace fl::kernels::FL_ISA
