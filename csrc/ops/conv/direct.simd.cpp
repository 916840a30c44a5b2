#include "ops/conv/direct.h"

namespace fl::kernels::FL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64, kRows = 4, kTaps = 6;
#elif defined(__AVX__)
constexpr int kVecBytes = 32, kRows = 3, kTaps = 4;
#else
constexpr int kVecBytes = 16, kRows = 3, kTaps = 3;
#endif

template <class T, int kBytes>
struct Vec {
  typedef T Type __attribute__((vector_size(kBytes)));
  typedef T Loose __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
};

// The sum of a vector's lanes, by halves. (Through memory, GCC would keep the accumulators there.)
template <class T, int kBytes>
inline __attribute__((always_inline)) T total(typename Vec<T, kBytes>::Type v) {
  constexpr int kLanes = kBytes / sizeof(T);
  if constexpr (kLanes == 16) {
    return total<T, kBytes / 2>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  } else if constexpr (kLanes == 8) {
    return total<T, kBytes / 2>(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
  } else if constexpr (kLanes == 4) {
    if constexpr (kBytes == 32) return total<T, kBytes / 2>(__builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3));
    else return (v[0] + v[2]) + (v[1] + v[3]);
  } else {
    return v[0] + v[1];
  }
}

template <class T>
struct Block {
  int64_t images, dy_image, dy_row, x_image, n, ldw;
};

template <class T, int R, int K>
void dots(const Block<T>& s, const T* dy, const T* x, const int64_t* offsets, T* dw) {
  using V = typename Vec<T, kVecBytes>::Type;
  using L = typename Vec<T, kVecBytes>::Loose;
  constexpr int kLanes = kVecBytes / sizeof(T);
  // One flat loop over the register tile: GCC keeps an array in registers only where one level is unrolled.
  V acc[R * K];
#pragma GCC unroll 32
  for (int j = 0; j < R * K; ++j) acc[j] = V{};
  for (int64_t g = 0; g < s.images; ++g) {
    const T* px[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) px[k] = x + g * s.x_image + offsets[k];
    const T* from = dy + g * s.dy_image;
    for (int64_t q = 0; q < s.n; q += kLanes) {
      V d[R];
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) d[i] = *reinterpret_cast<const L*>(from + i * s.dy_row + q);
#pragma GCC unroll 32
      for (int j = 0; j < R * K; ++j) acc[j] += d[j % R] * *reinterpret_cast<const L*>(px[j / R] + q);
    }
  }
#pragma GCC unroll 32
  for (int j = 0; j < R * K; ++j) dw[j % R * s.ldw + j / R] += total<T, kVecBytes>(acc[j]);
}

template <class T, int R>
void row_dots(const Block<T>& s, const T* dy, const T* x, const int64_t* offsets, int64_t taps, T* dw) {
  int64_t k = 0;
  for (; k + kTaps <= taps; k += kTaps) dots<T, R, kTaps>(s, dy, x, offsets + k, dw + k);
  for (; k < taps; ++k) dots<T, R, 1>(s, dy, x, offsets + k, dw + k);
}

// A few rows of dy stay in the first-level cache while all taps pass by: neighbouring taps read the same lines.
template <class T>
void all_dots(const Block<T>& whole, const T* dy, int64_t rows, const T* x, const int64_t* offsets, int64_t taps, T* dw) {
  constexpr int64_t kBlock = 1024;
  for (int64_t q = 0; q < whole.n; q += kBlock) {
    Block<T> s = whole;
    s.n = whole.n - q < kBlock ? whole.n - q : kBlock;
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows) row_dots<T, kRows>(s, dy + i * s.dy_row + q, x + q, offsets, taps, dw + i * s.ldw);
    for (; i < rows; ++i) row_dots<T, 1>(s, dy + i * s.dy_row + q, x + q, offsets, taps, dw + i * s.ldw);
  }
}

// N vectors of results at once, of which the first n elements count.
template <int N>
void sum_taps(int64_t n, const float* w, const int64_t* offsets, int64_t taps, const float* x, float first, float* y) {
  using V = typename Vec<float, kVecBytes>::Type;
  using L = typename Vec<float, kVecBytes>::Loose;
  constexpr int kLanes = kVecBytes / sizeof(float);
  V acc[N];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) acc[i] = V{} + first;
  for (int64_t k = 0; k < taps; ++k) {
    const float* from = x + offsets[k];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) acc[i] += w[k] * *reinterpret_cast<const L*>(from + i * kLanes);
  }
  if (n == N * kLanes) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) *reinterpret_cast<L*>(y + i * kLanes) = acc[i];
  } else {
    float all[N * kLanes];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) *reinterpret_cast<L*>(all + i * kLanes) = acc[i];
    for (int64_t j = 0; j < n; ++j) y[j] = all[j];
  }
}

}  // namespace

void sum_taps_f32(int64_t n, const float* w, const int64_t* offsets, int64_t taps, const float* x, float first, float* y) {
  constexpr int kLanes = kVecBytes / sizeof(float);
  int64_t j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) sum_taps<4>(4 * kLanes, w, offsets, taps, x + j, first, y + j);
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) sum_taps<2>(2 * kLanes, w, offsets, taps, x + j, first, y + j);
  for (; j < n; j += kLanes) sum_taps<1>(n - j < kLanes ? n - j : kLanes, w, offsets, taps, x + j, first, y + j);
}

void add_products_f32(int64_t n, const float* dy, const int64_t* offsets, int64_t taps, const float* x, float* lanes) {
  constexpr int64_t kLanes = 16;
  for (int64_t k = 0; k < taps; ++k, lanes += kLanes) {
    const float* from = x + offsets[k];
    int64_t q = 0;
    for (; q + kLanes <= n; q += kLanes) {
#pragma omp simd
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += dy[q + j] * from[q + j];
    }
    for (int64_t j = 0; q + j < n; ++j) lanes[j] += dy[q + j] * from[q + j];
  }
}

void conv_dots_f32(int64_t images, const float* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const float* x, int64_t x_image,
                   const int64_t* offsets, int64_t taps, int64_t n, float* dw, int64_t ldw) {
  all_dots<float>({images, dy_image, dy_row, x_image, n, ldw}, dy, rows, x, offsets, taps, dw);
}
void conv_dots_f64(int64_t images, const double* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const double* x, int64_t x_image,
                   const int64_t* offsets, int64_t taps, int64_t n, double* dw, int64_t ldw) {
  all_dots<double>({images, dy_image, dy_row, x_image, n, ldw}, dy, rows, x, offsets, taps, dw);
}

void add_rows_f32(int64_t rows, int64_t n, const float* __restrict x, int64_t x_row, float* __restrict y, int64_t y_row) {
  if (x_row == n && y_row == n) n *= rows, rows = 1;
  for (int64_t r = 0; r < rows; ++r, x += x_row, y += y_row)
    for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}

}  // namespace fl::kernels::FL_ISA
