// Matrix products of plain memory: what matmul, linear and convolution are made of.
//
//   C[m, n] = alpha * A[m, k] B[k, n] + beta * C + bias
//
// Operands have any strides: nobody transposes before calling. C is row-major with a unit column stride.
// Our own kernels cut the sum over k at multiples of a fixed block, so that an element of C does not depend
// on how many threads there are. oneDNN's sgemm, which takes the larger float products, promises that only
// for a given number of threads.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {

class Storage;

// An operand: element (i, j) lies at data + i * row + j * col. Where its storage is given, a packed copy of B may be kept
// there: Note [Prepared bytes].
template <class T>
struct Mat {
  const T* data;
  int64_t row, col;
  Storage* owner = nullptr;
};

template <class T>
struct Gemm {
  int64_t m, n, k;
  Mat<T> a, b;
  T* c;
  int64_t ldc;
  T alpha = 1, beta = 0;
  const T* bias_n = nullptr;  // one per column
  const T* bias_m = nullptr;  // one per row
};

void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);

// One tile of C from panels of A (rows) and B (columns), for the tile function below.
//   A element (i, p) of panel I lies at a + I * a_panel + i * a_row + p * a_step,
//   B row p of panel J at b + J * b_panel + p * b_step (kGemmCols elements long, all readable),
//   or at b + J * b_panel + b_offsets[p] where b_offsets is given.
// A partial last panel of B comes from b_last (packed, step kGemmCols) where that is given.
template <class T>
struct GemmTile {
  int64_t m, n, k;
  const T* a;
  int64_t a_panel, a_row, a_step;
  const T* b;
  int64_t b_panel, b_step;
  const int64_t* b_offsets;
  const T* b_last;
  T* c;
  int64_t ldc;
  T alpha, beta;
  const T* bias_n;
  const T* bias_m;
};

// Many products of matrices that are so small that finding the way to a tile would take longer than they do: C = A B for each, at a step from one
// to the next.
template <class T>
struct SmallProducts {
  int64_t count, m, n, k;
  const T* a;
  int64_t a_next, a_row, a_col;
  const T* b;
  int64_t b_next, b_row, b_col;
  T* c;
  int64_t c_next, c_row;

  // Up to eight columns, of few terms; or of one column dot products of contiguous rows.
  bool fits() const { return dots() || (n <= 8 && m <= 16 && k <= 16); }
  bool dots() const { return n == 1 && a_col == 1 && b_row == 1 && m <= 16 && k >= 8 && k <= 256; }
};

// Rows of A and columns of B in a panel, for the processor at hand.
struct PanelSizes {
  int rows_f32, cols_f32, rows_f64, cols_f64;
};

}  // namespace fl

FL_SIMD_KERNEL(fl::PanelSizes, gemm_panel_sizes)
FL_SIMD_KERNEL(void, gemm_tile_f32, const fl::GemmTile<float>& t)
FL_SIMD_KERNEL(void, gemm_tile_f64, const fl::GemmTile<double>& t)
FL_SIMD_KERNEL(void, small_products_f32, const fl::SmallProducts<float>& s)
FL_SIMD_KERNEL(void, small_products_f64, const fl::SmallProducts<double>& s)
// dst[p * width + i] = src[i * row + p * step] for i < n <= width, zero beyond n.
FL_SIMD_KERNEL(void, gemm_pack_f32, const float* src, int64_t row, int64_t step, int64_t n, int64_t k, int64_t width, float* dst)
FL_SIMD_KERNEL(void, gemm_pack_f64, const double* src, int64_t row, int64_t step, int64_t n, int64_t k, int64_t width, double* dst)
// y[j] = sum_p a[p * step] * x[p * row + j] for j < n, p < k, wrapping round.
FL_SIMD_KERNEL(void, sum_rows_u32, int64_t n, int64_t k, const uint32_t* a, int64_t step, const uint32_t* x, int64_t row, uint32_t* y)
FL_SIMD_KERNEL(void, sum_rows_u64, int64_t n, int64_t k, const uint64_t* a, int64_t step, const uint64_t* x, int64_t row, uint64_t* y)
// sum_p a[p] * x[p] for p < k, wrapping round.
FL_SIMD_KERNEL(uint32_t, dot_u32, int64_t k, const uint32_t* a, const uint32_t* x)
FL_SIMD_KERNEL(uint64_t, dot_u64, int64_t k, const uint64_t* a, const uint64_t* x)
// y[i] = sum_p a[i * lda + p] * x[p]
FL_SIMD_KERNEL(void, gemv_rows_f32, int64_t m, int64_t k, const float* a, int64_t lda, const float* x, float* y)
FL_SIMD_KERNEL(void, gemv_rows_f64, int64_t m, int64_t k, const double* a, int64_t lda, const double* x, double* y)
// y[j] = sum_p x[p] * b[p * ldb + j], for n columns
FL_SIMD_KERNEL(void, gemv_cols_f32, int64_t n, int64_t k, const float* b, int64_t ldb, const float* x, float* y)
FL_SIMD_KERNEL(void, gemv_cols_f64, int64_t n, int64_t k, const double* b, int64_t ldb, const double* x, double* y)
