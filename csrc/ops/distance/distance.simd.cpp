#include "ops/distance/distance.h"

#include <algorithm>

#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
T distance(int64_t n, T p, const T* a, const T* b) {
  T sum = 0;
  if (p == 2) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return vm::sqrt(sum);
  }
  if (p == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += vm::abs(a[i] - b[i]);
    return sum;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += vm::pow(vm::abs(a[i] - b[i]), p);
  return vm::pow(sum, T(1) / p);
}

// Of four rows at once, whose sums do not wait for one another; kSquares: by p = 2, else 1.
template <bool kSquares, class T>
FL_VM T term(T d) {
  return kSquares ? d * d : vm::abs(d);
}
template <bool kSquares, class T>
void four_distances(int64_t n, const T* a, const T* b, T* y) {
  T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < n; ++i) {
    s0 += term<kSquares>(a[i] - b[i]);
    s1 += term<kSquares>(a[i] - b[n + i]);
    s2 += term<kSquares>(a[i] - b[2 * n + i]);
    s3 += term<kSquares>(a[i] - b[3 * n + i]);
  }
  const T sums[] = {s0, s1, s2, s3};
  for (int64_t k = 0; k < 4; ++k) y[k] = kSquares ? vm::sqrt(sums[k]) : sums[k];
}

template <class T>
void row_distances(const RowPairs& pairs, const T* x, const T* others, T* y) {
  int64_t j = 0;
  if (pairs.p == 2)
    for (; j + 4 <= pairs.rows; j += 4) four_distances<true>(pairs.width, x, others + j * pairs.width, y + j);
  else if (pairs.p == 1)
    for (; j + 4 <= pairs.rows; j += 4) four_distances<false>(pairs.width, x, others + j * pairs.width, y + j);
  for (; j < pairs.rows; ++j) y[j] = distance(pairs.width, static_cast<T>(pairs.p), x, others + j * pairs.width);
}

template <class T>
void gradient(const RowPairs& pairs, const T* dy, const T* x, const T* others, const T* y, T* dx) {
  const T p = static_cast<T>(pairs.p);
  const int64_t n = pairs.width;
  std::fill_n(dx, n, T(0));
  for (int64_t j = 0; j < pairs.rows; ++j) {
    const T* other = others + j * n;
    const T size = y[j], g = dy[j];
    if (size == 0) continue;
    if (p == 2) {
      const T f = g / size;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] += f * (x[i] - other[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] += vm::norm_slope(g, x[i] - other[i], size, p);
    }
  }
}

template <class T>
void row_squares(int64_t rows, int64_t width, const T* x, T* y) {
  for (int64_t i = 0; i < rows; ++i) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; ++j) sum += x[i * width + j] * x[i * width + j];
    y[i] = sum;
  }
}

template <class T>
void distances_of_products(int64_t n, T own, const T* others, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T square = own + others[j] - 2 * y[j];
    y[j] = vm::sqrt(square < 0 ? T(0) : square);
  }
}

}  // namespace

void row_squares_f32(int64_t rows, int64_t width, const float* x, float* y) { row_squares(rows, width, x, y); }
void row_squares_f64(int64_t rows, int64_t width, const double* x, double* y) { row_squares(rows, width, x, y); }
void distances_of_products_f32(int64_t n, float own, const float* others, float* y) { distances_of_products(n, own, others, y); }
void distances_of_products_f64(int64_t n, double own, const double* others, double* y) { distances_of_products(n, own, others, y); }
void row_distances_f32(const RowPairs& pairs, const float* x, const float* others, float* y) { row_distances(pairs, x, others, y); }
void row_distances_f64(const RowPairs& pairs, const double* x, const double* others, double* y) { row_distances(pairs, x, others, y); }
void row_distances_gradient_f32(const RowPairs& pairs, const float* dy, const float* x, const float* others, const float* y, float* dx) {
  gradient(pairs, dy, x, others, y, dx);
}
void row_distances_gradient_f64(const RowPairs& pairs, const double* dy, const double* x, const double* others, const double* y, double* dx) {
  gradient(pairs, dy, x, others, y, dx);
}

}  // namespace fl::kernels::FL_ISA
