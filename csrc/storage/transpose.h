// The loop behind transpose_bytes, once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/isa.h"

// to[k * rows + r] = from[r * cols + k] for r in [r0, r1) and all k < cols; elements of `item` bytes (1, 2, 4 or 8).
FL_SIMD_KERNEL(void, transpose_band, const void* from, void* to, int64_t rows, int64_t cols, int64_t r0, int64_t r1, size_t item)
