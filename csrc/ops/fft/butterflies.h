// The steps of a transform, for fft.simd.cpp: Note [Fourier transforms] in fft.h.
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <cstdint>
#include <utility>

#include "ops/fft/fft.h"

namespace fl::kernels::FL_ISA {
namespace {

#define FL_INLINE inline __attribute__((always_inline))

template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);
template <class T>
constexpr int64_t kPoint = 2 * kLanes<T>;

// A number of each lane. (Loops over lanes that are left to the compiler stay scalar here: GCC 12 gives up on their pairs.)
template <class T>
struct LanesOf {
  typedef T Type __attribute__((vector_size(32), may_alias));
  typedef T Both __attribute__((vector_size(64), may_alias));
};
template <class T>
using Lanes = typename LanesOf<T>::Type;

// A complex number of each lane, and all points in lanes: of each the real parts, then the imaginary parts; with AVX-512, which has a vector for both,
// they alternate, so that a product is a multiplication and one that adds to the one part and subtracts from the other.
#ifdef __AVX512F__
constexpr bool kAlternating = true;

template <class T>
struct Pair {
  typename LanesOf<T>::Both both;
};
template <class T, int... I>
FL_INLINE Pair<T> exchanged(Pair<T> v, std::integer_sequence<int, I...>) { return {__builtin_shufflevector(v.both, v.both, (I ^ 1)...)}; }
template <class T>
FL_INLINE Pair<T> exchanged(Pair<T> v) { return exchanged(v, std::make_integer_sequence<int, kPoint<T>>()); }
// a s - b in real parts, a s + b in imaginary ones; and the other way around.
FL_INLINE Pair<float> less_more(Pair<float> a, float s, Pair<float> b) {
  return {reinterpret_cast<LanesOf<float>::Both>(_mm512_fmaddsub_ps(reinterpret_cast<__m512>(a.both), _mm512_set1_ps(s), reinterpret_cast<__m512>(b.both)))};
}
FL_INLINE Pair<double> less_more(Pair<double> a, double s, Pair<double> b) {
  return {reinterpret_cast<LanesOf<double>::Both>(_mm512_fmaddsub_pd(reinterpret_cast<__m512d>(a.both), _mm512_set1_pd(s), reinterpret_cast<__m512d>(b.both)))};
}
FL_INLINE Pair<float> more_less(Pair<float> a, float s, Pair<float> b) {
  return {reinterpret_cast<LanesOf<float>::Both>(_mm512_fmsubadd_ps(reinterpret_cast<__m512>(a.both), _mm512_set1_ps(s), reinterpret_cast<__m512>(b.both)))};
}
FL_INLINE Pair<double> more_less(Pair<double> a, double s, Pair<double> b) {
  return {reinterpret_cast<LanesOf<double>::Both>(_mm512_fmsubadd_pd(reinterpret_cast<__m512d>(a.both), _mm512_set1_pd(s), reinterpret_cast<__m512d>(b.both)))};
}
template <class T>
FL_INLINE Pair<T> operator+(Pair<T> a, Pair<T> b) { return {a.both + b.both}; }
template <class T>
FL_INLINE Pair<T> operator-(Pair<T> a, Pair<T> b) { return {a.both - b.both}; }
template <class T>
FL_INLINE Pair<T> times(Pair<T> a, T s) { return {a.both * s}; }
template <class T>
FL_INLINE Pair<T> turned(Pair<T> v, Complex<T> w) { return less_more(v, w.re, times(exchanged(v), w.im)); }
template <class T>
FL_INLINE Pair<T> conj(Pair<T> v) { return more_less(Pair<T>{}, T(0), v); }
// a - i b and a + i b.
template <class T>
FL_INLINE Pair<T> minus_i_times(Pair<T> a, Pair<T> b) { return more_less(a, T(1), exchanged(b)); }
template <class T>
FL_INLINE Pair<T> plus_i_times(Pair<T> a, Pair<T> b) { return less_more(a, T(1), exchanged(b)); }

template <class T>
struct Points {
  T* at;

  FL_INLINE Pair<T> get(int64_t k) const { return {*reinterpret_cast<const typename LanesOf<T>::Both*>(at + k * kPoint<T>)}; }
  FL_INLINE void put(int64_t k, Pair<T> v) const { *reinterpret_cast<typename LanesOf<T>::Both*>(at + k * kPoint<T>) = v.both; }
};
#else
constexpr bool kAlternating = false;

template <class T>
struct Pair {
  Lanes<T> re, im;
};
template <class T>
FL_INLINE Pair<T> operator+(Pair<T> a, Pair<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T>
FL_INLINE Pair<T> operator-(Pair<T> a, Pair<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T>
FL_INLINE Pair<T> times(Pair<T> a, T s) { return {a.re * s, a.im * s}; }
template <class T>
FL_INLINE Pair<T> turned(Pair<T> v, Complex<T> w) { return {v.re * w.re - v.im * w.im, v.re * w.im + v.im * w.re}; }
template <class T>
FL_INLINE Pair<T> conj(Pair<T> v) { return {v.re, -v.im}; }
template <class T>
FL_INLINE Pair<T> minus_i_times(Pair<T> a, Pair<T> b) { return {a.re + b.im, a.im - b.re}; }
template <class T>
FL_INLINE Pair<T> plus_i_times(Pair<T> a, Pair<T> b) { return {a.re - b.im, a.im + b.re}; }

template <class T>
struct Points {
  T* at;

  FL_INLINE Pair<T> get(int64_t k) const {
    return {*reinterpret_cast<const Lanes<T>*>(at + k * kPoint<T>), *reinterpret_cast<const Lanes<T>*>(at + k * kPoint<T> + kLanes<T>)};
  }
  FL_INLINE void put(int64_t k, Pair<T> v) const {
    *reinterpret_cast<Lanes<T>*>(at + k * kPoint<T>) = v.re;
    *reinterpret_cast<Lanes<T>*>(at + k * kPoint<T> + kLanes<T>) = v.im;
  }
};
#endif

// What a step makes of its R points: `in(k)` is the k-th, out(k, v) takes the k-th result.
template <int R, class T, class In, class Out>
FL_INLINE void butterfly(const In& in, const Out& out) {
  if constexpr (R == 2) {
    const Pair<T> a = in(0), b = in(1);
    out(0, a + b);
    out(1, a - b);
  } else if constexpr (R == 3) {
    constexpr T kSin = static_cast<T>(0.86602540378443864676);
    const Pair<T> a = in(0), b = in(1), c = in(2);
    const Pair<T> sum = b + c, side = times(b - c, kSin), middle = a - times(sum, T(0.5));
    out(0, a + sum);
    out(1, minus_i_times(middle, side));
    out(2, plus_i_times(middle, side));
  } else if constexpr (R == 4) {
    const Pair<T> v0 = in(0), v1 = in(1), v2 = in(2), v3 = in(3);
    const Pair<T> a = v0 + v2, b = v0 - v2, c = v1 + v3, d = v1 - v3;
    out(0, a + c);
    out(1, minus_i_times(b, d));
    out(2, a - c);
    out(3, plus_i_times(b, d));
  } else if constexpr (R == 5) {
    constexpr T kCos1 = static_cast<T>(0.30901699437494742410), kCos2 = static_cast<T>(-0.80901699437494742410);
    constexpr T kSin1 = static_cast<T>(0.95105651629515357212), kSin2 = static_cast<T>(0.58778525229247312917);
    const Pair<T> v0 = in(0), v1 = in(1), v2 = in(2), v3 = in(3), v4 = in(4);
    const Pair<T> s1 = v1 + v4, s2 = v2 + v3, d1 = v1 - v4, d2 = v2 - v3;
    const Pair<T> a = v0 + times(s1, kCos1) + times(s2, kCos2), b = v0 + times(s1, kCos2) + times(s2, kCos1);
    const Pair<T> c = times(d1, kSin1) + times(d2, kSin2), d = times(d1, kSin2) - times(d2, kSin1);
    out(0, v0 + s1 + s2);
    out(1, minus_i_times(a, c));
    out(2, minus_i_times(b, d));
    out(3, plus_i_times(b, d));
    out(4, plus_i_times(a, c));
  } else {
    static_assert(R == 8);
    constexpr T kHalf = static_cast<T>(0.70710678118654752440);
    const Pair<T> v0 = in(0), v1 = in(1), v2 = in(2), v3 = in(3), v4 = in(4), v5 = in(5), v6 = in(6), v7 = in(7);
    const Pair<T> a0 = v0 + v4, a1 = v1 + v5, a2 = v2 + v6, a3 = v3 + v7;
    const Pair<T> b0 = v0 - v4, s = v1 - v5, b2 = v2 - v6, t = v3 - v7;
    const Pair<T> b1 = times(minus_i_times(s, s), kHalf), b3 = times(plus_i_times(t, t), -kHalf);
    const Pair<T> c = a0 + a2, d = a0 - a2, e = a1 + a3, f = a1 - a3;
    const Pair<T> g = minus_i_times(b0, b2), h = plus_i_times(b0, b2), p = b1 + b3, q = b1 - b3;
    out(0, c + e);
    out(1, g + p);
    out(2, minus_i_times(d, f));
    out(3, minus_i_times(h, q));
    out(4, c - e);
    out(5, g - p);
    out(6, plus_i_times(d, f));
    out(7, plus_i_times(h, q));
  }
}

// The points are what is left of n: as many transforms of `length`, one behind the other.
template <int R, class T>
void step(Points<T> x, int64_t length, int64_t n, const Complex<T>* roots) {
  const int64_t m = length / R, every = n / length;
  for (int64_t block = 0; block < n; block += length)
    butterfly<R, T>([&](int64_t k) __attribute__((always_inline)) { return x.get(block + k * m); },
                       [&](int64_t k, Pair<T> v) __attribute__((always_inline)) { x.put(block + k * m, v); });
  for (int64_t p = 1; p < m; ++p) {
    Complex<T> w[R];
    for (int k = 1; k < R; ++k) w[k] = roots[k * p * every];
    for (int64_t first = p; first < n; first += length)
      butterfly<R, T>([&](int64_t k) __attribute__((always_inline)) { return x.get(first + k * m); },
                         [&](int64_t k, Pair<T> v) __attribute__((always_inline)) { x.put(first + k * m, k == 0 ? v : turned(v, w[k])); });
  }
}

// Of an odd prime, from its sums and differences: result k is v0 + sum_j (v_j + v_-j) cos(2 pi j k / R) - i sum_j (v_j - v_-j) sin(2 pi j k / R).
template <class T>
void step_of(int radix, Points<T> x, int64_t length, int64_t n, const Complex<T>* roots) {
  const int64_t m = length / radix, every = n / length, whole = n / radix;
  const int half = radix / 2;
  Pair<T> sums[kMostRadix / 2 + 1], differences[kMostRadix / 2 + 1];
  for (int64_t p = 0; p < m; ++p)
    for (int64_t first = p; first < n; first += length) {
      const Pair<T> v0 = x.get(first);
      Pair<T> all = v0;
      for (int j = 1; j <= half; ++j) {
        const Pair<T> a = x.get(first + j * m), b = x.get(first + (radix - j) * m);
        sums[j] = a + b;
        differences[j] = a - b;
        all = all + sums[j];
      }
      x.put(first, all);
      for (int k = 1; k <= half; ++k) {
        Pair<T> even = v0, odd = {};
        for (int j = 1, jk = k; j <= half; ++j, jk = jk + k < radix ? jk + k : jk + k - radix) {
          const Complex<T> w = roots[jk * whole];
          even = even + times(sums[j], w.re);
          odd = odd - times(differences[j], w.im);
        }
        x.put(first + k * m, turned(minus_i_times(even, odd), roots[k * p * every]));
        x.put(first + (radix - k) * m, turned(plus_i_times(even, odd), roots[(radix - k) * p * every]));
      }
    }
}

template <class T>
void transform(Points<T> x, const FftPlan<T>& plan) {
  int64_t length = plan.n;
  for (const int r : plan.factors) {
    if (r == 4) step<4>(x, length, plan.n, plan.roots.data());
    else if (r == 8) step<8>(x, length, plan.n, plan.roots.data());
    else if (r == 2) step<2>(x, length, plan.n, plan.roots.data());
    else if (r == 3) step<3>(x, length, plan.n, plan.roots.data());
    else if (r == 5) step<5>(x, length, plan.n, plan.roots.data());
    else step_of(r, x, length, plan.n, plan.roots.data());
    length /= r;
  }
}

}  // namespace
}  // namespace fl::kernels::FL_ISA
