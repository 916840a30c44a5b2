// Shape rules of linear algebra: the last two axes are a matrix, those before it a batch.
#pragma once

#include <algorithm>
#include <string_view>

#include "tensor/tensor.h"

namespace fl::shape {

// The batch alone.
inline Dims batch_of(const Tensor& A) {
  Dims out = A.sizes();
  out.pop_back(), out.pop_back();
  return out;
}
// The batch, and one number for each row or column, of which there are fewer.
inline Dims batch_and_rank(const Tensor& A) {
  Dims out = batch_of(A);
  out.push_back(std::min(A.size(-2), A.size(-1)));
  return out;
}
inline Dims batch_and(const Tensor& A, int64_t rows, int64_t columns) {
  Dims out = batch_of(A);
  out.push_back(rows), out.push_back(columns);
  return out;
}
inline Dims first_columns(const Tensor& A, int64_t columns) { return batch_and(A, A.size(-2), columns); }
inline Dims pivot_order(const Tensor& pivots, int64_t rows) {
  Dims out = pivots.sizes();
  out.back() = rows;
  return out;
}
inline Dims qr_q(const Tensor& A, std::string_view mode) {
  if (mode == "r") return Dims{0};
  return batch_and(A, A.size(-2), mode == "complete" ? A.size(-2) : std::min(A.size(-2), A.size(-1)));
}
inline Dims qr_r(const Tensor& A, std::string_view mode) {
  return batch_and(A, mode == "complete" ? A.size(-2) : std::min(A.size(-2), A.size(-1)), A.size(-1));
}
inline Dims eigenvectors(const Tensor& A, bool vectors) { return vectors ? A.sizes() : Dims{0}; }
inline Dims svd_u(const Tensor& A, bool full_matrices, bool vectors) {
  if (!vectors) return Dims{0};
  return batch_and(A, A.size(-2), full_matrices ? A.size(-2) : std::min(A.size(-2), A.size(-1)));
}
inline Dims svd_v(const Tensor& A, bool full_matrices, bool vectors) {
  if (!vectors) return Dims{0};
  return batch_and(A, full_matrices ? A.size(-1) : std::min(A.size(-2), A.size(-1)), A.size(-1));
}
// [.., P, M] and [.., R, M] -> [.., P, R]
inline Dims pairs(const Tensor& x) {
  const Extent n = x.size(-2);
  Dims out;
  for (int d = 0; d + 2 < x.ndim(); ++d) out.push_back(x.size(d));
  out.push_back(n * (n - 1) / 2);
  return out;
}
inline Dims distances(const Tensor& x1, const Tensor& x2) { return batch_and(x1, x1.size(-2), x2.size(-2)); }

}  // namespace fl::shape
