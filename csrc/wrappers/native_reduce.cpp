// Reductions' gradients that have a choice in them.
#include <cmath>

#include "wrappers/native.h"
#include "op/abs.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/expand_reduced.h"
#include "op/norm_slope.h"
#include "op/sum.h"

namespace fl::native {

Tensor vector_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y, double ord, std::optional<IntList> dim, bool keepdim) {
  const Tensor norm = op::expand_reduced(y, x.sizes(), dim, keepdim);
  Tensor slope = dy;
  if (std::isinf(ord)) slope = op::div(dy, op::sum(op::eq(op::abs(x), norm), dim, keepdim));
  return op::norm_slope(op::expand_reduced(slope, x.sizes(), dim, keepdim), x, norm, ord);
}

}  // namespace fl::native
