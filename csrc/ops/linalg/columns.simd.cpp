// Householder's reflections. The matrix is turned for them, so that a column is contiguous.
#include <algorithm>
#include <cstdint>

#include "ops/linalg/loops.h"
#include "ops/linalg/vectors.h"
#include "storage/transpose.h"

namespace fl::kernels::FL_ISA {
namespace {

// Squares of floats fit into doubles; doubles are scaled before, by a power of two, so that neither huge nor tiny numbers are lost.
template <class T>
FL_VM T norm_of(const T* x, int64_t n) {
  double sum = 0;
  if constexpr (sizeof(T) == 4) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return static_cast<T>(vm::sqrt(sum));
  } else {
    T largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      const T v = vm::abs(x[i]);
      largest = v > largest || v != v ? v : largest;
    }
    if (!(largest > 0) || largest == vm::kInf<T>) return largest;
    T unit = 1;
    if (largest > T(0x1p500)) unit = T(0x1p-600);
    if (largest < T(0x1p-400)) unit = T(0x1p600);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const T v = x[i] * unit;
      sum += v * v;
    }
    return vm::sqrt(sum) / unit;
  }
}

// Below it a sum of products loses bits that a power of two brings back.
template <class T>
constexpr T kSmall = sizeof(T) == 4 ? T(0x1p-100) : T(0x1p-960);
template <class T>
constexpr T kUp = sizeof(T) == 4 ? T(0x1p100) : T(0x1p960);

// y -= tau v (v^T y), where v begins with a 1 that is not there.
template <class T>
FL_VM void apply_reflector(const T* v, T tau, T* y, int64_t n) {
  const T seen = tau * (y[0] + dot(v + 1, y + 1, n - 1));
  y[0] -= seen;
  subtract(seen, v + 1, y + 1, n - 1);
}

template <class T>
void reflect(T* a, int64_t m, int64_t n, T* tau, T* work) {
  transpose_block(a, n, work, m, m, n, sizeof(T));
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* v = work + k * m + k;
    const int64_t rows = m - k;
    T alpha = v[0], below = norm_of(v + 1, rows - 1), unit = 1;
    tau[k] = 0;
    if (below == 0) continue;
    if (vm::abs(alpha) + below < kSmall<T>) {  // of denormals, which have few bits, no reflection could be made
      unit = kUp<T>;
      for (int64_t i = 0; i < rows; ++i) v[i] *= unit;
      alpha *= unit;
      below = norm_of(v + 1, rows - 1);
    }
    const T both[2] = {alpha, below};
    const T beta = -vm::copysign(norm_of(both, 2), alpha);
    tau[k] = (beta - alpha) / beta;
    const T whole = alpha - beta;
#pragma omp simd
    for (int64_t i = 1; i < rows; ++i) v[i] /= whole;
    v[0] = beta / unit;
    for (int64_t j = k + 1; j < n; ++j) apply_reflector(v, tau[k], work + j * m + k, rows);
  }
  transpose_block(work, m, a, n, n, m, sizeof(T));
}

template <class T>
void reflector_product(const T* a, int64_t lda, const T* tau, int64_t m, int64_t k, int64_t columns, T* q, T* work) {
  T* const v = work + columns * m;
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < m; ++i) work[j * m + i] = i == j ? T(1) : T(0);
  for (int64_t h = k - 1; h >= 0; --h) {
    if (tau[h] == 0) continue;
    for (int64_t i = h + 1; i < m; ++i) v[i - h] = a[i * lda + h];
    for (int64_t j = h; j < columns; ++j) apply_reflector(v, tau[h], work + j * m + h, m - h);
  }
  transpose_block(work, m, q, columns, columns, m, sizeof(T));
}

}  // namespace

#define FL_COLUMNS(T, suffix)                                                                                                           \
  void reflect_##suffix(T* a, int64_t m, int64_t n, T* tau, T* work) { reflect(a, m, n, tau, work); }                                   \
  void reflector_product_##suffix(const T* a, int64_t lda, const T* tau, int64_t m, int64_t k, int64_t columns, T* q, T* work) {        \
    reflector_product(a, lda, tau, m, k, columns, q, work);                                                                             \
  }
FL_COLUMNS(float, f32)
FL_COLUMNS(double, f64)
#undef FL_COLUMNS

}  // namespace fl::kernels::FL_ISA
