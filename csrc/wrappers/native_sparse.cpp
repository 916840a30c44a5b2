// Sparse products that are compositions, and what ops and gradients make of sparse tensors: Note [Sparse gradients] in tensor/sparse.h.
#include <tuple>

#include "autograd/sparse.h"
#include "base/error.h"
#include "graph/recorder.h"
#include "wrappers/native.h"
#include "wrappers/sparse.h"
#include "wrappers/wrap.h"
#include "op/arange.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/div.h"
#include "op/expand.h"
#include "op/index_select.h"
#include "op/mul.h"
#include "op/ne.h"
#include "op/neg.h"
#include "op/new_zeros.h"
#include "op/nonzero.h"
#include "op/reshape.h"
#include "op/scatter_add.h"
#include "op/sparse_mm.h"
#include "op/sparse_transpose.h"

namespace fl::native {

Tensor sparse_mm_transposed(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense, IntList shape) {
  const auto [starts, rows, order] = op::sparse_transpose(crow, col, shape[0]);
  return op::sparse_mm(starts, rows, op::index_select(values, 0, order), dense);
}

// ---- gradients that are sparse

// The places are a copy: the indices are the user's, who may write them before the gradient is used.
Tensor embedding_sparse_backward(const Tensor& dy, const Tensor& indices, IntList shape, int64_t padding_idx) {
  graph::note_read("it makes a sparse gradient");
  const int64_t n = indices.numel();
  Tensor at = op::cast(op::reshape(indices, Dims{n}), DType::Int64);
  Tensor values = op::reshape(dy, Dims{n, shape[1]});
  if (padding_idx >= 0 && n > 0) {
    const Tensor kept = op::reshape(op::nonzero(op::ne(at, Scalar(padding_idx))), Dims{-1});
    if (kept.numel() < n) {
      at = op::index_select(at, 0, kept);
      values = op::index_select(values, 0, kept);
    }
  }
  return make_sparse(op::reshape(at, Dims{1, at.numel()}), std::move(values), shape, false);
}

Tensor gather_backward(const Tensor& dy, int64_t dim, const Tensor& index, IntList shape, bool sparse) {
  if (!sparse) return op::scatter_add(op::new_zeros(dy, shape), dim, index, dy);
  graph::note_read("it makes a sparse gradient");
  const int64_t n = index.numel();
  std::vector<Tensor> axes;
  Dims along;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    Tensor at = index;
    if (d != dim) {
      Dims column(index.ndim());
      for (int k = 0; k < index.ndim(); ++k) column[k] = k == d ? index.size(d) : 1;
      at = op::expand(op::reshape(op::arange(Scalar(index.size(d))), column), index.sizes());
    }
    axes.push_back(op::reshape(op::cast(at, DType::Int64), Dims{1, n}));
  }
  const Tensor places = axes.empty() ? empty(Dims{0, n}, DType::Int64) : op::cat(TensorList(axes), 0);
  return make_sparse(places, op::reshape(dy, Dims{n}), shape, false);
}

// ---- ops on sparse tensors

namespace {

template <class F>
Tensor of_values(const char* op, const Operand& a, const Operand& b, F&& f) {
  const Tensor& x = a.tensor();
  const Ref<SparseParts> parts = sparse_parts(x);
  if (!b.is_tensor()) return with_values(x, *parts, f(parts->values, b));
  const Tensor& y = b.tensor();
  if (is_sparse(y)) raise<ArgumentError>(op, ": both operands are sparse gradients; expected one of them to be dense");
  Tensor values = f(parts->values, Operand(y.ndim() == 0 ? y : at_places(y, *parts, x.sizes())));
  if (!(values.sizes() == parts->values.sizes()))
    raise<ShapeError>(op, ": a sparse tensor has shape ", x.sizes(), ", the other one ", y.sizes(), "; expected one that broadcasts to it");
  return with_values(x, *parts, std::move(values));
}

}  // namespace

Tensor mul_sparse(const Operand& a, const Operand& b) {
  const auto product = [](const Tensor& x, const Operand& y) { return op::mul(x, y); };
  return is_sparse_argument(a) ? of_values("mul", a, b, product) : of_values("mul", b, a, product);
}

Tensor div_sparse(const Operand& a, const Operand& b) {
  if (!is_sparse_argument(a)) raise<ArgumentError>("div: the divisor is a sparse tensor, whose other elements are 0; expected a dense one");
  return of_values("div", a, b, [](const Tensor& x, const Operand& y) { return op::div(x, y); });
}

Tensor neg_sparse(const Tensor& x) {
  const Ref<SparseParts> parts = sparse_parts(x);
  return with_values(x, *parts, op::neg(parts->values));
}

Tensor cast_sparse(const Tensor& x, DType dtype) { return with_type(x, dtype); }

}  // namespace fl::native
