// Checks that read values: divisors, indices, masks. See checks_index.h.
#include "wrappers/checks_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "dispatch/each.h"
#include "ops/index/bounds.h"
#include "ops/index/kept.h"
#include "ops/reduce/reduce.h"
#include "wrappers/wrap.h"

namespace fl::check {

namespace {

// x without what repeats its elements: axes of stride 0 have one.
Tensor without_repeats(const Tensor& x) {
  Dims sizes = x.sizes();
  bool repeats = false;
  for (int i = 0; i < x.ndim(); ++i)
    if (x.stride(i) == 0 && sizes[i] > 1) sizes[i] = 1, repeats = true;
  return repeats ? alias(x, sizes, x.strides(), x.offset()) : x;
}

}  // namespace

static Tensor dense(const Tensor& index) {
  Tensor x = without_repeats(index);
  if (is_dense(x)) return x;
  Tensor copy = empty_strided(x.sizes(), dense_strides_like(x), x.dtype());
  copy_elements(copy, x);
  return copy;
}

bool index_range(const Tensor& index, int64_t& low, int64_t& high) {
  if (index.numel() == 0) return false;
  const Tensor x = dense(index);  // the order does not matter
  low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::lowest();
  const char* data = x.data<char>();
  CallMutex merging;
  parallel_for(0, x.numel(), 32768, [&](int64_t begin, int64_t end) {
    int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::lowest();
    kernels::widen_bounds(data + begin * static_cast<int64_t>(x.item_bytes()), x.dtype(), end - begin, &least, &most);
    const std::lock_guard lock(merging);
    low = std::min(low, least), high = std::max(high, most);
  });
  return true;
}

bool all_within(const Tensor& index, int64_t least, int64_t size) { return index.numel() == 0 || kernels::all_lie_within(dense(index), least, size); }

std::optional<Misfit> first_misfit(const Tensor& indices, int64_t size, std::optional<int64_t> ignored) {
  Tensor x = indices;
  if (!x.is_contiguous()) {
    x = empty(indices.sizes(), indices.dtype());
    copy_elements(x, indices);
  }
  const char* data = x.data<char>();
  const int64_t n = x.numel(), item = static_cast<int64_t>(x.item_bytes());
  int64_t first = n;
  CallMutex merging;
  parallel_for(0, n, 32768, [&](int64_t begin, int64_t end) {
    // To ignore what fits anyway is to ignore nothing.
    int64_t at = begin;
    if (size > 0 || ignored) at += kernels::first_outside(data + begin * item, x.dtype(), end - begin, size, ignored.value_or(0));
    if (at == end) return;
    const std::lock_guard lock(merging);
    first = std::min(first, at);
  });
  if (first == n) return {};
  int64_t value;
  convert_elements(&value, DType::Int64, data + first * item, x.dtype(), 1);
  return Misfit{first, value};
}

std::string place_of(const Misfit& misfit, const Tensor& indices) {
  if (indices.ndim() == 0) return "";
  if (indices.ndim() == 1) return text(" at element ", misfit.at);
  Dims at = indices.sizes();
  int64_t rest = misfit.at;
  for (int i = indices.ndim() - 1; i >= 0; --i) {
    at[i] = rest % indices.size(i);
    rest /= indices.size(i);
  }
  return text(" at element ", at);
}

void refuse_index(const char* op, const Tensor& index, int64_t least, int64_t size, int64_t axis) {
  Tensor x = empty(index.sizes(), DType::Int64);
  copy_elements(x, index);
  auto* values = x.data<int64_t>();
  for (int64_t i = 0; i < x.numel(); ++i)
    if (values[i] < least || values[i] >= size)
      raise<IndexError>(op, ": index ", values[i], " is out of bounds for dimension ", axis, " with size ", size, place_of({i, values[i]}, x), "; expected ",
                        least, " <= index < ", size);
  raise<IndexError>(op, ": an index is out of bounds for dimension ", axis, " with size ", size);  // another thread wrote it
}

void no_zero_divisor(const char* op, const Operand& a, const Operand& b) {
  if (!b.is_tensor()) {  // with a float on either side the result is inf or nan
    const bool whole = !b.number().is_float() && a.is_tensor() && !is_float(a.tensor().dtype());
    if (whole && b.number().as_int() == 0) raise<ArgumentError>(op, ": integer division by 0");
    return;
  }
  Tensor x = b.tensor();
  const DType type = dt::promote(a, b);
  if (is_float(type) || x.is_meta() || x.numel() == 0) return;
  const bool narrowed = item_size(type) < x.item_bytes();
  if (narrowed) {  // a 0-d divisor of 256 is 0 beside uint8
    const Tensor divisor = empty(x.sizes(), type);
    copy_elements(divisor, x);
    x = divisor;
  }
  const Tensor all = empty(IntList(), DType::Bool);
  kernels::reduce({.fold = Fold::All}, DType::Int64, x, {}, all);
  if (*all.data<Truth>()) return;
  if (narrowed) raise<ArgumentError>(op, ": integer division by a divisor of ", b.tensor().dtype(), " that is 0 as ", type, "; cast the other operand to a wider type");
  raise<ArgumentError>(op, ": integer division by a divisor that holds 0");
}

void whole_power(const char* op, const Operand& a, const Operand& b) {
  if (b.is_tensor() || b.number().is_float() || !a.is_tensor() || is_inexact(a.tensor().dtype())) return;
  if (const int64_t exponent = b.number().as_int(); exponent < 0)
    raise<ArgumentError>(op, ": Integers to negative integer powers are not allowed: exponent = ", exponent, " of a base of ", a.tensor().dtype(),
                         "; expected >= 0: write ", exponent, ".0, or cast the base, for a result of floats");
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

void may_add(const char* op, const Tensor& x, bool accumulate) {
  if (accumulate && is_rare(x.dtype()) && !is_wide_unsigned(x.dtype())) refuse_rare(op, x.dtype());
}

}  // namespace fl::check
