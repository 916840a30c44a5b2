// Element-wise parts of recurrent cells, one row of the batch at a time.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

// Sequences, products and outputs are of S in memory; gates and cell states of T, the type that is computed in.
#define FL_RNN_KERNELS(S, T, suffix)                                                                                                      \
  /* gates i, f, g, o, each n long; `gates` keeps them activated */                                                                       \
  FL_SIMD_KERNEL(void, lstm_row_##suffix, const S* gx, const T* gh, const T* c, T* gates, S* h_next, T* c_next, int64_t n)                \
  FL_SIMD_KERNEL(void, lstm_row_backward_##suffix, const T* dh, const T* dc_next, const T* gates, const T* c, S* dgates, T* dc, int64_t n) \
  /* gates r, z, n; `gates` keeps them activated, and the hidden part of n after them */                                                  \
  FL_SIMD_KERNEL(void, gru_row_##suffix, const S* gx, const T* gh, const S* h, T* gates, S* h_next, int64_t n)                            \
  FL_SIMD_KERNEL(void, gru_row_backward_##suffix, const T* dh_next, const T* gates, const S* h, S* dgx, S* dgh, T* dh, int64_t n)         \
  /* x += y */                                                                                                                            \
  FL_SIMD_KERNEL(void, rnn_add_##suffix, const S* y, T* x, int64_t n)
FL_RNN_KERNELS(float, float, f32)
FL_RNN_KERNELS(double, double, f64)
FL_RNN_KERNELS(fl::BFloat16, float, bf16)
FL_RNN_KERNELS(fl::Float16, float, f16)
#undef FL_RNN_KERNELS
