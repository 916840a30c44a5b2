// Reductions' gradients that have a choice in them.
#include <cmath>

#include "wrappers/native.h"
#include "op/abs.h"
#include "op/abs_slope.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/expand_reduced.h"
#include "op/norm_slope.h"
#include "op/sum.h"
#include "op/masked_fill.h"
#include "op/logical_not.h"
#include "op/zeros_like.h"
#include "op/mul.h"

namespace fl::native {

Tensor vector_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, double ord, std::optional<IntList> dim, bool keepdim) {
  if (ord == 2.0) {  // x (dy / |x|): one quotient per norm and not per element
    const Tensor none = op::eq(y, 0.0);
    const Tensor factor = op::masked_fill(op::div(dy, op::masked_fill(y, none, Scalar(1.0))), none, Scalar(0.0));
    return to(op::mul(x, op::expand_reduced(factor, x.sizes(), dim, keepdim)), dy.dtype(), {}, false);
  }
  const auto wide = [&](const Tensor& reduced) { return op::expand_reduced(reduced, x.sizes(), dim, keepdim); };
  if (ord == 1.0) return op::abs_slope(x, wide(dy));
  if (ord == 0) return op::zeros_like(x, dy.dtype());
  if (!std::isinf(ord)) return op::norm_slope(wide(dy), x, wide(y), ord);
  const Tensor extreme = op::eq(op::abs(x), wide(y));
  const Tensor slopes = op::abs_slope(x, wide(op::div(dy, op::sum(extreme, dim, keepdim))));
  return op::masked_fill(slopes, op::logical_not(extreme), Scalar(0.0));
}

}  // namespace fl::native
