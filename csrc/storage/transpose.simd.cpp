// Squares of 16 x 16 elements are done together, so that what is written fills cache lines; a few rows at a time, since rows a power of two
// apart share their places in the cache.
#include "storage/transpose.h"

#include <algorithm>
#include <cstring>

#include "storage/square.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kSquare = 16, kAhead = 2 * kSquare;

template <class T>
void square(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  Square<T>::transpose([&](int i) { return from + i * from_stride; }, [&](int k, auto column) { std::memcpy(to + k * to_stride, &column, sizeof column); });
}

template <class T>
void edge(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t k = 0; k < cols; ++k)
    for (int64_t r = 0; r < rows; ++r) to[k * to_stride + r] = from[r * from_stride + k];
}

// R rows become neighbours.
template <int R, class T>
void interleave(const T* from, int64_t from_stride, T* to, int64_t cols) {
#pragma omp simd
  for (int64_t k = 0; k < cols; ++k)
    for (int r = 0; r < R; ++r) to[k * R + r] = from[r * from_stride + k];
}

template <class T>
void block(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows, int64_t cols) {
  if (rows == to_stride && rows == 2) return interleave<2>(from, from_stride, to, cols);
  if (rows == to_stride && rows == 3) return interleave<3>(from, from_stride, to, cols);
  if (rows == to_stride && rows == 4) return interleave<4>(from, from_stride, to, cols);
  constexpr int64_t kBlock = Square<T>::kSize;
  const int64_t whole = cols / kBlock * kBlock;
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare) {
    const int64_t r1 = std::min(rows, r0 + kSquare), full = r0 + (r1 - r0) / kBlock * kBlock;
    for (int64_t k0 = 0; k0 < whole; k0 += kSquare) {
      const int64_t k1 = std::min(whole, k0 + kSquare);
      if (r0 + kAhead < rows)  // no processor sees by itself which lines are written next
        for (int64_t k = k0; k < k1; ++k) __builtin_prefetch(to + k * to_stride + r0 + kAhead, 1, 3);
      for (int64_t r = r0; r < full; r += kBlock)
        for (int64_t k = k0; k < k1; k += kBlock) square(from + r * from_stride + k, from_stride, to + k * to_stride + r, to_stride);
      edge(from + full * from_stride + k0, from_stride, to + k0 * to_stride + full, to_stride, r1 - full, k1 - k0);
    }
    edge(from + r0 * from_stride + whole, from_stride, to + whole * to_stride + r0, to_stride, r1 - r0, cols - whole);
  }
}

struct Pair {  // of 16 bytes: a line of the cache holds four
  uint64_t half[2];
};

template <class T>
void typed(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t rows, int64_t cols) {
  block(static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride, rows, cols);
}

}  // namespace

void transpose_block(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t rows, int64_t cols, size_t item) {
  switch (item) {
    case 1: return typed<uint8_t>(from, from_stride, to, to_stride, rows, cols);
    case 2: return typed<uint16_t>(from, from_stride, to, to_stride, rows, cols);
    case 4: return typed<uint32_t>(from, from_stride, to, to_stride, rows, cols);
    case 16: return edge(static_cast<const Pair*>(from), from_stride, static_cast<Pair*>(to), to_stride, rows, cols);
    default: return typed<uint64_t>(from, from_stride, to, to_stride, rows, cols);
  }
}

}  // namespace fl::kernels::FL_ISA
