// Element-wise ops with a choice in them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "dispatch/geometry.h"
#include "wrappers/checks_index.h"
#include "wrappers/checks_nn.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/add.h"
#include "op/amax.h"
#include "op/amin.h"
#include "op/cast.h"
#include "op/cdist_backward.h"
#include "op/cdist_gradient.h"
#include "op/clamp_between.h"
#include "op/clamp_floats.h"
#include "op/clamp_max.h"
#include "op/clamp_min.h"
#include "op/clone.h"
#include "op/cube.h"
#include "op/cumprod.h"
#include "op/cumprod_gradient.h"
#include "op/copy_.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/exp2.h"
#include "op/expand.h"
#include "op/expand_reduced.h"
#include "op/eye.h"
#include "op/floor_divide.h"
#include "op/gelu_erf.h"
#include "op/gelu_tanh.h"
#include "op/gt.h"
#include "op/index_copy.h"
#include "op/isnan.h"
#include "op/logical_or.h"
#include "op/masked_fill.h"
#include "op/linear.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/new_zeros.h"
#include "op/nextafter_wide.h"
#include "op/norm_slope.h"
#include "op/permute.h"
#include "op/permute_backward.h"
#include "op/prelu_kernel.h"
#include "op/prod.h"
#include "op/prod_gradient.h"
#include "op/reciprocal.h"
#include "op/replace_nonfinite.h"
#include "op/reshape.h"
#include "op/rsqrt.h"
#include "op/select.h"
#include "op/sqrt.h"
#include "op/square.h"
#include "op/view_as_complex.h"
#include "op/view_as_real.h"
#include "op/stack.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/transpose.h"
#include "op/triu.h"
#include "op/triu_indices.h"
#include "op/trunc_divide.h"
#include "op/unsqueeze.h"
#include "op/vector_product_real.h"
#include "op/view.h"
#include "op/where.h"

namespace fl::native {

Tensor positive(const Tensor& x) {
  check::no_bool("positive", x);
  return x;
}

namespace {

// The exponents that most programs use have ops of their own, which take a tenth to a thirtieth of a power's time.
struct PlainPower {
  double exponent;
  Tensor (*out)(const Tensor& x);
  Tensor (*in_place)(const Tensor& x);
};
constexpr PlainPower kPlainPowers[] = {{2, op::square, op::square_}, {3, op::cube, op::cube_}, {0.5, op::sqrt, op::sqrt_},
                                       {-0.5, op::rsqrt, op::rsqrt_}, {-1, op::reciprocal, op::reciprocal_}};

// The op that a^b is; null where it is none of them.
const PlainPower* plain_power(const Operand& a, const Operand& b) {
  if (b.is_tensor() || !a.is_tensor() || b.number().is_complex()) return nullptr;
  const DType type = a.tensor().dtype();
  const bool whole = !is_inexact(type);
  if (whole && (type == DType::Bool || b.number().is_float())) return nullptr;
  const double exponent = b.number().as_double();
  for (const PlainPower& p : kPlainPowers)
    if (p.exponent == exponent && (!whole || exponent > 1)) return &p;
  return nullptr;
}

// The same where a gradient is wanted, of what would keep its result for it: programs write into a power's result.
Tensor root_by_input(double exponent, const Tensor& x) {
  const Tensor base = exponent == -1 ? x : op::sqrt(x);
  return exponent < 0 ? op::div(Scalar(1.0), base) : base;
}
bool would_keep_result(const PlainPower& p, const Tensor& x) { return p.exponent < 1 && grad_enabled() && requires_grad(x); }

}  // namespace

// PyTorch's: a row of weights, whose product has no axis for it, and a bias that is no row of its own, but is one by broadcasting.
Tensor linear_shortcut(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.ndim() == 2 && bias.defined() && (bias.ndim() != 1 || (bias.size(0) == 1 && weight.size(0) != 1))) [[unlikely]] {
    const Tensor y = op::linear(x, weight, Tensor());
    check::broadcasts_to("linear", bias, y.sizes(), "bias");
    return op::add(y, bias);
  }
  if (weight.ndim() != 1 || bias.defined()) [[likely]] return {};
  return op::matmul(x, weight);
}

Tensor pow_shortcut(const Operand& a, const Operand& b) {
  const PlainPower* p = plain_power(a, b);
  if (!p) return {};
  if (!would_keep_result(*p, a.tensor())) return p->out(a.tensor());
  const Tensor y = root_by_input(p->exponent, a.tensor());
  return p->exponent < 0 ? y : op::mul(y, Scalar(1.0));
}
Tensor pow_shortcut_(const Operand& a, const Operand& b) {
  const PlainPower* p = plain_power(a, b);
  if (!p) return {};
  if (!would_keep_result(*p, a.tensor())) return p->in_place(a.tensor());
  const Tensor before = p->exponent == -1 ? op::clone(a.tensor()) : a.tensor();  // what the gradient reads
  return op::copy_(a.tensor(), root_by_input(p->exponent, before));
}

namespace {

// What a choice is made of: as new tensors, or over the first argument.
template <bool kInPlace>
struct To {
  static constexpr auto clamp_floats = kInPlace ? op::clamp_floats_ : op::clamp_floats;
  static constexpr auto clamp_between = kInPlace ? op::clamp_between_ : op::clamp_between;
  static constexpr auto clamp_min = kInPlace ? op::clamp_min_ : op::clamp_min;
  static constexpr auto clamp_max = kInPlace ? op::clamp_max_ : op::clamp_max;
  static constexpr auto floor_divide = kInPlace ? op::floor_divide_ : op::floor_divide;
  static constexpr auto trunc_divide = kInPlace ? op::trunc_divide_ : op::trunc_divide;
  static constexpr auto replace_nonfinite = kInPlace ? op::replace_nonfinite_ : op::replace_nonfinite;
  static Tensor div(const Operand& a, const Operand& b) { return kInPlace ? op::div_(a, b) : op::div(a, b); }
  static Tensor same(const Tensor& x) { return kInPlace ? x : op::clone(x); }
  static Tensor of_parts(const Tensor& x, const Tensor& parts) { return kInPlace ? x : op::view_as_complex(parts); }
};
using Fresh = To<false>;
using InPlace = To<true>;

template <class Way>
Tensor clamp_numbers(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) {
  const auto is_nan = [](const Scalar& v) { return std::isnan(v.as_double()); };
  if (min && max && is_float(x.dtype()) && !is_nan(*min) && !is_nan(*max)) return Way::clamp_floats(x, *min, *max);
  if (min && max) return Way::clamp_between(x, *min, *max);
  if (min) return Way::clamp_min(x, *min);
  if (max) return Way::clamp_max(x, *max);
  raise<ArgumentError>("clamp: neither min nor max is given");
}

template <class Way>
Tensor clamp_tensors(const Tensor& x, const Tensor& min, const Tensor& max) {
  if (min.defined() && max.defined()) return Way::clamp_between(x, min, max);
  if (min.defined()) return Way::clamp_min(x, min);
  if (max.defined()) return Way::clamp_max(x, max);
  raise<ArgumentError>("clamp: neither min nor max is given");
}

template <class Way>
Tensor divided(const Operand& a, const Operand& b, std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode) return Way::div(a, b);
  if (*rounding_mode == "floor") return Way::floor_divide(a, b);
  if (*rounding_mode == "trunc") return Way::trunc_divide(a, b);
  raise<ArgumentError>("div: rounding_mode = '", *rounding_mode, "'; expected 'floor', 'trunc' or None");
}

template <class Way>
Tensor finite(const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (is_complex(x.dtype())) return Way::of_parts(x, finite<Way>(op::view_as_real(x), nan, posinf, neginf));
  const DType t = x.dtype();
  if (!is_float(t)) return Way::same(x);
  const double largest = t == DType::Float64    ? std::numeric_limits<double>::max()
                         : t == DType::Float16  ? 65504.0
                         : t == DType::BFloat16 ? 3.3895313892515355e38
                                                : static_cast<double>(std::numeric_limits<float>::max());
  return Way::replace_nonfinite(x, nan.value_or(0), posinf.value_or(largest), neginf.value_or(-largest));
}

// Of 16-bit floats, by their bits: one more is one step away from 0, as long as there is no sign to cross.
Tensor next_half(const Tensor& a, const Tensor& b, DType type) {
  const Tensor x = op::cast(a, type), to = op::cast(b, type), zero = op::eq(x, Scalar(0)), up = op::gt(to, x);
  const Tensor bits = op::cast(op::view(x, DType::Int16), DType::Int32);
  const Tensor away = op::cast(op::eq(up, op::gt(x, Scalar(0))), DType::Int32);
  const Tensor moved = op::where(zero, op::where(up, Scalar(1), Scalar(-32767)), op::add(bits, op::sub(op::mul(away, Scalar(2)), Scalar(1))));
  const Tensor stepped = op::view(op::cast(moved, DType::Int16), type);
  const Tensor stays = op::where(op::eq(x, to), to, stepped);
  return op::where(op::logical_or(op::isnan(x), op::isnan(to)), op::add(x, to), stays);
}
bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

}  // namespace

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) { return clamp_numbers<Fresh>(x, min, max); }
Tensor clamp_(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max) { return clamp_numbers<InPlace>(x, min, max); }
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) { return clamp_tensors<Fresh>(x, min, max); }
Tensor clamp_(const Tensor& x, const Tensor& min, const Tensor& max) { return clamp_tensors<InPlace>(x, min, max); }

Tensor div(const Operand& a, const Operand& b, std::optional<std::string_view> mode) { return divided<Fresh>(a, b, mode); }
Tensor div_(const Operand& a, const Operand& b, std::optional<std::string_view> mode) { return divided<InPlace>(a, b, mode); }

// In three steps, since 2^other need not be a number where the product is. All but the last are exact, or what they round off ends as 0.
Tensor ldexp(const Tensor& x, const Tensor& other) {
  if (is_complex(other.dtype())) return op::mul(x, op::exp2(other));
  const DType type = is_inexact(other.dtype()) ? dt::promote_float(x, other) : dt::as_float(x.dtype());
  const DType real = to_real(type) == DType::Float64 ? DType::Float64 : DType::Float32;
  const double least = real == DType::Float64 ? -1022 : -126, most = 1 - least;
  const auto within = [&](const Tensor& power, double times) { return op::clamp_between(power, Scalar(times * least), Scalar(times * most)); };
  const Tensor power = within(op::cast(other, real), 3), last = within(power, 1), rest = op::sub(power, last), middle = within(rest, 1);
  Tensor y = op::cast(x, is_complex(type) ? to_complex(real) : real);
  for (const Tensor& step : {op::sub(rest, middle), middle, last}) y = op::mul(y, op::exp2(step));
  return op::cast(y, type);
}

Tensor nextafter(const Tensor& a, const Tensor& b) {
  const DType type = dt::promote(a, b);
  if (!is_half(type)) return op::nextafter_wide(a, b);
  const auto without_history = [](auto&& f) {
    const NoGrad off;
    return f();
  };
  const Tensor y = without_history([&] { return next_half(a, b, type); });
  if (!grad_enabled() || !(requires_grad(a) || requires_grad(b))) return y;
  const Tensor from = op::cast(op::add(op::where(op::eq(a, b), y, a), op::mul(b, Scalar(0))), type);  // a step has the derivative of what it begins at
  return op::add(from, without_history([&] { return op::sub(y, from); }));
}
Tensor nextafter_(const Tensor& a, const Tensor& b) { return is_half(a.dtype()) ? op::copy_(a, nextafter(a, b)) : op::nextafter_wide_(a, b); }

Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) {
  return finite<Fresh>(x, nan, posinf, neginf);
}
Tensor nan_to_num_(const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) {
  return finite<InPlace>(x, nan, posinf, neginf);
}

std::tuple<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  std::optional<IntList> dims;
  if (dim) dims = IntList(&*dim, 1);
  return {op::amin(x, dims, keepdim), op::amax(x, dims, keepdim)};
}

namespace {

// Along the last axis of [..., n]: [..., i, k] is x[..., k], and 1 where i == k.
Tensor all_but_one(const Tensor& x) {
  const int64_t n = x.size(-1);
  std::vector<int64_t> square(x.sizes().begin(), x.sizes().end());
  square.push_back(n);
  return op::masked_fill(op::expand(op::unsqueeze(x, -2), square), op::eye(n, {}, DType::Bool), Scalar(1.0));
}

bool differentiated_again(const Tensor& dy, const Tensor& x) { return grad_enabled() && (requires_grad(dy) || requires_grad(x)); }

}  // namespace

Tensor cdist_backward(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, double p) {
  if (!differentiated_again(dy, x1) && !differentiated_again(x2, y)) return op::cdist_gradient(dy, x1, x2, y, p);
  const Tensor apart = op::sub(op::unsqueeze(x1, -2), op::unsqueeze(x2, -3));
  return op::sum(op::norm_slope(op::unsqueeze(dy, -1), apart, op::unsqueeze(y, -1), p), Dims{-2});
}

Tensor pdist_backward(const Tensor& dy, const Tensor& x, const Tensor& y, double p) {
  const int64_t n = x.size(-2);
  Dims flat, square;
  for (int d = 0; d < x.ndim() - 2; ++d) flat.push_back(x.size(d)), square.push_back(x.size(d));
  flat.push_back(n * n), square.push_back(n), square.push_back(n);
  const Tensor upper = op::triu_indices(n, n, 1), at = op::add(op::mul(op::select(upper, 0, 0), Scalar(n)), op::select(upper, 0, 1));
  const auto matrix = [&](const Tensor& t) {
    const Tensor half = op::reshape(op::index_copy(op::new_zeros(t, flat), -1, at, t), square);
    return op::add(half, op::transpose(half, -2, -1));
  };
  return op::cdist_backward(matrix(dy), x, x, matrix(y), p);
}

Tensor prod_backward(const Tensor& dy, const Tensor& x, std::optional<IntList> dim, bool keepdim) {
  if (!differentiated_again(dy, x)) return op::prod_gradient(dy, x, dim, keepdim);
  const Tensor dy_wide = op::expand_reduced(dy, x.sizes(), dim, keepdim);
  Dims order, flat;
  const std::vector<bool> reduced = axes_named(x, dim);
  int64_t n = 1;
  for (int d = 0; d < x.ndim(); ++d)
    if (!reduced[static_cast<size_t>(d)]) order.push_back(d), flat.push_back(x.size(d));
  for (int d = 0; d < x.ndim(); ++d)
    if (reduced[static_cast<size_t>(d)]) order.push_back(d), n *= x.size(d);
  flat.push_back(n);
  const Tensor last = op::permute(x, order);
  const Tensor others = op::prod(all_but_one(op::reshape(last, flat)), Dims{-1});
  return op::mul(op::cast(dy_wide, x.dtype()), op::permute_backward(op::reshape(others, last.sizes()), order));
}

Tensor cumprod_backward(const Tensor& dy, const Tensor& x, int64_t dim) {
  if (!differentiated_again(dy, x)) return op::cumprod_gradient(dy, x, dim);
  if (x.ndim() == 0) return op::cast(dy, x.dtype());
  const Tensor running = op::cumprod(all_but_one(op::transpose(x, dim, -1)), -1);
  const Tensor terms = op::mul(running, op::unsqueeze(op::cast(op::transpose(dy, dim, -1), x.dtype()), -2));
  return op::transpose(op::sum(op::triu(terms), Dims{-1}), dim, -1);
}

Tensor vector_product(const Tensor& a, const Tensor& b, int64_t dim) {
  for (const Tensor* x : {&a, &b})
    if (x->size(static_cast<int>(dim)) != 3) raise<ShapeError>("cross: shapes ", a.sizes(), " and ", b.sizes(), " along dim = ", dim, "; expected size 3 in both");
  if (is_float(a.dtype()) && !is_float8(a.dtype()) && a.dtype() == b.dtype() && a.sizes() == b.sizes()) return op::vector_product_real(a, b, dim);
  Tensor of_a[3], of_b[3], y[3];
  for (int i = 0; i < 3; ++i) of_a[i] = op::select(a, dim, i), of_b[i] = op::select(b, dim, i);
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    y[i] = op::sub(op::mul(of_a[j], of_b[k]), op::mul(of_a[k], of_b[j]));
  }
  return op::stack(y, dim);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const int n = std::max(a.ndim(), b.ndim());
  if (n == 0) return op::mul(a, b);
  // Both with two axes in place of each of the result's: a's elements in the first, b's in the second.
  Dims sizes_a, sizes_b, sizes;
  for (int d = 0; d < n; ++d) {
    const int in_a = d - n + a.ndim(), in_b = d - n + b.ndim();
    const Extent from_a = in_a < 0 ? 1 : a.size(in_a), from_b = in_b < 0 ? 1 : b.size(in_b);
    sizes_a.push_back(from_a), sizes_a.push_back(1);
    sizes_b.push_back(1), sizes_b.push_back(from_b);
    sizes.push_back(from_a * from_b);
  }
  const Tensor apart_a = op::reshape(a, sizes_a), apart_b = op::reshape(b, sizes_b);
  constexpr int64_t kLong = 128;
  const int last = 2 * n - 1;
  // Rows of one of them, if they are long: a column of the other is read as the last operand.
  if (sizes_b[last] == 1) return op::reshape(op::mul(apart_a, apart_b), sizes);
  if (sizes_b[last] >= kLong || n == 1) return op::reshape(op::mul(apart_b, apart_a), sizes);
  // Both in rows of the result's length first, which is little work: their product has long rows then.
  sizes_a[last] = sizes_b[last], sizes_b[last - 1] = sizes_a[last - 1];
  return op::reshape(op::mul(op::clone(op::expand(apart_b, sizes_b)), op::clone(op::expand(apart_a, sizes_a))), sizes);
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
    raise<ShapeError>("prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = ", weight.numel(), " and channel size = ", channels, ": weight has shape ",
                      weight.sizes(), ", x has shape ", x.sizes());
  Dims shape(x.ndim(), 1);
  shape[1] = channels;
  return op::prelu_kernel(x, op::reshape(weight, shape));
}

}  // namespace fl::native
