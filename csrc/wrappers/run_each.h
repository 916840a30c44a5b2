// What the element-wise part of the wrappers shares: one op at a time in run_each.cpp, several in chain.cpp.
#pragma once

#include "dispatch/each.h"
#include "dispatch/operand.h"
#include "graph/recorder.h"

namespace fl::each {

// The type that a call computes in. Refuses numbers that do not fit.
DType loop_type(const EachKernel& kernel, const char* op, DType type, const Operand* in, int n, const Scalar* params);
// Strides of x in a broadcast shape: 0 where its axis is 1 or missing.
void expanded_strides(const Tensor& x, const Dims& shape, Dims& out);
// Whether a 0-d integer wraps round to the result's type before it is computed with.
bool narrowed(const Tensor& x, const Tensor& out);
// A number in the type that is computed in, in `to`. `compares`: the loop itself makes bools.
void box(char* to, Scalar number, DType compute, const Tensor& out, bool compares);

// Runs the first of these recorded ops in one pass; see graph::run_linked.
size_t run_linked(std::span<const graph::Link> links);
size_t count_linked(std::span<const graph::Link> links);
std::unique_ptr<graph::KeptPass> keep_linked(std::span<const graph::Link> links);

}  // namespace fl::each
