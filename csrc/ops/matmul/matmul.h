// Products of tensors, for every dtype: what the matmul family and other kernels call.
#pragma once

#include "tensor/tensor.h"

namespace fl {

// A batch of matrices inside a tensor: two axes are the matrix, the others are the batch.
struct MatrixBatch {
  char* data = nullptr;
  Dims strides;  // of the batch axes, in elements; 0 where broadcast
  int64_t row = 0, col = 0;
  Storage* owner = nullptr;  // of the second operand: Mat
};

// out[batch] = alpha * a[batch] b[batch] + beta * out[batch] (+ bias over columns), all of dtype `t`.
// Batch axes that `out` has with stride 0 are summed over (out then needs beta = 1, and alpha and bias plain).
// `out` has unit column stride.
void matmul_batches(DType t, const Dims& batch, int64_t m, int64_t n, int64_t k, const MatrixBatch& a, const MatrixBatch& b,
                    const MatrixBatch& out, double alpha = 1, double beta = 0, const void* bias_n = nullptr);

}  // namespace fl
