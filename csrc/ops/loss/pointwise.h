// Element-wise losses and their first derivatives, summed chunk by chunk.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl {
enum class Loss { L1, Mse, SmoothL1, Huber, Bce, BceLogits, KlDiv, KlDivLog };
template <class T>
struct LossChunk {
  Loss kind;
  int64_t n;
  const T *x, *target;
  const T *weight, *pos_weight;  // null or one per element
  T param;                       // beta or delta
};
}  // namespace fl

// Writes the losses to `out` unless it is null; returns their sum.
FL_SIMD_KERNEL(double, loss_values_f32, const fl::LossChunk<float>& c, float* out)
FL_SIMD_KERNEL(double, loss_values_f64, const fl::LossChunk<double>& c, double* out)
// dx[i] = dy[i * dy_step] * scale * d loss / d x
FL_SIMD_KERNEL(void, loss_gradients_f32, const fl::LossChunk<float>& c, const float* dy, int64_t dy_step, float scale, float* dx)
FL_SIMD_KERNEL(void, loss_gradients_f64, const fl::LossChunk<double>& c, const double* dy, int64_t dy_step, double scale, double* dx)
