// Taps of a convolution that see something but padding.
#pragma once

#include "dispatch/op_types.h"

namespace fl::conv {

// Taps [begin, end) along each spatial axis, and what the convolution by these alone has for its padding and dilation.
struct Reach {
  Dims begin, end, padding, dilation;
  bool none = false;  // some axis has no tap that sees the image: results are the bias
  bool all = true;    // nothing to leave out
  bool few = false;   // results: a copy of the weight costs more than its further taps
  Tensor part(const Tensor& w) const;       // a view
  Tensor part_copy(const Tensor& w) const;  // row-major, as kernels read weights
};
// For an image x, weight w, and result y. Paddings stay what they were or become smaller, never negative.
Reach reach(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation);

// Zeroes the taps of a weight's gradient that no result sees anything with, also those between others, where a stride steps over the image: oneDNN's
// kernels with tiles (AMX) leave them as they were.
void clear_unseen(const Dims& x, const Dims& y, IntList stride, IntList padding, IntList dilation, const Tensor& dw);

}  // namespace fl::conv
