// The conversion loops behind convert_elements, once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

FL_SIMD_KERNEL(void, convert_loop, void* dst, DType to, const void* src, DType from, int64_t n)
