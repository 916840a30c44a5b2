// Sorting one row by integer keys.
//
// Every element becomes an unsigned key of the same order: integers with their sign bit flipped; floats
// with all bits flipped where negative, else the sign bit; NaN becomes the largest key, so it comes last
// ascending and first descending; -0 and 0 share a key. Descending order flips all bits of the key. Equal
// keys keep their order: every sort here is stable.
#pragma once

#include <cstdint>

#include "dispatch/each.h"
#include "ops/sort/runs.h"

namespace fl::kernels {

// Room for items, from the caching allocator: large rows would else pay for fresh pages every time. What it holds is
// not set, and lost when it grows.
template <class E>
class Buffer {
 public:
  void resize(size_t n) {
    if (n > room_) {
      memory_ = empty(Dims{static_cast<int64_t>(n * sizeof(E))}, DType::UInt8);
      data_ = static_cast<E*>(memory_.data());
      room_ = n;
    }
    size_ = n;
  }
  size_t size() const { return size_; }
  E* data() const { return data_; }
  E* begin() const { return data_; }
  E* end() const { return data_ + size_; }
  E& operator[](size_t i) const { return data_[i]; }

 private:
  Tensor memory_;
  E* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

// Buffers that one thread uses for all its rows.
struct SortScratch {
  Buffer<uint64_t> packed, packed_other;
  Buffer<WideKey> wide, wide_other;
};

struct Row {  // n elements, `stride` apart
  const void* data;
  DType type;
  int64_t n, stride;
};

// Order of a row: indices[i] is the position of the i-th smallest (largest), and values[i] that element
// (contiguous; null if not wanted).
void sort_row(SortScratch& scratch, const Row& x, bool descending, void* values, int64_t* indices);

// The k smallest (largest) only, in order if `sorted`.
void top_row(SortScratch& scratch, const Row& x, int64_t k, bool largest, bool sorted, void* values, int64_t* indices);

// The element before which `rank` others stand in ascending order, and its position.
void rank_row(SortScratch& scratch, const Row& x, int64_t rank, void* value, int64_t* index);

// How many elements are NaN; `first`: the position of the first, or -1.
int64_t count_nan(const Row& x, int64_t* first);

}  // namespace fl::kernels
