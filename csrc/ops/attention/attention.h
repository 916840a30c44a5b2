// Row pieces of attention: one row of scores against one block of keys.
#pragma once

#include <cstdint>

#include "base/isa.h"

#define FL_ATTENTION_KERNELS(T, suffix)                                                                                       \
  /* s = exp(s - max) for the running maximum *top, which it raises; adds their sum to *sum. Returns what earlier results    \
     must be multiplied by. Columns n.. up to width become 0. */                                                              \
  FL_SIMD_KERNEL(T, attention_row_##suffix, T* s, int64_t n, int64_t width, T* top, T* sum)                                   \
  FL_SIMD_KERNEL(void, attention_scale_##suffix, T* x, int64_t n, T factor)                                                   \
  /* p = exp(s - lse), ds = scale * p * (dp - delta), in place of s and dp; 0 from n up to width */                           \
  FL_SIMD_KERNEL(void, attention_row_backward_##suffix, T* s, T* dp, int64_t n, int64_t width, T lse, T delta, T scale)       \
  FL_SIMD_KERNEL(T, attention_dot_##suffix, const T* a, const T* b, int64_t n)
FL_ATTENTION_KERNELS(float, f32)
FL_ATTENTION_KERNELS(double, f64)
#undef FL_ATTENTION_KERNELS
