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
// y[i] = |x[i]|^2 of rows
FL_SIMD_KERNEL(void, row_squares_f32, int64_t rows, int64_t width, const float* x, float* y)
FL_SIMD_KERNEL(void, row_squares_f64, int64_t rows, int64_t width, const double* x, double* y)
// y[j] = sqrt(own + others[j] - 2 y[j]), or 0 where rounding left less.
FL_SIMD_KERNEL(void, distances_of_products_f32, int64_t n, float own, const float* others, float* y)
FL_SIMD_KERNEL(void, distances_of_products_f64, int64_t n, double own, const double* others, double* y)
