// Sorting one row by integer keys.
//
// Every element becomes an unsigned key of the same order: integers with their sign bit flipped; floats
// with all bits flipped where negative, else the sign bit; NaN becomes the largest key, so it comes last
// ascending and first descending; -0 and 0 share a key. Descending order flips all bits of the key. Equal
// keys keep their order: every sort here is stable.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sort/runs.h"

namespace fl::kernels {

// Buffers that one thread uses for all its rows.
struct SortScratch {
  std::vector<uint64_t> packed, packed_other;
  std::vector<WideKey> wide, wide_other;
};

struct Row {  // n elements, `stride` apart
  const void* data;
  DType type;
  int64_t n, stride;
};

// Order of a row: indices[i] is the position of the i-th smallest (largest), and values[i] that element
// (contiguous; null if not wanted).
void sort_row(SortScratch& scratch, const Row& x, bool descending, void* values, int64_t* indices);

// The k smallest (largest) only, in order if `sorted`; if not, the k-th stands last.
void top_row(SortScratch& scratch, const Row& x, int64_t k, bool largest, bool sorted, void* values, int64_t* indices);

}  // namespace fl::kernels
