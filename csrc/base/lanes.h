// Folds a row in lanes. `omp simd reduction(max : ...)` of floats is vectorised by GCC alone: clang wants to be told that
// there are no NaN.
#pragma once

#include <cstdint>

#include "base/vmath_basic.h"

namespace fl::vm {
inline namespace FL_ISA {

// Folds the upper half of the lanes onto the lower one until one is left.
template <int Width, class T, class Combine>
FL_VM void fold_lanes(T* lane, Combine combine) {
  if constexpr (Width > 0) {
#pragma omp simd
    for (int l = 0; l < Width; ++l) lane[l] = combine(lane[l], lane[l + Width]);
    fold_lanes<Width / 2>(lane, combine);
  }
}

// combine(... combine(combine(start, x[0]), x[1]) ..., x[n - 1]), for combinations in which neither order nor a second
// `start` matters.
template <class T, class Combine>
FL_VM T fold_row(const T* x, int64_t n, T start, Combine combine) {
  constexpr int kLanes = 128 / sizeof(T);
  T result = start;
  int64_t i = 0;
  if (n >= kLanes) {
    T lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = start;
    for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lane[l] = combine(lane[l], x[i + l]);
    }
    fold_lanes<kLanes / 2>(lane, combine);
    result = lane[0];
  }
  for (; i < n; ++i) result = combine(result, x[i]);
  return result;
}

// The sum of f(0) ... f(n - 1), each in its lane.
template <class T, class F>
FL_VM T sum_in_lanes(int64_t n, F f) {
  constexpr int kLanes = 128 / sizeof(T);
  T lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) lane[l] += f(i + l);
  }
  const int64_t rest = n - i;
  int64_t l = 0;
  for (; l + kLanes / 2 <= rest; l += kLanes / 2) {
#pragma omp simd
    for (int j = 0; j < kLanes / 2; ++j) lane[j] += f(i + l + j);
  }
  for (; l < rest; ++l) lane[l] += f(i + l);
  fold_lanes<kLanes / 2>(lane, [](T a, T b) { return a + b; });
  return lane[0];
}

// The largest of `least` and a row. NaN is not looked for.
template <class T>
FL_VM T row_max(const T* x, int64_t n, T least) {
  return fold_row(x, n, least, [](T m, T v) { return v > m ? v : m; });
}

}  // namespace FL_ISA
}  // namespace fl::vm
