#include "ops/softmax/softmax.h"

#include "base/lanes.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
void rows_forward(const T* x, T* y, int64_t rows, int64_t n, bool log) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T m = vm::row_max(x, n, -vm::kInf<T>);
    if (log) {
      const T l = vm::log(vm::sum_in_lanes<T>(n, [=](int64_t i) __attribute__((always_inline)) { return vm::exp(x[i] - m); }));
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m) - l;
    } else {
      const T f = T(1) / vm::sum_in_lanes<T>(n, [=](int64_t i) __attribute__((always_inline)) { return y[i] = vm::exp(x[i] - m); });
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] *= f;
    }
  }
}

template <class T>
void rows_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t n, bool log) {
  for (int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    T s = 0;
    if (log) {
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < n; ++i) s += dy[i];
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - vm::exp(y[i]) * s;
    } else {
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < n; ++i) s += dy[i] * y[i];
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] = (dy[i] - s) * y[i];
    }
  }
}

constexpr int64_t kWidth = 64;

// The largest of each column, where it is above -inf.
template <class T>
FL_VM void cols_max(const T* x, int64_t n, int64_t step, int64_t width, T* m) {
  for (int64_t j = 0; j < width; ++j) m[j] = -vm::kInf<T>;
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) m[j] = x[i * step + j] > m[j] ? x[i * step + j] : m[j];
}

template <class T>
void cols_forward(const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log) {
  T m[kWidth], s[kWidth];
  cols_max(x, n, inner, width, m);
  for (int64_t j = 0; j < width; ++j) s[j] = 0;
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const T e = vm::exp(x[i * inner + j] - m[j]);
      y[i * inner + j] = e;
      s[j] += e;
    }
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) s[j] = log ? vm::log(s[j]) : T(1) / s[j];
  for (int64_t i = 0; i < n; ++i) {
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) y[i * inner + j] = (x[i * inner + j] - m[j]) - s[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) y[i * inner + j] *= s[j];
    }
  }
}

template <class T>
void cols_backward(const T* dy, const T* y, T* dx, int64_t n, int64_t inner, int64_t width, bool log) {
  T s[kWidth];
  for (int64_t j = 0; j < width; ++j) s[j] = 0;
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) s[j] += log ? dy[i * inner + j] : dy[i * inner + j] * y[i * inner + j];
  for (int64_t i = 0; i < n; ++i) {
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) dx[i * inner + j] = dy[i * inner + j] - vm::exp(y[i * inner + j]) * s[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) dx[i * inner + j] = (dy[i * inner + j] - s[j]) * y[i * inner + j];
    }
  }
}

template <class T>
T logsumexp(const T* x, int64_t n, int64_t step) {
  if (step == 1) {
    const T m = vm::row_max(x, n, -vm::kInf<T>);
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; ++i) s += vm::exp(x[i] - m);
    return m + vm::log(s);
  }
  T m = -vm::kInf<T>, s = 0;
  for (int64_t i = 0; i < n; ++i) m = x[i * step] > m ? x[i * step] : m;
  for (int64_t i = 0; i < n; ++i) s += vm::exp(x[i * step] - m);
  return m + vm::log(s);
}

template <class T>
void scaled_row(const T* x, T lse, T scale, T* dx, int64_t n, int64_t step) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] = scale * vm::exp(x[i] - lse);
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i * step] = scale * vm::exp(x[i * step] - lse);
  }
}

template <class T>
void logsumexp_cols(const T* x, int64_t n, int64_t step, int64_t width, T* lse) {
  T m[kWidth], s[kWidth];
  cols_max(x, n, step, width, m);
  for (int64_t j = 0; j < width; ++j) s[j] = 0;
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) s[j] += vm::exp(x[i * step + j] - m[j]);
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) lse[j] = m[j] + vm::log(s[j]);
}
template <class T>
void scaled_cols(const T* x, const T* lse, const T* scale, T* dx, int64_t n, int64_t step, int64_t width) {
  for (int64_t i = 0; i < n; ++i)
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) dx[i * step + j] = scale[j] * vm::exp(x[i * step + j] - lse[j]);
}

// Terms are of one sign where w is, so sums in blocks of the type itself lose little; the blocks add in double.
template <class T>
double smoothed(const T* x, T lse, const T* w, int64_t n, int64_t step) {
  double all = 0;
  for (int64_t c = 0; c < n; c += 256) {
    const int64_t last = c + 256 < n ? c + 256 : n;
    T s = 0;
    if (step != 1) {
      for (int64_t i = c; i < last; ++i) s += (w ? w[i] : T(1)) * (lse - x[i * step]);
    } else if (w) {
#pragma omp simd reduction(+ : s)
      for (int64_t i = c; i < last; ++i) s += w[i] * (lse - x[i]);
    } else {
#pragma omp simd reduction(+ : s)
      for (int64_t i = c; i < last; ++i) s += lse - x[i];
    }
    all += static_cast<double>(s);
  }
  return all;
}

template <class T>
void smoothed_backward(const T* w, T scale, T* dx, int64_t n, int64_t step) {
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) dx[i * step] -= scale * (w ? w[i] : T(1));
  } else if (w) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] -= scale * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dx[i] -= scale;
  }
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                               \
  void softmax_rows_##suffix(const T* x, T* y, int64_t rows, int64_t n, bool log) { rows_forward(x, y, rows, n, log); }    \
  void softmax_rows_backward_##suffix(const T* dy, const T* y, T* dx, int64_t rows, int64_t n, bool log) {                 \
    rows_backward(dy, y, dx, rows, n, log);                                                                                \
  }                                                                                                                        \
  void softmax_cols_##suffix(const T* x, T* y, int64_t n, int64_t inner, int64_t width, bool log) {                        \
    cols_forward(x, y, n, inner, width, log);                                                                              \
  }                                                                                                                        \
  void softmax_cols_backward_##suffix(const T* dy, const T* y, T* dx, int64_t n, int64_t inner, int64_t width, bool log) { \
    cols_backward(dy, y, dx, n, inner, width, log);                                                                        \
  }                                                                                                                        \
  T logsumexp_row_##suffix(const T* x, int64_t n, int64_t step) { return logsumexp(x, n, step); }                          \
  void logsumexp_cols_##suffix(const T* x, int64_t n, int64_t step, int64_t width, T* lse) { logsumexp_cols(x, n, step, width, lse); } \
  void scaled_softmax_cols_##suffix(const T* x, const T* lse, const T* scale, T* dx, int64_t n, int64_t step, int64_t width) { \
    scaled_cols(x, lse, scale, dx, n, step, width);                                                                        \
  }                                                                                                                        \
  void scaled_softmax_row_##suffix(const T* x, T lse, T scale, T* dx, int64_t n, int64_t step) {                           \
    scaled_row(x, lse, scale, dx, n, step);                                                                                \
  }                                                                                                                        \
  double smoothed_row_##suffix(const T* x, T lse, const T* w, int64_t n, int64_t step) { return smoothed(x, lse, w, n, step); } \
  void smoothed_row_backward_##suffix(const T* w, T scale, T* dx, int64_t n, int64_t step) { smoothed_backward(w, scale, dx, n, step); }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)

}  // namespace fl::kernels::FL_ISA
