// Rules of the op table's `flops`: floating point operations of a call, a multiplication and an addition
// counting as two. They see the arguments and results of a call that succeeded.
#pragma once

#include "tensor/tensor.h"

namespace fl::flops {

inline double count(const Tensor& x) { return x.defined() ? static_cast<double>(x.numel()) : 0; }
inline double axis(const Tensor& x, int i) { return x.defined() && x.ndim() > 0 ? static_cast<double>(x.size(i)) : 1; }

// Every element of y is a sum along the last axis of a.
inline double product(const Tensor& y, const Tensor& a) { return 2 * count(y) * axis(a, -1); }
// Every element of dy is multiplied with a column of b.
inline double product_rows(const Tensor& dy, const Tensor& b) { return 2 * count(dy) * axis(b, b.ndim() > 1 ? -2 : -1); }
// Every element of y is met by one filter of `weight`, whose filters lie along its first axis.
inline double convolution(const Tensor& y, const Tensor& weight) {
  return weight.numel() == 0 ? 0 : 2 * count(y) * count(weight) / axis(weight, 0);
}
inline double attention(const Tensor& q, const Tensor& k, const Tensor& y) { return 2 * axis(k, -2) * (count(q) + count(y)); }
// The scores again, then the gradients of scores, values, queries and keys.
inline double attention_backward(const Tensor& q, const Tensor& k, const Tensor& y) { return 2 * axis(k, -2) * (3 * count(q) + 2 * count(y)); }
// A recurrent layer: one product with `weight` per step; backward one for the state and one for the weight.
inline double recurrent_backward(const Tensor& gates, const Tensor& weight, bool needs_weight) {
  return product(gates, weight) * (needs_weight ? 2 : 1);
}

}  // namespace fl::flops
