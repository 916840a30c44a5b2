// Unsigned integers of more than a byte for kernels that compare: Note [Types without kernels] in base/dtype.h.
//
//     0, 1, ..., 2^n - 1  --the top bit flipped-->  -2^(n-1), ..., 2^(n-1) - 1     in the same order, as integers with a sign
#pragma once

#include "tensor/tensor.h"

namespace fl {

// The same bytes as another type of their size; as integers with a sign.
Tensor seen_as(const Tensor& x, DType dtype);
inline Tensor with_sign(const Tensor& x) { return seen_as(x, with_sign(x.dtype())); }
// A row-major copy of x as integers with a sign, in the same order.
Tensor in_signed_order(const Tensor& x);
// Flips the top bits of what a kernel made of such a copy, which is row-major.
void flip_top_bits(const Tensor& y);

// f(x, y) where x is of a type with kernels; else of a copy in the same order, after which y is made unsigned again.
template <class F>
void with_order(const Tensor& x, const Tensor& y, F&& f) {
  if (!is_wide_unsigned(x.dtype())) return f(x, y);
  f(in_signed_order(x), with_sign(y));
  flip_top_bits(y);
}

}  // namespace fl
