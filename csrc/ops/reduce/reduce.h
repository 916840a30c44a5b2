// The nest around the fold loops: which axes are reduced, in what order memory is walked, what happens to
// an accumulator before it is written.
#pragma once

#include <optional>

#include "ops/reduce/fold.h"
#include "tensor/tensor.h"

namespace fl::kernels {

enum class Finish : uint8_t {
  None,
  Divide,       // acc / q
  SqrtDivide,   // sqrt(acc / q)
  Root,         // acc^(1 / q)
  Sqrt,
  LogPlusCenter,
};

struct Reduction {
  Fold fold = Fold::Sum;
  Finish finish = Finish::None;
  double p = 0, q = 1;
  const Tensor* center = nullptr;  // float64, row-major, shaped as the output
};

// out = reduction of x (any strides) over `dims` (none: all axes; wrapped). `out` is row-major, of the
// reduced shape with or without the reduced axes, of any dtype. `compute` is Float32, Float64 or Int64.
void reduce(const Reduction& how, DType compute, const Tensor& x, std::optional<IntList> dims, const Tensor& out);

// As above with a reduced axis wherever `kept_shape` has no stride: see sum_to.
void reduce_mask(const Reduction& how, DType compute, const Tensor& x, const bool* reduced, const Tensor& out);

}  // namespace fl::kernels
