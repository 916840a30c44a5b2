// Positions of extremes. `type` is Float32, Float64 or of integers.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// First positions of the largest (smallest) of the n > 0 elements of each of `rows` rows, one after another.
FL_SIMD_KERNEL(void, arg_rows, bool max, DType type, const void* x, int64_t n, int64_t rows, int64_t* where)
// The same down n <= 256 columns of `rows` rows; the extremes go to best[0..n).
FL_SIMD_KERNEL(void, arg_columns, bool max, DType type, const void* x, int64_t stride, int64_t rows, int64_t n,
               int64_t* where, void* best)
