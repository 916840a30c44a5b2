// Element-wise ops with a choice in them.
#include <limits>

#include "base/error.h"
#include "dispatch/native.h"
#include "dispatch/wrap.h"
#include "ops.h"

namespace fl::native {

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  if (min && max) return op::clamp_between(x, *min, *max);
  if (min) return op::clamp_min(x, *min);
  if (max) return op::clamp_max(x, *max);
  raise<ArgumentError>("clamp: neither min nor max is given");
}
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  if (min.defined() && max.defined()) return op::clamp_between(x, min, max);
  if (min.defined()) return op::clamp_min(x, min);
  if (max.defined()) return op::clamp_max(x, max);
  raise<ArgumentError>("clamp: neither min nor max is given");
}

Tensor div(const Operand& a, const Operand& b, std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode) return op::div(a, b);
  if (*rounding_mode == "floor") return op::floor_divide(a, b);
  if (*rounding_mode == "trunc") return op::trunc_divide(a, b);
  raise<ArgumentError>("div: rounding_mode = '", *rounding_mode, "'; expected 'floor', 'trunc' or None");
}

Tensor gelu(const Tensor& x, std::string_view approximate) {
  if (approximate == "none") return op::gelu_erf(x);
  if (approximate == "tanh") return op::gelu_tanh(x);
  raise<ArgumentError>("gelu: approximate = '", approximate, "'; expected 'none' or 'tanh'");
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (weight.numel() == 1) return op::prelu_kernel(x, op::reshape(weight, Dims()));
  const int64_t channels = x.ndim() > 1 ? x.size(1) : 1;
  if (weight.ndim() != 1 || weight.numel() != channels)
    raise<ShapeError>("prelu: weight has shape ", weight.sizes(), ", x has shape ", x.sizes(), "; expected one weight, or one per channel (", channels, ")");
  Dims shape(x.ndim(), 1);
  shape[1] = channels;
  return op::prelu_kernel(x, op::reshape(weight, shape));
}

Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) {
  const DType t = x.dtype();
  if (!is_float(t)) return op::clone(x);
  const double largest = t == DType::Float64    ? std::numeric_limits<double>::max()
                         : t == DType::Float16  ? 65504.0
                         : t == DType::BFloat16 ? 3.3895313892515355e38
                                                : static_cast<double>(std::numeric_limits<float>::max());
  return op::replace_nonfinite(x, nan.value_or(0), posinf.value_or(largest), neginf.value_or(-largest));
}

}  // namespace fl::native
