// Checks of matrix products, convolution, pooling, norms and losses.
#pragma once

#include <optional>

#include "base/error.h"
#include "dispatch/geometry.h"
#include "tensor/tensor.h"
#include "ops/vision/columns.h"
#include "wrappers/checks_index.h"

namespace fl::check {

inline void one_dtype(const char* op, const char* na, const Tensor& a, const char* nb, const Tensor& b) {
  if (b.defined() && a.dtype() != b.dtype())
    raise<DTypeError>(op, ": ", na, " is ", a.dtype(), ", ", nb, " is ", b.dtype(), "; expected one dtype");
}
inline void axes(const char* op, const char* name, const Tensor& x, int n) {
  if (x.ndim() != n) raise<ShapeError>(op, ": ", name, " has shape ", x.sizes(), "; expected ", n, n == 1 ? " axis" : " axes");
}
inline void matrix(const char* op, const char* name, const char* said, const Tensor& x) {
  if (x.ndim() != 2) raise<ShapeError>(op, ": ", said, " must be a matrix: ", name, " has shape ", x.sizes(), "; expected 2 axes");
}
[[noreturn]] inline void two_shapes(const char* op, const char* na, const Tensor& a, const char* nb, const Tensor& b, const char* expected) {
  raise<ShapeError>(op, ": ", na, " has shape ", a.sizes(), ", ", nb, " has shape ", b.sizes(), "; expected ", expected);
}
// Of a product of matrices. The last axis of a, and the one of b that meets it, have other sizes.
[[noreturn]] inline void two_factors(const char* op, const char* na, const Tensor& a, const char* nb, const Tensor& b, const char* expected) {
  raise<ShapeError>(op, ": mat1 and mat2 shapes cannot be multiplied: ", na, " has shape ", a.sizes(), ", ", nb, " has shape ", b.sizes(), "; expected ",
                    expected);
}
inline void broadcasts_to(const char* op, const Tensor& input, const Dims& shape, const char* name = "input") {
  if (!fl::broadcasts_to(input.sizes(), shape)) raise<ShapeError>(op, ": ", name, " has shape ", input.sizes(), "; expected a shape that broadcasts to ", shape);
}

// Two factors of one type with that many axes.
inline void factors(const char* op, const Tensor& a, int a_axes, const char* name, const Tensor& b, int b_axes) {
  axes(op, "a", a, a_axes), axes(op, name, b, b_axes);
  one_dtype(op, "a", a, name, b);
}
inline void mm_operands(const char* op, const Tensor& a, const Tensor& b) {
  matrix(op, "a", "self", a), matrix(op, "b", "mat2", b);
  one_dtype(op, "a", a, "b", b);
  if (a.size(1) != b.size(0)) two_factors(op, "a", a, "b", b, "a.shape[1] == b.shape[0]");
}
inline void bmm_operands(const char* op, const Tensor& a, const Tensor& b) {
  factors(op, a, 3, "b", b, 3);
  if (a.size(0) != b.size(0)) two_shapes(op, "a", a, "b", b, "a.shape[0] == b.shape[0]");
  if (a.size(2) != b.size(1)) two_factors(op, "a", a, "b", b, "a.shape[2] == b.shape[1]");
}
inline void mv_operands(const char* op, const Tensor& a, const Tensor& x) {
  factors(op, a, 2, "x", x, 1);
  if (a.size(1) != x.size(0)) two_shapes(op, "a", a, "x", x, "a.shape[1] == x.shape[0]");
}
inline void dot_operands(const char* op, const Tensor& a, const Tensor& b) {
  factors(op, a, 1, "b", b, 1);
  if (a.size(0) != b.size(0)) two_shapes(op, "a", a, "b", b, "vectors of one length");
}
inline void outer_operands(const char* op, const Tensor& a, const Tensor& b) { axes(op, "a", a, 1), axes(op, "b", b, 1); }
inline void inner_operands(const char* op, const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) return;
  one_dtype(op, "a", a, "b", b);
  if (a.size(-1) != b.size(-1)) two_shapes(op, "a", a, "b", b, "a.shape[-1] == b.shape[-1]");
}
inline void matmul_operands(const char* op, const Tensor& a, const Tensor& b) {
  if (a.ndim() < 1 || b.ndim() < 1) two_shapes(op, "a", a, "b", b, "at least one axis each (for numbers use *)");
  one_dtype(op, "a", a, "b", b);
  const int64_t inner = b.size(b.ndim() == 1 ? 0 : -2);
  if (a.size(-1) != inner) {
    const bool turned = b.ndim() > 1 && a.size(-1) == b.size(-1);
    two_factors(op, "a", a, "b", b, b.ndim() == 1 ? "a.shape[-1] == b.shape[0]" : turned ? "a.shape[-1] == b.shape[-2]; b.mT would fit" : "a.shape[-1] == b.shape[-2]");
  }
  for (int i = 3; i <= std::min(a.ndim(), b.ndim()); ++i) {
    const int64_t x = a.size(-i), y = b.size(-i);
    if (x != y && x != 1 && y != 1) two_shapes(op, "a", a, "b", b, "leading axes that broadcast");
  }
}
inline void linear_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  axes(op, "weight", weight, 2);
  if (x.ndim() < 1 || x.size(-1) != weight.size(1)) {
    const bool flat = x.ndim() > 2 && x.size(0) > 0 && x.numel() / x.size(0) == weight.size(1);
    two_factors(op, "x", x, "weight", weight, flat ? "x.shape[-1] == weight.shape[1]; x.flatten(1) would fit" : "x.shape[-1] == weight.shape[1]");
  }
  if (bias.defined() && (bias.ndim() != 1 || bias.size(0) != weight.size(0)))
    two_shapes(op, "bias", bias, "weight", weight, "bias.shape == [weight.shape[0]]");
  if (x.dtype() != weight.dtype()) raise<DTypeError>(op, ": mat1 and mat2 must have the same dtype, but x is ", x.dtype(), " and weight is ", weight.dtype());
  one_dtype(op, "x", x, "bias", bias);
}
// What is added to a product of that shape.
inline void summand(const char* op, const Tensor& input, const Tensor& a, const Dims& product) {
  one_dtype(op, "a", a, "input", input);
  broadcasts_to(op, input, product);
}
inline void addmm_operands(const char* op, const Tensor& input, const Tensor& a, const Tensor& b) {
  mm_operands(op, a, b);
  summand(op, input, a, Dims{a.size(0), b.size(1)});
}
inline void addmv_operands(const char* op, const Tensor& input, const Tensor& a, const Tensor& x) {
  mv_operands(op, a, x);
  summand(op, input, a, Dims{a.size(0)});
}
inline void baddbmm_operands(const char* op, const Tensor& input, const Tensor& a, const Tensor& b) {
  bmm_operands(op, a, b);
  summand(op, input, a, Dims{a.size(0), a.size(1), b.size(2)});
}
inline void addbmm_operands(const char* op, const Tensor& input, const Tensor& a, const Tensor& b) {
  bmm_operands(op, a, b);
  summand(op, input, a, Dims{a.size(1), b.size(2)});
}

// Window arguments stay below 2^31, so that sums and products of two of them and an axis stay in 64 bits.
inline void window_argument(const char* op, const char* name, IntList values, int64_t least) {
  constexpr int64_t kMost = INT32_MAX;
  for (const int64_t v : values) {
    if (v < least && least == 0) raise<ArgumentError>(op, ": negative ", name, " is not supported: ", name, " = ", values);
    if (v < least) raise<ArgumentError>(op, ": ", name, " should be greater than zero, but got ", values, "; non-positive ", name, " is not supported");
    if (v > kMost) raise<ArgumentError>(op, ": ", name, " = ", values, "; expected ", name, " <= ", kMost);
  }
}

// Convolution. `weight` is [out, in / groups, *] (transposed: [in, out / groups, *]).
inline void conv_arguments(const char* op, int spatial, const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride,
                           IntList padding, IntList dilation, int64_t groups, bool transposed) {
  if (x.ndim() != spatial + 2)
    raise<ShapeError>(op, ": Expected ", spatial + 1, "D (unbatched) or ", spatial + 2, "D (batched) input to ", op, ", but got input of size: ", x.sizes());
  axes(op, "weight", weight, spatial + 2);
  if (!is_inexact(x.dtype())) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected a float");
  for (const auto& [name, other] : {std::pair{"weight", &weight}, std::pair{"bias", &bias}})
    if (other->defined() && other->dtype() != x.dtype())
      raise<DTypeError>(op, ": Input type (", x.dtype(), ") and ", name, " type (", other->dtype(), ") should be the same");
  if (groups < 1) raise<ArgumentError>(op, ": groups = ", groups, "; expected at least 1");
  window_argument(op, "stride", stride, 1), window_argument(op, "padding", padding, 0), window_argument(op, "dilation", dilation, 1);
  for (int d = 0; d < spatial; ++d) {
    if (weight.size(d + 2) < 1 || weight.size(0) < 1) raise<ShapeError>(op, ": weight has shape ", weight.sizes(), "; kernel size should be greater than zero, and there should be a channel");
  }
  int64_t of_groups;  // an axis of the weight that is one group's alone, for all of them
  if (__builtin_mul_overflow(weight.size(1), groups, &of_groups))
    raise<ArgumentError>(op, ": groups = ", groups, " with a weight of shape ", weight.sizes(), "; expected at most as many as channels");
  const int64_t out = transposed ? of_groups : weight.size(0);
  if (transposed) {
    if (x.size(1) != weight.size(0))
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", weight has shape ", weight.sizes(), "; expected x to have ", weight.size(0), " channels, but got ", x.size(1),
                        " channels instead");
    if (weight.size(0) % groups) raise<ShapeError>(op, ": weight has shape ", weight.sizes(), ", groups = ", groups, "; expected weight.shape[0] to be a multiple of groups");
  } else {
    if (x.size(1) != of_groups) {
      if (groups == 1) {
        const bool last = x.size(-1) == weight.size(1);
        raise<ShapeError>(op, ": x has shape ", x.sizes(), ", weight has shape ", weight.sizes(), "; expected x to have ", weight.size(1), " channels, but got ",
                          x.size(1), " channels instead", last ? "; x.movedim(-1, 1) would fit" : "");
      }
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", weight has shape ", weight.sizes(), ", groups = ", groups,
                        "; expected x.shape[1] == weight.shape[1] * groups");
    }
    if (out % groups) raise<ShapeError>(op, ": weight has shape ", weight.sizes(), ", groups = ", groups, "; expected weight.shape[0] to be a multiple of groups");
    for (int d = 0; d < spatial; ++d)
      if (x.size(d + 2) + 2 * padding[d] < dilation[d] * (weight.size(d + 2) - 1) + 1)
        raise<ShapeError>(op, ": x has shape ", x.sizes(), ", padding = ", padding, ", weight has shape ", weight.sizes(),
                          "; Kernel size can't be greater than actual input size with its padding");
  }
  if (bias.defined() && (bias.ndim() != 1 || bias.size(0) != out))
    raise<ShapeError>(op, ": bias has shape ", bias.sizes(), "; expected [", out, "]");
}
// How many spatial axes there are, where no public op has said it: for the parts of these, which a graph from a file may call.
inline int64_t spatial_axes(const char* op, const Tensor& x, std::initializer_list<IntList> arguments) {
  const int64_t spatial = x.ndim() - 2;
  if (spatial < 1 || spatial > 3) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected 3 to 5 axes");
  for (const IntList a : arguments)
    if (static_cast<int64_t>(a.size()) != spatial) raise<ArgumentError>(op, ": an argument is ", a, "; expected ", spatial, " ints");
  return spatial;
}
inline void conv_operands(const char* op, int64_t spatial, const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride,
                          IntList padding, IntList dilation, int64_t groups) {
  conv_arguments(op, static_cast<int>(spatial), x, weight, bias, stride, padding, dilation, groups, false);
}
inline void convolution(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                        IntList dilation, int64_t groups) {
  conv_operands(op, spatial_axes(op, x, {stride, padding, dilation}), x, weight, bias, stride, padding, dilation, groups);
}
inline void conv_transpose_operands(const char* op, int64_t spatial, const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride,
                                    IntList padding, IntList output_padding, IntList dilation, int64_t groups) {
  conv_arguments(op, static_cast<int>(spatial), x, weight, bias, stride, padding, dilation, groups, true);
  for (int d = 0; d < spatial; ++d) {
    if (output_padding[d] < 0 || output_padding[d] >= std::max(stride[d], dilation[d]))
      raise<ArgumentError>(op, ": output padding must be smaller than either stride or dilation, but got output_padding = ", output_padding, ", stride = ", stride,
                           ", dilation = ", dilation, "; expected 0 <= output_padding < the larger of these");
    int64_t length;
    if (__builtin_mul_overflow(x.size(d + 2) - 1, stride[d], &length) || length > (int64_t{1} << 59))
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", stride = ", stride, "; the output would have more elements than memory can address");
    if ((x.size(d + 2) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (weight.size(d + 2) - 1) + output_padding[d] + 1 < 0)
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", padding = ", padding, "; the output would be empty");
  }
}
inline void conv_transposed(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                            IntList output_padding, IntList dilation, int64_t groups) {
  const int64_t spatial = spatial_axes(op, x, {stride, padding, output_padding, dilation});
  conv_transpose_operands(op, spatial, x, weight, bias, stride, padding, output_padding, dilation, groups);
}

// With `ceil_mode` a last window may reach beyond the padded input, as far as a step.
inline void pool_arguments(const char* op, int64_t spatial, const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation,
                           bool ceil_mode) {
  if (!stride.empty() && stride.size() != static_cast<size_t>(spatial)) raise<ArgumentError>(op, ": stride = ", stride, "; expected ", spatial, " numbers");
  axes(op, "x", x, static_cast<int>(spatial) + 2);
  window_argument(op, "kernel_size", kernel, 1), window_argument(op, "stride", stride, 1), window_argument(op, "dilation", dilation, 1);
  for (int d = 0; d < spatial; ++d) {
    if (padding[d] < 0 || padding[d] > kernel[d] / 2)
      raise<ArgumentError>(op, ": pad should be at most half of effective kernel size, but got padding = ", padding, ", kernel_size = ", kernel,
                           "; expected 0 <= padding <= kernel_size / 2");
    const int64_t beyond = !ceil_mode || x.size(d + 2) == 0 ? 0 : (stride.empty() ? kernel[d] : stride[d]) - 1;
    if (x.size(d + 2) + 2 * padding[d] < dilation[d] * (kernel[d] - 1) + 1 - beyond)
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", kernel_size = ", kernel, ", padding = ", padding,
                        "; Output size is too small: expected a padded input at least as large as the kernel");
  }
}
inline void avg_pool_arguments(const char* op, int64_t spatial, const Tensor& x, IntList kernel, IntList stride, IntList padding, bool ceil_mode) {
  if (!is_float(x.dtype())) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected a float");
  pool_arguments(op, spatial, x, kernel, stride, padding, Dims(static_cast<int>(spatial), 1), ceil_mode);
}
// Windows of planes as columns.
inline void window_arguments(const char* op, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  window_argument(op, "kernel_size", kernel, 1), window_argument(op, "dilation", dilation, 1);
  window_argument(op, "padding", padding, 0), window_argument(op, "stride", stride, 1);
}
inline void windows_of(const char* op, const Tensor& x, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  axes(op, "x", x, 4);
  window_arguments(op, kernel, dilation, padding, stride);
  const Windows w{kernel, dilation, padding, stride};
  if (windows_along(0, x.size(2), w) < 1 || windows_along(1, x.size(3), w) < 1)
    raise<ShapeError>(op, ": kernel_size = ", kernel, ", dilation = ", dilation, ", padding = ", padding, ", stride = ", stride, " do not fit ", x.size(2), " x ", x.size(3), " positions");
}
inline void columns_of(const char* op, const Tensor& x, IntList output_size, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  axes(op, "x", x, 3);
  window_arguments(op, kernel, dilation, padding, stride), window_argument(op, "output_size", output_size, 1);
  const Windows w{kernel, dilation, padding, stride};
  const int64_t rows = windows_along(0, output_size[0], w), cols = windows_along(1, output_size[1], w), taps = Extent(kernel[0]) * Extent(kernel[1]);
  if (rows < 1 || cols < 1 || x.size(1) % taps || x.size(2) != Extent(rows) * Extent(cols))
    raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected [N, C * ", taps, ", ", int64_t(Extent(rows) * Extent(cols)), "] for output_size = ", output_size, ", kernel_size = ", kernel);
}
inline void adaptive_pool_arguments(const char* op, int64_t spatial, const Tensor& x, IntList output_size) {
  axes(op, "x", x, static_cast<int>(spatial) + 2);
  for (int d = 0; d < spatial; ++d) {
    if (output_size[d] < 0) raise<ArgumentError>(op, ": elements of output_size must be greater than or equal to 0 but received ", output_size);
    if (x.size(d + 2) < 1) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected no empty axes to pool over");
  }
}

// Norms.
inline void per_channel(const char* op, const char* name, const Tensor& t, const Tensor& x) {
  if (t.defined() && (t.ndim() != 1 || t.size(0) != x.size(1)))
    raise<ShapeError>(op, ": ", name, " should contain ", x.size(1), " elements not ", t.numel(), ", one per channel of x ", x.sizes(), ": its shape is ", t.sizes());
}
inline void float_input(const char* op, const Tensor& x) {
  if (!is_float(x.dtype())) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected a float");
}
inline void batch_norm_arguments(const char* op, const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                                 const Tensor& bias, bool training) {
  float_input(op, x);
  if (x.ndim() < 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected [N, C, ...]");
  per_channel(op, "running_mean", running_mean, x), per_channel(op, "running_var", running_var, x);
  per_channel(op, "weight", weight, x), per_channel(op, "bias", bias, x);
  if (running_mean.defined() != running_var.defined())
    raise<ArgumentError>(op, ": only one of running_mean and running_var is given; expected both or none");
  if (!training && !running_mean.defined())
    raise<ArgumentError>(op, ": running_mean and running_var are None; expected both when training = False");
  if (training && x.size(1) > 0 && x.numel() == x.size(1))
    raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected more than one value per channel when training");
}
inline void batch_norm_again_arguments(const char* op, const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias) {
  float_input(op, x);
  if (x.ndim() < 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected [N, C, ...]");
  per_channel(op, "mean", mean, x), per_channel(op, "rstd", rstd, x);
  per_channel(op, "weight", weight, x), per_channel(op, "bias", bias, x);
}
inline void fold_batch_norm_arguments(const char* op, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& var,
                                      const Tensor& norm_weight, const Tensor& norm_bias) {
  float_input(op, weight);
  if (weight.ndim() < 1) raise<ShapeError>(op, ": weight has shape ", weight.sizes(), "; expected [O, ...]");
  const auto fits = [&](const char* name, const Tensor& x) {
    if (x.defined() && (x.ndim() != 1 || x.size(0) != weight.size(0) || x.dtype() != weight.dtype()))
      raise<ShapeError>(op, ": ", name, " is ", x.dtype(), " ", x.sizes(), "; expected ", weight.dtype(), " [", weight.size(0), "] for weight ", weight.sizes());
  };
  fits("bias", bias), fits("mean", mean), fits("var", var), fits("norm_weight", norm_weight), fits("norm_bias", norm_bias);
}
inline void instance_norm_arguments(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  float_input(op, x);
  if (x.ndim() < 3) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected [N, C, ...] with at least one axis to normalise over");
  per_channel(op, "weight", weight, x), per_channel(op, "bias", bias, x);
}
inline void group_norm_arguments(const char* op, const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias) {
  float_input(op, x);
  if (x.ndim() < 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected [N, C, ...]");
  if (groups < 1 || x.size(1) % groups)
    raise<ArgumentError>(op, ": Expected number of channels in input to be divisible by num_groups, but got input of shape ", x.sizes(), " and num_groups=", groups);
  if (x.numel() == groups) raise<ArgumentError>(op, ": Expected more than 1 value per channel when training, got input size ", x.sizes(), " with num_groups = ", groups);
  per_channel(op, "weight", weight, x), per_channel(op, "bias", bias, x);
}
inline void layer_norm_arguments(const char* op, const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias) {
  float_input(op, x);
  const int n = static_cast<int>(shape.size());
  bool ok = n >= 1 && n <= x.ndim();
  for (int d = 0; ok && d < n; ++d) ok = x.size(x.ndim() - n + d) == shape[d];
  if (!ok) {
    const std::string last = n == 0 ? "...]" : text(shape).substr(1);
    raise<ShapeError>(op, ": Given normalized_shape=", shape, ", expected input with shape [*, ", last, ", but got input of size ", x.sizes());
  }
  if (weight.defined() && !(IntList(weight.sizes()) == shape))
    raise<ShapeError>(op, ": weight has shape ", weight.sizes(), "; expected normalized_shape ", shape);
  if (bias.defined() && !(IntList(bias.sizes()) == shape))
    raise<ShapeError>(op, ": bias has shape ", bias.sizes(), "; expected normalized_shape ", shape);
}

inline void rms_norm_arguments(const char* op, const Tensor& x, IntList shape, const Tensor& weight) {
  layer_norm_arguments(op, x, shape, weight, Tensor());
}
inline void float_result(const char* op, const Tensor& x, std::optional<DType> dtype) {
  if (!is_float(dtype.value_or(x.dtype()))) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected a float, or dtype= a float");
}

// Losses.
inline void reduction(const char* op, int64_t r) {
  if (r < 0 || r > 2) raise<ArgumentError>(op, ": reduction = ", r, "; expected 0 (none), 1 (mean) or 2 (sum)");
}
inline void same_shape(const char* op, const char* na, const Tensor& a, const char* nb, const Tensor& b) {
  if (!(a.sizes() == b.sizes())) two_shapes(op, na, a, nb, b, "one shape");
}
inline void loss_arguments(const char* op, const Tensor& x, const Tensor& target, int64_t reduction_) {
  float_input(op, x);
  reduction(op, reduction_);
  if (target.dtype() != x.dtype()) raise<DTypeError>(op, ": Found dtype ", target.dtype(), " but expected ", x.dtype(), ", that of x, for target");
  same_shape(op, "x", x, "target", target);
}
inline void loss_weights(const char* op, const Tensor& x, const char* name, const Tensor& weight) {
  if (!weight.defined()) return;
  one_dtype(op, "x", x, name, weight);
  const int lead = x.ndim() - weight.ndim();
  bool ok = lead >= 0;
  for (int d = 0; ok && d < weight.ndim(); ++d) ok = weight.size(d) == 1 || weight.size(d) == x.size(lead + d);
  if (!ok) raise<ShapeError>(op, ": ", name, " has shape ", weight.sizes(), "; expected a shape that broadcasts to x's ", x.sizes());
}
inline void loss_weight(const char* op, const Tensor& x, const Tensor& weight) { loss_weights(op, x, "weight", weight); }
inline void loss_pos_weight(const char* op, const Tensor& x, const Tensor& weight) { loss_weights(op, x, "pos_weight", weight); }
// Class indices for x [C], [N, C] or [N, C, d1, ...]. The values are read: CPU tensors only.
// The result has x's own type, or is float32 for 16-bit x.
inline void loss_dtype(const char* op, const Tensor& x, std::optional<DType> dtype) {
  if (!dtype || *dtype == x.dtype() || *dtype == compute_type(x.dtype())) return;
  raise<DTypeError>(op, ": dtype = ", *dtype, ", but x is ", x.dtype(), "; expected ", compute_type(x.dtype()));
}

inline void class_targets(const char* op, const Tensor& x, const Tensor& target, const Tensor& weight, int64_t ignore_index, int64_t reduction_) {
  float_input(op, x);
  reduction(op, reduction_);
  if (x.ndim() < 1) raise<ShapeError>(op, ": Expected 1 or more dimensions (got 0): x has shape ", x.sizes(), "; expected [C], [N, C] or [N, C, ...]");
  if (target.dtype() != DType::Int64 && target.dtype() != DType::Int32 && target.dtype() != DType::UInt8)
    raise<DTypeError>(op, ": expected target dtype to be int64, int32 or uint8, class indices, but got ", target.dtype());
  const int axis = x.ndim() == 1 ? 0 : 1;
  Dims want = x.sizes();
  want.erase(axis);
  if (!(target.sizes() == want)) {
    const std::string why = x.ndim() <= 2 && target.ndim() > 1     ? "0D or 1D target tensor expected, multi-target not supported"
                            : x.ndim() == 2 && target.ndim() == 1  ? text("Expected input batch_size (", x.size(0), ") to match target batch_size (", target.size(0), ")")
                            : x.ndim() == 4 && target.ndim() != 3  ? text("only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.ndim())
                                                                   : text("Expected target size ", want, ", got ", target.sizes());
    raise<ShapeError>(op, ": ", why, ": x has shape ", x.sizes(), ", target has shape ", target.sizes(), "; expected target of shape ", want);
  }
  const int64_t classes = x.size(axis);
  if (weight.defined()) {
    // A float32 weight goes with 16-bit classes, which are computed in float32: autocast leaves it so.
    if (weight.dtype() != compute_type(x.dtype())) one_dtype(op, "x", x, "weight", weight);
    if (weight.ndim() != 1 || weight.size(0) != classes)
      raise<ShapeError>(op, ": weight tensor should be defined either for all ", classes, " classes or no classes but got weight tensor of shape: ", weight.sizes());
  }
  if (!has_values(target)) return;
  if (const auto misfit = first_misfit(target, classes, ignore_index))
    raise<IndexError>(op, ": Target ", misfit->value, " is out of bounds", place_of(*misfit, target), "; expected 0 <= target < ", classes,
                      " or ignore_index = ", ignore_index);
}

// Refuses values of integers outside of [0, n).
inline void indices_below(const char* op, const Tensor& indices, int64_t n) {
  if (!has_values(indices)) return;
  if (const auto misfit = first_misfit(indices, n, {}))
    raise<IndexError>(op, ": index out of range in self: indices has the value ", misfit->value, place_of(*misfit, indices), "; expected 0 <= index < ", n);
}

inline void embedding_arguments(const char* op, const Tensor& weight, const Tensor& indices, int64_t padding_idx) {
  axes(op, "weight", weight, 2);
  if (indices.dtype() != DType::Int64 && indices.dtype() != DType::Int32)
    raise<DTypeError>(op, ": Expected tensor for argument 'indices' to have one of the following scalar types: int64, int32; but got ", indices.dtype());
  if (padding_idx >= weight.size(0)) raise<ArgumentError>(op, ": padding_idx = ", padding_idx, ", but weight has ", weight.size(0), " rows");
  indices_below(op, indices, weight.size(0));
}

inline void one_hot_arguments(const char* op, const Tensor& indices, int64_t num_classes) {
  if (!is_integral(indices.dtype())) raise<DTypeError>(op, ": indices is ", indices.dtype(), "; expected integers");
  if (num_classes < 1) raise<ArgumentError>(op, ": num_classes should be positive, and Class values must be non-negative: num_classes = ", num_classes);
  if (!has_values(indices)) return;
  if (const auto misfit = first_misfit(indices, num_classes, {}))
    raise<IndexError>(op, ": Class values must be ", misfit->value < 0 ? "non-negative" : "smaller than num_classes", ": indices has the value ", misfit->value, place_of(*misfit, indices),
                      "; expected 0 <= index < ", num_classes);
}
inline void attention_arguments(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool is_causal) {
  float_input(op, q);
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype())
    raise<DTypeError>(op, ": Expected query, key, and value to have the same dtype, but got query.dtype: ", q.dtype(), " key.dtype: ", k.dtype(), " and value.dtype: ", v.dtype());
  if (q.ndim() < 2 || k.ndim() != q.ndim() || v.ndim() != q.ndim())
    raise<ShapeError>(op, ": Expected query, key, and value to all be at least 2 dimensional, [..., T, D], and of as many axes: q has shape ", q.sizes(), ", k has shape ", k.sizes(),
                      ", v has shape ", v.sizes());
  for (int d = 0; d < q.ndim() - 2; ++d)
    if (k.size(d) != q.size(d) || v.size(d) != q.size(d))
      raise<ShapeError>(op, ": q has shape ", q.sizes(), ", k has shape ", k.sizes(), ", v has shape ", v.sizes(), "; expected equal leading axes");
  if (q.size(-1) != k.size(-1)) two_shapes(op, "q", q, "k", k, "q.shape[-1] == k.shape[-1]");
  if (k.size(-2) != v.size(-2)) two_shapes(op, "k", k, "v", v, "k.shape[-2] == v.shape[-2]");
  if (!mask.defined()) return;
  if (is_causal) raise<ArgumentError>(op, ": both attn_mask and is_causal are given; expected at most one");
  if (mask.dtype() != DType::Bool && mask.dtype() != q.dtype())
    raise<DTypeError>(op, ": Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: ", mask.dtype(), " and query.dtype: ", q.dtype());
  Dims want = q.sizes();
  want.back() = k.size(-2);
  const int lead = want.size() - mask.ndim();
  bool ok = lead >= 0;
  for (int d = 0; ok && d < mask.ndim(); ++d) ok = mask.size(d) == 1 || mask.size(d) == want[lead + d];
  if (!ok) raise<ShapeError>(op, ": attn_mask has shape ", mask.sizes(), "; expected a shape that broadcasts to ", want);
}

// A recurrent cell's gates: [B, n * H] against a state [B, H].
inline void gates(const char* op, const Tensor& gates_x, const Tensor& gates_h, const Tensor& state, int64_t n) {
  float_input(op, gates_x);
  one_dtype(op, "gates_x", gates_x, "gates_h", gates_h), one_dtype(op, "gates_x", gates_x, "state", state);
  if (state.ndim() != 2) raise<ShapeError>(op, ": state has shape ", state.sizes(), "; expected [B, H]");
  const Dims want{state.size(0), n * state.size(1)};
  if (!(gates_x.sizes() == want)) raise<ShapeError>(op, ": gates_x has shape ", gates_x.sizes(), "; expected ", want, " for a state of shape ", state.sizes());
  if (!(gates_h.sizes() == want)) raise<ShapeError>(op, ": gates_h has shape ", gates_h.sizes(), "; expected ", want, " for a state of shape ", state.sizes());
}

// [T, B, n * H] with at least one step, against a state [B, H] and a weight [n * H, H].
inline void gates_of_sequence(const char* op, const Tensor& gates_x, const Tensor& state, const Tensor& weight, int64_t n) {
  float_input(op, gates_x);
  one_dtype(op, "gates_x", gates_x, "weight", weight), one_dtype(op, "gates_x", gates_x, "state", state);
  if (state.ndim() != 2) raise<ShapeError>(op, ": state has shape ", state.sizes(), "; expected [B, H]");
  const Dims want{n * state.size(1), state.size(1)};
  if (!(weight.sizes() == want)) raise<ShapeError>(op, ": weight has shape ", weight.sizes(), "; expected ", want, " for a state of shape ", state.sizes());
  if (gates_x.ndim() != 3 || gates_x.size(0) < 1 || gates_x.size(1) != state.size(0) || gates_x.size(2) != want[0])
    raise<ShapeError>(op, ": gates_x has shape ", gates_x.sizes(), "; expected [T, ", state.size(0), ", ", want[0], "] with T >= 1");
}
inline void one_per_row(const char* op, const Tensor& bias, const Tensor& weight) {
  if (!bias.defined()) return;
  one_dtype(op, "bias", bias, "weight", weight);
  if (bias.ndim() != 1 || bias.size(0) != weight.size(0)) raise<ShapeError>(op, ": bias has shape ", bias.sizes(), "; expected [", weight.size(0), "]");
}

inline void pad_pairs(const char* op, const Tensor& x, IntList pad) {
  if (pad.size() % 2 != 0)
    raise<ArgumentError>(op, ": Padding length must be divisible by 2: pad = ", pad, " for a tensor of shape ", x.sizes(), "; expected a (before, after) pair for each axis");
  if (static_cast<int64_t>(pad.size() / 2) > x.ndim())
    raise<ArgumentError>(op, ": Padding length should be less than or equal to two times the input dimension but got padding length ", pad.size(), " and input of dimension ", x.ndim(),
                         ": pad = ", pad, " for a tensor of shape ", x.sizes());
}
// Padding by elements of x: a border of a circular axis is at most the axis, of a reflected one all but its end.
inline void pad_within(const char* op, const Tensor& x, IntList pad, std::string_view mode) {
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    raise<ArgumentError>(op, ": mode = '", mode, "'; expected 'constant', 'reflect', 'replicate' or 'circular'");
  const int axes = static_cast<int>(pad.size() / 2);
  pad_pairs(op, x, pad);
  for (int k = 0; k < axes; ++k) {
    const int dim = x.ndim() - 1 - k;
    const int64_t n = x.size(dim), before = pad[static_cast<size_t>(2 * k)], after = pad[static_cast<size_t>(2 * k + 1)];
    const int64_t most = mode == "reflect" ? n - 1 : mode == "circular" ? n : INT64_MAX;
    int64_t size = 0;
    const bool huge = __builtin_add_overflow(before, after, &size) || __builtin_add_overflow(size, n, &size);
    if (huge || size < 0) raise<ShapeError>(op, ": pad = ", pad, " with mode '", mode, "' gives axis ", dim, " of shape ", x.sizes(), " a size below 0 or past what memory can address");
    if (before > most || after > most || n == 0)
      raise<ShapeError>(op, mode == "circular" ? ": Padding value causes wrapping around more than once: pad = " : ": Padding size should be less than the corresponding input dimension: pad = ", pad,
                        " with mode '", mode, "' at dimension ", dim, " of input ", x.sizes());
  }
}

}  // namespace fl::check
