// Places in rows that are in order, once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// The places of keys[i] in a row of 1 <= n < 2^31 elements of float32, float64, int32 or int64, as `find_places` of count.cpp finds them, for i < count.
FL_SIMD_KERNEL(void, search_row, DType type, const void* row, int64_t n, const void* keys, int64_t count, bool right, int32_t* places)
