#include "ops/norm/norm.h"

#include <cmath>

#include "base/element.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
double sum(const T* x, int64_t n) {
  T s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += x[i];
  return s;
}

template <class T>
double squares(const T* x, int64_t n, T mean) {
  T s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += (x[i] - mean) * (x[i] - mean);
  return s;
}

template <class T>
T limited(T y, T lo, T hi) {
  return y < lo ? lo : y > hi ? hi : y;
}
template <class T>
T passed(T dy, T y, T lo, T hi) {
  return (y <= lo) | (y >= hi) ? T(0) : dy;
}

template <class T>
void dots(const T* dy, const T* x, int64_t n, T mean, const Limits<T>& limits, double* sums) {
  const T scale = limits.scale, shift = limits.shift, lo = limits.lo, hi = limits.hi;
  T s = 0, d = 0;
#pragma omp simd reduction(+ : s, d)
  for (int64_t i = 0; i < n; ++i) {
    const T g = passed(dy[i], scale * x[i] + shift, lo, hi);
    s += g;
    d += g * (x[i] - mean);
  }
  sums[0] = s;
  sums[1] = d;
}

template <class T>
void affine(const T* x, T* y, int64_t n, const Limits<T>& limits) {
  const T scale = limits.scale, shift = limits.shift, lo = limits.lo, hi = limits.hi;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = limited(scale * x[i] + shift, lo, hi);
}

template <class T>
void combine(const T* dy, const T* x, T* dx, int64_t n, T mean, T a, T b, T c, const Limits<T>& limits) {
  const T scale = limits.scale, shift = limits.shift, lo = limits.lo, hi = limits.hi;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = a * passed(dy[i], scale * x[i] + shift, lo, hi) + b * (x[i] - mean) + c;
}

constexpr int64_t kStrip = 64;  // columns; a full strip's sums stay in registers

// Of a strip the row that is some rows ahead, which processors do not fetch by themselves, since it is not behind the row before.
template <class S>
void fetch_strip(const S* x, int64_t row, int64_t ld, int64_t width) {
  constexpr int64_t kAhead = 16;
  if (ld == width) return;
  const char* at = reinterpret_cast<const char*>(x + (row + kAhead) * ld);
  for (size_t i = 0; i < static_cast<size_t>(width) * sizeof(S); i += 64) __builtin_prefetch(at + i);
}

// Sums down the columns go by blocks of 64 rows in the type itself, and the blocks in double. fetch(row) comes before a row's terms.
template <class T, int kSums, class F, class Fetch>
inline __attribute__((always_inline)) void col_reduce(int64_t rows, int64_t width, double* const* sums, const F& term, const Fetch& fetch) {
  for (int k = 0; k < kSums; ++k)
    for (int64_t j = 0; j < width; ++j) sums[k][j] = 0;
  for (int64_t i = 0; i < rows; i += 64) {
    T part[kSums][kStrip] = {};
    const int64_t last = i + 64 < rows ? i + 64 : rows;
    if (width == kStrip) {
      for (int64_t r = i; r < last; ++r) {
        fetch(r);
#pragma omp simd
        for (int64_t j = 0; j < kStrip; ++j) term(r, j, part);
      }
    } else {
      for (int64_t r = i; r < last; ++r) {
        fetch(r);
#pragma omp simd
        for (int64_t j = 0; j < width; ++j) term(r, j, part);
      }
    }
    for (int k = 0; k < kSums; ++k)
      for (int64_t j = 0; j < width; ++j) sums[k][j] += static_cast<double>(part[k][j]);
  }
}

template <class S, class T = Computed<S>>
void col_stats(const S* x, int64_t rows, int64_t ld, int64_t width, double* mean, double* squares) {
  double* first[] = {mean};
  col_reduce<T, 1>(rows, width, first, [&](int64_t r, int64_t j, T (*part)[kStrip]) { part[0][j] += vm::wide(x[r * ld + j]); },
                   [&](int64_t r) { fetch_strip(x, r, ld, width); });
  T center[kStrip] = {};
  for (int64_t j = 0; j < width; ++j) {
    mean[j] /= static_cast<double>(rows);
    center[j] = static_cast<T>(mean[j]);
  }
  double* second[] = {squares};
  col_reduce<T, 1>(rows, width, second, [&](int64_t r, int64_t j, T (*part)[kStrip]) {
    const T d = vm::wide(x[r * ld + j]) - center[j];
    part[0][j] += d * d;
  }, [](int64_t) {});
  for (int64_t j = 0; j < width; ++j) {
    const double off = mean[j] - static_cast<double>(center[j]);
    squares[j] -= static_cast<double>(rows) * off * off;
  }
}

template <class S, class T>
void col_dots(const S* dy, const S* x, int64_t rows, int64_t ld, int64_t width, const T* mean, const ColumnLimits<T>& limits, double* sum_dy,
              double* sum_dot) {
  double* sums[] = {sum_dy, sum_dot};
  const T *scale = limits.scale, *shift = limits.shift, lo = limits.lo, hi = limits.hi;
  const auto fetch = [&](int64_t r) {
    if (ld > 2 * kStrip) fetch_strip(dy, r, ld, width), fetch_strip(x, r, ld, width);  // of fewer they do fetch all: measured
  };
  if (lo != lo && hi != hi)  // no limits, as most often
    return col_reduce<T, 2>(rows, width, sums, [&](int64_t r, int64_t j, T (*part)[kStrip]) {
      const T g = vm::wide(dy[r * ld + j]);
      part[0][j] += g;
      part[1][j] += g * (vm::wide(x[r * ld + j]) - mean[j]);
    }, fetch);
  col_reduce<T, 2>(rows, width, sums, [&](int64_t r, int64_t j, T (*part)[kStrip]) {
    const T v = vm::wide(x[r * ld + j]), g = passed<T>(vm::wide(dy[r * ld + j]), scale[j] * v + shift[j], lo, hi);
    part[0][j] += g;
    part[1][j] += g * (v - mean[j]);
  }, fetch);
}

template <class S, class T>
void col_affine(const S* x, S* y, int64_t rows, int64_t ld, int64_t width, const ColumnLimits<T>& limits) {
  const T *scale = limits.scale, *shift = limits.shift, lo = limits.lo, hi = limits.hi;
  for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) y[i * ld + j] = vm::narrow<S>(limited<T>(scale[j] * vm::wide(x[i * ld + j]) + shift[j], lo, hi));
}

template <class S, class T>
void col_combine(const S* dy, const S* x, S* dx, int64_t rows, int64_t ld, int64_t width, const T* mean, const T* a, const T* b, const T* c,
                 const ColumnLimits<T>& limits) {
  const T *scale = limits.scale, *shift = limits.shift, lo = limits.lo, hi = limits.hi;
  for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const T v = vm::wide(x[i * ld + j]), g = passed<T>(vm::wide(dy[i * ld + j]), scale[j] * v + shift[j], lo, hi);
      dx[i * ld + j] = vm::narrow<S>(a[j] * g + b[j] * (v - mean[j]) + c[j]);
    }
}

template <class T>
void row(const T* x, const T* w, const T* b, T* y, int64_t n, double eps, bool centered, T* mean, T* rstd) {
  const T m = centered ? static_cast<T>(sum(x, n) / static_cast<double>(n)) : T(0);
  const T r = static_cast<T>(1 / std::sqrt(squares(x, n, m) / static_cast<double>(n) + eps));
  if (mean) *mean = m;
  *rstd = r;
  if (w && b) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * w[i] + b[i];
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) * r;
    if (b)
      for (int64_t i = 0; i < n; ++i) y[i] += b[i];
  }
}

template <class T>
void row_backward(const T* dy, const T* x, const T* w, T mean, T r, int64_t n, bool centered, T* dx, T* dw, T* db) {
  if (dw) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dw[i] += dy[i] * ((x[i] - mean) * r);
  }
  if (db) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) db[i] += dy[i];
  }
  if (!dx) return;
  T s = 0, d = 0;
  if (w) {
#pragma omp simd reduction(+ : s, d)
    for (int64_t i = 0; i < n; ++i) {
      const T g = dy[i] * w[i];
      s += g;
      d += g * (x[i] - mean);
    }
  } else {
#pragma omp simd reduction(+ : s, d)
    for (int64_t i = 0; i < n; ++i) {
      s += dy[i];
      d += dy[i] * (x[i] - mean);
    }
  }
  const T mg = centered ? s / static_cast<T>(n) : T(0), k = d * r * r / static_cast<T>(n);
  if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = r * (dy[i] * w[i] - mg - (x[i] - mean) * k);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = r * (dy[i] - mg - (x[i] - mean) * k);
  }
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                                     \
  double norm_sum_##suffix(const T* x, int64_t n) { return sum(x, n); }                                                                          \
  double norm_squares_##suffix(const T* x, int64_t n, T mean) { return squares(x, n, mean); }                                                    \
  void norm_dots_##suffix(const T* dy, const T* x, int64_t n, T mean, const Limits<T>& limits, double* sums) { dots(dy, x, n, mean, limits, sums); } \
  void norm_affine_##suffix(const T* x, T* y, int64_t n, const Limits<T>& limits) { affine(x, y, n, limits); }                                    \
  void norm_combine_##suffix(const T* dy, const T* x, T* dx, int64_t n, T mean, T a, T b, T c, const Limits<T>& limits) {                         \
    combine(dy, x, dx, n, mean, a, b, c, limits);                                                                                                \
  }                                                                                                                                              \
  void norm_row_##suffix(const T* x, const T* w, const T* b, T* y, int64_t n, double eps, bool centered, T* mean, T* rstd) {                      \
    row(x, w, b, y, n, eps, centered, mean, rstd);                                                                                               \
  }                                                                                                                                              \
  void norm_row_backward_##suffix(const T* dy, const T* x, const T* w, T mean, T r, int64_t n, bool centered, T* dx, T* dw, T* db) {               \
    row_backward(dy, x, w, mean, r, n, centered, dx, dw, db);                                                                                    \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)

#undef FL_DEFINE

#define FL_DEFINE(S, T, suffix)                                                                                                                  \
  void norm_col_stats_##suffix(const S* x, int64_t rows, int64_t ld, int64_t width, double* m, double* s) {                                       \
    col_stats(x, rows, ld, width, m, s);                                                                                                         \
  }                                                                                                                                              \
  void norm_col_dots_##suffix(const S* dy, const S* x, int64_t rows, int64_t ld, int64_t width, const T* m, const ColumnLimits<T>& limits,        \
                              double* a, double* b) {                                                                                            \
    col_dots(dy, x, rows, ld, width, m, limits, a, b);                                                                                           \
  }                                                                                                                                              \
  void norm_col_affine_##suffix(const S* x, S* y, int64_t rows, int64_t ld, int64_t width, const ColumnLimits<T>& limits) {                       \
    col_affine(x, y, rows, ld, width, limits);                                                                                                   \
  }                                                                                                                                              \
  void norm_col_combine_##suffix(const S* dy, const S* x, S* dx, int64_t rows, int64_t ld, int64_t width, const T* m, const T* a, const T* b,     \
                                 const T* c, const ColumnLimits<T>& limits) {                                                                    \
    col_combine(dy, x, dx, rows, ld, width, m, a, b, c, limits);                                                                                 \
  }
FL_DEFINE(float, float, f32)
FL_DEFINE(double, double, f64)
FL_DEFINE(BFloat16, float, bf16)
FL_DEFINE(Float16, float, f16)

}  // namespace fl::kernels::FL_ISA
