// Loops over contiguous elements behind the element-wise driver, once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

// dst[i] = src[i], converted: convert_elements in each.h. Of real types alone.
FL_SIMD_KERNEL(void, convert_loop, void* dst, DType to, const void* src, DType from, int64_t n)
// n times the element at `value`, of 1, 2, 4, 8 or 16 bytes.
FL_SIMD_KERNEL(void, fill_loop, void* dst, size_t item_bytes, const void* value, int64_t n)
// Rows of n elements, one after the other: each is n times the element at `src`, which lies `step` bytes behind that of the row before.
FL_SIMD_KERNEL(void, fill_rows, void* dst, size_t item_bytes, const void* src, int64_t step, int64_t rows, int64_t n)
// dst[i] = src[-i], n elements of 1, 2, 4, 8 or 16 bytes.
FL_SIMD_KERNEL(void, reverse_loop, void* dst, const void* src, size_t item_bytes, int64_t n)
// dst[i] = src[2 i].
FL_SIMD_KERNEL(void, every_second_loop, void* dst, const void* src, size_t item_bytes, int64_t n)
// dst[i] = ~src[i] for bytes, or of bools !src[i].
FL_SIMD_KERNEL(void, flip_loop, uint8_t* dst, const uint8_t* src, bool truths, int64_t n)
// memcpy past the caches: the lines of dst are neither read first nor kept. Whoever hands dst to another thread
// calls stream_end() first.
FL_SIMD_KERNEL(void, stream_loop, void* dst, const void* src, size_t bytes)
FL_SIMD_KERNEL(void, stream_end)
// dst[i] = a + (first + i) * step, the product rounded by itself; whole numbers wrap.
FL_SIMD_KERNEL(void, ramp_floats, double* dst, double a, double step, int64_t first, int64_t n)
FL_SIMD_KERNEL(void, ramp_ints, uint64_t* dst, uint64_t a, uint64_t step, uint64_t first, int64_t n)
