// Reductions' gradients that have a choice in them.
#include <cmath>

#include "wrappers/native.h"
#include "op/abs.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/expand_reduced.h"
#include "op/norm_slope.h"
#include "op/sum.h"
#include "op/masked_fill.h"
#include "op/cast.h"
#include "op/mul.h"

namespace fl::native {

Tensor vector_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, double ord, std::optional<IntList> dim, bool keepdim) {
  if (ord == 2.0) {  // x (dy / |x|): one quotient per norm and not per element
    const Tensor none = op::eq(y, 0.0);
    const Tensor factor = op::masked_fill(op::div(dy, op::masked_fill(y, none, Scalar(1.0))), none, Scalar(0.0));
    return op::cast(op::mul(x, op::expand_reduced(factor, x.sizes(), dim, keepdim)), dy.dtype());
  }
  const Tensor norm = op::expand_reduced(y, x.sizes(), dim, keepdim);
  Tensor slope = dy;
  if (std::isinf(ord)) slope = op::div(dy, op::sum(op::eq(op::abs(x), norm), dim, keepdim));
  return op::norm_slope(op::expand_reduced(slope, x.sizes(), dim, keepdim), x, norm, ord);
}

}  // namespace fl::native
