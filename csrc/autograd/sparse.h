// Arithmetic of sparse gradients, by ops on their parts: Note [Sparse gradients] in tensor/sparse.h.
#pragma once

#include "autograd/meta.h"
#include "tensor/sparse.h"

namespace fl {

// The same places with other values, which may be of another type.
Tensor with_values(const Tensor& x, const SparseParts& parts, Tensor values);
// The same places and values, these in another type: of complex ones the real part, where that is real.
Tensor with_type(const Tensor& x, DType dtype);
// x that nobody else can see: x itself, or a copy where it is sparse.
Tensor owned_sparse(Tensor x);
// The sum of two, of which one is sparse or both are.
Tensor sparse_sum(const Tensor& a, const Tensor& b);
// set_sparse_parts() of what others know, as a write of `op`.
void write_sparse(const char* op, const Tensor& x, Tensor indices, Tensor values, bool coalesced);
// Adds to x where it is, without history; false for what can not be added there: dense to sparse.
bool sparse_sum_into(const Tensor& x, const Tensor& grad);
// A gradient of which one of both is sparse, in the type of `like`; raises unless shape, device and, for what a hook gives, layout are those of `like`.
Tensor like_sparse_gradient(const char* what, const Tensor& grad, const Tensor& like);
// What sum_to(x, sizes) is to be given, which is dense: the values, where all axes with indices are summed over, or the whole.
Tensor values_or_dense(const Tensor& x, IntList sizes);
// The elements of x, which broadcasts to a sparse tensor of these sizes, as they meet its values.
Tensor at_places(const Tensor& x, const SparseParts& parts, IntList sizes);

}  // namespace fl
