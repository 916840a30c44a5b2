// Shape rules of reductions, scans and sorting that need more than fl::shape::reduce.
#pragma once

#include <algorithm>
#include <optional>

#include "tensor/tensor.h"

namespace fl::shape {

// `dim` with k elements instead.
inline Dims with_size(const Tensor& x, int64_t dim, int64_t k) {
  Dims out = x.sizes();
  if (!out.empty()) out[static_cast<int>(dim < 0 ? dim + out.size() : dim)] = k;
  return out;
}
// As expand_reduced gives it back.
inline Dims given_shape(IntList shape) { return Dims(shape); }

}  // namespace fl::shape
