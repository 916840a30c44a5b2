// Each of a block of keys halves its part of the row, a step of all of them after the other: elements are gathered, and nothing jumps.
#include "ops/index/search.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kBlock = 64;

// I is as wide as T, so that lanes stay where they are.
template <bool kRight, class T, class I>
void block(const T* row, int64_t n, const T* keys, int64_t count, int32_t* places) {
  T key[kBlock];
  I low[kBlock], left[kBlock];
  const I last = static_cast<I>(n - 1);
  for (int64_t k = 0; k < kBlock; ++k) {
    key[k] = keys[k < count ? k : 0];
    low[k] = 0;
    left[k] = static_cast<I>(n);
  }
  for (int64_t most = n; most > 0; most /= 2) {
#pragma omp simd
    for (int64_t k = 0; k < kBlock; ++k) {
      const I half = left[k] / 2, at = low[k] + half;
      const T v = key[k], m = row[at < last ? at : last];
      const bool passes = kRight ? (!(v < m)) & ((m == m) | (v != v)) : (m < v) | ((v != v) & (m == m));  // NaN is the largest
      const bool up = passes & (left[k] > 0);
      low[k] = up ? at + 1 : low[k];
      left[k] = up ? left[k] - half - 1 : half;
    }
  }
  for (int64_t k = 0; k < count; ++k) places[k] = static_cast<int32_t>(low[k]);
}

template <class T, class I>
void search(const void* row, int64_t n, const void* keys, int64_t count, bool right, int32_t* places) {
  const T *from = static_cast<const T*>(row), *key = static_cast<const T*>(keys);
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t m = count - i < kBlock ? count - i : kBlock;
    if (right) block<true, T, I>(from, n, key + i, m, places + i);
    else block<false, T, I>(from, n, key + i, m, places + i);
  }
}

}  // namespace

void search_row(DType type, const void* row, int64_t n, const void* keys, int64_t count, bool right, int32_t* places) {
  switch (type) {
    case DType::Float32: return search<float, int32_t>(row, n, keys, count, right, places);
    case DType::Float64: return search<double, int64_t>(row, n, keys, count, right, places);
    case DType::Int32: return search<int32_t, int32_t>(row, n, keys, count, right, places);
    default: return search<int64_t, int64_t>(row, n, keys, count, right, places);
  }
}

}  // namespace fl::kernels::FL_ISA
