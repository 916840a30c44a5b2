// Helpers of the indexing kernels. All tensors are row-major; data moves by element size.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "dispatch/axes.h"
#include "dispatch/each.h"
#include "ops/index/rows.h"

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

// y starts as x, unless it is x (in-place call). Where one thread puts `alone` elements into it afterwards that thread copies it, too: it is in its cache
// then (a row put to 256 places of [256, 256] took 33 us after two threads' copy, 10 after one's).
inline void start_from(const Tensor& x, const Tensor& y, int64_t alone = 0) {
  const int64_t n = y.numel();
  if (x.data() == y.data() || n == 0) return;
  if (n <= std::min(kSharedGrain, 4 * alone) && x.dtype() == y.dtype() && x.is_contiguous() && y.is_contiguous())
    std::memcpy(y.data(), x.data(), static_cast<size_t>(n) * y.item_bytes());
  else copy_elements(y, x);
}

// put(place, value) for the n elements of a row, in order. Four are read before one is written, since a processor that does not read ahead of
// stores whose place it does not know yet would wait for each.
template <class T, class Place, class Put>
void in_fours(const int64_t* at, const T* values, int64_t n, Place place, Put put) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const int64_t a = place(at, j), b = place(at, j + 1), c = place(at, j + 2), d = place(at, j + 3);
    const T va = values[j], vb = values[j + 1], vc = values[j + 2], vd = values[j + 3];
    put(a, va), put(b, vb), put(c, vc), put(d, vd);
  }
  for (; j < n; ++j) put(place(at, j), values[j]);
}

// y[i] = value for i < n.
template <class T>
void fill_row(T* y, int64_t n, T value) {
  if constexpr (sizeof(T) == 4) fill_row_u32(n, __builtin_bit_cast(uint32_t, value), reinterpret_cast<uint32_t*>(y));
  else if constexpr (sizeof(T) == 8) fill_row_u64(n, __builtin_bit_cast(uint64_t, value), reinterpret_cast<uint64_t*>(y));
  else std::fill_n(y, n, value);
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
