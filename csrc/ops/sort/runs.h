// Loops of sorting over runs of keys (see keys.h), once per instruction set.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

namespace fl::kernels {

constexpr int64_t kRoom = 5;      // keep_least has room for that many times k items
constexpr int64_t kInserted = 8;  // up to this k its items are in order; from here on a key that is better than all before would cost too many moves

struct WideKey {  // a 64-bit key with its position
  uint64_t key, at;
  bool operator<(const WideKey& o) const { return key < o.key || (key == o.key && at < o.at); }
};

}  // namespace fl::kernels

// Keys of n contiguous elements of Int32 or Float32 (uint32_t), Int64 or Float64 (uint64_t).
FL_SIMD_KERNEL(void, sort_keys, const void* x, DType type, int64_t n, bool descending, void* keys)
// Smallest and largest of n keys: low and high take them in.
FL_SIMD_KERNEL(void, widen_key_bounds, const uint64_t* keys, int64_t n, uint64_t* low, uint64_t* high)
// best: *count candidates for the k least of the elements before position `first`; takes in n more. None of the first k is
// larger than the k-th, and none of the others is too much: nth_element(best, k - 1, *count) makes the first k those that
// are sought. With 32 bits an item is key << 32 | position.
FL_SIMD_KERNEL(void, keep_least_32, const uint32_t* keys, int64_t first, int64_t n, uint64_t* best, int64_t* count, int64_t k)
FL_SIMD_KERNEL(void, keep_least_64, const uint64_t* keys, int64_t first, int64_t n, WideKey* best, int64_t* count, int64_t k)
