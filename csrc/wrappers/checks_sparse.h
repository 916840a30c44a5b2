// Checks of sparse matrices by compressed rows. What depends on the values of indices is the kernels' to check.
#pragma once

#include "base/error.h"
#include "tensor/tensor.h"

namespace fl::check {

inline void sparse_rows(const char* op, const Tensor& crow, const Tensor& col, int64_t columns) {
  if (crow.dtype() != DType::Int64 || col.dtype() != DType::Int64 || crow.ndim() != 1 || col.ndim() != 1 || crow.size(0) < 1)
    raise<ShapeError>(op, ": crow is ", crow.dtype(), " ", crow.sizes(), ", col ", col.dtype(), " ", col.sizes(), "; expected int64 [rows + 1] and int64 [elements]");
  if (columns < 0) raise<ShapeError>(op, ": columns = ", columns, "; expected columns >= 0");
}
inline void sparse_type(const char* op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || (a.dtype() != DType::Float32 && a.dtype() != DType::Float64))
    raise<DTypeError>(op, ": the sparse matrix is ", a.dtype(), ", the dense one ", b.dtype(), "; expected both float32 or both float64");
}
inline void sparse_product(const char* op, const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense) {
  sparse_rows(op, crow, col, 0);
  sparse_type(op, values, dense);
  if (values.sizes() != col.sizes() || dense.ndim() != 2)
    raise<ShapeError>(op, ": values have shape ", values.sizes(), ", col ", col.sizes(), ", dense ", dense.sizes(), "; expected a value for each column, and a matrix");
}
inline void sparse_sampled(const char* op, const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b) {
  sparse_rows(op, crow, col, 0);
  sparse_type(op, a, b);
  if (a.ndim() != 2 || b.ndim() != 2 || a.size(1) != b.size(1) || a.size(0) != crow.size(0) - 1)
    raise<ShapeError>(op, ": a has shape ", a.sizes(), ", b ", b.sizes(), ", crow ", crow.sizes(), "; expected [rows, k], [columns, k] and [rows + 1]");
}
inline void sparse_positions(const char* op, const Tensor& row, int64_t rows) {
  if (row.dtype() != DType::Int64 || row.ndim() != 1 || rows < 0)
    raise<ShapeError>(op, ": row is ", row.dtype(), " ", row.sizes(), ", rows = ", rows, "; expected int64 [elements] and rows >= 0");
}

inline void sparse_indices(const char* op, const Tensor& indices, IntList shape) {
  if (indices.dtype() != DType::Int64 || indices.ndim() != 2 || indices.size(0) != static_cast<int64_t>(shape.size()))
    raise<ShapeError>(op, ": indices are ", indices.dtype(), " ", indices.sizes(), ", shape = ", shape, "; expected int64 [axes, places] and a size for each axis");
}

}  // namespace fl::check
