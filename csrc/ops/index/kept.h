// Indices that were kept for a gradient.
#pragma once

#include "tensor/tensor.h"

namespace fl::kernels {

// Before a gradient reads or writes at indices of the forward pass: they were in range then, but a NumPy array that shares
// their memory may have been written since, and a hook of saved tensors may have given others back. Contiguous integers.
void require_kept(const char* op, const Tensor& indices, int64_t size);

}  // namespace fl::kernels
