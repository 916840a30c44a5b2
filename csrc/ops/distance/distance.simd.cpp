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

template <class T>
void row_distances(const RowPairs& pairs, const T* x, const T* others, T* y) {
  for (int64_t j = 0; j < pairs.rows; ++j) y[j] = distance(pairs.width, static_cast<T>(pairs.p), x, others + j * pairs.width);
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

}  // namespace

void row_distances_f32(const RowPairs& pairs, const float* x, const float* others, float* y) { row_distances(pairs, x, others, y); }
void row_distances_f64(const RowPairs& pairs, const double* x, const double* others, double* y) { row_distances(pairs, x, others, y); }
void row_distances_gradient_f32(const RowPairs& pairs, const float* dy, const float* x, const float* others, const float* y, float* dx) {
  gradient(pairs, dy, x, others, y, dx);
}
void row_distances_gradient_f64(const RowPairs& pairs, const double* dy, const double* x, const double* others, const double* y, double* dx) {
  gradient(pairs, dy, x, others, y, dx);
}

}  // namespace fl::kernels::FL_ISA
