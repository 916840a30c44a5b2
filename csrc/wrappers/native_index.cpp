// Indexing, sorting and counting ops that are compositions with a choice in them.
#include "base/error.h"
#include "wrappers/checks.h"
#include "wrappers/checks_index.h"
#include "wrappers/native.h"
#include "wrappers/shapes.h"
#include "wrappers/wrap.h"
#include "op/constant_pad.h"
#include "op/add.h"
#include "op/any.h"
#include "op/arange.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/clamp_min.h"
#include "op/clone.h"
#include "op/contiguous_copy.h"
#include "op/copy_.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/expand.h"
#include "op/full.h"
#include "op/gather.h"
#include "op/gt.h"
#include "op/index_get.h"
#include "op/index_put_full.h"
#include "op/index_put_full_.h"
#include "op/index_select.h"
#include "op/logical_and.h"
#include "op/lt.h"
#include "op/logical_xor.h"
#include "op/masked_fill.h"
#include "op/masked_scatter_same.h"
#include "op/masked_select_same.h"
#include "op/mul.h"
#include "op/narrow.h"
#include "op/new_zeros.h"
#include "op/nonzero.h"
#include "op/put.h"
#include "op/repeat.h"
#include "op/reshape.h"
#include "op/roll.h"
#include "op/scatter.h"
#include "op/scatter_add.h"
#include "op/scatter_count.h"
#include "op/scatter_reduce.h"
#include "op/searchsorted_rows.h"
#include "op/select.h"
#include "op/sort.h"
#include "op/sub.h"
#include "op/unbind.h"
#include "op/where.h"
#include "op/zeros_like.h"

namespace fl {

bool is_leading_mask(const Tensor& mask, const Tensor& x) {
  if (mask.dtype() != DType::Bool || mask.ndim() == 0 || mask.ndim() > x.ndim()) return false;
  for (int i = 0; i < mask.ndim(); ++i)
    if (mask.size(i) != x.size(i)) return false;
  return true;
}

void add_positions(const char* name, std::vector<Tensor>& to, const Tensor& x, const Tensor& index) {
  const int axis = static_cast<int>(to.size());
  if (!index.defined() || index.dtype() == DType::Int64) return to.push_back(index);
  if (is_inexact(index.dtype())) raise<IndexError>(name, ": tensors used as indices must be long, int, byte or bool tensors, but this is ", index.dtype());
  if (index.dtype() != DType::Bool && index.dtype() != DType::UInt8) return to.push_back(op::cast(index, DType::Int64));
  if (index.ndim() == 0) raise<IndexError>(name, ": a mask without axes; expected one with the sizes of the axes that it stands for");
  if (index.ndim() > x.ndim() - axis)
    raise<IndexError>(name, ": a mask of shape ", index.sizes(), " has more axes than are left of shape ", x.sizes());
  for (int i = 0; i < index.ndim(); ++i)
    if (index.size(i) != x.size(axis + i))
      raise<IndexError>(name, ": The shape of the mask ", index.sizes(), " at index ", i, " does not match the shape of the indexed tensor ", x.sizes(), " at index ", axis + i);
  const Tensor where = op::nonzero(index);
  for (int i = 0; i < index.ndim(); ++i) to.push_back(op::contiguous_copy(op::select(where, 1, i)));
}

}  // namespace fl

namespace fl::native {
namespace {

// The shape to which all of them broadcast.
Dims common_shape(const char* name, TensorList xs) {
  Dims out;
  for (const Tensor& x : xs) {
    if (!x.defined()) continue;
    while (out.size() < x.ndim()) out.insert(0, 1);
    for (int i = 1; i <= x.ndim(); ++i) {
      int64_t& have = out[out.size() - i];
      const int64_t size = x.size(x.ndim() - i);
      if (have == 1) have = size;
      else if (size != 1 && size != have)
        raise<IndexError>(name, ": shape mismatch: indexing tensors could not be broadcast together with shapes ", out, " and ", x.sizes());
    }
  }
  return out;
}
Tensor int64_tensor(IntList sizes, const Tensor& like) { return new_output("index", sizes, DType::Int64, like.device()); }

}  // namespace

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim) {
  // From the end where below 0, as in indexing.
  auto counted = [&](const Tensor& index, int64_t n) { return is_inexact(index.dtype()) ? index : op::where(op::lt(index, 0), op::add(index, n), index); };
  if (!dim) return op::gather(op::reshape(x, Dims{-1}), 0, counted(op::reshape(indices, Dims{-1}), x.numel()));
  if (x.ndim() != indices.ndim())
    raise<ShapeError>("take_along_dim: x has shape ", x.sizes(), ", indices have shape ", indices.sizes(), "; expected the same number of axes");
  Dims xs = x.sizes(), is = indices.sizes();
  for (int i = 0; i < x.ndim(); ++i)
    if (i != *dim) xs[i] = is[i] = std::max(xs[i], is[i]);
  return op::gather(op::expand(x, xs), *dim, counted(op::expand(indices, is), xs[static_cast<int>(*dim)]));
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const Tensor both[] = {x, mask};
  const Dims shape = common_shape("masked_select", both);
  return op::masked_select_same(op::expand(x, shape), op::expand(mask, shape));
}
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const Tensor both[] = {x, mask};
  const Dims shape = common_shape("masked_scatter", both);
  return op::masked_scatter_same(op::expand(x, shape), op::expand(mask, shape), source);
}
Tensor masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const Tensor both[] = {x, mask};
  if (const Dims shape = common_shape("masked_scatter_", both); !(shape == x.sizes())) return op::copy_(x, masked_scatter(x, mask, source));  // which refuses it
  return op::masked_scatter_same_(x, op::expand(mask, x.sizes()), source);
}

namespace {

std::vector<Tensor> broadcast_indices(const char* name, const Tensor& x, TensorList indices) {
  std::vector<Tensor> at;
  for (const Tensor& index : indices) add_positions(name, at, x, index);
  if (static_cast<int>(at.size()) > x.ndim())
    raise<IndexError>(name, ": ", at.size(), " indices for x with shape ", x.sizes(), "; expected at most ", x.ndim());
  const Dims common = common_shape(name, at);
  for (Tensor& i : at)
    if (i.defined() && !(i.sizes() == common)) i = op::expand(i, common);
  return at;
}
Tensor values_for(const Tensor& x, TensorList at, const Tensor& values) {
  Tensor v = values.dtype() == x.dtype() ? values : op::cast(values, x.dtype());
  if (x.is_meta() && v.ndim() == 0) v = empty(Dims{}, x.dtype(), x.device(), "index_put_");  // a number may come from anywhere
  const Dims shape = fl::shape::index_get(x, at);
  while (v.ndim() > shape.size() && v.size(0) == 1) v = op::select(v, 0, 0);  // leading ones may go
  return v.sizes() == shape ? v : op::expand(v, shape);
}

}  // namespace

namespace {

// Whether what lies there is a masked_select, and one number put there a masked_fill, which need no positions.
bool is_one_mask(const Tensor& x, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && is_leading_mask(indices[0], x);
}

}  // namespace

Tensor index(const Tensor& x, TensorList indices) {
  if (!requires_grad(x) && is_one_mask(x, indices) && indices[0].ndim() == x.ndim()) return op::masked_select_same(x, indices[0]);
  return op::index_get(x, broadcast_indices("index", x, indices));
}
Tensor index_put(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  check::not_complex_for("index_put", "values", x, values);
  const std::vector<Tensor> at = broadcast_indices("index_put", x, indices);
  return op::index_put_full(x, at, values_for(x, at, values), accumulate);
}
Tensor index_put_(const Tensor& x, TensorList indices, const Tensor& values, bool accumulate) {
  check::not_complex_for("index_put_", "values", x, values);
  if (!accumulate && values.numel() == 1 && !requires_grad(x) && !requires_grad(values) && is_one_mask(x, indices)) {
    Dims shape = indices[0].sizes();
    while (shape.size() < x.ndim()) shape.push_back(1);
    const Tensor value = op::reshape(values, Dims{});
    return op::masked_fill_(x, op::reshape(indices[0], shape), value.dtype() == x.dtype() ? value : op::cast(value, x.dtype()));
  }
  const std::vector<Tensor> at = broadcast_indices("index_put_", x, indices);
  return op::index_put_full_(x, at, values_for(x, at, values), accumulate);
}
Tensor index_put_backward(const Tensor& dy, TensorList indices, bool accumulate) {
  if (accumulate) return dy;
  return op::index_put_full(dy, indices, op::new_zeros(dy, fl::shape::index_get(dy, indices)), false);
}

std::string_view reduction_of_scatter(std::string_view reduce) {
  if (reduce == "add") return "sum";
  if (reduce == "multiply") return "prod";
  raise<ArgumentError>("scatter: reduce = '", reduce, "'; expected 'add' or 'multiply'");
}
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  return op::scatter_reduce(x, dim, index, src, reduction_of_scatter(reduce), true);
}
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value, std::string_view reduce) {
  check::fits("scatter", "value", x.dtype(), value);
  return native::scatter(x, dim, index, op::full(index.sizes(), value, x.dtype(), x.device(), false), reduce);
}

Tensor scatter_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  return op::scatter_reduce_(x, dim, index, src, reduction_of_scatter(reduce), true);
}
Tensor scatter_(const Tensor& x, int64_t dim, const Tensor& index, Scalar value, std::string_view reduce) {
  check::fits("scatter_", "value", x.dtype(), value);
  return native::scatter_(x, dim, index, op::full(index.sizes(), value, x.dtype(), x.device(), false), reduce);
}

Tensor put_backward(const Tensor& dy, const Tensor& index, const Tensor& source, bool accumulate) {
  return accumulate ? dy : op::put(dy, index, op::zeros_like(source), false);
}
Tensor roll_back(const Tensor& x, IntList shifts, std::optional<IntList> dims) {
  Dims opposite{IntList(shifts)};
  for (int i = 0; i < opposite.size(); ++i) {  // the least of all numbers has no opposite, but what is left of it along an axis has
    const int64_t n = dims && x.ndim() > 0 ? x.size(static_cast<int>((*dims)[static_cast<size_t>(i)])) : x.numel();
    opposite[i] = -(opposite[i] % std::max<int64_t>(n, 1));
  }
  return op::roll(x, opposite, dims);
}

Tensor tile(const Tensor& x, IntList dims) {
  Dims repeats{IntList(dims)};
  while (repeats.size() < x.ndim()) repeats.insert(0, 1);
  return op::repeat(x, repeats);
}
namespace {

[[noreturn]] void too_many_repeats(const Tensor& x, int64_t repeats) {
  raise<ShapeError>("repeat_interleave: repeats = ", repeats, " of x with shape ", x.sizes(), " give more elements than memory can address");
}
void expect_total(int64_t total, std::optional<int64_t> output_size) {
  if (output_size && *output_size != total) raise<ArgumentError>("repeat_interleave: output_size = ", *output_size, ", but repeats give ", total);
}

}  // namespace

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim, std::optional<int64_t> output_size) {
  if (repeats < 0) raise<ArgumentError>("repeat_interleave: repeats = ", repeats, "; expected none below 0");
  if (!dim) return repeat_interleave(op::reshape(x, Dims{-1}), repeats, 0, output_size);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(*dim)) : 1;
  int64_t total;
  if (__builtin_mul_overflow(n, repeats, &total)) too_many_repeats(x, repeats);
  expect_total(total, output_size);
  Tensor index = int64_tensor(Dims{total}, x);
  if (!index.is_meta())
    for (int64_t *to = index.data<int64_t>(), i = 0; i < n; ++i) to = std::fill_n(to, repeats, i);
  return op::index_select(x, *dim, index);
}
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim, std::optional<int64_t> output_size) {
  if (!dim) return repeat_interleave(op::reshape(x, Dims{-1}), repeats, 0, output_size);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(*dim)) : 1;
  if (repeats.ndim() > 1 || (repeats.numel() != 1 && repeats.numel() != n))
    raise<ShapeError>("repeat_interleave: repeats have shape ", repeats.sizes(), ", but dim = ", *dim, " of x with shape ", x.sizes(), " has ", n, " elements");
  if (is_inexact(repeats.dtype()) || repeats.dtype() == DType::Bool) raise<DTypeError>("repeat_interleave: repeats are ", repeats.dtype(), "; expected integers");
  if (repeats.is_meta()) raise<DeviceError>("repeat_interleave: repeats is on meta; expected a tensor with elements, which decide the size of the result");
  const Tensor counts = contiguous_for_kernel(cast_for_kernel(repeats, DType::Int64));
  graph::note_read("the size of a result follows from values");
  const int64_t* c = counts.data<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) {
    if (c[i] < 0) raise<ArgumentError>("repeat_interleave: repeats hold ", c[i], "; expected none below 0");
    if (__builtin_add_overflow(total, c[i], &total)) too_many_repeats(x, c[i]);
  }
  if (counts.numel() == 1) return repeat_interleave(x, c[0], dim, output_size);
  expect_total(total, output_size);
  Tensor index = int64_tensor(Dims{total}, x);
  if (!index.is_meta())
    for (int64_t *to = index.data<int64_t>(), i = 0; i < n; ++i) to = std::fill_n(to, c[i], i);
  return op::index_select(x, *dim, index);
}
Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  if (repeats.ndim() != 1) raise<ShapeError>("repeat_interleave: repeats have shape ", repeats.sizes(), "; expected one axis (or a tensor before them, whose elements are repeated)");
  return repeat_interleave(op::arange(Scalar(repeats.size(0)), repeats.dtype(), repeats.device()), repeats, 0, output_size);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  if (n < 0) raise<ArgumentError>("diff: n = ", n, "; expected at least 0");
  if (x.ndim() == 0) raise<ShapeError>("diff: the tensor has no axes; expected at least one");
  std::vector<Tensor> parts;
  for (const Tensor& part : {prepend, x, append})
    if (part.defined()) parts.push_back(part);
  if (n == 0) return op::clone(x);
  Tensor y = parts.size() == 1 ? x : op::cat(parts, dim);
  const int64_t whole = y.size(static_cast<int>(dim));
  if (n >= whole) return op::narrow(y, dim, 0, 0);  // nothing is left, and nothing is computed for it
  for (int64_t size = whole; size > whole - n; --size) {
    const Tensor later = op::narrow(y, dim, 1, size - 1), earlier = op::narrow(y, dim, 0, size - 1);
    y = y.dtype() == DType::Bool ? op::logical_xor(later, earlier) : op::sub(later, earlier);
  }
  return y;
}

std::vector<Tensor> where(const Tensor& cond) {
  return op::unbind(op::nonzero(cond.ndim() ? cond : op::reshape(cond, Dims{1})), 1);
}

Tensor msort(const Tensor& x) { return std::get<0>(op::sort(x, 0)); }

namespace {
// The gradient of a source of that shape, of which the index named a part: what it did not came to nothing.
Tensor with_unread(const Tensor& part, IntList shape) {
  if (part.sizes() == Dims(shape)) return part;
  Dims pad;
  for (int i = part.ndim() - 1; i >= 0; --i) pad.push_back(0), pad.push_back(shape[static_cast<size_t>(i)] - part.size(i));
  return op::constant_pad(part, pad);
}
}  // namespace

Tensor scatter_src_backward(const Tensor& dy, int64_t dim, const Tensor& index, IntList shape) {
  return with_unread(op::gather(dy, dim, index), shape);
}
std::tuple<Tensor, Tensor> scatter_reduce_backward(const Tensor& dy, const Tensor& x, int64_t dim, const Tensor& index,
                                                   const Tensor& src, std::string_view reduce, bool include_self,
                                                   const Tensor& y) {
  if (src.sizes() != index.sizes()) {
    Tensor read = src;
    for (int i = 0; i < index.ndim(); ++i) read = op::narrow(read, i, 0, index.size(i));
    const auto [dx, ds] = scatter_reduce_backward(dy, x, dim, index, read, reduce, include_self, y);
    return {dx, with_unread(ds, src.sizes())};
  }
  Tensor dx = dy, ds;
  if (reduce == "sum") {
    ds = op::gather(dy, dim, index);
  } else if (reduce == "mean") {
    const Tensor share = op::cast(op::div(dy, op::clamp_min(op::scatter_count(dy, dim, index, include_self), 1)), dy.dtype());
    dx = share;
    ds = op::gather(share, dim, index);
  } else if (reduce == "prod") {
    // The product of the other factors: of all but x, of all but the only zero in src, or y / src.
    const Tensor no_self = op::masked_fill(x, op::eq(x, 0), 1);
    dx = op::div(op::mul(dy, op::scatter_reduce(no_self, dim, index, src, reduce, include_self)), no_self);
    const Tensor zero = op::eq(src, 0);
    const Tensor zeros = op::gather(op::scatter_add(op::zeros_like(x), dim, index, op::cast(zero, x.dtype())), dim, index);
    const Tensor only = op::logical_and(zero, op::eq(zeros, 1));
    // Of several zeros at one place each is a factor of the others' derivatives, which the quotient below does not know: they would be 0.
    if (grad_enabled() && requires_grad(src) && check::has_values(src) && item_of(op::any(op::logical_and(zero, op::gt(zeros, 1)))).as<bool>())
      raise<AutogradError>("scatter_reduce: 'prod': Double backward is unsupported for src when more than one zero in src is scattered to the same position; "
                           "leave create_graph=True out, or multiply nonzero factors");
    const Tensor others = op::scatter_reduce(x, dim, index, op::masked_fill(src, only, 1), reduce, include_self);
    ds = op::where(only, op::gather(op::mul(dy, others), dim, index),
                   op::div(op::gather(op::mul(dy, y), dim, index), op::masked_fill(src, zero, 1)));
  } else {
    const Tensor from_self = op::eq(x, y), from_src = op::cast(op::eq(src, op::gather(y, dim, index)), dy.dtype());
    Tensor ties = op::scatter_add(include_self ? op::cast(from_self, dy.dtype()) : op::zeros_like(dy), dim, index, from_src);
    const Tensor share = op::div(dy, op::clamp_min(ties, 1));
    dx = op::where(from_self, share, 0);
    ds = op::mul(op::gather(share, dim, index), from_src);
    if (!include_self) dx = op::where(op::eq(op::scatter_count(dy, dim, index, false), 0), dy, dx);
  }
  if (!include_self) dx = op::scatter(dx, dim, index, Scalar(0));
  return {dx, ds};
}

// A number as a tensor of the type in which it is compared with x: it stays weak, as beside any op.
static Tensor beside(const Tensor& x, const Operand& value) {
  if (value.is_tensor()) return value.tensor();
  return op::full(IntList(), value.number(), dt::promote(x, value), x.device(), false);
}

Tensor searchsorted(const Tensor& sorted_sequence, const Operand& values, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter) {
  if (side && *side != "left" && *side != "right")
    raise<ArgumentError>("searchsorted: side = '", *side, "'; expected 'left' or 'right'");
  if (right && side == "left")
    raise<ArgumentError>("searchsorted: side = 'left' and right = True contradict each other; give one of them");
  Tensor sorted = sorted_sequence;
  if (sorter.defined()) {
    if (!(sorter.sizes() == sorted.sizes()))
      raise<ShapeError>("searchsorted: sorter has shape ", sorter.sizes(), "; expected that of sorted_sequence, ", sorted.sizes());
    sorted = op::gather(sorted, -1, sorter);
  }
  return op::searchsorted_rows(sorted, beside(sorted, values), out_int32, right || side == "right");
}

Tensor bucketize(const Operand& x, const Tensor& boundaries, bool out_int32, bool right) {
  check::one_row("bucketize", "boundaries", boundaries);
  return op::searchsorted_rows(boundaries, beside(boundaries, x), out_int32, right);
}

}  // namespace fl::native
