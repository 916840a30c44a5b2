// Sparse tensors as the core holds them: places and values under the geometry of the whole.
//
// Note [Sparse gradients]
// A sparse tensor is a TensorImpl of the whole's sizes and type on the meta device, whose storage has the parts instead of bytes. So who
// does not know of it meets a tensor without elements and not wrong numbers, an alias of it is sparse as well, and a dense program pays
// for asking whether a gradient is on meta, where it is looked at anyhow. It has no history of its own: that of its values is its history.
//
//     embedding(sparse)'s node --sparse--> nodes that say takes_sparse() --sparse--> AccumulateGrad --> .grad
//
// Backward hands such a gradient to a node only if that says takes_sparse(): leaves, nodes in Python, and those of the table whose formulas
// do nothing to it but multiply, divide and negate (opgen finds them), which are the ops that say `sparse: native`. All others refuse it.
// Sums are made in autograd/sparse.h: sparse and sparse is both one behind the other, sparse and dense is dense.
//
// The parts are replaced as one, under a lock, since a leaf's gradient grows in place while others may read it.
#pragma once

#include "tensor/tensor.h"

namespace fl {

struct SparseParts final : RefCounted {
  SparseParts(Tensor i, Tensor v, bool sorted) : indices(std::move(i)), values(std::move(v)), coalesced(sorted || indices.size(1) < 2) {}
  const Tensor indices;  // int64 [axes with indices, places]
  const Tensor values;   // [places, the other axes]
  const bool coalesced;  // places ascend, and none is there twice

  int axes() const { return static_cast<int>(indices.size(0)); }
  int64_t places() const { return indices.size(1); }
};

// A sparse tensor of parts that fit the sizes.
Tensor make_sparse(Tensor indices, Tensor values, IntList sizes, bool coalesced);
// x is defined.
inline bool is_sparse(const Tensor& x) { return x.is_meta() && !x.storage().is_hollow() && x.storage().data(); }
// As they are now.
Ref<SparseParts> sparse_parts(const Tensor& x);
// The same tensor with other parts, of its type; whoever has an alias sees them, too.
void set_sparse_parts(const Tensor& x, Tensor indices, Tensor values, bool coalesced);
// Where the elements are.
inline Device place_of(const Tensor& x) { return x.is_meta() && is_sparse(x) ? sparse_parts(x)->values.device() : x.device(); }

}  // namespace fl
