// The element loops of optim.h. Arguments are folded into few constants by the caller.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl::optim {
struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize;
};
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled, maximize;
};
struct RmspropStep {
  double lr, alpha, eps, weight_decay, momentum;
  bool maximize;
};
struct AdagradStep {
  double weight_decay, eps;
  bool maximize;
};
}  // namespace fl::optim

#define FL_OPTIM_KERNELS(T, suffix)                                                                                                        \
  FL_SIMD_KERNEL(void, sgd_step_##suffix, int64_t n, T* p, const T* g, T* buf, bool first, const fl::optim::SgdStep& s)                    \
  FL_SIMD_KERNEL(void, adam_step_##suffix, int64_t n, T* p, const T* g, T* m, T* v, T* v_max, double bias1, double bias2,                  \
                 const fl::optim::AdamStep& s)                                                                                             \
  FL_SIMD_KERNEL(void, rmsprop_step_##suffix, int64_t n, T* p, const T* g, T* sq, T* mean, T* buf, const fl::optim::RmspropStep& s)        \
  FL_SIMD_KERNEL(void, adagrad_step_##suffix, int64_t n, T* p, const T* g, T* sum, double lr, const fl::optim::AdagradStep& s)             \
  /* kind: 0 sum |x|, 1 sum x^2, 2 max |x| (NaN wins), 3 sum |x|^p, 4 count of non-zero */                                                 \
  FL_SIMD_KERNEL(double, norm_part_##suffix, int64_t n, const T* x, int kind, double p)                                                    \
  FL_SIMD_KERNEL(void, scale_part_##suffix, int64_t n, T* x, double factor)
FL_OPTIM_KERNELS(float, f32)
FL_OPTIM_KERNELS(double, f64)
#undef FL_OPTIM_KERNELS
