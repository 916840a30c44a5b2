// Helpers of the indexing kernels. All tensors are row-major; data moves by element size.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "dispatch/axes.h"
#include "dispatch/each.h"

namespace fl::kernels {

// How many elements each thread has at least where threads share out the columns of rows: what the other one wrote last comes from its
// cache then, which costs more than a copy (a row added to 256 places of [256, 256] took 43 us with two threads, 21 with one).
constexpr int64_t kSharedGrain = 65536;

// x, or a copy that is row-major.
inline Tensor row_major_copy(const Tensor& x) {
  if (x.is_contiguous()) return x;
  const Tensor y = empty(x.sizes(), x.dtype());
  copy_elements(y, x);
  return y;
}

struct Lines {  // x seen as [outer, n, inner] around one axis; an empty x has no lines: outer and inner are 0
  int64_t outer = 1, n = 1, inner = 1;
};
inline Lines lines_of(const Tensor& x, int64_t dim) {
  Lines l;
  if (x.ndim() == 0) return l;
  const int d = static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
  for (int i = 0; i < x.ndim(); ++i) (i < d ? l.outer : i == d ? l.n : l.inner) *= x.size(i);
  if (x.numel() == 0) l.outer = l.inner = 0;  // [n, 0] around axis 0 would be a line of n places
  return l;
}

// Calls f(line, first, last) for the parts of lines of n > 0 places that cover places [begin, end).
template <class F>
void over_parts(int64_t begin, int64_t end, int64_t n, F&& f) {
  for (int64_t i = begin; i < end;) {
    const int64_t line = i / n, first = i - line * n, last = std::min(n, first + end - i);
    f(line, first, last);
    i += last - first;
  }
}

// Calls f with an unsigned integer of that many bytes where there is one, else with a byte.
template <class F>
void by_unit(int64_t bytes, F&& f) {
  const bool one = bytes == 2 || bytes == 4 || bytes == 8;
  by_size(one ? static_cast<size_t>(bytes) : 1, f);
}

// y starts as x, unless it is x (in-place call).
inline void start_from(const Tensor& x, const Tensor& y) {
  if (x.data() != y.data()) copy_elements(y, x);
}

// Whether 16-bit floats are added up in float32: a sum of ones would end at 256 in bfloat16. Not where y is much larger than what is added to it, all of
// which would be converted.
inline bool adds_wide(const Tensor& y, const Tensor& src) {
  constexpr int64_t kSmall = 4096, kTimes = 16;
  return is_half(y.dtype()) && y.numel() <= std::max(kSmall, kTimes * src.numel());
}

// index in int64, row-major.
inline Tensor as_int64(const Tensor& index) {
  if (index.dtype() == DType::Int64 && index.is_contiguous()) return index;
  Tensor out = empty(index.sizes(), DType::Int64, index.device());
  copy_elements(out, index);
  return out;
}

}  // namespace fl::kernels
