// The smallest and the largest of a run of indices, and the first that does not fit, once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// Of n >= 0 contiguous integers of any type but bool: low and high take them in.
FL_SIMD_KERNEL(void, widen_bounds, const void* x, DType type, int64_t n, int64_t* low, int64_t* high)
// Whether all of n lie in [least, size), of which least is at most 0.
FL_SIMD_KERNEL(bool, all_within, const void* x, DType type, int64_t n, int64_t least, int64_t size)
// Position of the first of n integers outside of [0, size) that is not `ignored`; n where there is none.
FL_SIMD_KERNEL(int64_t, first_outside, const void* x, DType type, int64_t n, int64_t size, int64_t ignored)
