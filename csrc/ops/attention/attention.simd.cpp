#include "ops/attention/attention.h"

#include "base/element.h"
#include "base/lanes.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
T forward_row(T* s, int64_t n, int64_t width, T* top, T* sum) {
  const T m = vm::row_max(s, n, *top);
  for (int64_t j = n; j < width; ++j) s[j] = 0;
  if (m == -vm::kInf<T>) {  // nothing but masked keys so far
    for (int64_t j = 0; j < n; ++j) s[j] = 0;
    return 1;
  }
  T l = 0;
#pragma omp simd reduction(+ : l)
  for (int64_t j = 0; j < n; ++j) {
    const T e = vm::exp(s[j] - m);
    s[j] = e;
    l += e;
  }
  const T factor = vm::exp(*top - m);
  *sum = *sum * factor + l;
  *top = m;
  return factor;
}

template <class T>
void multiply(T* x, int64_t n, T factor) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

template <class T>
void backward_row(T* s, T* dp, int64_t n, int64_t width, T lse, T delta, T scale) {
  if (lse == -vm::kInf<T>) n = 0;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T p = vm::exp(s[j] - lse);
    s[j] = p;
    dp[j] = scale * p * (dp[j] - delta);
  }
  for (int64_t j = n; j < width; ++j) s[j] = dp[j] = 0;
}

template <class S, class T = Computed<S>>
T dot(const S* a, const S* b, int64_t n) {
  T s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t j = 0; j < n; ++j) s += vm::wide(a[j]) * vm::wide(b[j]);
  return s;
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                   \
  T attention_row_##suffix(T* s, int64_t n, int64_t width, T* top, T* sum) { return forward_row(s, n, width, top, sum); }       \
  void attention_scale_##suffix(T* x, int64_t n, T factor) { multiply(x, n, factor); }                                         \
  void attention_row_backward_##suffix(T* s, T* dp, int64_t n, int64_t width, T lse, T delta, T scale) {                        \
    backward_row(s, dp, n, width, lse, delta, scale);                                                                          \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)
float attention_dot_f32(const float* a, const float* b, int64_t n) { return dot(a, b, n); }
double attention_dot_f64(const double* a, const double* b, int64_t n) { return dot(a, b, n); }
float attention_dot_bf16(const BFloat16* a, const BFloat16* b, int64_t n) { return dot(a, b, n); }
float attention_dot_f16(const Float16* a, const Float16* b, int64_t n) { return dot(a, b, n); }

}  // namespace fl::kernels::FL_ISA
