// Complex numbers: compositions with a choice in them, and what ops of real numbers are for complex ones (`complex: native` in the table).
#include <algorithm>
#include <array>
#include <numbers>

#include "dispatch/geometry.h"
#include "wrappers/checks.h"
#include "wrappers/checks_nn.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/abs.h"
#include "op/abs_of_complex.h"
#include "op/add.h"
#include "op/amax.h"
#include "op/atan2.h"
#include "op/bmm.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/clone.h"
#include "op/complex.h"
#include "op/complex_of_pairs.h"
#include "op/complex_of_parts.h"
#include "op/conj_physical.h"
#include "op/contiguous_copy.h"
#include "op/conv_transposed.h"
#include "op/convolution.h"
#include "op/cumprod.h"
#include "op/cumsum.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/exp.h"
#include "op/expand.h"
#include "op/ge.h"
#include "op/imag.h"
#include "op/index_put_full.h"
#include "op/index_put_full_.h"
#include "op/isfinite.h"
#include "op/linspace.h"
#include "op/log.h"
#include "op/log1p.h"
#include "op/logical_and.h"
#include "op/logical_not.h"
#include "op/masked_fill.h"
#include "op/mean.h"
#include "op/mm.h"
#include "op/mul.h"
#include "op/mv.h"
#include "op/ne.h"
#include "op/normal_.h"
#include "op/ones_like.h"
#include "op/permute.h"
#include "op/pow.h"
#include "op/prod.h"
#include "op/real.h"
#include "op/reshape.h"
#include "op/reverse_cumsum.h"
#include "op/select.h"
#include "op/sigmoid.h"
#include "op/sin.h"
#include "op/slice.h"
#include "op/std.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/sum_to.h"
#include "op/tanh.h"
#include "op/uniform_.h"
#include "op/var.h"
#include "op/vector_norm.h"
#include "op/view_as_complex.h"
#include "op/view_as_real.h"
#include "op/where.h"
#include "op/zeros_like.h"

namespace fl::native {
namespace {

// x in the complex type that y has.
Tensor complex_like(const Tensor& x, const Tensor& y) {
  const DType type = is_complex(y.dtype()) ? y.dtype() : to_complex(y.dtype());
  return x.dtype() == type ? x : op::cast(x, type);
}

// The real parts, without history.
Tensor detached_part(const Tensor& x) {
  const NoGrad off;
  return op::contiguous_copy(op::real(x));
}

}  // namespace

Tensor complex_of_pairs(const Tensor& x) { return op::view_as_complex(x.is_contiguous() && x.offset() % 2 == 0 ? x : op::contiguous_copy(x)); }

Tensor real(const Tensor& x) { return is_complex(x.dtype()) ? op::select(op::view_as_real(x), -1, 0) : x; }

Tensor imag(const Tensor& x) {
  if (!is_complex(x.dtype())) raise<DTypeError>("imag: x is ", x.dtype(), "; expected a complex tensor");
  return op::select(op::view_as_real(x), -1, 1);
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  if (real.dtype() == DType::Float16 && imag.dtype() == DType::Float16)
    return op::cast(native::complex(op::cast(real, DType::Float32), op::cast(imag, DType::Float32)), DType::Complex32);
  for (const Tensor* x : {&real, &imag})
    if (x->dtype() != DType::Float16 && x->dtype() != DType::Float32 && x->dtype() != DType::Float64)
      raise<DTypeError>("complex: ", x == &real ? "real" : "imag", " is ", x->dtype(), "; expected float16, float32 or float64");
  if (real.dtype() != imag.dtype()) raise<DTypeError>("complex: real is ", real.dtype(), ", imag is ", imag.dtype(), "; expected one type");
  if (real.sizes() == imag.sizes()) return op::complex_of_parts(real, imag);
  const Operand parts[] = {Operand(real), Operand(imag)};
  const Dims shape = broadcast_shape("complex", parts, 2);
  return op::complex_of_parts(op::expand(real, shape), op::expand(imag, shape));
}

Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? op::conj_physical(x) : x; }
Tensor resolve_conj(const Tensor& x) { return x; }
Tensor resolve_neg(const Tensor& x) { return x; }

Tensor angle_complex(const Tensor& x) { return op::atan2(op::imag(x), op::real(x)); }
Tensor abs_complex(const Tensor& x) { return op::abs_of_complex(x); }

Tensor isreal(const Tensor& x) { return op::ones_like(x, DType::Bool); }
Tensor isreal_complex(const Tensor& x) { return op::eq(op::imag(x), Scalar(0)); }

// ---- functions

// z / |z|, and 0 with a derivative of 0 at 0.
Tensor sgn_complex(const Tensor& x) {
  const Tensor size = op::abs_of_complex(x), zero = op::eq(size, Scalar(0));
  return op::masked_fill(op::div(x, op::masked_fill(size, zero, Scalar(1))), zero, Scalar(0));
}

namespace {
// The base as formulas have what is saved, conjugated: a real one, too, as one below 0 then lies on the other side of the logarithm's cut.
Tensor conjugated_base(const Operand& a, const Tensor& like) {
  Tensor t = a.is_tensor() ? a.tensor() : empty(Dims{}, like.dtype());
  if (!a.is_tensor()) fill_elements(t, a.number());  // a number has all digits of what it is beside
  const bool complex = a.is_tensor() ? is_complex(t.dtype()) : a.number().is_complex();
  return complex ? t : op::conj_physical(complex_like(t, like));
}
}  // namespace

Tensor pow_backward_base_complex(const Tensor& dy, const Operand& a, const Operand& b) {
  const Tensor less = b.is_tensor() ? op::sub(b, Scalar(1)) : Tensor();
  const Scalar number = b.is_tensor() ? Scalar() : Scalar::complex(b.number().as_double() - 1, b.number().imaginary());
  const Tensor slope = op::mul(op::mul(dy, b), op::pow(conjugated_base(a, dy), b.is_tensor() ? Operand(less) : Operand(number)));
  return b.is_tensor() || b.number().as<bool>() ? op::where(op::ne(as_tensor(b), Scalar(0)), slope, Scalar(0)) : op::zeros_like(slope);
}

Tensor pow_backward_exponent_complex(const Tensor& dy, const Operand& a, const Operand& b, const Tensor& y) {
  const Tensor base = as_tensor(a), exponent = as_tensor(b);
  const Tensor flat = op::logical_and(op::eq(base, Scalar(0)), op::ge(op::real(exponent), Scalar(0)));
  return op::masked_fill(op::mul(dy, op::mul(y, op::log(conjugated_base(a, y)))), flat, Scalar(0));
}

Tensor silu_complex(const Tensor& x) { return op::mul(x, op::sigmoid(x)); }
Tensor softsign_complex(const Tensor& x) { return op::div(x, op::add(op::abs(x), Scalar(1))); }
Tensor tanhshrink_complex(const Tensor& x) { return op::sub(x, op::tanh(x)); }
// From the number with the larger real part, so that nothing overflows; where that is infinite it is the sum.
Tensor logaddexp_complex(const Tensor& a, const Tensor& b) {
  const Tensor first = op::ge(op::real(a), op::real(b));
  const Tensor large = op::where(first, a, b), small = op::where(first, b, a), finite = op::isfinite(op::real(large));
  const Tensor apart = op::masked_fill(op::sub(small, large), op::logical_not(finite), Scalar(0));
  return op::where(finite, op::add(large, op::log1p(op::exp(apart))), large);
}
Tensor sinc_complex(const Tensor& x) {
  const Tensor zero = op::eq(x, Scalar(0)), turn = op::mul(op::masked_fill(x, zero, Scalar(1)), Scalar(std::numbers::pi));
  return op::masked_fill(op::div(op::sin(turn), turn), zero, Scalar(1));
}

// ---- reductions and scans

namespace {

// Where a real type is asked for, the real parts are folded.
bool becomes_real(const std::optional<DType>& dtype) { return dtype && !is_complex(*dtype); }

// f treats both parts alike: of the pairs, since these lie side by side, where the type stays.
template <class F>
Tensor of_pairs(const Tensor& x, std::optional<DType> dtype, F&& f) {
  if (is_complex(x.dtype()) && dtype.value_or(x.dtype()) == x.dtype() && x.ndim() > 0) return op::complex_of_pairs(f(op::view_as_real(x), std::nullopt));
  const Part re{false}, im{true};
  return op::complex(f(re.of(x), re(dtype)), f(im.of(x), im(dtype)));
}
using MaybeType = std::optional<DType>;

// Axes as those of x and not of its pairs.
Dims axes_of(const Tensor& x, std::optional<IntList> dim) {
  const std::vector<bool> named = axes_named(x, dim);
  Dims axes;
  for (int d = 0; d < x.ndim(); ++d)
    if (named[static_cast<size_t>(d)]) axes.push_back(d);
  return axes;
}

}  // namespace

Tensor sum_complex(const Tensor& x, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  if (becomes_real(dtype)) return op::sum(fl::to(x, dtype, {}, false), dim, keepdim, dtype);
  const Dims axes = axes_of(x, dim);
  return of_pairs(x, dtype, [&](const Tensor& part, MaybeType t) { return op::sum(part, IntList(axes), keepdim, t); });
}
Tensor mean_complex(const Tensor& x, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  if (becomes_real(dtype)) return op::mean(fl::to(x, dtype, {}, false), dim, keepdim, dtype);
  const Dims axes = axes_of(x, dim);
  return of_pairs(x, dtype, [&](const Tensor& part, MaybeType t) { return op::mean(part, IntList(axes), keepdim, t); });
}
Tensor sum_to_complex(const Tensor& x, IntList shape) {
  return of_pairs(x, {}, [&](const Tensor& part, MaybeType) {
    Dims to(shape);
    if (part.ndim() > x.ndim()) to.push_back(2);
    return op::sum_to(part, IntList(to));
  });
}
Tensor cumsum_complex(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (becomes_real(dtype)) return op::cumsum(fl::to(x, dtype, {}, false), dim, dtype);
  return of_pairs(x, dtype, [&](const Tensor& part, MaybeType t) { return op::cumsum(part, dim, t); });
}
Tensor reverse_cumsum_complex(const Tensor& x, int64_t dim) {
  return of_pairs(x, {}, [&](const Tensor& part, MaybeType) { return op::reverse_cumsum(part, dim); });
}

// Products of halves, of halves of these, ...: gradients go through the products, so that zeros need no care.
Tensor prod_complex(const Tensor& x, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  if (becomes_real(dtype)) return op::prod(fl::to(x, dtype, {}, false), dim, keepdim, dtype);
  const Tensor values = dtype ? op::cast(x, *dtype) : x;
  if (x.ndim() == 0) return op::clone(values);
  const std::vector<bool> reduced = axes_named(values, dim);
  Dims order, kept, shape;
  int64_t n = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (reduced[static_cast<size_t>(d)]) n *= x.size(d);
    else order.push_back(d), kept.push_back(x.size(d));
    if (!reduced[static_cast<size_t>(d)]) shape.push_back(x.size(d));
    else if (keepdim) shape.push_back(1);
  }
  for (int d = 0; d < x.ndim(); ++d)
    if (reduced[static_cast<size_t>(d)]) order.push_back(d);
  kept.push_back(n);
  Tensor y = op::reshape(op::permute(values, order), kept);
  if (n == 1) return op::clone(op::reshape(y, shape));
  for (; n > 1; n = (n + 1) / 2) {
    const Tensor product = op::mul(op::slice(y, -1, 0, n / 2), op::slice(y, -1, n / 2, n / 2 * 2));
    y = n % 2 ? op::cat(std::array<Tensor, 2>{product, op::slice(y, -1, n - 1, n)}, -1) : product;
  }
  if (n == 0) return op::add(op::reshape(op::sum(y, Dims{-1}), shape), Scalar(1));  // a history, too
  return op::reshape(y, shape);
}

// By doubling: after k rounds an element is the product of the 2^k up to it.
Tensor cumprod_complex(const Tensor& x, int64_t dim, std::optional<DType> dtype) {
  if (becomes_real(dtype)) return op::cumprod(fl::to(x, dtype, {}, false), dim, dtype);
  Tensor y = dtype ? op::cast(x, *dtype) : x;
  if (y.ndim() == 0) return op::clone(y);
  const int64_t n = y.size(static_cast<int>(dim));
  for (int64_t step = 1; step < n; step *= 2)
    y = op::cat(std::array<Tensor, 2>{op::slice(y, dim, 0, step), op::mul(op::slice(y, dim, step, n), op::slice(y, dim, 0, n - step))}, dim);
  return y.same(x) ? op::clone(y) : y;
}

Tensor vector_norm_complex(const Tensor& x, double ord, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  return op::vector_norm(op::abs(x), ord, dim, keepdim, dtype ? std::optional<DType>(to_real(*dtype)) : dtype);
}

std::tuple<Tensor, Tensor> var_mean_complex(const Tensor& x, std::optional<IntList> dim, double correction, bool keepdim) {
  return {op::var(x, dim, correction, keepdim), op::mean(x, dim, keepdim)};
}
std::tuple<Tensor, Tensor> std_mean_complex(const Tensor& x, std::optional<IntList> dim, double correction, bool keepdim) {
  return {op::std(x, dim, correction, keepdim), op::mean(x, dim, keepdim)};
}

// The largest real part goes out first: what is left are exponentials of at most 1.
Tensor logsumexp_complex(const Tensor& x, IntList dim, bool keepdim) {
  Tensor largest = op::amax(detached_part(x), dim, true);
  largest = op::where(op::isfinite(largest), largest, Scalar(0));
  const Tensor y = op::log(op::sum(op::exp(op::sub(x, largest)), dim, keepdim));
  return op::add(y, op::reshape(largest, y.sizes()));
}

Tensor linspace_complex(Scalar start, Scalar end, int64_t steps, std::optional<DType> dtype, std::optional<Device> device, bool grad) {
  const DType type = dtype.value_or(to_complex(default_dtype()));
  if (!is_complex(type)) raise<DTypeError>("linspace: dtype = ", type, " between ", start, " and ", end, "; expected a complex dtype");
  const Tensor y = op::complex(op::linspace(start.as_double(), end.as_double(), steps, to_real(type), device),
                               op::linspace(start.imaginary(), end.imaginary(), steps, to_real(type), device));
  if (grad) set_requires_grad(y, true);
  return y;
}

// ---- places and draws

Tensor index_put_full_complex(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  check::not_complex_for("index_put", "values", x, values);
  return op::complex_of_pairs(op::index_put_full(op::view_as_real(x), indices, op::view_as_real(complex_like(values, x)), accumulate));
}
Tensor index_put_full__complex(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  check::not_complex_for("index_put_", "values", x, values);
  op::index_put_full_(op::view_as_real(x), indices, op::view_as_real(complex_like(values, x)), accumulate);
  return x;
}

// Parts of half the variance each.
Tensor normal__complex(const Tensor& x, double mean, double std, Generator* g) {
  op::normal_(op::view_as_real(x), 0.0, std / std::numbers::sqrt2, g);
  return mean == 0 ? x : op::add_(x, Scalar(mean));
}
Tensor uniform__complex(const Tensor& x, double from, double to, Generator* g) {
  op::uniform_(op::view_as_real(x), from, to, g);
  return x;
}

// ---- products of matrices

// beta input + alpha product; what beta = 0 leaves out may be NaN.
static Tensor plus_scaled(const Tensor& input, const Tensor& product, Scalar beta, Scalar alpha) {
  const Tensor y = op::mul(product, alpha);
  return beta.as<bool>() ? op::add(y, op::mul(input, beta)) : y;
}
Tensor addmm_complex(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check::addmm_operands("addmm", input, a, b);
  return plus_scaled(input, op::mm(a, b), beta, alpha);
}
Tensor addmv_complex(const Tensor& input, const Tensor& a, const Tensor& x, Scalar beta, Scalar alpha) {
  check::addmv_operands("addmv", input, a, x);
  return plus_scaled(input, op::mv(a, x), beta, alpha);
}
Tensor baddbmm_complex(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) {
  check::baddbmm_operands("baddbmm", input, a, b);
  return plus_scaled(input, op::bmm(a, b), beta, alpha);
}

// ---- convolutions: (a + bi)(c + di) = (ac - bd) + (ad + bc) i

template <class F>
static Tensor of_four(const Tensor& x, const Tensor& weight, const Tensor& bias, F&& real_one) {
  for (const Tensor* t : {&weight, &bias})
    if (t->defined() && t->dtype() != x.dtype())
      raise<DTypeError>("convolution: x is ", x.dtype(), ", ", t == &weight ? "weight" : "bias", " is ", t->dtype(), "; expected one type");
  const Part re{false}, im{true};
  const Tensor xr = re(x), xi = im(x), wr = re(weight), wi = im(weight);
  return op::complex(op::sub(real_one(xr, wr, re(bias)), real_one(xi, wi, Tensor())), op::add(real_one(xr, wi, im(bias)), real_one(xi, wr, Tensor())));
}
Tensor convolution_complex(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList dilation, int64_t groups) {
  return of_four(x, weight, bias, [&](const Tensor& p, const Tensor& w, const Tensor& b) { return op::convolution(p, w, b, stride, padding, dilation, groups); });
}
Tensor conv_transposed_complex(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList output_padding,
                               IntList dilation, int64_t groups) {
  return of_four(x, weight, bias, [&](const Tensor& p, const Tensor& w, const Tensor& b) {
    return op::conv_transposed(p, w, b, stride, padding, output_padding, dilation, groups);
  });
}

}  // namespace fl::native
