// Transposes of blocks, once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/isa.h"

// to[k * to_stride + r] = from[r * from_stride + k] for r < rows, k < cols; elements of `item` bytes (1, 2, 4 or 8).
FL_SIMD_KERNEL(void, transpose_block, const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t rows, int64_t cols, size_t item)
