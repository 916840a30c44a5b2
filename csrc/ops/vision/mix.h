// Sums of a few elements of an axis, times weights: what resizing by interpolation is, along one axis after another.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl {

// What each of `count` results along an axis of `size` elements is mixed of: `taps` elements of the lines [size, inner].
template <class T>
struct Mix {
  int64_t size, count, inner, taps;
  const int32_t* index;  // [taps, count]
  const T* weight;       // [taps, count]
};

}  // namespace fl

// Results [first, last) of all lines: result r is number r % count of line r / count. x [lines, size, inner] -> y [lines, count, inner].
FL_SIMD_KERNEL(void, mix_axis_f32, const fl::Mix<float>& mix, const float* x, float* y, int64_t first, int64_t last)
FL_SIMD_KERNEL(void, mix_axis_f64, const fl::Mix<double>& mix, const double* x, double* y, int64_t first, int64_t last)
// The transpose, of lines [first, last): dy [lines, count, inner] -> dx [lines, size, inner].
FL_SIMD_KERNEL(void, spread_axis_f32, const fl::Mix<float>& mix, const float* dy, float* dx, int64_t first, int64_t last)
FL_SIMD_KERNEL(void, spread_axis_f64, const fl::Mix<double>& mix, const double* dy, double* dx, int64_t first, int64_t last)
