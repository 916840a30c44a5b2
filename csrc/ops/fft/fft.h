// Fourier transforms along one axis, of as many lines at once as a vector has lanes.
//
// Note [Fourier transforms]
// Of sizes whose factors are 2, 3 and 5, up to kMostPoints: their lines lie side by side in memory of ours then, point by point, the real and
// the imaginary parts of a point apart, so that every step of the transform is a loop over lanes without shuffles. The steps are Stockham's (each
// writes its results in the order of the next one, so that nothing is reversed), of radix 4, 2, 3 and 5. The inverse is the transform with
// real and imaginary parts exchanged. Two lines of real numbers are the parts of one complex line. Other sizes are SciPy's.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {

constexpr int64_t kMostPoints = 4096;  // two buffers of them, with two vectors per point, fit into a second-level cache

constexpr bool is_fft_size(int64_t n) {
  if (n < 2 || n > kMostPoints) return false;
  for (const int r : {2, 3, 5})
    while (n % r == 0) n /= r;
  return n == 1;
}

// Half a vector of AVX-512: both buffers of a few hundred points stay in the first-level cache then, which is worth more than width.
template <class T>
constexpr int64_t kFftLanes = 32 / sizeof(T);

template <class T>
constexpr int64_t kFftGap = 576 / sizeof(T);
template <class T>
constexpr int64_t fft_work(int64_t n) {
  return 2 * (2 * n * kFftLanes<T> + kFftGap<T>);
}

// What a size is factored into, and exp(-2 pi i k / n).
template <class T>
struct FftPlan {
  int64_t n = 0;
  int steps = 0;
  std::array<int8_t, 12> factors{};
  const Complex<T>* roots = nullptr;
};

// Lines of a tensor: point k of line l is at l * apart + k * step.
struct FftLines {
  int64_t lanes, step, apart;
};

}  // namespace fl

// `work` has room for fft_work<T>(n) numbers, and begins at a cache line. Of real numbers there are up to 2 kFftLanes<T> lines at once.
#define FL_FFT_KERNELS(T, suffix)                                                                                                            \
  FL_SIMD_KERNEL(void, fft_complex_##suffix, const fl::Complex<T>* x, fl::Complex<T>* y, const fl::FftLines& lines, const fl::FftPlan<T>& plan, \
                 bool forward, T scale, T* work)                                                                                             \
  FL_SIMD_KERNEL(void, fft_real_##suffix, const T* x, const fl::FftLines& from, fl::Complex<T>* y, const fl::FftLines& to,                    \
                 const fl::FftPlan<T>& plan, T scale, T* work)                                                                               \
  FL_SIMD_KERNEL(void, fft_to_real_##suffix, const fl::Complex<T>* x, const fl::FftLines& from, T* y, const fl::FftLines& to,                 \
                 const fl::FftPlan<T>& plan, T scale, T* work)
FL_FFT_KERNELS(float, f32)
FL_FFT_KERNELS(double, f64)
#undef FL_FFT_KERNELS
