// Positions of extremes. `type` is Float32, Float64, Int32 or Int64.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// First position of the largest (smallest) of n > 0 contiguous elements.
FL_SIMD_KERNEL(int64_t, arg_row, bool max, DType type, const void* x, int64_t n)
// The same down n <= 256 columns of `rows` rows; the extremes go to best[0..n).
FL_SIMD_KERNEL(void, arg_columns, bool max, DType type, const void* x, int64_t stride, int64_t rows, int64_t n,
               int64_t* where, void* best)
