// Sparse products that are compositions.
#include <tuple>

#include "wrappers/native.h"
#include "op/index_select.h"
#include "op/sparse_mm.h"
#include "op/sparse_transpose.h"

namespace fl::native {

Tensor sparse_mm_transposed(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense, IntList shape) {
  const auto [starts, rows, order] = op::sparse_transpose(crow, col, shape[0]);
  return op::sparse_mm(starts, rows, op::index_select(values, 0, order), dense);
}

}  // namespace fl::native
