// Shape rules of sparse matrices by compressed rows.
#pragma once

#include "tensor/tensor.h"

namespace fl::shape {

// A product's rows are the sparse matrix's, its columns the dense one's.
inline Dims sparse_mm(const Tensor& crow, const Tensor& dense) {
  Dims out = dense.sizes();
  out[0] = Extent(crow.numel()) - 1;
  return out;
}
// Where each of so many rows begins, and where the last ends.
inline Dims sparse_starts(int64_t rows) { return Dims{Extent(rows) + 1}; }

}  // namespace fl::shape
