#include "ops/attention/attention.h"

#include "base/element.h"
#include "base/lanes.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

// How many columns of row i are seen.
FL_VM int64_t seen_in(int64_t i, int64_t cols, int64_t first, int64_t step) {
  const int64_t n = first + i * step;
  return n < 0 ? 0 : n > cols ? cols : n;
}

template <class T>
void scale_row(T* x, int64_t n, T factor) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

// How far loops go that end with a whole vector, if there is room for it: exp(-inf) is 0, and a sum of scalars takes as long as many vectors.
template <class T>
int64_t whole_vectors(int64_t n, int64_t width) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  const int64_t up = (n + kLanes - 1) / kLanes * kLanes;
  return up <= width ? up : n;
}

template <class T>
T forward_row(T* s, int64_t n, int64_t width, T* top, T* sum) {
  const int64_t end = whole_vectors<T>(n, width);
  for (int64_t j = n; j < end; ++j) s[j] = -vm::kInf<T>;
  const T m = vm::row_max(s, end, *top);
  if (m == -vm::kInf<T>) {  // nothing but masked keys so far, or NaNs, of which there is no largest
    for (int64_t j = 0; j < n; ++j)
      if (s[j] != s[j]) *sum = s[j];
    for (int64_t j = 0; j < width; ++j) s[j] = 0;
    return 1;
  }
  for (int64_t j = end; j < width; ++j) s[j] = 0;
  const T l = vm::sum_in_lanes<T>(end, [=](int64_t j) __attribute__((always_inline)) {
    const T e = vm::exp(s[j] - m);
    s[j] = e;
    return e;
  });
  const T factor = vm::exp(*top - m);
  *sum = *sum * factor + l;
  *top = m;
  return factor;
}

template <class T>
void forward_tile(T* s, int64_t rows, int64_t cols, int64_t first, int64_t step, T scale, T* top, T* sum, T* out, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) {
    T* const row = s + i * cols;
    const int64_t seen = seen_in(i, cols, first, step);
    if (scale != T(1)) scale_row(row, seen, scale);
    const T factor = forward_row(row, seen, cols, top + i, sum + i);
    if (out && factor != T(1)) scale_row(out + i * width, width, factor);
  }
}

template <class T>
void finish(T* out, int64_t rows, int64_t width, const T* top, const T* sum, T* lse) {
#pragma omp simd
  for (int64_t i = 0; i < rows; ++i) {
    const T l = top[i] + vm::log(sum[i]), none = sum[i] == 0 ? -vm::kInf<T> : sum[i];
    lse[i] = sum[i] > 0 ? l : none;
  }
  for (int64_t i = 0; i < rows; ++i) scale_row(out + i * width, width, sum[i] == 0 ? T(0) : T(1) / sum[i]);
}

template <class T>
void backward_tile(T* s, T* dp, int64_t rows, int64_t cols, int64_t first, int64_t step, bool scaled, T scale, const T* lse, const T* delta) {
  for (int64_t i = 0; i < rows; ++i) {
    T *const p_row = s + i * cols, *const ds_row = dp + i * cols;
    const T l = lse[i], d = delta[i];
    int64_t n = seen_in(i, cols, first, step);
    if (!scaled) scale_row(p_row, n, scale);
    if (l == -vm::kInf<T>) n = 0;
    const int64_t end = whole_vectors<T>(n, cols);
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      const T p = vm::exp(p_row[j] - l);
      p_row[j] = p;
      ds_row[j] = scale * p * (ds_row[j] - d);
    }
    for (int64_t j = n; j < cols; ++j) p_row[j] = ds_row[j] = 0;
  }
}

template <class S, class T = Computed<S>>
void dots(const S* a, const S* b, int64_t rows, int64_t n, T* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const S *const x = a + i * n, *const y = b + i * n;
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < n; ++j) s += vm::wide(x[j]) * vm::wide(y[j]);
    out[i] = s;
  }
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                                      \
  void attention_scale_##suffix(T* x, int64_t n, T factor) { scale_row(x, n, factor); }                                                          \
  void attention_tile_##suffix(T* s, int64_t rows, int64_t cols, int64_t first, int64_t step, T scale, T* top, T* sum, T* out, int64_t width) {    \
    forward_tile(s, rows, cols, first, step, scale, top, sum, out, width);                                                                       \
  }                                                                                                                                              \
  void attention_finish_##suffix(T* out, int64_t rows, int64_t width, const T* top, const T* sum, T* lse) {                                       \
    finish(out, rows, width, top, sum, lse);                                                                                                     \
  }                                                                                                                                              \
  void attention_tile_backward_##suffix(T* s, T* dp, int64_t rows, int64_t cols, int64_t first, int64_t step, bool scaled, T scale, const T* lse,  \
                                        const T* delta) {                                                                                        \
    backward_tile(s, dp, rows, cols, first, step, scaled, scale, lse, delta);                                                                    \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)
void attention_dots_f32(const float* a, const float* b, int64_t rows, int64_t n, float* out) { dots(a, b, rows, n, out); }
void attention_dots_f64(const double* a, const double* b, int64_t rows, int64_t n, double* out) { dots(a, b, rows, n, out); }
void attention_dots_bf16(const BFloat16* a, const BFloat16* b, int64_t rows, int64_t n, float* out) { dots(a, b, rows, n, out); }
void attention_dots_f16(const Float16* a, const Float16* b, int64_t rows, int64_t n, float* out) { dots(a, b, rows, n, out); }

}  // namespace fl::kernels::FL_ISA
