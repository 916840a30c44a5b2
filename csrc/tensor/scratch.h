// Scratch memory as tensors: Note [Scratch memory].
#pragma once

#include "storage/scratch.h"
#include "tensor/tensor.h"

namespace fl {

// n elements of the CPU's memory for as long as a kernel runs, not initialised.
inline Tensor scratch_memory(int64_t n, DType dtype) {
  return Tensor(make_ref<TensorImpl>(scratch_bytes(static_cast<size_t>(n) * item_size(dtype)), IntList(&n, 1), n, dtype));
}

}  // namespace fl
