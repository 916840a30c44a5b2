// Checks of alignments of sequences, and of grids of places in pictures.
#pragma once

#include <limits>

#include "base/error.h"
#include "tensor/tensor.h"
#include "wrappers/checks_nn.h"

namespace fl::check {

inline void lengths_between(const char* op, const char* name, const Tensor& lengths, int64_t n, int64_t most) {
  if (lengths.dtype() != DType::Int64) raise<DTypeError>(op, ": ", name, " is ", lengths.dtype(), "; expected int64");
  if (lengths.ndim() != 1 || lengths.size(0) != n) raise<ShapeError>(op, ": ", name, " has shape ", lengths.sizes(), "; expected [", n, "]");
  if (!has_values(lengths)) return;
  if (const auto misfit = first_misfit(lengths, most + 1, {}))
    raise<ArgumentError>(op, ": Expected ", name, misfit->value < 0 ? " to have value at least 0" : text(" to have value at most ", most), ", but got value ", misfit->value, " at element ", misfit->at);
}

inline void ctc_arguments(const char* op, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                          int64_t blank) {
  axes(op, "log_probs", log_probs, 3), axes(op, "targets", targets, 2);
  if (!is_float(log_probs.dtype())) raise<DTypeError>(op, ": log_probs is ", log_probs.dtype(), "; expected floating point numbers");
  if (targets.dtype() != DType::Int64) raise<DTypeError>(op, ": targets is ", targets.dtype(), "; expected int64");
  const int64_t t = log_probs.size(0), n = log_probs.size(1), c = log_probs.size(2);
  if (targets.size(0) != n) two_shapes(op, "log_probs", log_probs, "targets", targets, "one row of targets for each sequence");
  if (blank < 0 || blank >= c) raise<ArgumentError>(op, ": blank must be in label range: blank = ", blank, "; expected 0 <= blank < ", c, ", the number of classes");
  lengths_between(op, "input_lengths", input_lengths, n, t);
  lengths_between(op, "target_lengths", target_lengths, n, targets.size(1));
  indices_below(op, targets, c);
}
inline void ctc_gradients(const char* op, const Tensor& dy, const Tensor& y, const Tensor& log_probs) {
  for (const Tensor* x : {&dy, &y})
    if (x->ndim() != 1 || x->size(0) != log_probs.size(1) || x->dtype() != log_probs.dtype())
      raise<ShapeError>(op, ": a gradient or loss is ", x->dtype(), " ", x->sizes(), "; expected ", log_probs.dtype(), " [", log_probs.size(1), "]");
}

inline void grid_arguments(const char* op, const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding_mode) {
  const int axes = x.ndim() - 2;
  if ((axes == 2 || axes == 3) && grid.ndim() == x.ndim()) {
    if (grid.size(0) != x.size(0))
      raise<ShapeError>(op, ": expected grid and input to have same batch size, but got input with sizes ", x.sizes(), " and grid with sizes ", grid.sizes());
    if (grid.size(-1) != axes)
      raise<ShapeError>(op, ": expected grid to have size ", axes, " in last dimension, but got grid with sizes ", grid.sizes(), " for input with sizes ", x.sizes());
  } else {
    two_shapes(op, "input", x, "grid", grid, "[N, C, H, W] with [N, H', W', 2], or [N, C, D, H, W] with [N, D', H', W', 3]");
  }
  if (!is_float(x.dtype())) raise<DTypeError>(op, ": input is ", x.dtype(), "; expected floating point numbers");
  one_dtype(op, "input", x, "grid", grid);
  for (int d = 2; d < x.ndim(); ++d)
    if (x.size(d) == 0) raise<ShapeError>(op, ": input has shape ", x.sizes(), "; expected at least one element along every axis of a picture");
  if (mode < 0 || mode > 2 || (mode == 2 && axes == 3))
    raise<ArgumentError>(op, ": mode = ", mode, "; expected bilinear or nearest, or bicubic of pictures with two axes");
  if (padding_mode < 0 || padding_mode > 2) raise<ArgumentError>(op, ": padding_mode = ", padding_mode, "; expected 0, 1 or 2");
}
// Indices [taps, results] into an axis of `size` elements, and as many weights.
inline void mix_taps(const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& weight, int64_t size) {
  if (x.dtype() != DType::Float32 && x.dtype() != DType::Float64) raise<DTypeError>(op, ": x is ", x.dtype(), "; expected float32 or float64");
  if (x.ndim() == 0 || size < 0 || size > std::numeric_limits<int32_t>::max())
    raise<ShapeError>(op, ": x has shape ", x.sizes(), ", the axis ", size, " elements; expected an axis of at most 2^31 - 1 elements");
  if (index.ndim() != 2 || !(index.sizes() == weight.sizes())) two_shapes(op, "index", index, "weight", weight, "one form [taps, results]");
  if (index.dtype() != DType::Int64) raise<DTypeError>(op, ": index is ", index.dtype(), "; expected int64");
  one_dtype(op, "x", x, "weight", weight);
  index_values(op, index, size, dim, false);
}
inline void mix_arguments(const char* op, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& weight) {
  mix_taps(op, x, dim, index, weight, x.ndim() ? x.size(static_cast<int>(dim)) : 0);
}
inline void spread_arguments(const char* op, const Tensor& dy, int64_t dim, const Tensor& index, const Tensor& weight, IntList size) {
  bool ok = static_cast<int>(size.size()) == dy.ndim() && dy.ndim() > 0;
  for (int d = 0; ok && d < dy.ndim(); ++d) ok = d == dim || dy.size(d) == size[d];
  if (!ok) raise<ShapeError>(op, ": dy has shape ", dy.sizes(), ", size = ", size, "; expected them to differ along dim = ", dim, " alone");
  mix_taps(op, dy, dim, index, weight, size[static_cast<size_t>(dim)]);
  if (dy.size(static_cast<int>(dim)) != index.size(1)) two_shapes(op, "dy", dy, "index", index, "one result per column of index");
}
inline void grid_gradients(const char* op, const Tensor& dy, const Tensor& x, const Tensor& grid) {
  bool ok = dy.ndim() == x.ndim() && dy.dtype() == x.dtype() && dy.size(0) == x.size(0) && dy.size(1) == x.size(1);
  for (int d = 2; ok && d < x.ndim(); ++d) ok = dy.size(d) == grid.size(d - 1);
  if (!ok) two_shapes(op, "dy", dy, "grid", grid, "one gradient for each place and channel");
}
inline void grid_second_gradients(const char* op, const Tensor& gx, const Tensor& ggrid, const Tensor& x, const Tensor& grid) {
  if (!(gx.sizes() == x.sizes()) || gx.dtype() != x.dtype()) two_shapes(op, "gx", gx, "input", x, "one form");
  if (!(ggrid.sizes() == grid.sizes()) || ggrid.dtype() != grid.dtype()) two_shapes(op, "ggrid", ggrid, "grid", grid, "one form");
}

}  // namespace fl::check
