// LU and Cholesky factors of small matrices.
#include <cstdint>

#include "ops/linalg/loops.h"
#include "ops/linalg/vectors.h"

namespace fl::kernels::FL_ISA {
namespace {

// Of a matrix [n, n].
template <class T>
FL_VM int64_t lu_columns(T* a, int64_t n, int32_t* pivots) {
  int64_t missing = 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t at = k;
    T best = vm::abs(a[k * n + k]);
    for (int64_t i = k + 1; i < n; ++i) {
      const T v = vm::abs(a[i * n + k]);
      if (v > best) best = v, at = i;
    }
    pivots[k] = static_cast<int32_t>(at + 1);
    if (at != k)
      for (int64_t j = 0; j < n; ++j) {
        const T v = a[k * n + j];
        a[k * n + j] = a[at * n + j];
        a[at * n + j] = v;
      }
    const T pivot = a[k * n + k];
    if (pivot == 0) {
      if (!missing) missing = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const T factor = a[i * n + k] / pivot;
      a[i * n + k] = factor;
      subtract(factor, a + k * n + k + 1, a + i * n + k + 1, n - k - 1);
    }
  }
  return missing;
}
template <class T, int kRows>
void lu_fixed(T* a, int64_t count, int32_t* pivots, int32_t* info) {
  for (int64_t i = 0; i < count; ++i, a += kRows * kRows, pivots += kRows)
    info[i] = static_cast<int32_t>(lu_columns<T>(a, kRows, pivots));
}
template <class T>
void lu_many(T* a, int64_t count, int64_t n, int32_t* pivots, int32_t* info) {
  switch (n) {
    case 1: return lu_fixed<T, 1>(a, count, pivots, info);
    case 2: return lu_fixed<T, 2>(a, count, pivots, info);
    case 3: return lu_fixed<T, 3>(a, count, pivots, info);
    case 4: return lu_fixed<T, 4>(a, count, pivots, info);
    case 8: return lu_fixed<T, 8>(a, count, pivots, info);
    default:
      for (int64_t i = 0; i < count; ++i)
        info[i] = static_cast<int32_t>(lu_columns<T>(a + i * n * n, n, pivots + i * n));
  }
}

template <class T, int kRows, int kColumns>
FL_VM void exchange_rows(T* b, int64_t k, int64_t at) {
  if (k == at) return;
  for (int c = 0; c < kColumns; ++c) {
    const T v = b[k * kColumns + c];
    b[k * kColumns + c] = b[at * kColumns + c];
    b[at * kColumns + c] = v;
  }
}
// b [rows, columns] := T^-1 b for T(i, j) = a[i * row + j * col].
template <class T, int kRows, int kColumns>
FL_VM void solve_fixed(const T* a, int row, int col, bool lower, bool unit, T* b) {
  for (int step = 0; step < kRows; ++step) {
    const int i = lower ? step : kRows - 1 - step;
    for (int j = lower ? 0 : i + 1; j < (lower ? i : kRows); ++j)
      for (int c = 0; c < kColumns; ++c) b[i * kColumns + c] -= a[i * row + j * col] * b[j * kColumns + c];
    if (!unit)
      for (int c = 0; c < kColumns; ++c) b[i * kColumns + c] /= a[i * row + i * col];
  }
}
template <class T, int kRows, int kColumns>
void lu_solve_fixed(const T* lu, const int32_t* pivots, int64_t count, bool transposed, T* b) {
  for (int64_t i = 0; i < count; ++i, lu += kRows * kRows, pivots += kRows, b += kRows * kColumns) {
    if (!transposed) {
      for (int k = 0; k < kRows; ++k) exchange_rows<T, kRows, kColumns>(b, k, pivots[k] - 1);
      solve_fixed<T, kRows, kColumns>(lu, kRows, 1, true, true, b);
      solve_fixed<T, kRows, kColumns>(lu, kRows, 1, false, false, b);
    } else {
      solve_fixed<T, kRows, kColumns>(lu, 1, kRows, true, false, b);
      solve_fixed<T, kRows, kColumns>(lu, 1, kRows, false, true, b);
      for (int k = kRows - 1; k >= 0; --k) exchange_rows<T, kRows, kColumns>(b, k, pivots[k] - 1);
    }
  }
}
template <class T, int kRows>
bool lu_solve_rows(const T* lu, const int32_t* pivots, int64_t count, int64_t r, bool transposed, T* b) {
  if (r == 1) lu_solve_fixed<T, kRows, 1>(lu, pivots, count, transposed, b);
  else if (r == kRows) lu_solve_fixed<T, kRows, kRows>(lu, pivots, count, transposed, b);
  else return false;
  return true;
}
template <class T>
bool lu_solve_many(const T* lu, const int32_t* pivots, int64_t count, int64_t n, int64_t r, bool transposed, T* b) {
  switch (n) {
    case 1: return lu_solve_rows<T, 1>(lu, pivots, count, r, transposed, b);
    case 2: return lu_solve_rows<T, 2>(lu, pivots, count, r, transposed, b);
    case 3: return lu_solve_rows<T, 3>(lu, pivots, count, r, transposed, b);
    case 4: return lu_solve_rows<T, 4>(lu, pivots, count, r, transposed, b);
    case 8: return lu_solve_rows<T, 8>(lu, pivots, count, r, transposed, b);
    default: return false;
  }
}

template <class T>
FL_VM int64_t cholesky_lower(T* a, int64_t n, int64_t lda) {
  for (int64_t j = 0; j < n; ++j) {
    T* row = a + j * lda;
    const T left = row[j] - dot(row, row, j);
    if (!(left > 0)) return j + 1;
    const T root = vm::sqrt(left);
    row[j] = root;
    for (int64_t i = j + 1; i < n; ++i) a[i * lda + j] = (a[i * lda + j] - dot(a + i * lda, row, j)) / root;
  }
  return 0;
}
template <class T, int kRows>
void cholesky_fixed(T* a, int64_t count, int32_t* info) {
  for (int64_t i = 0; i < count; ++i, a += kRows * kRows) info[i] = static_cast<int32_t>(cholesky_lower<T>(a, kRows, kRows));
}
template <class T>
void cholesky_many(T* a, int64_t count, int64_t n, int32_t* info) {
  switch (n) {
    case 1: return cholesky_fixed<T, 1>(a, count, info);
    case 2: return cholesky_fixed<T, 2>(a, count, info);
    case 3: return cholesky_fixed<T, 3>(a, count, info);
    case 4: return cholesky_fixed<T, 4>(a, count, info);
    case 8: return cholesky_fixed<T, 8>(a, count, info);
    default:
      for (int64_t i = 0; i < count; ++i) info[i] = static_cast<int32_t>(cholesky_lower<T>(a + i * n * n, n, n));
  }
}

}  // namespace

#define FL_LINALG_LOOPS(T, suffix)                                                                                                      \
  void lu_many_##suffix(T* a, int64_t count, int64_t n, int32_t* pivots, int32_t* info) { lu_many<T>(a, count, n, pivots, info); }      \
  bool lu_solve_many_##suffix(const T* lu, const int32_t* pivots, int64_t count, int64_t n, int64_t r, bool transposed, T* b) {         \
    return lu_solve_many<T>(lu, pivots, count, n, r, transposed, b);                                                                    \
  }                                                                                                                                     \
  int64_t cholesky_lower_##suffix(T* a, int64_t n, int64_t lda) { return cholesky_lower<T>(a, n, lda); }                                \
  void cholesky_many_##suffix(T* a, int64_t count, int64_t n, int32_t* info) { cholesky_many<T>(a, count, n, info); }
FL_LINALG_LOOPS(float, f32)
FL_LINALG_LOOPS(double, f64)

}  // namespace fl::kernels::FL_ISA
