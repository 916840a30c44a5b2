#include "base/error.h"
#include "dispatch/each.h"
#include "graph/recorder.h"
#include "wrappers/checks.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "native/rand.h"
#include "native/randn.h"
#include "op/add.h"
#include "op/amin.h"
#include "op/bernoulli.h"
#include "op/bernoulli_.h"
#include "op/binomial_draws.h"
#include "op/broadcast_to.h"
#include "op/copy_.h"
#include "op/dropout_mask.h"
#include "op/empty.h"
#include "op/empty_like.h"
#include "op/mul.h"
#include "op/normal_.h"
#include "op/random_between_.h"
#include "op/randperm_.h"
#include "op/uniform_.h"
#include "op/zeros_like.h"

namespace fl::native {
namespace {

using OptType = std::optional<DType>;
using OptDevice = std::optional<Device>;

template <class Fill>
Tensor drawn(IntList size, DType dtype, OptDevice device, bool grad, Fill&& fill) {
  Tensor y = op::empty(size, dtype, device);
  {
    NoGrad off;
    fill(y);
  }
  if (grad) set_requires_grad(y, true);
  return y;
}

Tensor integers(int64_t low, int64_t high, IntList size, Generator* generator, DType dtype, OptDevice device, bool grad) {
  if (low >= high) raise<ArgumentError>("randint: random_ expects 'from' to be less than 'to', but got low = ", low, ", high = ", high);
  return drawn(size, dtype, device, grad, [&](const Tensor& y) { op::random_between_(y, low, high, generator); });
}

}  // namespace

Tensor rand(IntList size, Generator* g, OptType dtype, OptDevice device, bool grad) {
  return drawn(size, dtype.value_or(default_dtype()), device, grad, [&](const Tensor& y) { op::uniform_(y, 0.0, 1.0, g); });
}
Tensor randn(IntList size, Generator* g, OptType dtype, OptDevice device, bool grad) {
  return drawn(size, dtype.value_or(default_dtype()), device, grad, [&](const Tensor& y) { op::normal_(y, 0.0, 1.0, g); });
}
Tensor randint(int64_t high, IntList size, Generator* g, OptType dtype, OptDevice device, bool grad) {
  return integers(0, high, size, g, dtype.value_or(DType::Int64), device, grad);
}
Tensor randint(int64_t low, int64_t high, IntList size, Generator* g, OptType dtype, OptDevice device, bool grad) {
  return integers(low, high, size, g, dtype.value_or(DType::Int64), device, grad);
}
Tensor rand_like(const Tensor& x, Generator* generator, OptType dtype, OptDevice device, bool grad) {
  return native::rand(x.sizes(), generator, dtype.value_or(x.dtype()), device.value_or(x.device()), grad);
}
Tensor randn_like(const Tensor& x, Generator* generator, OptType dtype, OptDevice device, bool grad) {
  return native::randn(x.sizes(), generator, dtype.value_or(x.dtype()), device.value_or(x.device()), grad);
}
Tensor randint_like(const Tensor& x, int64_t high, Generator* generator, OptType dtype, OptDevice device) {
  return integers(0, high, x.sizes(), generator, dtype.value_or(x.dtype()), device.value_or(x.device()), false);
}
Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Generator* generator, OptType dtype, OptDevice device) {
  return integers(low, high, x.sizes(), generator, dtype.value_or(x.dtype()), device.value_or(x.device()), false);
}
Tensor randperm(int64_t n, Generator* g, OptType dtype, OptDevice device) {
  if (n < 0) raise<ArgumentError>("randperm: n = ", n, "; expected n >= 0");
  return drawn(Dims{n}, dtype.value_or(DType::Int64), device, false, [&](const Tensor& y) {
    if (n > 0) check::draws_fit("randperm", y, 0, n);
    const int64_t whole = y.dtype() == DType::Float16 ? 1 << 11 : y.dtype() == DType::BFloat16 ? 1 << 8 : int64_t{1} << (y.dtype() == DType::Float32 ? 24 : 53);
    if (is_float(y.dtype()) && n - 1 > whole)
      raise<ArgumentError>("randperm: n = ", n, "; ", y.dtype(), " holds whole numbers up to ", whole, " only; draw integers and cast what may be rounded");
    op::randperm_(y, g);
  });
}
namespace {

void require_deviations(const Tensor& std) {
  if (std.is_meta() || std.numel() == 0 || is_complex(std.dtype())) return;
  graph::note_read("normal looks at its deviations");
  const Tensor found = op::amin(alias(std), std::nullopt, false);
  double least;
  convert_elements(&least, DType::Float64, found.data(), found.dtype(), 1);
  if (!(least >= 0)) raise<ArgumentError>("normal: std has an element ", least, "; normal expects all elements of std >= 0.0");
}

}  // namespace

Tensor normal(const Tensor& mean, const Tensor& std, Generator* g) {
  require_deviations(std);
  Tensor z = op::add(op::zeros_like(mean), op::zeros_like(std));
  op::normal_(z, 0.0, 1.0, g);
  return op::add(op::mul(z, std), mean);
}
Tensor normal(const Tensor& mean, double std, Generator* g) {
  Tensor z = op::empty_like(mean);
  op::normal_(z, 0.0, std, g);
  return op::add(z, mean);
}
Tensor normal(double mean, const Tensor& std, Generator* g) {
  require_deviations(std);
  Tensor z = op::empty_like(std);
  op::normal_(z, 0.0, 1.0, g);
  return op::add(op::mul(z, std), mean);
}
Tensor normal(double mean, double std, IntList size, Generator* g, OptType dtype, OptDevice device, bool grad) {
  return drawn(size, dtype.value_or(default_dtype()), device, grad, [&](const Tensor& y) { op::normal_(y, mean, std, g); });
}

Tensor binomial(const Tensor& count, const Tensor& prob, Generator* g) {
  if (count.dtype() != prob.dtype())
    raise<DTypeError>("binomial: count is ", count.dtype(), ", but prob is ", prob.dtype(), "; expected one type");
  const Tensor both = op::add(op::zeros_like(count), op::zeros_like(prob));
  return op::binomial_draws(op::broadcast_to(count, both.sizes()), op::broadcast_to(prob, both.sizes()), g);
}

Tensor dropout(const Tensor& x, double p, bool training, bool inplace) {
  if (!(p >= 0 && p <= 1)) raise<ArgumentError>("dropout: p = ", p, "; expected 0 <= p <= 1");
  if (!training || p == 0) return x;
  if (!is_inexact(x.dtype())) raise<DTypeError>("dropout: x is ", x.dtype(), ", which can not hold what is left times 1 / (1 - p); expected a float");
  const Tensor mask = op::dropout_mask(x, p);
  return inplace ? op::mul_(x, mask) : op::mul(x, mask);
}

Tensor bernoulli(const Tensor& x, double p, Generator* g) { return op::bernoulli_(op::empty_like(x), p, g); }

Tensor bernoulli_(const Tensor& x, const Tensor& p, Generator* g) {
  return op::copy_(x, op::bernoulli(op::broadcast_to(p, x.sizes()), g), false);
}

}  // namespace fl::native
