// Convolution by our own algorithm, forwards and both gradients, for float and double in layout NCHW.
#pragma once

#include <cstdint>

#include "dispatch/op_types.h"

namespace fl::conv {

// Two spatial axes; one axis becomes [1, L], and three are cut into planes by the caller.
struct Conv {
  int64_t n, groups, ci, co;  // channels per group
  int64_t h, w, oh, ow, kh, kw;
  int64_t sh, sw, ph, pw, dh, dw;
  int64_t taps() const { return kh * kw; }
  // A matrix product per image. Not where a single position is left of several: its stride counts as 1 here.
  bool is_product() const { return kh * kw == 1 && sh == 1 && sw == 1 && ph == 0 && pw == 0 && h == oh && w == ow; }
};

Conv geometry(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation, int64_t groups);

template <class T>
void forward(const Conv& c, const T* x, const T* w, const T* bias, T* y);
template <class T>
void backward_data(const Conv& c, const T* dy, const T* w, T* dx);
template <class T>
void backward_weight(const Conv& c, const T* dy, const T* x, T* dw);

}  // namespace fl::conv
