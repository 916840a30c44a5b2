#include <cmath>
#include <vector>

#include "dispatch/checks_index.h"
#include "dispatch/each.h"
#include "ops/reduce/reduce.h"

namespace fl::check {

bool index_range(const Tensor& index, int64_t& low, int64_t& high) {
  if (index.numel() == 0) return false;
  int64_t bounds[2];
  const Tensor low_out = empty(IntList(), DType::Int64), high_out = empty(IntList(), DType::Int64);
  kernels::reduce({.fold = Fold::Min}, DType::Int64, index, {}, low_out);
  kernels::reduce({.fold = Fold::Max}, DType::Int64, index, {}, high_out);
  bounds[0] = *low_out.data<int64_t>();
  bounds[1] = *high_out.data<int64_t>();
  low = bounds[0];
  high = bounds[1];
  return true;
}

void no_zero_divisor(const char* op, const Operand& a, const Operand& b) {
  if (!b.is_tensor()) {  // with a float on either side the result is inf or nan
    const bool whole = !b.number().is_float() && a.is_tensor() && !is_float(a.tensor().dtype());
    if (whole && b.number().as_int() == 0) raise<ArgumentError>(op, ": integer division by 0");
    return;
  }
  const Tensor& x = b.tensor();
  const bool floats = is_float(x.dtype()) || (a.is_tensor() ? is_float(a.tensor().dtype()) : a.number().is_float());
  if (floats || x.is_meta() || x.numel() == 0) return;
  const Tensor all = empty(IntList(), DType::Bool);
  kernels::reduce({.fold = Fold::All}, DType::Int64, x, {}, all);
  if (!*all.data<bool>()) raise<ArgumentError>(op, ": integer division by a divisor that holds 0");
}

void histogram_range(const char* op, const Tensor& x, double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) raise<ArgumentError>(op, ": min = ", low, ", max = ", high, "; expected a finite range");
  if (low > high) raise<ArgumentError>(op, ": min = ", low, ", max = ", high, "; expected min <= max");
  if (low < high || x.is_meta() || !is_float(x.dtype())) return;
  const Tensor wide = empty(x.sizes(), DType::Float64);
  copy_elements(wide, x);
  const double* v = wide.data<double>();
  for (int64_t i = 0; i < wide.numel(); ++i)
    if (!std::isfinite(v[i])) raise<ArgumentError>(op, ": x holds ", v[i], ", so that its range is not finite; give min and max");
}

void enough_source(const char* op, const Tensor& mask, const Tensor& source) {
  if (mask.is_meta()) return;
  const Tensor n = empty(IntList(), DType::Int64);
  kernels::reduce({.fold = Fold::NonZero}, DType::Int64, mask, {}, n);
  if (*n.data<int64_t>() > source.numel())
    raise<ShapeError>(op, ": mask selects ", *n.data<int64_t>(), " elements, source has ", source.numel());
}

}  // namespace fl::check
