// Windows of planes as columns.
#pragma once

#include "base/dims.h"

namespace fl {

// Of both axes of a plane.
struct Windows {
  IntList kernel, dilation, padding, stride;

  int64_t span(int i) const { return Extent(dilation[static_cast<size_t>(i)]) * Extent(kernel[static_cast<size_t>(i)] - 1) + Extent(1); }
};
// How many lie along axis i of a plane that has so many places there; 0: it is too small for one.
inline int64_t windows_along(int i, int64_t places, const Windows& w) {
  const auto d = static_cast<size_t>(i);
  const int64_t padded = Extent(places) + Extent(w.padding[d]) + Extent(w.padding[d]);
  return padded < w.span(i) ? 0 : (padded - w.span(i)) / w.stride[d] + 1;
}

}  // namespace fl
