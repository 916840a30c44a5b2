// Whether indices lie within bounds, by several threads: those of a call, and those that were kept for a gradient.
#pragma once

#include "tensor/tensor.h"

namespace fl::kernels {

// Whether all of a dense tensor of integers, which may be none, lie in [least, size); least is at most 0.
bool all_lie_within(const Tensor& indices, int64_t least, int64_t size);

// Before a gradient reads or writes at indices of the forward pass: they were in range then, but a NumPy array that shares
// their memory may have been written since, and a hook of saved tensors may have given others back. Contiguous integers.
void require_kept(const char* op, const Tensor& indices, int64_t size);

}  // namespace fl::kernels
