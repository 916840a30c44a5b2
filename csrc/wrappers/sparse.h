// Which arguments are sparse, for the wrappers of ops that say `sparse: native`: Note [Sparse gradients] in tensor/sparse.h.
#pragma once

#include "dispatch/operand.h"
#include "tensor/sparse.h"

namespace fl {

inline bool is_sparse_argument(const Tensor& x) { return x.defined() && is_sparse(x); }
inline bool is_sparse_argument(const Operand& x) { return x.is_tensor() && is_sparse_argument(x.tensor()); }
template <class... Args>
bool any_sparse(const Args&... args) {
  return (is_sparse_argument(args) || ...);
}

}  // namespace fl
