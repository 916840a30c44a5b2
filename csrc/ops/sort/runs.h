// Loops of sorting over runs of keys (see keys.h), once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

namespace fl::kernels {

constexpr int64_t kFewest = 64;  // the largest k of keep_least

struct WideKey {  // a 64-bit key with its position
  uint64_t key, at;
  bool operator<(const WideKey& o) const { return key < o.key || (key == o.key && at < o.at); }
};

}  // namespace fl::kernels

// Keys of n contiguous elements of Int32 or Float32 (uint32_t), Int64 or Float64 (uint64_t).
FL_SIMD_KERNEL(void, sort_keys, const void* x, DType type, int64_t n, bool descending, void* keys)
// best: the k least of the elements before position `first`, in order; takes in n more. With 32 bits an item is
// key << 32 | position.
FL_SIMD_KERNEL(void, keep_least_32, const uint32_t* keys, int64_t first, int64_t n, uint64_t* best, int64_t k)
FL_SIMD_KERNEL(void, keep_least_64, const uint64_t* keys, int64_t first, int64_t n, WideKey* best, int64_t k)
