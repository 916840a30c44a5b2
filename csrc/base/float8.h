// The floats of 8 bits as they lie in memory: Note [Floats of 8 bits] in float8.cpp.
#pragma once

#include "base/dtype.h"

namespace fl {

// n elements of the 8-bit type `t` from floats, rounded to nearest even, and back.
void to_float8(DType t, const float* from, uint8_t* to, int64_t n);
void from_float8(DType t, const uint8_t* from, float* to, int64_t n);

}  // namespace fl
