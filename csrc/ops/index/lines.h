// Helpers of the indexing kernels. All tensors are row-major; data moves by element size.
#pragma once

#include <cstring>

#include "base/parallel.h"
#include "dispatch/axes.h"
#include "dispatch/each.h"

namespace fl::kernels {

struct Lines {  // x seen as [outer, n, inner] around one axis
  int64_t outer = 1, n = 1, inner = 1;
};
inline Lines lines_of(const Tensor& x, int64_t dim) {
  Lines l;
  if (x.ndim() == 0) return l;
  const int d = static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
  for (int i = 0; i < x.ndim(); ++i) (i < d ? l.outer : i == d ? l.n : l.inner) *= x.size(i);
  return l;
}

// y starts as x, unless it is x (in-place call).
inline void start_from(const Tensor& x, const Tensor& y) {
  if (x.data() != y.data()) copy_elements(y, x);
}

// index in int64, row-major.
inline Tensor as_int64(const Tensor& index) {
  if (index.dtype() == DType::Int64 && index.is_contiguous()) return index;
  Tensor out = empty(index.sizes(), DType::Int64, index.device());
  copy_elements(out, index);
  return out;
}

}  // namespace fl::kernels
