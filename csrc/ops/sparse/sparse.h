// The loops of sparse products, once per instruction set.
#pragma once

#include <cstdint>

#include "base/isa.h"

// Rows [first, last) of y [m, k] = S dense, for compressed rows of S and dense [n, k].
FL_SIMD_KERNEL(void, sparse_rows_f32, const int64_t* crow, const int64_t* col, const float* values, const float* dense, float* y, int64_t first, int64_t last, int64_t k)
FL_SIMD_KERNEL(void, sparse_rows_f64, const int64_t* crow, const int64_t* col, const double* values, const double* dense, double* y, int64_t first, int64_t last, int64_t k)
// values[i] = a[r] . b[col[i]] for the elements of the rows [first, last), a [m, k] and b [n, k].
FL_SIMD_KERNEL(void, sparse_dots_f32, const int64_t* crow, const int64_t* col, const float* a, const float* b, float* values, int64_t first, int64_t last, int64_t k)
FL_SIMD_KERNEL(void, sparse_dots_f64, const int64_t* crow, const int64_t* col, const double* a, const double* b, double* values, int64_t first, int64_t last, int64_t k)
