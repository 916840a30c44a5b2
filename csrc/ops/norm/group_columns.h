// group_norm and instance_norm of [N, C, ...] whose channels lie last: convolutions make such, and take them.
#pragma once

#include "tensor/tensor.h"

namespace fl::kernels {

// The functions of the same arguments in norm.cpp, where x is deferred (Note [Deferred layout]); y and dx are then, too.
// groups = 0: one per channel.
void group_columns(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, const Tensor& mean, const Tensor& rstd, const Tensor& y);
void group_columns_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, int64_t groups, bool needs_x,
                            bool needs_w, const Tensor& dx, const Tensor& dw, const Tensor& db);

}  // namespace fl::kernels
