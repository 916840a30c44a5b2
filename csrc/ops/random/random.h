// Random bits in chunks of 1024, which are numbered: what a chunk holds depends on seed, offset and its
// number alone, so any thread may make any chunk. Of a chunk the first `count` are made; what is written behind them means nothing.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

#include <cstdint>

namespace fl {
constexpr int64_t kRandomChunk = 1024;
}

// 1024 words of chunk `chunk`.
FL_SIMD_KERNEL(void, random_bits, uint32_t* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count)
// 64 bits each of elements 1024 chunk .. 1024 chunk + 1023: the first two words of their own counters.
FL_SIMD_KERNEL(void, random_wide, uint64_t* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count)
// 1024 floats in [0, 1), or standard normal, from chunk `chunk`.
FL_SIMD_KERNEL(void, random_uniform, float* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count)
FL_SIMD_KERNEL(void, random_normal, float* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count)
// How many of n weights are positive; -1: there is one that is negative, infinite or NaN.
FL_SIMD_KERNEL(int64_t, positive_weights, fl::DType dtype, const void* weights, int64_t n)
