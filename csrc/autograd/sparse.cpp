#include "autograd/sparse.h"

#include "base/error.h"
#include "graph/program.h"
#include "op/add.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/clone.h"
#include "op/contiguous_copy.h"
#include "op/expand.h"
#include "op/index.h"
#include "op/index_put.h"
#include "op/index_put_.h"
#include "op/index_select.h"
#include "op/new_full.h"
#include "op/new_zeros.h"
#include "op/nonzero.h"
#include "op/real.h"
#include "op/select.h"
#include "op/sum.h"
#include "op/transpose.h"

namespace fl {
namespace {

std::vector<Tensor> axes_of(const SparseParts& parts) {
  std::vector<Tensor> out;
  for (int64_t d = 0; d < parts.axes(); ++d) out.push_back(op::select(parts.indices, 0, d));
  return out;
}

void same_sizes(const Tensor& a, const Tensor& b) {
  if (!(a.sizes() == b.sizes())) raise<ShapeError>("add: a sparse tensor has shape ", a.sizes(), ", the other one ", b.sizes(), "; expected one shape");
}

void same_axes(const SparseParts& a, const SparseParts& b, const Tensor& x) {
  if (a.axes() != b.axes())
    raise<ShapeError>("add: sparse tensors of shape ", x.sizes(), " have ", a.axes(), " and ", b.axes(),
                      " axes with indices; expected as many in both, or a dense tensor");
}

Tensor joined(const Tensor& a, const Tensor& b, int64_t dim) {
  const Tensor both[] = {a, b};
  return op::cat(TensorList(both), dim);
}

// Every place once, of more places than there are elements.
Ref<SparseParts> each_once(const SparseParts& parts, IntList sizes) {
  const std::vector<Tensor> axes = axes_of(parts);
  const Tensor yes = op::new_full(parts.values, Dims{}, Scalar(true), DType::Bool);
  const Tensor there = op::index_put(op::new_zeros(parts.values, sizes.subspan(0, static_cast<size_t>(parts.axes())), DType::Bool), axes, yes, false);
  const Tensor whole = op::index_put(op::new_zeros(parts.values, sizes), axes, parts.values, true);
  Tensor places = op::contiguous_copy(op::transpose(op::nonzero(there), 0, 1));
  std::vector<Tensor> at;
  for (int64_t d = 0; d < parts.axes(); ++d) at.push_back(op::select(places, 0, d));
  return make_ref<SparseParts>(std::move(places), op::index(whole, at), true);
}

}  // namespace

Tensor with_values(const Tensor& x, const SparseParts& parts, Tensor values) {
  return make_sparse(parts.indices, std::move(values), x.sizes(), parts.coalesced);
}

Tensor with_type(const Tensor& x, DType dtype) {
  const Ref<SparseParts> parts = sparse_parts(x);
  Tensor values = parts->values;
  if (is_complex(values.dtype()) && !is_complex(dtype)) values = op::real(values);
  if (values.dtype() != dtype) values = op::cast(values, dtype);
  return values.same(parts->values) ? x : with_values(x, *parts, std::move(values));
}

Tensor owned_sparse(Tensor x) {
  if (!is_sparse(x)) return x;  // a sum with a dense one is new
  const Ref<SparseParts> parts = sparse_parts(x);
  const bool unseen = x.ref()->use_count() == 1 && x.storage().owners() == 1 && is_unseen(parts->values);
  return unseen ? x : make_sparse(op::clone(parts->indices), op::clone(parts->values), x.sizes(), parts->coalesced);
}

Tensor sparse_sum(const Tensor& a, const Tensor& b) {
  same_sizes(a, b);
  if (!is_sparse(a)) return sparse_sum(b, a);
  const Ref<SparseParts> x = sparse_parts(a);
  if (is_sparse(b)) {
    const Ref<SparseParts> y = sparse_parts(b);
    same_axes(*x, *y, a);
    if (y->places() == 0) return a;
    if (x->places() == 0) return b;
    return make_sparse(joined(x->indices, y->indices, 1), joined(x->values, y->values, 0), a.sizes(), false);
  }
  if (x->axes() == 0) return op::add(b, op::sum(x->values, Dims{0}, false, std::nullopt));
  return op::index_put(b, axes_of(*x), x->values, true);
}

void write_sparse(const char* op, const Tensor& x, Tensor indices, Tensor values, bool coalesced) {
  const Ref<SparseParts> before = sparse_parts(x);
  graph::note_object_change(before->indices);
  graph::note_object_change(before->values);
  set_sparse_parts(x, std::move(indices), std::move(values), coalesced);
  bump_version(op, x);
}

bool sparse_sum_into(const Tensor& x, const Tensor& grad) {
  same_sizes(x, grad);
  if (!is_sparse(grad)) return false;
  const Ref<SparseParts> y = sparse_parts(grad);
  if (!is_sparse(x)) {
    if (y->axes() == 0) op::add_(x, op::sum(y->values, Dims{0}, false, std::nullopt));
    else op::index_put_(x, axes_of(*y), y->values, true);
    return true;
  }
  const Ref<SparseParts> mine = sparse_parts(x);
  same_axes(*mine, *y, x);
  auto sum = make_ref<SparseParts>(joined(mine->indices, y->indices, 1), joined(mine->values, y->values, 0), mine->places() == 0 && y->coalesced);
  if (!sum->coalesced && sum->axes() > 0 && sum->places() > x.numel()) sum = each_once(*sum, x.sizes());
  write_sparse("add_", x, sum->indices, sum->values, sum->coalesced);
  return true;
}

Tensor values_or_dense(const Tensor& x, IntList sizes) {
  const Ref<SparseParts> parts = sparse_parts(x);
  if (static_cast<int>(sizes.size()) < x.ndim() - parts->axes() + 1) return parts->values;
  return sparse_sum(x, op::new_zeros(parts->values, x.sizes()));
}

Tensor like_sparse_gradient(const char* what, const Tensor& grad, const Tensor& like) {
  if (!is_sparse(grad))
    raise<AutogradError>(what, ": a dense gradient of shape ", grad.sizes(), " for a sparse one; expected a sparse tensor (to_sparse(), or .grad.to_dense() after backward)");
  if (!(grad.sizes() == like.sizes()) || place_of(grad) != place_of(like))
    raise<AutogradError>(what, ": a sparse gradient of shape ", grad.sizes(), " on ", place_of(grad), " for a tensor of shape ", like.sizes(), " on ",
                         place_of(like), "; expected equal shapes and devices");
  return with_type(grad, like.dtype());
}

Tensor at_places(const Tensor& x, const SparseParts& parts, IntList sizes) {
  const int dense = static_cast<int>(sizes.size()) - parts.axes();
  if (x.ndim() <= dense) return x;  // along the values
  if (parts.axes() == 1) {
    if (x.ndim() == static_cast<int>(sizes.size()) && x.size(0) == 1) return op::select(x, 0, 0);
    return op::index_select(x, 0, op::select(parts.indices, 0, 0));
  }
  return op::index(op::expand(x, sizes), axes_of(parts));
}

}  // namespace fl
