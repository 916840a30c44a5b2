// Checks of alignments of sequences, and of grids of places in pictures.
#pragma once

#include "base/error.h"
#include "tensor/tensor.h"
#include "wrappers/checks_nn.h"

namespace fl::check {

inline void lengths_between(const char* op, const char* name, const Tensor& lengths, int64_t n, int64_t most) {
  if (lengths.dtype() != DType::Int64) raise<DTypeError>(op, ": ", name, " is ", lengths.dtype(), "; expected int64");
  if (lengths.ndim() != 1 || lengths.size(0) != n) raise<ShapeError>(op, ": ", name, " has shape ", lengths.sizes(), "; expected [", n, "]");
  if (!has_values(lengths)) return;
  if (const auto misfit = first_misfit(lengths, most + 1, {}))
    raise<ArgumentError>(op, ": ", name, "[", misfit->at, "] = ", misfit->value, "; expected 0 to ", most);
}

inline void ctc_arguments(const char* op, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                          int64_t blank) {
  axes(op, "log_probs", log_probs, 3), axes(op, "targets", targets, 2);
  if (!is_float(log_probs.dtype())) raise<DTypeError>(op, ": log_probs is ", log_probs.dtype(), "; expected floating point numbers");
  if (targets.dtype() != DType::Int64) raise<DTypeError>(op, ": targets is ", targets.dtype(), "; expected int64");
  const int64_t t = log_probs.size(0), n = log_probs.size(1), c = log_probs.size(2);
  if (targets.size(0) != n) two_shapes(op, "log_probs", log_probs, "targets", targets, "one row of targets for each sequence");
  if (blank < 0 || blank >= c) raise<ArgumentError>(op, ": blank = ", blank, "; expected 0 <= blank < ", c, ", the number of classes");
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
  if ((axes != 2 && axes != 3) || grid.ndim() != x.ndim() || grid.size(0) != x.size(0) || grid.size(-1) != axes)
    two_shapes(op, "input", x, "grid", grid, "[N, C, H, W] with [N, H', W', 2], or [N, C, D, H, W] with [N, D', H', W', 3]");
  if (!is_float(x.dtype())) raise<DTypeError>(op, ": input is ", x.dtype(), "; expected floating point numbers");
  one_dtype(op, "input", x, "grid", grid);
  for (int d = 2; d < x.ndim(); ++d)
    if (x.size(d) == 0) raise<ShapeError>(op, ": input has shape ", x.sizes(), "; expected at least one element along every axis of a picture");
  if (mode < 0 || mode > 2 || (mode == 2 && axes == 3))
    raise<ArgumentError>(op, ": mode = ", mode, "; expected bilinear or nearest, or bicubic of pictures with two axes");
  if (padding_mode < 0 || padding_mode > 2) raise<ArgumentError>(op, ": padding_mode = ", padding_mode, "; expected 0, 1 or 2");
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
