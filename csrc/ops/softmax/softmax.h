// Rows of softmax and of its relatives. `log` selects log_softmax.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

#define FL_SOFTMAX_KERNELS(T, suffix)                                                                                     \
  /* x and y are [rows, n] */                                                                                             \
  FL_SIMD_KERNEL(void, softmax_rows_##suffix, const T* x, T* y, int64_t rows, int64_t n, bool log)                        \
  FL_SIMD_KERNEL(void, softmax_rows_backward_##suffix, const T* dy, const T* y, T* dx, int64_t rows, int64_t n, bool log) \
  /* x and y are [n, inner], of which `width` columns (at most 64) are done */                                            \
  FL_SIMD_KERNEL(void, softmax_cols_##suffix, const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log)        \
  FL_SIMD_KERNEL(void, softmax_cols_backward_##suffix, const T* dy, const T* y, T* dx, int64_t n, int64_t inner,          \
                 int64_t width, bool log)                                                                                 \
  /* log(sum(exp(x))) over n elements `step` apart */                                                                     \
  FL_SIMD_KERNEL(T, logsumexp_row_##suffix, const T* x, int64_t n, int64_t step)                                          \
  /* the same of `width` columns (at most 64) of [n, step] */                                                             \
  FL_SIMD_KERNEL(void, logsumexp_cols_##suffix, const T* x, int64_t n, int64_t step, int64_t width, T* lse)               \
  /* dx[c, j] = scale[j] * exp(x[c, j] - lse[j]) */                                                                       \
  FL_SIMD_KERNEL(void, scaled_softmax_cols_##suffix, const T* x, const T* lse, const T* scale, T* dx, int64_t n, int64_t step, int64_t width) \
  /* dx[c] = scale * exp(x[c] - lse), c < n */                                                                            \
  FL_SIMD_KERNEL(void, scaled_softmax_row_##suffix, const T* x, T lse, T scale, T* dx, int64_t n, int64_t step)           \
  /* sum(w[c] * (lse - x[c])) and dx[c] -= scale * w[c]; w is plain, or null for ones */                                   \
  FL_SIMD_KERNEL(double, smoothed_row_##suffix, const T* x, T lse, const T* w, int64_t n, int64_t step)                   \
  FL_SIMD_KERNEL(void, smoothed_row_backward_##suffix, const T* w, T scale, T* dx, int64_t n, int64_t step)
FL_SOFTMAX_KERNELS(float, f32)
FL_SOFTMAX_KERNELS(double, f64)
#undef FL_SOFTMAX_KERNELS
// Of 16-bit floats; `row` has room for one row and a vector.
#define FL_SOFTMAX_KERNELS(S, suffix)                                                                                        \
  FL_SIMD_KERNEL(void, softmax_rows_##suffix, const S* x, S* y, float* row, int64_t rows, int64_t n, bool log)               \
  FL_SIMD_KERNEL(void, softmax_wide_rows_##suffix, const S* x, float* y, float* row, int64_t rows, int64_t n, bool log)      \
  FL_SIMD_KERNEL(void, softmax_rows_backward_##suffix, const S* dy, const S* y, S* dx, float* row, int64_t rows, int64_t n, bool log)
FL_SOFTMAX_KERNELS(fl::BFloat16, bf16)
FL_SOFTMAX_KERNELS(fl::Float16, f16)
#undef FL_SOFTMAX_KERNELS
