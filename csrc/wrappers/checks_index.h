// Checks of element-wise divisors, reductions, indexing, scans and sorting. Indices are looked at before
// anything is written.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "dispatch/operand.h"
#include "tensor/tensor.h"

namespace fl::check {

// Whether the values of x can be looked at: not those of a meta tensor, nor those that a region checks later.
inline bool has_values(const Tensor& x) {
  return !x.is_meta() && !(recorder_here && recorder_here->checks_later() && x.storage().is_pending());
}
inline void one_number(const char* op, const Operand& value) {
  if (value.is_tensor() && value.tensor().ndim() != 0)
    raise<ShapeError>(op, ": value has shape ", value.tensor().sizes(), "; expected a number or a tensor without axes");
}
inline void integer_or_bool(const char* op, const Operand& x) {
  const bool real = x.is_tensor() ? is_float(x.tensor().dtype()) : x.number().is_float();
  if (!real) return;
  if (x.is_tensor()) raise<DTypeError>(op, ": an argument is ", x.tensor().dtype(), "; expected integers or bool");
  raise<DTypeError>(op, ": an argument is the number ", x.number(), "; expected integers or bool");
}
inline void integer(const char* op, const char* arg, const Tensor& x) {
  if (x.defined() && !is_integral(x.dtype())) raise<DTypeError>(op, ": ", arg, " is ", x.dtype(), "; expected integers");
}

// The first of integers of any type and strides, in row-major order, that is outside of [0, size) and not `ignored`.
struct Misfit {
  int64_t at, value;
};
// Where that is: " at element 4", " at element [1, 1]".
std::string place_of(const Misfit& misfit, const Tensor& indices);
std::optional<Misfit> first_misfit(const Tensor& indices, int64_t size, std::optional<int64_t> ignored);
// Smallest and largest of integers of any type and strides. False for none.
bool index_range(const Tensor& index, int64_t& low, int64_t& high);
// Whether all of them, which may be none, lie in [least, size); least is at most 0.
bool all_within(const Tensor& index, int64_t least, int64_t size);
// Raises for the first index outside of [least, size).
[[noreturn]] void refuse_index(const char* op, const Tensor& index, int64_t least, int64_t size, int64_t axis);
// Refuses integer division by a 0 in b, as the type that is divided in has it.
void no_zero_divisor(const char* op, const Operand& a, const Operand& b);
// Refuses negative numbers as exponents of integers, which would give 0. (Exponents in a tensor do, as in PyTorch.)
void whole_power(const char* op, const Operand& a, const Operand& b);

inline void nonempty_axis(const char* op, const Tensor& x, int64_t dim) {
  if (x.ndim() > 0 && x.size(static_cast<int>(dim)) == 0)
    raise<IndexError>(op, ": Expected reduction dim ", dim, " to have non-zero size, but x has shape ", x.sizes());
}
inline void nonempty(const char* op, const Tensor& x, std::optional<IntList> dims) {
  if (x.numel() > 0) return;
  if (!dims || dims->empty()) raise<IndexError>(op, ": Expected reduction dim to be specified for input.numel() == 0; x has shape ", x.sizes());
  for (int64_t d : *dims) nonempty_axis(op, x, d);
}
inline void nonempty(const char* op, const Tensor& x, int64_t dim) { nonempty_axis(op, x, dim); }
inline void nonempty(const char* op, const Tensor& x, std::optional<int64_t> dim) {
  if (dim) nonempty_axis(op, x, *dim);
  else nonempty(op, x, std::optional<IntList>());
}

// Numbers have a median, and those that have a NaN also where there are none.
inline void has_median(const char* op, const Tensor& x) {
  if (x.numel() == 0 && !is_float(x.dtype()))
    raise<IndexError>(op, ": x with shape ", x.sizes(), " has no elements; ", x.dtype(), " has no NaN that could say so");
}

// Indices of int64 (or int32) within [0, size), or [-size, size) where negative ones count from the end.
inline void index_values(const char* op, const Tensor& index, int64_t size, int64_t axis, bool negative) {
  if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32)
    raise<DTypeError>(op, ": Expected dtype int64 for index, but it is ", index.dtype());
  const int64_t least = negative ? -size : 0;
  if (has_values(index) && !all_within(index, least, size)) refuse_index(op, index, least, size, axis);
}
// gather and its kin: index has as many axes as x and is no larger than it off `dim`.
inline void gather_index(const char* op, const Tensor& x, int64_t dim, const Tensor& index) {
  if (index.numel() == 0 && !is_inexact(index.dtype())) return;
  if (x.ndim() != index.ndim() && !(x.ndim() <= 1 && index.ndim() <= 1))
    raise<ShapeError>(op, ": x has shape ", x.sizes(), ", index has shape ", index.sizes(), "; Index tensor must have the same number of dimensions as input tensor");
  for (int i = 0; i < std::min(x.ndim(), index.ndim()); ++i)
    if (i != dim && index.size(i) > x.size(i) && index.numel() > 0)
      raise<ShapeError>(op, ": x has shape ", x.sizes(), ", index has shape ", index.sizes(), "; expected index no larger than x off dim = ", dim);
  index_values(op, index, x.ndim() ? x.size(static_cast<int>(dim)) : 1, dim, false);
}
inline void scatter_index(const char* op, const Tensor& x, int64_t dim, const Tensor& index) { gather_index(op, x, dim, index); }
inline void scatter_index(const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  const int axes = std::max(index.ndim(), 1);  // a 0-d tensor counts as one of a single element
  bool ok = axes == std::max(src.ndim(), 1);
  for (int i = 0; ok && i < axes; ++i) ok = (index.ndim() ? index.size(i) : 1) <= (src.ndim() ? src.size(i) : 1);
  if (!ok) raise<ShapeError>(op, ": index has shape ", index.sizes(), ", src has shape ", src.sizes(), "; expected index no larger than src");
  if (src.dtype() != x.dtype()) raise<DTypeError>(op, ": x is ", x.dtype(), ", src is ", src.dtype(), "; expected one dtype");
  gather_index(op, x, dim, index);
}
inline void scatter_mode(const char* op, std::string_view reduce) {
  for (const char* known : {"sum", "prod", "mean", "amax", "amin"})
    if (reduce == known) return;
  raise<ArgumentError>(op, ": reduce = '", reduce, "'; expected 'sum', 'prod', 'mean', 'amax' or 'amin'");
}
// index_select and its kin: one axis of indices.
inline void axis_index(const char* op, const Tensor& x, int64_t dim, const Tensor& index, bool negative = false) {
  if (index.ndim() > 1) raise<IndexError>(op, ": index has shape ", index.sizes(), "; expected one axis");
  if (x.ndim() == 0 && index.numel() != 1)
    raise<ShapeError>(op, ": index has shape ", index.sizes(), ", but x has no axes; expected one index");
  index_values(op, index, x.ndim() ? x.size(static_cast<int>(dim)) : 1, dim, negative);
}
inline void axis_source(const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  bool ok = source.ndim() == x.ndim();
  for (int i = 0; ok && i < x.ndim(); ++i) ok = source.size(i) == (i == dim ? index.numel() : x.size(i));
  if (!ok)
    raise<ShapeError>(op, ": x has shape ", x.sizes(), ", index has ", index.numel(), " elements, source has shape ", source.sizes(),
                      "; expected x's shape with the number of indices along dim = ", dim);
  if (source.dtype() != x.dtype()) raise<DTypeError>(op, ": x is ", x.dtype(), ", source is ", source.dtype(), "; expected one dtype");
  axis_index(op, x, dim, index);
}
inline void flat_index(const char* op, const Tensor& x, const Tensor& index) {
  if (index.dtype() != DType::Int64) raise<DTypeError>(op, ": Expected dtype int64 for index, but it is ", index.dtype());
  if (!has_values(index) || all_within(index, -x.numel(), x.numel())) return;
  int64_t low, high;
  index_range(index, low, high);
  raise<IndexError>(op, ": index ", low < -x.numel() ? low : high, " is out of range for ", x.numel(), " elements");
}
inline void same_numel(const char* op, const Tensor& a, const Tensor& b) {
  if (a.numel() != b.numel())
    raise<ShapeError>(op, ": index has shape ", a.sizes(), ", source has shape ", b.sizes(), "; expected as many elements");
}
void may_add(const char* op, const Tensor& x, bool accumulate = true);  // what is only stored has no sums
// x[indices]: one tensor (or an undefined one, a full slice) per leading axis, all of one shape.
inline void indices(const char* op, const Tensor& x, TensorList indices) {
  if (static_cast<int>(indices.size()) > x.ndim())
    raise<IndexError>(op, ": ", indices.size(), " indices for x with shape ", x.sizes());
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i].defined()) index_values(op, indices[i], x.size(static_cast<int>(i)), static_cast<int64_t>(i), true);
}
inline void same_shape(const char* op, const Tensor& x, const Tensor& mask) {
  if (!(x.sizes() == mask.sizes()))
    raise<ShapeError>(op, ": x has shape ", x.sizes(), ", mask has shape ", mask.sizes(), "; expected one shape");
}
inline void is_bool(const char* op, const Tensor& mask) {
  if (mask.dtype() != DType::Bool) raise<DTypeError>(op, ": mask is ", mask.dtype(), "; expected bool, such as mask != 0");
}
inline void is_condition(const char* op, const Tensor& cond) {
  if (cond.dtype() != DType::Bool && cond.dtype() != DType::UInt8)
    raise<DTypeError>(op, ": condition is ", cond.dtype(), "; expected bool, such as condition != 0");
}
void enough_source(const char* op, const Tensor& mask, const Tensor& source);

inline void matrix(const char* op, const Tensor& x) {
  if (x.ndim() < 2) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected at least 2 axes");
}
inline void repeats(const char* op, const Tensor& x, IntList repeats) {
  if (static_cast<int>(repeats.size()) < x.ndim())
    raise<ShapeError>(op, ": repeats = ", repeats, ", but x has shape ", x.sizes(), "; expected at least one repeat per axis");
  const int lead = static_cast<int>(repeats.size()) - x.ndim();
  for (int i = 0; i < static_cast<int>(repeats.size()); ++i) {
    const int64_t r = repeats[static_cast<size_t>(i)];
    int64_t size;
    if (r < 0) raise<ArgumentError>(op, ": repeats = ", repeats, "; expected none below 0");
    if (i >= lead && __builtin_mul_overflow(r, x.size(i - lead), &size))
      raise<ShapeError>(op, ": repeats = ", repeats, " of x with shape ", x.sizes(), " give more elements than memory can address");
  }
}
inline void rolls(const char* op, IntList shifts, std::optional<IntList> dims) {
  const size_t n = dims && !dims->empty() ? dims->size() : 1;
  if (shifts.size() != n) raise<ArgumentError>(op, ": shifts = ", shifts, "; expected ", n, n == 1 ? " number" : " numbers, as many as dims");
}
inline void rank(const char* op, const Tensor& x, int64_t dim, int64_t k, bool from_one) {
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 1;
  if (k < (from_one ? 1 : 0) || k > n)
    raise<ArgumentError>(op, ": k = ", k, ", but dim = ", dim, " of x with shape ", x.sizes(), " has ", n, " elements");
}
inline void counts(const char* op, const Tensor& x, const Tensor& weights, int64_t minlength) {
  if (x.ndim() != 1) raise<ShapeError>(op, ": x has shape ", x.sizes(), "; expected one axis");
  integer(op, "x", x);
  if (weights.defined() && weights.numel() != x.numel())
    raise<ShapeError>(op, ": x has shape ", x.sizes(), ", weights have shape ", weights.sizes(), "; expected as many");
  constexpr int64_t kMost = int64_t{1} << 48;  // counts beyond this fit no memory
  if (minlength < 0 || minlength > kMost) raise<ArgumentError>(op, ": minlength = ", minlength, "; expected 0 <= minlength <= ", kMost);
  int64_t low, high;
  if (x.is_meta() || !index_range(x, low, high)) return;
  if (low < 0) raise<ArgumentError>(op, ": x holds ", low, "; expected no negative numbers");
  if (high >= kMost) raise<ArgumentError>(op, ": x holds ", high, "; expected numbers below ", kMost);
}
// The range of a histogram, which is that of x where both ends are equal.
void histogram_range(const char* op, const Tensor& x, double low, double high);
// Subtraction and negation of bool have two meanings; ^ and ~ have one each.
inline void no_bool(const char* op, const Tensor& x) {
  if (x.dtype() == DType::Bool)
    raise<DTypeError>(op, std::string_view(op) == "neg"        ? ": Negation, the `-` operator, on a bool tensor is not supported"
                          : std::string_view(op) == "positive" ? ": The `+` operator, on a bool tensor is not supported"
                                                               : ": Subtraction, the `-` operator, with two bool tensors is not supported",
                      "; use ~ or logical_not() to invert a mask, ^ or logical_xor() for a difference, or cast it first");
}
inline void no_bool(const char* op, const Operand& a, const Operand& b) {
  if (a.is_tensor()) no_bool(op, a.tensor());
  if (b.is_tensor()) no_bool(op, b.tensor());
}
// What scales b is a number of the result's kind, since it would be cut to one.
void check_alpha(const char* op, Scalar alpha, const Operand& a, const Operand& b);
inline void alpha_of(const char* op, Scalar alpha, const Operand& a, const Operand& b) {
  if (alpha.kind() != Scalar::Kind::Int) [[unlikely]] check_alpha(op, alpha, a, b);
}
inline void triangle(const char* op, int64_t row, int64_t col) {
  if (row < 0 || col < 0 || Extent(row) * col > int64_t{1} << 59)
    raise<ShapeError>(op, ": shape = ", Dims{row, col}, "; expected no negative size, and no more elements than memory can address");
}
inline void one_row(const char* op, const char* arg, const Tensor& x) {
  if (x.ndim() != 1) raise<ShapeError>(op, ": ", arg, " has shape ", x.sizes(), "; expected one axis");
}
inline void sorted_rows(const char* op, const Tensor& sorted, const Tensor& values) {
  if (sorted.ndim() <= 1) return;
  bool ok = sorted.ndim() == values.ndim();
  for (int i = 0; ok && i + 1 < sorted.ndim(); ++i) ok = sorted.size(i) == values.size(i);
  if (!ok)
    raise<ShapeError>(op, ": sorted_sequence has shape ", sorted.sizes(), ", values have shape ", values.sizes(),
                      "; expected one row, or the same leading axes");
}

}  // namespace fl::check
