// Row pieces of attention: one row of scores against one block of keys.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

#define FL_ATTENTION_KERNELS(T, suffix)                                                                                       \
  /* s = exp(s - max) for the running maximum *top, which it raises; adds their sum to *sum. Returns what earlier results    \
     must be multiplied by. Columns n.. up to width become 0. */                                                              \
  FL_SIMD_KERNEL(T, attention_row_##suffix, T* s, int64_t n, int64_t width, T* top, T* sum)                                   \
  FL_SIMD_KERNEL(void, attention_scale_##suffix, T* x, int64_t n, T factor)                                                   \
  /* p = exp(s - lse), ds = scale * p * (dp - delta), in place of s and dp; 0 from n up to width */                           \
  FL_SIMD_KERNEL(void, attention_row_backward_##suffix, T* s, T* dp, int64_t n, int64_t width, T lse, T delta, T scale)
FL_ATTENTION_KERNELS(float, f32)
FL_ATTENTION_KERNELS(double, f64)
#undef FL_ATTENTION_KERNELS
FL_SIMD_KERNEL(float, attention_dot_f32, const float* a, const float* b, int64_t n)
FL_SIMD_KERNEL(double, attention_dot_f64, const double* a, const double* b, int64_t n)
FL_SIMD_KERNEL(float, attention_dot_bf16, const fl::BFloat16* a, const fl::BFloat16* b, int64_t n)
FL_SIMD_KERNEL(float, attention_dot_f16, const fl::Float16* a, const fl::Float16* b, int64_t n)
