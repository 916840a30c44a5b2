// Note [Taps out of reach]
// A window of 3 x 3 padded by 1 has one tap that sees an image of 1 x 1, and so has one dilated by 36 over 28 x 28 (the last stages of networks whose
// images are small; the pyramids of segmentation). The rest multiplies zeros, each by all channels: the convolution is done by the taps within reach,
// which also bounds what the kernels copy (a padded image) by the image instead of by the dilation. Taps are left out at the ends of each axis, so that
// what is left is a window like any other. Its weight is a copy, for whose price the few results of a single image may as well see all taps.
#include "ops/conv/reach.h"

#include <algorithm>

#include "dispatch/each.h"

namespace fl::conv {

constexpr int64_t kFewResults = 8, kFewPlaces = 4096;  // of a padded image

namespace {
// Whether a result o < y has place o * stride + at of an image of x.
bool sees(int64_t at, int64_t stride, int64_t x, int64_t y) {
  const int64_t o = at >= 0 ? 0 : (-at + stride - 1) / stride;
  return o < y && o * stride + at < x;
}
}  // namespace

Tensor Reach::part(const Tensor& w) const {
  Dims sizes = w.sizes();
  int64_t offset = w.offset();
  for (int d = 0; d < begin.size(); ++d) sizes[d + 2] = end[d] - begin[d], offset += begin[d] * w.strides()[d + 2];
  return alias(w, sizes, w.strides(), offset);
}
Tensor Reach::part_copy(const Tensor& w) const {
  (void)w.data();  // row-major from here on
  const Tensor from = part(w), copy = empty(from.sizes(), w.dtype());
  copy_elements(copy, from);
  return copy;
}

Reach reach(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation) {
  Reach r{};
  int64_t results = y[0], places = 1;
  for (int d = 2; d < x.size(); ++d) {
    const int64_t s = stride[d - 2], p = padding[d - 2], step = dilation[d - 2], taps = w[d];
    const auto tap_sees = [&](int64_t t) { return sees(t * step - p, s, x[d], y[d]); };
    int64_t begin = 0, end = taps;
    while (end > 0 && !tap_sees(end - 1)) --end;
    while (begin < end && !tap_sees(begin)) ++begin;
    r.none = r.none || begin == end;
    results *= y[d], places *= std::min(kFewPlaces, x[d] + p) + 1;
    // Neither end may cut the image: a padding below zero.
    begin = std::min(begin, p / step);
    while (end < taps && (y[d] - 1) * s + (end - 1) * step + 1 < x[d] + p) ++end;
    end = std::max(end, begin + 1);
    r.all = r.all && begin == 0 && end == taps;
    r.begin.push_back(begin), r.end.push_back(end);
    r.padding.push_back(p - begin * step);
    r.dilation.push_back(end - begin == 1 ? 1 : step);
  }
  r.all = r.all && !r.none;
  r.few = !r.none && results < kFewResults && places < kFewPlaces;
  return r;
}

void clear_unseen(const Dims& x, const Dims& y, IntList stride, IntList padding, IntList dilation, const Tensor& dw) {
  if (dw.numel() == 0) return;
  for (int d = 2; d < dw.ndim(); ++d)
    for (int64_t t = 0; t < dw.size(d); ++t) {
      if (sees(t * dilation[d - 2] - padding[d - 2], stride[d - 2], x[d], y[d])) continue;
      Dims sizes = dw.sizes();
      sizes[d] = 1;
      fill_elements(alias(dw, sizes, dw.strides(), dw.offset() + t * dw.stride(d)), Scalar(0));
    }
}

}  // namespace fl::conv
