// Blocks of 8 x 8 elements are transposed in registers, by three rounds of interleaving:
//
//   round     v0 = a0 a1 a2 ..    v4 = e0 e1 e2 ..    ->    w0 = a0 e0 a1 e1 ..    w1 = the upper halves
//
// after which every element has moved by its row's and its column's three bits. Squares of 16 x 16 are done together, so
// that what is written fills cache lines; eight rows at a time, since rows a power of two apart share their places in the
// cache.
#include "storage/transpose.h"

#include <algorithm>
#include <cstring>

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kBlock = 8, kSquare = 16;

template <class T>
struct Vector {
  typedef T Type __attribute__((vector_size(sizeof(T) * kBlock)));
};

template <class T>
void block(const T* from, int64_t cols, T* to, int64_t rows) {
  using V = typename Vector<T>::Type;
  const V low = {0, 8, 1, 9, 2, 10, 3, 11}, high = {4, 12, 5, 13, 6, 14, 7, 15};
  V v[kBlock], w[kBlock];
  for (int i = 0; i < kBlock; ++i) std::memcpy(&v[i], from + i * cols, sizeof(V));
  const auto round = [&](const V* x, V* y) {
#pragma GCC unroll 4
    for (int i = 0; i < kBlock / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + kBlock / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + kBlock / 2], high);
    }
  };
  round(v, w), round(w, v), round(v, w);
  for (int i = 0; i < kBlock; ++i) std::memcpy(to + i * rows, &w[i], sizeof(V));
}

template <class T>
void edge(const T* from, T* to, int64_t rows, int64_t cols, int64_t r0, int64_t r1, int64_t k0, int64_t k1) {
  for (int64_t k = k0; k < k1; ++k)
    for (int64_t r = r0; r < r1; ++r) to[k * rows + r] = from[r * cols + k];
}

template <class T>
void band(const T* from, T* to, int64_t rows, int64_t cols, int64_t r0, int64_t r1) {
  const int64_t whole = cols / kBlock * kBlock;
  for (; r0 < r1; r0 += kSquare) {
    const int64_t end = std::min(r1, r0 + kSquare), full = r0 + (end - r0) / kBlock * kBlock;
    for (int64_t k0 = 0; k0 < whole; k0 += kSquare) {
      const int64_t k1 = std::min(whole, k0 + kSquare);
      for (int64_t r = r0; r < full; r += kBlock)
        for (int64_t k = k0; k < k1; k += kBlock) block(from + r * cols + k, cols, to + k * rows + r, rows);
      edge(from, to, rows, cols, full, end, k0, k1);
    }
    edge(from, to, rows, cols, r0, end, whole, cols);
  }
}

}  // namespace

void transpose_band(const void* from, void* to, int64_t rows, int64_t cols, int64_t r0, int64_t r1, size_t item) {
  switch (item) {
    case 1: return band(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), rows, cols, r0, r1);
    case 2: return band(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), rows, cols, r0, r1);
    case 4: return band(static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), rows, cols, r0, r1);
    default: return band(static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to), rows, cols, r0, r1);
  }
}

}  // namespace fl::kernels::FL_ISA
