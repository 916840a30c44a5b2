// Pieces of attention: tiles of scores, some rows against one block of keys. Of row i the first `first` + i `step` columns are seen.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

#define FL_ATTENTION_KERNELS(T, suffix)                                                                                                        \
  FL_SIMD_KERNEL(void, attention_scale_##suffix, T* x, int64_t n, T factor)                                                                    \
  /* s = exp(scale s - max) for each row's running maximum, which it raises, and 0 where nothing is seen; adds their sums to `sum`. Multiplies  \
     what earlier tiles left in `out` (null: there was none) as that asks for. */                                                              \
  FL_SIMD_KERNEL(void, attention_tile_##suffix, T* s, int64_t rows, int64_t cols, int64_t first, int64_t step, T scale, T* top, T* sum, T* out, int64_t width) \
  /* out / sum, and the logarithms of the sums */                                                                                              \
  FL_SIMD_KERNEL(void, attention_finish_##suffix, T* out, int64_t rows, int64_t width, const T* top, const T* sum, T* lse)                     \
  /* p = exp(scale s - lse), ds = scale * p * (dp - delta), in place of s and dp, and 0 where nothing is seen; s may be scaled already */        \
  FL_SIMD_KERNEL(void, attention_tile_backward_##suffix, T* s, T* dp, int64_t rows, int64_t cols, int64_t first, int64_t step, bool scaled, T scale, const T* lse, const T* delta)
FL_ATTENTION_KERNELS(float, f32)
FL_ATTENTION_KERNELS(double, f64)
#undef FL_ATTENTION_KERNELS
// Products of rows of a and b.
FL_SIMD_KERNEL(void, attention_dots_f32, const float* a, const float* b, int64_t rows, int64_t n, float* out)
FL_SIMD_KERNEL(void, attention_dots_f64, const double* a, const double* b, int64_t rows, int64_t n, double* out)
FL_SIMD_KERNEL(void, attention_dots_bf16, const fl::BFloat16* a, const fl::BFloat16* b, int64_t rows, int64_t n, float* out)
FL_SIMD_KERNEL(void, attention_dots_f16, const fl::Float16* a, const fl::Float16* b, int64_t rows, int64_t n, float* out)
// out[r] = x . rows[r], and out = sum over r of x[r] * rows[r], or with `add` out += that; rows are n long.
#define FL_ATTENTION_KERNELS(S, suffix)                                                                                              \
  FL_SIMD_KERNEL(void, attention_row_dots_##suffix, const float* x, const S* rows, int64_t count, int64_t n, float* out)             \
  FL_SIMD_KERNEL(void, attention_row_sums_##suffix, const float* x, const S* rows, int64_t count, int64_t n, float* out, bool add)
FL_ATTENTION_KERNELS(fl::BFloat16, bf16)
FL_ATTENTION_KERNELS(fl::Float16, f16)
#undef FL_ATTENTION_KERNELS
