#include "ops/vision/mix.h"

#include <algorithm>

#include "base/vmath_basic.h"

namespace fl::kernels::FL_ISA {
namespace {

// One result per line: the axis is the last one.
template <class T, int kTaps>
void mix_elements(const Mix<T>& mix, const T* x, T* y, int64_t first, int64_t last) {
  const int32_t* index = mix.index + first;
  const T* weight = mix.weight + first;
  const int64_t step = mix.count, taps = kTaps ? kTaps : mix.taps;
#pragma omp simd
  for (int64_t k = 0; k < last - first; ++k) {
    T sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += weight[t * step + k] * x[index[t * step + k]];
    y[k] = sum;
  }
}

template <class T, int kTaps>
void mix_row(const Mix<T>& mix, const T* x, T* y, int64_t k) {
  const int64_t taps = kTaps ? kTaps : mix.taps, inner = mix.inner;
  if constexpr (kTaps > 0) {
    const T* from[kTaps];
    T weight[kTaps];
    for (int t = 0; t < kTaps; ++t) from[t] = x + int64_t{mix.index[t * mix.count + k]} * inner, weight[t] = mix.weight[t * mix.count + k];
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      T sum = 0;
#pragma GCC unroll 4
      for (int t = 0; t < kTaps; ++t) sum += weight[t] * from[t][i];
      y[i] = sum;
    }
  } else {
    std::fill_n(y, inner, T(0));
    for (int64_t t = 0; t < taps; ++t) {
      const T* from = x + int64_t{mix.index[t * mix.count + k]} * inner;
      const T weight = mix.weight[t * mix.count + k];
#pragma omp simd
      for (int64_t i = 0; i < inner; ++i) y[i] += weight * from[i];
    }
  }
}

template <class T, int kTaps>
void mix_lines(const Mix<T>& mix, const T* x, T* y, int64_t first, int64_t last) {
  for (int64_t r = first; r < last;) {
    const int64_t line = r / mix.count, k = r - line * mix.count, end = std::min(mix.count, k + last - r);
    const T* from = x + line * mix.size * mix.inner;
    if (mix.inner == 1) mix_elements<T, kTaps>(mix, from, y + r, k, end);
    else
      for (int64_t j = k; j < end; ++j) mix_row<T, kTaps>(mix, from, y + (line * mix.count + j) * mix.inner, j);
    r += end - k;
  }
}
template <class T>
void mix_axis(const Mix<T>& mix, const T* x, T* y, int64_t first, int64_t last) {
  switch (mix.taps) {
    case 2: return mix_lines<T, 2>(mix, x, y, first, last);
    case 4: return mix_lines<T, 4>(mix, x, y, first, last);
    default: return mix_lines<T, 0>(mix, x, y, first, last);
  }
}

template <class T>
void spread_axis(const Mix<T>& mix, const T* dy, T* dx, int64_t first, int64_t last) {
  const int64_t inner = mix.inner;
  for (int64_t line = first; line < last; ++line) {
    const T* from = dy + line * mix.count * inner;
    T* to = dx + line * mix.size * inner;
    std::fill_n(to, mix.size * inner, T(0));
    for (int64_t k = 0; k < mix.count; ++k)
      for (int64_t t = 0; t < mix.taps; ++t) {
        T* row = to + int64_t{mix.index[t * mix.count + k]} * inner;
        const T weight = mix.weight[t * mix.count + k];
        if (inner == 1) {
          *row += weight * from[k];
          continue;
        }
#pragma omp simd
        for (int64_t i = 0; i < inner; ++i) row[i] += weight * from[k * inner + i];
      }
  }
}

}  // namespace

void mix_axis_f32(const Mix<float>& mix, const float* x, float* y, int64_t first, int64_t last) { mix_axis(mix, x, y, first, last); }
void mix_axis_f64(const Mix<double>& mix, const double* x, double* y, int64_t first, int64_t last) { mix_axis(mix, x, y, first, last); }
void spread_axis_f32(const Mix<float>& mix, const float* dy, float* dx, int64_t first, int64_t last) { spread_axis(mix, dy, dx, first, last); }
void spread_axis_f64(const Mix<double>& mix, const double* dy, double* dx, int64_t first, int64_t last) { spread_axis(mix, dy, dx, first, last); }

}  // namespace fl::kernels::FL_ISA
