// Distances of all rows of one matrix to all rows of another, and what they give to the rows, once per instruction set.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl {

// Rows of `width` elements; p > 0 is finite.
struct RowPairs {
  int64_t rows, width;  // of the other matrix
  double p;
};

}  // namespace fl

// y[j] = |x - others[j]|_p
FL_SIMD_KERNEL(void, row_distances_f32, const fl::RowPairs& pairs, const float* x, const float* others, float* y)
FL_SIMD_KERNEL(void, row_distances_f64, const fl::RowPairs& pairs, const double* x, const double* others, double* y)
// dx = sum_j dy[j] d y[j] / d x; 0 by a distance that is 0.
FL_SIMD_KERNEL(void, row_distances_gradient_f32, const fl::RowPairs& pairs, const float* dy, const float* x, const float* others, const float* y, float* dx)
FL_SIMD_KERNEL(void, row_distances_gradient_f64, const fl::RowPairs& pairs, const double* dy, const double* x, const double* others, const double* y, double* dx)
