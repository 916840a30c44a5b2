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

// y = the sum of kTaps rows from tap `t` on, or y += that.
template <class T, int kTaps>
void mix_rows(const Mix<T>& mix, const T* x, T* y, int64_t k, int64_t t, bool add) {
  const int64_t inner = mix.inner;
  const T* from[kTaps];
  T weight[kTaps];
  for (int i = 0; i < kTaps; ++i) {
    const int64_t at = (t + i) * mix.count + k;
    from[i] = x + int64_t{mix.index[at]} * inner, weight[i] = mix.weight[at];
  }
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      T sum = y[i];
#pragma GCC unroll 8
      for (int j = 0; j < kTaps; ++j) sum += weight[j] * from[j][i];
      y[i] = sum;
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) {
      T sum = 0;
#pragma GCC unroll 8
      for (int j = 0; j < kTaps; ++j) sum += weight[j] * from[j][i];
      y[i] = sum;
    }
  }
}

template <class T, int kTaps>
void mix_row(const Mix<T>& mix, const T* x, T* y, int64_t k) {
  if constexpr (kTaps > 0) return mix_rows<T, kTaps>(mix, x, y, k, 0, false);
  if (mix.taps == 0) return void(std::fill_n(y, mix.inner, T(0)));
  int64_t t = 0;
  for (; t + 8 <= mix.taps; t += 8) mix_rows<T, 8>(mix, x, y, k, t, t > 0);
  for (; t + 2 <= mix.taps; t += 2) mix_rows<T, 2>(mix, x, y, k, t, t > 0);
  if (t < mix.taps) mix_rows<T, 1>(mix, x, y, k, t, t > 0);
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
    case 3: return mix_lines<T, 3>(mix, x, y, first, last);
    case 4: return mix_lines<T, 4>(mix, x, y, first, last);
    case 5: return mix_lines<T, 5>(mix, x, y, first, last);
    case 6: return mix_lines<T, 6>(mix, x, y, first, last);
    case 7: return mix_lines<T, 7>(mix, x, y, first, last);
    case 8: return mix_lines<T, 8>(mix, x, y, first, last);
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
