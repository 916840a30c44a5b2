// Fourier transforms along one axis, of as many lines at once as a vector has lanes.
//
// Note [Fourier transforms]
// Of sizes whose factors are at most kMostRadix, up to kMostPoints. The lines lie side by side in memory of ours, point by point, so that every
// step of the transform is a loop over lanes. The steps are in place: of a
// length L and a radix R, each takes R points that lie L / R apart, writes their transform over them, and leaves R transforms of length L / R
// that lie one behind the other (Cooley and Tukey 1965, by decimation in frequency). So the results lie in the order of reversed digits, which
// costs nothing: where point k is found is looked up when it is copied out (`places`). The inverse is the same transform, whose point k is -k of that
// (`back`). An even number of real ones are the parts of half as many complex ones (Sorensen et al. 1987, section V). Other sizes are SciPy's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {

constexpr int64_t kMostPoints = 4096;
constexpr int kMostRadix = 31;  // a step of radix R takes about R operations per point

constexpr bool is_fft_size(int64_t n) {
  if (n < 1 || n > kMostPoints) return false;
  for (int r = 2; r <= kMostRadix; ++r)
    while (n % r == 0) n /= r;
  return n == 1;
}

// Half a vector of AVX-512: its points of a few hundred, what comes in and what goes out stay in the first-level cache, which is worth more than width.
template <class T>
constexpr int64_t kFftLanes = 32 / sizeof(T);
template <class T>
constexpr int64_t fft_work(int64_t n) { return (n + 1) * 2 * kFftLanes<T>; }  // numbers

// What does not depend on the lines.
template <class T>
struct FftPlan {
  int64_t n = 0;
  std::vector<int8_t> factors;
  std::vector<Complex<T>> roots;  // exp(-2 pi i k / n)
  std::vector<int16_t> places;    // where point k of the result lies, and for k = n a place behind all
  std::vector<int16_t> back;      // where point k of the inverse lies
};

// Lines of a tensor: point k of line l is at l * apart + k * step.
struct FftLines {
  int64_t lanes, step, apart;
};

}  // namespace fl

// `work` has room for fft_work<T>(plan.n) numbers and begins at a cache line. Of n real numbers `plan` is that of their complex
// ones, n / 2 or, of an odd number, n, and `roots` are those of n.
#define FL_FFT_KERNELS(T, suffix)                                                                                                            \
  FL_SIMD_KERNEL(void, fft_complex_##suffix, const fl::Complex<T>* x, fl::Complex<T>* y, const fl::FftLines& lines, const fl::FftPlan<T>& plan, \
                 bool forward, T scale, T* work)                                                                              \
  FL_SIMD_KERNEL(void, fft_real_##suffix, const T* x, const fl::FftLines& from, fl::Complex<T>* y, const fl::FftLines& to,                    \
                 const fl::FftPlan<T>& plan, const fl::Complex<T>* roots, int64_t n, T scale, T* work)                                   \
  FL_SIMD_KERNEL(void, fft_to_real_##suffix, const fl::Complex<T>* x, const fl::FftLines& from, T* y, const fl::FftLines& to,                 \
                 const fl::FftPlan<T>& plan, const fl::Complex<T>* roots, int64_t n, T scale, T* work)
FL_FFT_KERNELS(float, f32)
FL_FFT_KERNELS(double, f64)
#undef FL_FFT_KERNELS
