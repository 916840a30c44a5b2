// The smallest and the largest of a run of indices, once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// Of n >= 0 contiguous integers of any type but bool: low and high take them in.
FL_SIMD_KERNEL(void, widen_bounds, const void* x, DType type, int64_t n, int64_t* low, int64_t* high)
