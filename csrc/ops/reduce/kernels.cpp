// The reductions of ops/reduce.yaml over the fold engine. Shapes, dtypes and axes are checked already.
#include <cmath>
#include <vector>

#include "base/scalar.h"
#include "dispatch/each.h"
#include "ops/reduce/reduce.h"

namespace fl::kernels {
namespace {

using Dimensions = std::optional<IntList>;

// float for the 16-bit floats, int64 for every integer and bool.
DType fold_type(DType t) {
  if (t == DType::Float64) return DType::Float64;
  return is_float(t) ? DType::Float32 : DType::Int64;
}
DType float_type(DType t) { return t == DType::Float64 || t == DType::Int64 ? DType::Float64 : DType::Float32; }

// Elements folded into each output.
double count_of(const Tensor& x, const Tensor& y) {
  return y.numel() ? static_cast<double>(x.numel()) / static_cast<double>(y.numel()) : 0;
}

void mean_and_deviation(const Tensor& x, Dimensions dims, double correction, bool root, const Tensor& mean, const Tensor& y) {
  const DType type = float_type(x.dtype());
  const double n = count_of(x, y);
  reduce({.fold = Fold::Sum, .finish = Finish::Divide, .q = n}, type, x, dims, mean);
  reduce({.fold = Fold::Deviation, .finish = root ? Finish::SqrtDivide : Finish::Divide, .q = std::max(0.0, n - correction),
          .center = &mean},
         type, x, dims, y);
}
Tensor scratch(const Tensor& y) { return empty(y.sizes(), DType::Float64); }

}  // namespace

void sum(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  reduce({.fold = Fold::Sum}, fold_type(y.dtype()), x, dim, y);
}
void nansum(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  reduce({.fold = Fold::NanSum}, fold_type(y.dtype()), x, dim, y);
}
void prod(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  reduce({.fold = Fold::Prod}, fold_type(y.dtype()), x, dim, y);
}
void mean(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  reduce({.fold = Fold::Sum, .finish = Finish::Divide, .q = count_of(x, y)}, float_type(y.dtype()), x, dim, y);
}
void amax(const Tensor& x, Dimensions dim, bool, const Tensor& y) { reduce({.fold = Fold::Max}, fold_type(x.dtype()), x, dim, y); }
void amin(const Tensor& x, Dimensions dim, bool, const Tensor& y) { reduce({.fold = Fold::Min}, fold_type(x.dtype()), x, dim, y); }
void max_all(const Tensor& x, const Tensor& y) { amax(x, {}, false, y); }
void min_all(const Tensor& x, const Tensor& y) { amin(x, {}, false, y); }
void any(const Tensor& x, Dimensions dim, bool, const Tensor& y) { reduce({.fold = Fold::Any}, fold_type(x.dtype()), x, dim, y); }
void all(const Tensor& x, Dimensions dim, bool, const Tensor& y) { reduce({.fold = Fold::All}, fold_type(x.dtype()), x, dim, y); }
void count_nonzero(const Tensor& x, Dimensions dim, const Tensor& y) {
  reduce({.fold = Fold::NonZero}, fold_type(x.dtype()), x, dim, y);
}

void var(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y) {
  mean_and_deviation(x, dim, correction, false, scratch(y), y);
}
void std_dev(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y) {
  mean_and_deviation(x, dim, correction, true, scratch(y), y);
}
void var_mean(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y, const Tensor& mean) {
  const Tensor exact = scratch(y);
  mean_and_deviation(x, dim, correction, false, exact, y);
  copy_elements(mean, exact);
}
void std_mean(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y, const Tensor& mean) {
  const Tensor exact = scratch(y);
  mean_and_deviation(x, dim, correction, true, exact, y);
  copy_elements(mean, exact);
}

void vector_norm(const Tensor& x, double ord, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  const DType type = float_type(y.dtype());
  if (ord == 0) return reduce({.fold = Fold::NonZero}, type, x, dim, y);
  if (ord == 1) return reduce({.fold = Fold::Abs}, type, x, dim, y);
  if (ord == 2) return reduce({.fold = Fold::Square, .finish = Finish::Sqrt}, type, x, dim, y);
  if (std::isinf(ord)) return reduce({.fold = ord > 0 ? Fold::AbsMax : Fold::AbsMin}, type, x, dim, y);
  reduce({.fold = Fold::Power, .finish = Finish::Root, .p = ord, .q = ord}, type, x, dim, y);
}

void logsumexp(const Tensor& x, IntList dim, bool, const Tensor& y) {
  const DType type = float_type(y.dtype());
  const Tensor top = scratch(y);
  reduce({.fold = Fold::Max}, type, x, dim, top);
  double* t = top.data<double>();
  for (int64_t i = 0; i < top.numel(); ++i)
    if (!std::isfinite(t[i])) t[i] = 0;
  reduce({.fold = Fold::Exp, .finish = Finish::LogPlusCenter, .center = &top}, type, x, dim, y);
}

// x summed over the axes along which `shape` was broadcast to give x's shape.
void sum_to(const Tensor& x, IntList shape, const Tensor& y) {
  bool reduced[kMaxAxes] = {};
  const int lead = x.ndim() - static_cast<int>(shape.size());
  for (int i = 0; i < x.ndim(); ++i) reduced[i] = i < lead || shape[static_cast<size_t>(i - lead)] != x.size(i);
  reduce_mask({.fold = Fold::Sum}, fold_type(y.dtype()), x, reduced, y);
}

// The view of g that repeats it along the reduced axes.
Tensor expand_reduced(const Tensor& g, IntList shape, Dimensions dims, bool keepdim) {
  const int n = static_cast<int>(shape.size());
  Dims strides(n);
  const bool all = !dims || dims->empty();
  int at = 0;
  for (int i = 0; i < n; ++i) {
    bool gone = all;
    if (!all)
      for (int64_t d : *dims) gone |= (d < 0 ? d + n : d) == i;
    strides[i] = gone ? 0 : g.strides()[at];
    if (!gone || (keepdim && g.ndim() == n)) ++at;
  }
  return alias(g, Dims(shape), std::move(strides), g.offset());
}

// d prod / dx times dy: the product of the others, also where some factor is 0.
void prod_gradient(const Tensor& dy, const Tensor& x, Dimensions dim, bool keepdim, const Tensor& dx) {
  const Tensor kept = alias(dy);
  Tensor product = empty(dy.sizes(), DType::Float64), zeros = empty(dy.sizes(), DType::Float64);
  fill_elements(product, Scalar(1.0));
  fill_elements(zeros, Scalar(0.0));
  const Tensor product_of = expand_reduced(product, x.sizes(), dim, keepdim), zeros_of = expand_reduced(zeros, x.sizes(), dim, keepdim);
  const int n = x.ndim();
  std::vector<double> values(static_cast<size_t>(x.numel())), gradient(static_cast<size_t>(dy.numel()));
  convert_elements(values.data(), DType::Float64, x.data(), x.dtype(), x.numel());
  convert_elements(gradient.data(), DType::Float64, dy.data(), dy.dtype(), dy.numel());
  double *p = product.data<double>(), *z = zeros.data<double>();
  for (int pass = 0; pass < 2; ++pass) {
    Dims at(n);
    int64_t out = 0;
    for (double& v : values) {
      if (pass == 0) {
        if (v == 0) z[out] += 1;
        else p[out] *= v;
      } else {
        v = gradient[static_cast<size_t>(out)] * (z[out] == 0 ? p[out] / v : z[out] == 1 && v == 0 ? p[out] : 0.0);
      }
      for (int i = n - 1; i >= 0; --i) {
        out += product_of.strides()[i];
        if (++at[i] < x.size(i)) break;
        out -= at[i] * product_of.strides()[i];
        at[i] = 0;
      }
    }
  }
  convert_elements(dx.data(), dx.dtype(), values.data(), DType::Float64, x.numel());
}

}  // namespace fl::kernels
