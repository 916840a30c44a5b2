// Loop nests over several strided operands: merging of axes, and loops by element size.
#pragma once

#include <array>

#include "base/dims.h"

namespace fl {

constexpr int kMaxOperands = 13;

struct Axes {  // sizes of the merged axes, outermost first
  Dims sizes;
  int64_t numel = 1;
  int64_t inner() const { return sizes.empty() ? 1 : sizes[sizes.size() - 1]; }
};

// Drops axes of size 1, orders the rest by the strides of operand 0, and merges. `strides[k]` is changed
// along. Every operand has one stride per size.
inline Axes simplify(IntList sizes, Dims* strides, int n_operands) {
  int order[64];
  int n = 0;
  Axes axes;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
    axes.numel *= sizes[i];
    if (sizes[i] != 1) order[n++] = i;
  }
  const int64_t* lead = strides[0].data();
  bool sorted = true;
  for (int i = 1; i < n; ++i)  // insertion sort, stable: usually in order already
    for (int j = i; j > 0 && lead[order[j]] > lead[order[j - 1]]; --j) {
      std::swap(order[j], order[j - 1]);
      sorted = false;
    }
  if (!sorted)
    for (int k = 0; k < n_operands; ++k) {
      const Dims before = strides[k];
      for (int i = 0; i < n; ++i) strides[k][i] = before[order[i]];
    }
  int last = -1;
  for (int i = 0; i < n; ++i) {  // in place: what is merged is no further than what is read
    const int from = sorted ? order[i] : i;
    const int64_t size = sizes[order[i]];
    bool joins = last >= 0;
    for (int k = 0; k < n_operands && joins; ++k) joins = strides[k][last] == strides[k][from] * size;
    if (joins) {
      axes.sizes[last] *= size;
    } else {
      axes.sizes.push_back(size);
      ++last;
    }
    for (int k = 0; k < n_operands; ++k) strides[k][last] = strides[k][from];
  }
  for (int k = 0; k < n_operands; ++k) strides[k].resize(last + 1);
  return axes;
}

// Calls f with an unsigned integer of that many bytes: data movement needs no dtypes.
// An element of complex128, to copy.
struct Bytes16 {
  uint64_t half[2];
};

template <class F>
inline void by_size(size_t item_bytes, F&& f) {
  switch (item_bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 16: return f(Bytes16{});
    default: return f(uint64_t{});
  }
}

}  // namespace fl
