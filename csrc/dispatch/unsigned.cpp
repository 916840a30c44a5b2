#include "dispatch/unsigned.h"

#include "base/parallel.h"
#include "dispatch/each.h"

namespace fl {

Tensor seen_as(const Tensor& x, DType dtype) {
  return Tensor(make_ref<TensorImpl>(x.impl()->storage, x.sizes(), x.strides(), x.offset(), dtype));
}

Tensor in_signed_order(const Tensor& x) {
  const Tensor copy = empty(x.sizes(), with_sign(x.dtype()));
  copy_elements(copy, with_sign(x));
  flip_top_bits(copy);
  return copy;
}

void flip_top_bits(const Tensor& y) {
  const auto flip = [&]<class U>(U) {
    U* at = static_cast<U*>(y.data());
    parallel_for(0, y.numel(), 32768, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) at[i] = static_cast<U>(at[i] ^ U(U{1} << (8 * sizeof(U) - 1)));
    });
  };
  if (y.item_bytes() == 2) flip(uint16_t{});
  else if (y.item_bytes() == 4) flip(uint32_t{});
  else flip(uint64_t{});
}

}  // namespace fl
