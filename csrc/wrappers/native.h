// Ops that are compositions with a choice in them (`composite: native` in the table), and helpers of the
// bindings that are built from ops.
#pragma once

#include "dispatch/op_types.h"

namespace fl {

// x converted; x itself where nothing changes and `copy` is false.
Tensor to(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device, bool copy);
// Row-major x, with history; x itself where it is already.
Tensor make_contiguous(const Tensor& x);
// A 0-d tensor's value.
Scalar item_of(const Tensor& x);
// Whether it is a mask that stands for the first axes of x.
bool is_leading_mask(const Tensor& mask, const Tensor& x);
// Appends an index of x's axis to.size() as int64 positions: a mask becomes one tensor for each of its axes.
void add_positions(const char* name, std::vector<Tensor>& to, const Tensor& x, const Tensor& index);

}  // namespace fl
