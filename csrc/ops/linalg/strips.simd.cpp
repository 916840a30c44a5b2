// LU factors and triangular systems by strips of eight columns, for what is larger than a few registers and still fits into a cache.
#include <algorithm>
#include <cstdint>

#include "ops/linalg/loops.h"
#include "ops/linalg/vectors.h"
#include "storage/transpose.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kStrip = 8;

// y -= l[0] u[0] + .. + l[7] u[7], where u has eight rows.
template <class T>
FL_VM void subtract_strip(const T* l, int64_t l_step, const T* u, int64_t ldu, T* y, int64_t n) {
  const T a = l[0], b = l[l_step], c = l[2 * l_step], d = l[3 * l_step], e = l[4 * l_step], f = l[5 * l_step], g = l[6 * l_step], h = l[7 * l_step];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i] -= a * u[i] + b * u[i + ldu] + c * u[i + 2 * ldu] + d * u[i + 3 * ldu] + e * u[i + 4 * ldu] + f * u[i + 5 * ldu] + g * u[i + 6 * ldu] + h * u[i + 7 * ldu];
}

// The first of the largest absolute values of x; the first of all where that is not a number.
template <class T>
FL_VM int64_t largest_of(const T* x, int64_t n) {
  T best = 0;
#pragma omp simd reduction(max : best)
  for (int64_t i = 0; i < n; ++i) {
    const T v = vm::abs(x[i]);
    best = v > best ? v : best;
  }
  if (x[0] != x[0]) return 0;
  for (int64_t i = 0; i < n; ++i)
    if (vm::abs(x[i]) == best) return i;
  return 0;
}

template <class T>
void exchange(T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i];
    x[i] = y[i];
    y[i] = v;
  }
}

// The strip's columns are worked on side by side in `work`, where a column is contiguous.
template <class T>
int64_t lu_strips(T* a, int64_t m, int64_t n, int64_t lda, int64_t first, int64_t last, int64_t until, int32_t* pivots, T* work) {
  int64_t missing = 0;
  for (int64_t j = first; j < last; j += kStrip) {
    const int64_t w = std::min(kStrip, last - j), rows = m - j, end = j + w;
    transpose_block(a + j * lda + j, lda, work, rows, rows, w, sizeof(T));
    for (int64_t k = 0; k < w; ++k) {
      T* column = work + k * rows;
      const int64_t at = k + largest_of(column + k, rows - k);
      pivots[j + k] = static_cast<int32_t>(j + at + 1);
      if (at != k) {
        for (int64_t c = 0; c < w; ++c) std::swap(work[c * rows + k], work[c * rows + at]);
        exchange(a + (j + k) * lda, a + (j + at) * lda, j);
        exchange(a + (j + k) * lda + end, a + (j + at) * lda + end, n - end);
      }
      const T pivot = column[k];
      if (pivot == 0) {
        if (!missing) missing = j + k + 1;
        continue;
      }
#pragma omp simd
      for (int64_t i = k + 1; i < rows; ++i) column[i] /= pivot;
      for (int64_t c = k + 1; c < w; ++c) subtract(work[c * rows + k], column + k + 1, work + c * rows + k + 1, rows - k - 1);
    }
    transpose_block(work, rows, a + j * lda + j, lda, w, rows, sizeof(T));
    if (end >= until) continue;
    T* top = a + j * lda + end;
    for (int64_t k = 1; k < w; ++k)
      for (int64_t q = 0; q < k; ++q) subtract(a[(j + k) * lda + j + q], top + q * lda, top + k * lda, until - end);
    for (int64_t i = end; i < m; ++i) {
      if (w == kStrip) subtract_strip(a + i * lda + j, 1, top, lda, a + i * lda + end, until - end);
      else
        for (int64_t q = 0; q < w; ++q) subtract(a[i * lda + j + q], top + q * lda, a + i * lda + end, until - end);
    }
  }
  return missing;
}

// Row i of b is right once the rows that it needs have been taken from it: those of other strips eight at a time.
template <class T>
void triangle_solve(int64_t n, int64_t r, const T* a, int64_t row, int64_t col, bool lower, bool unit, T* b, int64_t ldb) {
  for (int64_t step = 0; step < n; step += kStrip) {
    const int64_t size = std::min(kStrip, n - step);
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = lower ? step + k : n - 1 - step - k;
      const int64_t from = lower ? step : i + 1, to = lower ? i : n - step;  // of its own strip
      T* mine = b + i * ldb;
      const T* factors = a + i * row;
      if (r == 1) {
        T sum = 0;
        for (int64_t j = lower ? 0 : from; j < (lower ? to : n); ++j) sum += factors[j * col] * b[j * ldb];
        mine[0] -= sum;
      } else {
        for (int64_t j = lower ? 0 : n - step; j < (lower ? step : n); j += kStrip) subtract_strip(factors + j * col, col, b + j * ldb, ldb, mine, r);
        for (int64_t j = from; j < to; ++j) subtract(factors[j * col], b + j * ldb, mine, r);
      }
      if (unit) continue;
      const T pivot = factors[i * col];
#pragma omp simd
      for (int64_t c = 0; c < r; ++c) mine[c] /= pivot;
    }
  }
}

}  // namespace

#define FL_STRIPS(T, suffix)                                                                                                                      \
  int64_t lu_strips_##suffix(T* a, int64_t m, int64_t n, int64_t lda, int64_t first, int64_t last, int64_t until, int32_t* pivots, T* work) {     \
    return lu_strips(a, m, n, lda, first, last, until, pivots, work);                                                                             \
  }                                                                                                                                               \
  void triangle_solve_##suffix(int64_t n, int64_t r, const T* a, int64_t row, int64_t col, bool lower, bool unit, T* b, int64_t ldb) {            \
    triangle_solve(n, r, a, row, col, lower, unit, b, ldb);                                                                                       \
  }
FL_STRIPS(float, f32)
FL_STRIPS(double, f64)
#undef FL_STRIPS

}  // namespace fl::kernels::FL_ISA
