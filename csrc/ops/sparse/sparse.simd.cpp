#include "ops/sparse/sparse.h"

namespace fl::kernels::FL_ISA {
namespace {

// kWidth columns of one row at a time: their sums stay in registers while the row's elements are walked.
template <class T>
void rows(const int64_t* crow, const int64_t* col, const T* values, const T* dense, T* y, int64_t first, int64_t last, int64_t k) {
  constexpr int64_t kWidth = 128 / sizeof(T);
  for (int64_t r = first; r < last; ++r) {
    T* out = y + r * k;
    int64_t j = 0;
    for (; j + kWidth <= k; j += kWidth) {
      T sum[kWidth] = {};
      for (int64_t i = crow[r]; i < crow[r + 1]; ++i) {
        const T v = values[i];
        const T* from = dense + col[i] * k + j;
#pragma omp simd
        for (int64_t c = 0; c < kWidth; ++c) sum[c] += v * from[c];
      }
      for (int64_t c = 0; c < kWidth; ++c) out[j + c] = sum[c];
    }
    if (j == k) continue;
    const int64_t left = k - j;
    T sum[kWidth] = {};
    for (int64_t i = crow[r]; i < crow[r + 1]; ++i) {
      const T v = values[i];
      const T* from = dense + col[i] * k + j;
#pragma omp simd
      for (int64_t c = 0; c < left; ++c) sum[c] += v * from[c];
    }
    for (int64_t c = 0; c < left; ++c) out[j + c] = sum[c];
  }
}

template <class T>
void dots(const int64_t* crow, const int64_t* col, const T* a, const T* b, T* values, int64_t first, int64_t last, int64_t k) {
  for (int64_t r = first; r < last; ++r) {
    const T* x = a + r * k;
    for (int64_t i = crow[r]; i < crow[r + 1]; ++i) {
      const T* z = b + col[i] * k;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < k; ++c) sum += x[c] * z[c];
      values[i] = sum;
    }
  }
}

}  // namespace

void sparse_rows_f32(const int64_t* crow, const int64_t* col, const float* values, const float* dense, float* y, int64_t first, int64_t last, int64_t k) {
  rows(crow, col, values, dense, y, first, last, k);
}
void sparse_rows_f64(const int64_t* crow, const int64_t* col, const double* values, const double* dense, double* y, int64_t first, int64_t last, int64_t k) {
  rows(crow, col, values, dense, y, first, last, k);
}
void sparse_dots_f32(const int64_t* crow, const int64_t* col, const float* a, const float* b, float* values, int64_t first, int64_t last, int64_t k) {
  dots(crow, col, a, b, values, first, last, k);
}
void sparse_dots_f64(const int64_t* crow, const int64_t* col, const double* a, const double* b, double* values, int64_t first, int64_t last, int64_t k) {
  dots(crow, col, a, b, values, first, last, k);
}

}  // namespace fl::kernels::FL_ISA
