// Vector pieces of the normalisations. Sums run in the lanes of the type over one plane or row, and planes
// are added in double.
#pragma once

#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl::kernels {

// What follows a normalisation, y = scale * x + shift, in the same pass: y is held between lo and hi, and gradients pass where it lies strictly
// between. NaN is no limit.
template <class T>
struct Limits {
  T scale = 0, shift = 0;
  T lo = std::numeric_limits<T>::quiet_NaN(), hi = lo;
};
template <class T>
struct ColumnLimits {  // scale and shift by column
  const T *scale, *shift;
  T lo, hi;
};

}  // namespace fl::kernels

#define FL_NORM_KERNELS(T, suffix)                                                                                                   \
  FL_SIMD_KERNEL(double, norm_sum_##suffix, const T* x, int64_t n)                                                                   \
  FL_SIMD_KERNEL(double, norm_squares_##suffix, const T* x, int64_t n, T mean)                                                       \
  /* sum(dy), sum(dy * (x - mean)), where the limits have dy */                                                                      \
  FL_SIMD_KERNEL(void, norm_dots_##suffix, const T* dy, const T* x, int64_t n, T mean, const Limits<T>& limits, double* sums)         \
  /* y = scale * x + shift, limited */                                                                                               \
  FL_SIMD_KERNEL(void, norm_affine_##suffix, const T* x, T* y, int64_t n, const Limits<T>& limits)                                    \
  /* dx = a * dy + b * (x - mean) + c, where the limits have dy */                                                                   \
  FL_SIMD_KERNEL(void, norm_combine_##suffix, const T* dy, const T* x, T* dx, int64_t n, T mean, T a, T b, T c, const Limits<T>& limits) \
  /* One row of layer_norm (centered) or rms_norm; w and b may be null. */                                                           \
  FL_SIMD_KERNEL(void, norm_row_##suffix, const T* x, const T* w, const T* b, T* y, int64_t n, double eps, bool centered, T* mean, T* rstd) \
  FL_SIMD_KERNEL(void, norm_row_backward_##suffix, const T* dy, const T* x, const T* w, T mean, T rstd, int64_t n, bool centered, T* dx, \
                 T* dw, T* db)
FL_NORM_KERNELS(float, f32)
FL_NORM_KERNELS(double, f64)
#undef FL_NORM_KERNELS
// norm_row of 16-bit floats; `row` has room for one row of floats and a vector.
FL_SIMD_KERNEL(void, norm_row_bf16, const fl::BFloat16* x, const float* w, const float* b, fl::BFloat16* y, float* row, int64_t n, double eps, bool centered,
               float* mean, float* rstd)
FL_SIMD_KERNEL(void, norm_row_f16, const fl::Float16* x, const float* w, const float* b, fl::Float16* y, float* row, int64_t n, double eps, bool centered,
               float* mean, float* rstd)

// Columns of a matrix of S (16-bit floats are computed as T) with rows `ld` apart: `width` of them, at most 64 for sums.
#define FL_NORM_COLUMN_KERNELS(S, T, suffix)                                                                                            \
  /* means, and sums of squares about them */                                                                                          \
  FL_SIMD_KERNEL(void, norm_col_stats_##suffix, const S* x, int64_t rows, int64_t ld, int64_t width, double* mean, double* squares)     \
  FL_SIMD_KERNEL(void, norm_col_dots_##suffix, const S* dy, const S* x, int64_t rows, int64_t ld, int64_t width, const T* mean,         \
                 const ColumnLimits<T>& limits, double* sum_dy, double* sum_dot)                                                         \
  FL_SIMD_KERNEL(void, norm_col_affine_##suffix, const S* x, S* y, int64_t rows, int64_t ld, int64_t width, const ColumnLimits<T>& limits) \
  FL_SIMD_KERNEL(void, norm_col_combine_##suffix, const S* dy, const S* x, S* dx, int64_t rows, int64_t ld, int64_t width, const T* mean, \
                 const T* a, const T* b, const T* c, const ColumnLimits<T>& limits)
FL_NORM_COLUMN_KERNELS(float, float, f32)
FL_NORM_COLUMN_KERNELS(double, double, f64)
FL_NORM_COLUMN_KERNELS(fl::BFloat16, float, bf16)
FL_NORM_COLUMN_KERNELS(fl::Float16, float, f16)
#undef FL_NORM_COLUMN_KERNELS
