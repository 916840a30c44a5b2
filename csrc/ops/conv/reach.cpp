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
    // Tap t sees place o * s + t * step - p of the image from result o.
    const auto sees = [&](int64_t t) {
      const int64_t at = t * step - p, o = at >= 0 ? 0 : (-at + s - 1) / s;
      return o < y[d] && o * s + at < x[d];
    };
    int64_t begin = 0, end = taps;
    while (end > 0 && !sees(end - 1)) --end;
    while (begin < end && !sees(begin)) ++begin;
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

}  // namespace fl::conv
