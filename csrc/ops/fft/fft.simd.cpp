#include "ops/fft/fft.h"

#include <algorithm>
#include <utility>

#include "storage/transpose.h"

namespace fl::kernels::FL_ISA {
namespace {

// Real and imaginary parts of points: a vector of each, side by side, and those of the next point behind them.
template <class T>
struct Parts {
  T *re, *im;
};
template <class T>
constexpr int64_t kPoint = 2 * kFftLanes<T>;

// A number of each lane, and complex ones. (Loops over lanes that are left to the compiler stay scalar here: GCC 12 gives up on their pairs.)
template <class T>
struct LanesOf {
  typedef T Type __attribute__((vector_size(32), may_alias));
};
template <class T>
using Lanes = typename LanesOf<T>::Type;

template <class T>
struct Pair {
  Lanes<T> re, im;
};
template <class T>
struct Root {
  T re, im;
};
#define FL_INLINE inline __attribute__((always_inline))
template <class T>
FL_INLINE Pair<T> operator+(Pair<T> a, Pair<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T>
FL_INLINE Pair<T> operator-(Pair<T> a, Pair<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T>
FL_INLINE Pair<T> operator*(Pair<T> a, T s) { return {a.re * s, a.im * s}; }
template <class T>
FL_INLINE Pair<T> operator*(Pair<T> a, Root<T> w) { return {a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }
template <class T>
FL_INLINE Pair<T> minus_i(Pair<T> a) { return {a.im, -a.re}; }  // -i a

// One step: `length` points are left of each of `done` interleaved transforms. Of every p of length / R it transforms the numbers that lie
// length / R apart, and multiplies result k by w^k, the root of unity of `length` to the power p.
template <int R, class T>
void step(Parts<const T> x, Parts<T> y, int64_t length, int64_t done, const Complex<T>* roots, int64_t n) {
  const int64_t m = length / R, row = done * kPoint<T>, every = n / length, apart = m * row;
  for (int64_t p = 0; p < m; ++p) {
    const auto root = [&](int k) { return Root<T>{roots[k * p * every].re, roots[k * p * every].im}; };
    const T *xr = x.re + p * row, *xi = x.im + p * row;
    T *yr = y.re + p * R * row, *yi = y.im + p * R * row;
    const auto in = [&](int64_t k, int64_t j) __attribute__((always_inline)) {
      return Pair<T>{*reinterpret_cast<const Lanes<T>*>(xr + k * apart + j), *reinterpret_cast<const Lanes<T>*>(xi + k * apart + j)};
    };
    const auto out = [&](int64_t k, int64_t j, Pair<T> v) __attribute__((always_inline)) {
      *reinterpret_cast<Lanes<T>*>(yr + k * row + j) = v.re;
      *reinterpret_cast<Lanes<T>*>(yi + k * row + j) = v.im;
    };
    if constexpr (R == 2) {
      const Root<T> w1 = root(1);
      for (int64_t j = 0; j < row; j += kPoint<T>) {
        const Pair<T> a = in(0, j), b = in(1, j);
        out(0, j, a + b);
        out(1, j, (a - b) * w1);
      }
    } else if constexpr (R == 3) {
      constexpr T kSin = static_cast<T>(0.86602540378443864676);
      const Root<T> w1 = root(1), w2 = root(2);
      for (int64_t j = 0; j < row; j += kPoint<T>) {
        const Pair<T> a = in(0, j), b = in(1, j), c = in(2, j);
        const Pair<T> sum = b + c, turned = minus_i(b - c) * kSin, middle = a - sum * T(0.5);
        out(0, j, a + sum);
        out(1, j, (middle + turned) * w1);
        out(2, j, (middle - turned) * w2);
      }
    } else if constexpr (R == 4) {
      const Root<T> w1 = root(1), w2 = root(2), w3 = root(3);
      for (int64_t j = 0; j < row; j += kPoint<T>) {
        const Pair<T> v0 = in(0, j), v1 = in(1, j), v2 = in(2, j), v3 = in(3, j);
        const Pair<T> a = v0 + v2, b = v0 - v2, c = v1 + v3, d = minus_i(v1 - v3);
        out(0, j, a + c);
        out(1, j, (b + d) * w1);
        out(2, j, (a - c) * w2);
        out(3, j, (b - d) * w3);
      }
    } else {
      constexpr T kCos1 = static_cast<T>(0.30901699437494742410), kCos2 = static_cast<T>(-0.80901699437494742410);
      constexpr T kSin1 = static_cast<T>(0.95105651629515357212), kSin2 = static_cast<T>(0.58778525229247312917);
      const Root<T> w1 = root(1), w2 = root(2), w3 = root(3), w4 = root(4);
      for (int64_t j = 0; j < row; j += kPoint<T>) {
        const Pair<T> v0 = in(0, j), v1 = in(1, j), v2 = in(2, j), v3 = in(3, j), v4 = in(4, j);
        const Pair<T> s1 = v1 + v4, s2 = v2 + v3, d1 = minus_i(v1 - v4), d2 = minus_i(v2 - v3);
        const Pair<T> a = v0 + s1 * kCos1 + s2 * kCos2, b = v0 + s1 * kCos2 + s2 * kCos1;
        const Pair<T> c = d1 * kSin1 + d2 * kSin2, d = d1 * kSin2 - d2 * kSin1;
        out(0, j, v0 + s1 + s2);
        out(1, j, (a + c) * w1);
        out(2, j, (b + d) * w2);
        out(3, j, (b - d) * w3);
        out(4, j, (a - c) * w4);
      }
    }
  }
}

// From x, which is overwritten; returns where the results are, x or y.
template <class T>
Parts<T> transform(Parts<T> x, Parts<T> y, const FftPlan<T>& plan) {
  int64_t length = plan.n, done = 1;
  for (int i = 0; i < plan.steps; ++i) {
    const int r = plan.factors[static_cast<size_t>(i)];
    const Parts<const T> from{x.re, x.im};
    if (r == 4) step<4>(from, y, length, done, plan.roots, plan.n);
    else if (r == 2) step<2>(from, y, length, done, plan.roots, plan.n);
    else if (r == 3) step<3>(from, y, length, done, plan.roots, plan.n);
    else step<5>(from, y, length, done, plan.roots, plan.n);
    std::swap(x, y);
    length /= r;
    done *= r;
  }
  return x;
}

template <class T>
struct Buffers {
  Parts<T> a, b;
  Buffers(T* work, int64_t n) {
    // Rows of points are powers of two apart; buffers that were, too, would share the lines of the first-level cache with them.
    const int64_t size = n * kPoint<T> + kFftGap<T>;
    a = at(work), b = at(work + size);
  }
  static Parts<T> at(T* memory) { return {memory, memory + kFftLanes<T>}; }
  // The pair that `used` is not.
  Parts<T> other(Parts<T> used) const { return std::min(used.re, used.im) == a.re ? b : a; }
};

// `count` points of the lines, in lanes; those that there is no line for are zeros. Rows of complex numbers are rows of twice as many real
// ones, which a transpose puts in their places.
template <class T>
void take(const Complex<T>* x, const FftLines& lines, int64_t count, Parts<T> to) {
  constexpr int64_t W = kFftLanes<T>, P = kPoint<T>;
  if (lines.lanes < W) std::fill_n(to.re, count * P, T(0));
  if (lines.step == 1) return transpose_block(x, 2 * lines.apart, to.re, W, lines.lanes, 2 * count, sizeof(T));
  for (int64_t k = 0; k < count; ++k) {  // lines lie side by side
    const Complex<T>* from = x + k * lines.step;
    T *re = to.re + k * P, *im = to.im + k * P;
#pragma omp simd
    for (int64_t l = 0; l < lines.lanes; ++l) re[l] = from[l].re, im[l] = from[l].im;
  }
}

template <class T>
void scale_by(T* x, int64_t n, T scale) {
  if (scale == T(1)) return;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] *= scale;
}

// From points, which are overwritten.
template <class T>
void put(Parts<T> from, int64_t count, Complex<T>* y, const FftLines& lines, T scale) {
  constexpr int64_t W = kFftLanes<T>, P = kPoint<T>;
  if (lines.step == 1) {
    scale_by(from.re, count * P, scale);
    return transpose_block(from.re, W, y, 2 * lines.apart, 2 * count, lines.lanes, sizeof(T));
  }
  for (int64_t k = 0; k < count; ++k) {
    Complex<T>* to = y + k * lines.step;
    const T *re = from.re + k * P, *im = from.im + k * P;
#pragma omp simd
    for (int64_t l = 0; l < lines.lanes; ++l) to[l].re = re[l] * scale, to[l].im = im[l] * scale;
  }
}

// Real numbers of up to kFftLanes<T> lines as one part of points, and one part as such lines.
template <class T>
void take_real(const T* x, const FftLines& lines, int64_t lanes, int64_t count, T* part) {
  constexpr int64_t P = kPoint<T>;
  if (lanes < kFftLanes<T>)
    for (int64_t k = 0; k < count; ++k) std::fill_n(part + k * P, kFftLanes<T>, T(0));
  if (lines.step == 1) return transpose_block(x, lines.apart, part, P, lanes, count, sizeof(T));
  for (int64_t k = 0; k < count; ++k) {
#pragma omp simd
    for (int64_t l = 0; l < lanes; ++l) part[k * P + l] = x[k * lines.step + l];
  }
}

template <class T>
void put_real(T* part, int64_t lanes, int64_t count, T* y, const FftLines& lines, T scale) {
  constexpr int64_t P = kPoint<T>;
  for (int64_t k = 0; k < count; ++k) scale_by(part + k * P, kFftLanes<T>, scale);
  if (lines.step == 1) return transpose_block(part, P, y, lines.apart, count, lanes, sizeof(T));
  for (int64_t k = 0; k < count; ++k) {
#pragma omp simd
    for (int64_t l = 0; l < lanes; ++l) y[k * lines.step + l] = part[k * P + l];
  }
}

FftLines some(const FftLines& lines, int64_t lanes) { return {lanes, lines.step, lines.apart}; }

template <class T>
void complex_lines(const Complex<T>* x, Complex<T>* y, const FftLines& lines, const FftPlan<T>& plan, bool forward, T scale, T* work) {
  const Buffers<T> buffers(work, plan.n);
  const auto turned = [forward](Parts<T> p) { return forward ? p : Parts<T>{p.im, p.re}; };
  take(x, lines, plan.n, buffers.a);
  const Parts<T> found = transform(turned(buffers.a), turned(buffers.b), plan);
  put(turned(found), plan.n, y, lines, scale);
}

// With z = a + b i for two real lines: the transform of a is (z[k] + conj z[n - k]) / 2, of b (z[k] - conj z[n - k]) / 2i.
template <class T>
void real_lines(const T* x, const FftLines& from, Complex<T>* y, const FftLines& to, const FftPlan<T>& plan, T scale, T* work) {
  constexpr int64_t W = kFftLanes<T>, P = kPoint<T>;
  const int64_t n = plan.n, half = n / 2 + 1, first = std::min(W, from.lanes), second = from.lanes - first;
  const Buffers<T> buffers(work, n);
  take_real(x, from, first, n, buffers.a.re);
  take_real(x + first * from.apart, from, second, n, buffers.a.im);
  const Parts<T> z = transform(buffers.a, buffers.b, plan);
  const Parts<T> rest = buffers.other(z);
  const T s = scale * T(0.5);
  for (int which = 0; which < (second > 0 ? 2 : 1); ++which) {
    T *re = rest.re, *im = rest.im;
    for (int64_t k = 0; k < half; ++k) {
      const int64_t at = k * P, back = (k == 0 ? 0 : n - k) * P;
#pragma omp simd
      for (int64_t l = 0; l < W; ++l) {
        if (which == 0) {
          re[at + l] = z.re[at + l] + z.re[back + l];
          im[at + l] = z.im[at + l] - z.im[back + l];
        } else {
          re[at + l] = z.im[at + l] + z.im[back + l];
          im[at + l] = z.re[back + l] - z.re[at + l];
        }
      }
    }
    put(rest, half, y + (which == 0 ? 0 : first * to.apart), some(to, which == 0 ? first : second), s);
  }
}

template <class T>
void lines_to_real(const Complex<T>* x, const FftLines& from, T* y, const FftLines& to, const FftPlan<T>& plan, T scale, T* work) {
  constexpr int64_t W = kFftLanes<T>, P = kPoint<T>;
  const int64_t n = plan.n, half = n / 2 + 1, first = std::min(W, from.lanes), second = from.lanes - first;
  const Buffers<T> buffers(work, n);
  const Parts<T> z = buffers.a, h = buffers.b;
  for (int which = 0; which < 2; ++which) {
    if (which == 1 && second <= 0) break;
    take(x + (which == 0 ? 0 : first * from.apart), some(from, which == 0 ? first : second), half, h);
    std::fill_n(h.im, W, T(0));  // what a real transform has no imaginary part for
    if (n % 2 == 0) std::fill_n(h.im + (half - 1) * P, W, T(0));
    for (int64_t k = 0; k < half; ++k) {
      const int64_t at = k * P, back = (n - k) * P;
      const bool twice = k > 0 && 2 * k != n;
#pragma omp simd
      for (int64_t l = 0; l < W; ++l) {
        const T re = h.re[at + l], im = h.im[at + l];
        if (which == 0) {
          z.re[at + l] = re;
          z.im[at + l] = im;
        } else {  // + i (re + i im)
          z.re[at + l] -= im;
          z.im[at + l] += re;
        }
      }
      if (!twice) continue;
#pragma omp simd
      for (int64_t l = 0; l < W; ++l) {
        const T re = h.re[at + l], im = h.im[at + l];
        if (which == 0) {
          z.re[back + l] = re;
          z.im[back + l] = -im;
        } else {  // + i (re - i im)
          z.re[back + l] += im;
          z.im[back + l] += re;
        }
      }
    }
  }
  const Parts<T> found = transform(Parts<T>{z.im, z.re}, Parts<T>{h.im, h.re}, plan);
  put_real(found.im, first, n, y, to, scale);
  if (second > 0) put_real(found.re, second, n, y + first * to.apart, to, scale);
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                                       \
  void fft_complex_##suffix(const Complex<T>* x, Complex<T>* y, const FftLines& lines, const FftPlan<T>& plan, bool forward, T scale, T* work) {    \
    complex_lines(x, y, lines, plan, forward, scale, work);                                                                                        \
  }                                                                                                                                                \
  void fft_real_##suffix(const T* x, const FftLines& from, Complex<T>* y, const FftLines& to, const FftPlan<T>& plan, T scale, T* work) {           \
    real_lines(x, from, y, to, plan, scale, work);                                                                                                 \
  }                                                                                                                                                \
  void fft_to_real_##suffix(const Complex<T>* x, const FftLines& from, T* y, const FftLines& to, const FftPlan<T>& plan, T scale, T* work) {        \
    lines_to_real(x, from, y, to, plan, scale, work);                                                                                              \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)
#undef FL_DEFINE

}  // namespace fl::kernels::FL_ISA
