// Geometry of views: pure functions of sizes and strides.
#pragma once

#include <optional>
#include <vector>

#include "tensor/tensor.h"

namespace fl {

// A shape with one -1 filled in. Raises ShapeError naming `op` where it does not hold `numel` elements.
Dims infer_size(const char* op, IntList size, int64_t numel);
// Strides under which `size` views the same elements, or nothing where a copy is needed.
std::optional<Dims> view_strides(IntList old_sizes, IntList old_strides, IntList size);
// Whether `small` broadcasts to `large`, so that a tensor of that shape can be summed to `small`.
bool broadcasts_to(IntList small, IntList large);
// For each axis of x whether `dim` names it; nothing given, or no axis, names all. A scalar has the axes 0 and -1 in name alone.
std::vector<bool> axes_named(const Tensor& x, const std::optional<IntList>& dim);
// Start and length of x[start:end:step] along an axis of `n`, by Python's rules (step > 0).
struct SliceRange {
  int64_t start, length;
};
SliceRange slice_range(int64_t n, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step);

}  // namespace fl
