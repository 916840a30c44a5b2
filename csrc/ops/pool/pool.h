// Pooling of one plane. Windows along the two axes are independent of each other.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {
// Along one axis: the window of each output starts at first + o * stride (may be negative) with `taps` taps.
struct PoolAxis {
  int64_t in, out, first, stride, taps, dilation;
};
// A clipped window [begin, end) and the length that its mean divides by.
struct PoolWindow {
  int64_t begin, end, length;
};
}  // namespace fl

// index: position of the maximum in the plane, as h * W + w, or null where nobody asks; NaN is a maximum.
FL_SIMD_KERNEL(void, max_pool_plane_f32, const float* x, float* y, int64_t* index, const fl::PoolAxis& h, const fl::PoolAxis& w)
FL_SIMD_KERNEL(void, max_pool_plane_f64, const double* x, double* y, int64_t* index, const fl::PoolAxis& h, const fl::PoolAxis& w)
// With channels last, for elements of S in memory: a strip of at most 64 channels of one image, rows `c` apart; `index`
// as above. Means of the windows; and their adjoint, which writes every element of dx.
#define FL_POOL_STRIP_KERNELS(S, suffix)                                                                                              \
  FL_SIMD_KERNEL(void, max_pool_strip_##suffix, const S* x, int64_t c, int64_t width, S* y, int64_t* index, const fl::PoolAxis& h,    \
                 const fl::PoolAxis& w)                                                                                               \
  FL_SIMD_KERNEL(void, mean_pool_strip_##suffix, const S* x, int64_t c, int64_t width, int64_t in_w, S* y, const fl::PoolWindow* h,   \
                 int64_t oh, const fl::PoolWindow* w, int64_t ow, double divisor)                                                     \
  FL_SIMD_KERNEL(void, mean_spread_strip_##suffix, const S* dy, int64_t c, int64_t width, int64_t in_h, int64_t in_w, S* dx,          \
                 const fl::PoolWindow* h, int64_t oh, const fl::PoolWindow* w, int64_t ow, double divisor)
FL_POOL_STRIP_KERNELS(float, f32)
FL_POOL_STRIP_KERNELS(double, f64)
FL_POOL_STRIP_KERNELS(fl::BFloat16, bf16)
FL_POOL_STRIP_KERNELS(fl::Float16, f16)
#undef FL_POOL_STRIP_KERNELS
// y[i, j] = sum of the window / (length_h * length_w), or / divisor where that is not 0
FL_SIMD_KERNEL(void, mean_pool_plane_f32, const float* x, int64_t width, float* y, const fl::PoolWindow* h, int64_t oh,
               const fl::PoolWindow* w, int64_t ow, double divisor)
FL_SIMD_KERNEL(void, mean_pool_plane_f64, const double* x, int64_t width, double* y, const fl::PoolWindow* h, int64_t oh,
               const fl::PoolWindow* w, int64_t ow, double divisor)
// The adjoint: adds dy / divisor to the window in dx, which starts as zeros.
FL_SIMD_KERNEL(void, mean_pool_spread_f32, const float* dy, int64_t width, float* dx, const fl::PoolWindow* h, int64_t oh,
               const fl::PoolWindow* w, int64_t ow, double divisor)
FL_SIMD_KERNEL(void, mean_pool_spread_f64, const double* dy, int64_t width, double* dx, const fl::PoolWindow* h, int64_t oh,
               const fl::PoolWindow* w, int64_t ow, double divisor)
