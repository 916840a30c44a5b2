// The loops of linear algebra on row-major memory, once per instruction set. lda, ldb, ...: elements from row to row.
#pragma once

#include <cstdint>

#include "base/isa.h"

// LU with partial pivoting. Of a matrix [m, n] the columns [first, last) are factored, and rows are updated up to column
// `until`; whole rows change places. pivots[k], from 1, is the row that came to row k. Returns the first column, from 1,
// without a pivot, or 0. `work` has 8 m elements.
FL_SIMD_KERNEL(int64_t, lu_strips_f32, float* a, int64_t m, int64_t n, int64_t lda, int64_t first, int64_t last, int64_t until, int32_t* pivots, float* work)
FL_SIMD_KERNEL(int64_t, lu_strips_f64, double* a, int64_t m, int64_t n, int64_t lda, int64_t first, int64_t last, int64_t until, int32_t* pivots, double* work)
// `count` dense matrices [n, n] of few rows.
FL_SIMD_KERNEL(void, lu_many_f32, float* a, int64_t count, int64_t n, int32_t* pivots, int32_t* info)
FL_SIMD_KERNEL(void, lu_many_f64, double* a, int64_t count, int64_t n, int32_t* pivots, int32_t* info)
// b [n, r] := A^-1 b, or A^-T b, for `count` of them side by side, by factors of A. False, and nothing is done, where n and r are not
// among the small sizes that this is made for: r of 1 or n, n of 1, 2, 3, 4 or 8.
FL_SIMD_KERNEL(bool, lu_solve_many_f32, const float* lu, const int32_t* pivots, int64_t count, int64_t n, int64_t r, bool transposed, float* b)
FL_SIMD_KERNEL(bool, lu_solve_many_f64, const double* lu, const int32_t* pivots, int64_t count, int64_t n, int64_t r, bool transposed, double* b)
// The lower triangle in place. Returns the first minor, from 1, that is not positive, or 0.
FL_SIMD_KERNEL(int64_t, cholesky_lower_f32, float* a, int64_t n, int64_t lda)
FL_SIMD_KERNEL(int64_t, cholesky_lower_f64, double* a, int64_t n, int64_t lda)
FL_SIMD_KERNEL(void, cholesky_many_f32, float* a, int64_t count, int64_t n, int32_t* info)
FL_SIMD_KERNEL(void, cholesky_many_f64, double* a, int64_t count, int64_t n, int32_t* info)
// b := T^-1 b for b [n, r] and a triangle T with T(i, j) = a[i * row + j * col], from its first row where it is lower.
FL_SIMD_KERNEL(void, triangle_solve_f32, int64_t n, int64_t r, const float* a, int64_t row, int64_t col, bool lower, bool unit, float* b, int64_t ldb)
FL_SIMD_KERNEL(void, triangle_solve_f64, int64_t n, int64_t r, const double* a, int64_t row, int64_t col, bool lower, bool unit, double* b, int64_t ldb)
// Householder: a [m, n] becomes R above its diagonal and the reflectors below, H_k = 1 - tau_k v v^T with v_k = 1.
// `work` has m n elements.
FL_SIMD_KERNEL(void, reflect_f32, float* a, int64_t m, int64_t n, float* tau, float* work)
FL_SIMD_KERNEL(void, reflect_f64, double* a, int64_t m, int64_t n, double* tau, double* work)
// q [m, columns], the first columns of H_0 H_1 ... H_{k-1}, from reflectors in a [m, k] of row stride lda. `work` has m (columns + 1) elements.
FL_SIMD_KERNEL(void, reflector_product_f32, const float* a, int64_t lda, const float* tau, int64_t m, int64_t k, int64_t columns, float* q, float* work)
FL_SIMD_KERNEL(void, reflector_product_f64, const double* a, int64_t lda, const double* tau, int64_t m, int64_t k, int64_t columns, double* q, double* work)

// Eigenvalues of a symmetric a [n, n], which is overwritten, ascending in w; eigenvectors in the rows of z, unless it is
// null. `work` has 3 n elements. False where the iteration does not end.
FL_SIMD_KERNEL(bool, symmetric_eigen, double* a, int64_t n, double* w, double* z, double* work)
// One-sided Jacobi: turns pairs of rows of x [n, m] until all are orthogonal, and rows of j [n, n] with them, unless it is
// null. Rows are sorted by their norms, the largest first, which are s; rows of x become unit vectors. False where it does not end.
FL_SIMD_KERNEL(bool, orthogonal_rows, double* x, int64_t n, int64_t m, double* j, double* s)
// out[i * ld + k] = row i of a [m, n] times row k of b [r, n].
FL_SIMD_KERNEL(void, rows_times_rows, const double* a, int64_t lda, int64_t m, int64_t n, const double* b, int64_t r, double* out, int64_t ld)
