// Squares of a matrix that are transposed in registers; for *.simd.cpp files.
//
// Rows of 32 bytes: a square is two columns of 16 bytes, and each half is put together when it is loaded, so that what is left are
// interleavings within 16 bytes, of which processors do two in a cycle:
//
//   4 x 4     t0 = a0 a1 | c0 c1     t1 = b0 b1 | d0 d1     ->     a0 b0 | c0 d0     a1 b1 | c1 d1
//
// Others, 8 x 8: three rounds of interleaving, after which every element has moved by its row's and its column's three bits:
//
//   round       v0 = a0 a1 a2 ..    v4 = e0 e1 e2 ..    ->    w0 = a0 e0 a1 e1 ..    w1 = the upper halves
#pragma once

#ifdef __AVX__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

namespace fl::kernels::FL_ISA {
namespace {

template <class T, int N = 8>
struct Square {
  static constexpr int kSize = N;
  static_assert(N == 8 || (N == 4 && sizeof(T) == 8));
  typedef T Row __attribute__((vector_size(sizeof(T) * kSize)));
  typedef T Half __attribute__((vector_size(sizeof(T) * kSize / 2)));

  // Two halves of rows.
  static inline __attribute__((always_inline)) void beside(const T* low, const T* high, Row& out) {
#ifdef __AVX__  // else GCC puts them together by a shuffle, for which there is one port
    const __m256i both = _mm256_insertf128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
                                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
    std::memcpy(&out, &both, sizeof out);
#else
    std::memcpy(&out, low, sizeof(Half));
    std::memcpy(reinterpret_cast<char*>(&out) + sizeof(Half), high, sizeof(Half));
#endif
  }

  // rows(i) is where row i begins; column k, as a Row, goes to put(k, column).
  template <class Rows, class Put>
  static inline __attribute__((always_inline)) void transpose(const Rows& rows, const Put& put) {
    if constexpr (sizeof(T) * N == 32) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        Row t[kSize / 2];
#pragma GCC unroll 4
        for (int i = 0; i < kSize / 2; ++i) {
          beside(rows(i) + h * kSize / 2, rows(i + kSize / 2) + h * kSize / 2, t[i]);
        }
        if constexpr (N == 4) {
          put(2 * h, __builtin_shufflevector(t[0], t[1], 0, 4, 2, 6));
          put(2 * h + 1, __builtin_shufflevector(t[0], t[1], 1, 5, 3, 7));
        } else {
          const Row a = __builtin_shufflevector(t[0], t[1], 0, 8, 1, 9, 4, 12, 5, 13), b = __builtin_shufflevector(t[2], t[3], 0, 8, 1, 9, 4, 12, 5, 13);
          const Row c = __builtin_shufflevector(t[0], t[1], 2, 10, 3, 11, 6, 14, 7, 15), d = __builtin_shufflevector(t[2], t[3], 2, 10, 3, 11, 6, 14, 7, 15);
          put(4 * h, __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13));
          put(4 * h + 1, __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15));
          put(4 * h + 2, __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13));
          put(4 * h + 3, __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15));
        }
      }
    } else {
      Row v[kSize], w[kSize];
      for (int i = 0; i < kSize; ++i) std::memcpy(&v[i], rows(i), sizeof(Row));
      const auto round = [](const Row* x, Row* y) {
#pragma GCC unroll 4
        for (int i = 0; i < kSize / 2; ++i) {
          y[2 * i] = __builtin_shufflevector(x[i], x[i + kSize / 2], 0, 8, 1, 9, 2, 10, 3, 11);
          y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + kSize / 2], 4, 12, 5, 13, 6, 14, 7, 15);
        }
      };
      round(v, w), round(w, v), round(v, w);
      for (int i = 0; i < kSize; ++i) put(i, w[i]);
    }
  }
};

}  // namespace
}  // namespace fl::kernels::FL_ISA
