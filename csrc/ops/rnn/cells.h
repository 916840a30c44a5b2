// Element-wise parts of recurrent cells, one row of the batch at a time.
#pragma once

#include <cstdint>

#include "base/isa.h"

#define FL_RNN_KERNELS(T, suffix)                                                                                                         \
  /* gates i, f, g, o, each n long; `gates` keeps them activated */                                                                       \
  FL_SIMD_KERNEL(void, lstm_row_##suffix, const T* gx, const T* gh, const T* c, T* gates, T* h_next, T* c_next, int64_t n)                \
  FL_SIMD_KERNEL(void, lstm_row_backward_##suffix, const T* dh, const T* dc_next, const T* gates, const T* c, const T* c_next, T* dgates, \
                 T* dc, int64_t n)                                                                                                        \
  /* gates r, z, n; `gates` keeps them activated, and the hidden part of n after them */                                                  \
  FL_SIMD_KERNEL(void, gru_row_##suffix, const T* gx, const T* gh, const T* h, T* gates, T* h_next, int64_t n)                            \
  FL_SIMD_KERNEL(void, gru_row_backward_##suffix, const T* dh_next, const T* gates, const T* h, T* dgx, T* dgh, T* dh, int64_t n)
FL_RNN_KERNELS(float, f32)
FL_RNN_KERNELS(double, f64)
#undef FL_RNN_KERNELS
