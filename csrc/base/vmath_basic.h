// Vector math: constants, bits, polynomials, and what is a comparison or an instruction or two.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/isa.h"

#define FL_VM inline __attribute__((always_inline))

namespace fl::vm {
inline namespace FL_ISA {

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;
constexpr long double kPiLong = 3.14159265358979323846L;

template <class To, class From>
FL_VM constexpr To bits(From v) {
  return __builtin_bit_cast(To, v);
}

// c[0] + x (c[1] + x (c[2] + ...))
template <class T, class... C>
FL_VM T poly(T x, T c0, C... rest) {
  if constexpr (sizeof...(rest) == 0) return c0;
  else return c0 + x * poly<T>(x, static_cast<T>(rest)...);
}
// The same by its even and odd powers apart, half the steps one after the other: for long ones, where a processor runs out of
// loop passes to look ahead to.
template <class T, class... C>
FL_VM T poly_halves(T x, T c0, T c1, C... rest) {
  constexpr int n = 2 + sizeof...(rest);
  const T c[] = {c0, c1, static_cast<T>(rest)...}, z = x * x;
  T even = c[(n - 1) / 2 * 2], odd = c[n / 2 * 2 - 1];
#pragma GCC unroll 32
  for (int k = (n - 1) / 2 * 2 - 2; k >= 0; k -= 2) even = even * z + c[k];
#pragma GCC unroll 32
  for (int k = n / 2 * 2 - 3; k > 0; k -= 2) odd = odd * z + c[k];
  return odd * x + even;
}

// ---- simple ones --------------------------------------------------------------------------------------

template <class T>
FL_VM bool isnan(T x) { return x != x; }
template <class T>
FL_VM bool isinf(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return x == kInf<T> || x == -kInf<T>;
}
template <class T>
FL_VM bool isfinite(T x) {
  if constexpr (std::is_integral_v<T>) return true;
  else return x - x == 0;
}
template <class T>
FL_VM bool isposinf(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return x == kInf<T>;
}
template <class T>
FL_VM bool isneginf(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return x == -kInf<T>;
}

// Wraps for the smallest integer.
template <class T>
FL_VM T abs(T x) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return x < 0 ? static_cast<T>(U(0) - static_cast<U>(x)) : x;
  } else if constexpr (sizeof(T) == 4) {
    return bits<float>(bits<uint32_t>(x) & 0x7fffffffu);
  } else {
    return bits<double>(bits<uint64_t>(x) & 0x7fffffffffffffffull);
  }
}
FL_VM float copysign(float x, float s) {
  return bits<float>((bits<uint32_t>(x) & 0x7fffffffu) | (bits<uint32_t>(s) & 0x80000000u));
}
FL_VM double copysign(double x, double s) {
  return bits<double>((bits<uint64_t>(x) & 0x7fffffffffffffffull) | (bits<uint64_t>(s) & 0x8000000000000000ull));
}
template <class T>
FL_VM bool signbit(T x) {
  if constexpr (std::is_integral_v<T>) return x < 0;
  else if constexpr (sizeof(T) == 4) return static_cast<int32_t>(bits<uint32_t>(x)) < 0;
  else return static_cast<int64_t>(bits<uint64_t>(x)) < 0;
}
// -1, 0, 1; NaN stays NaN.
template <class T>
FL_VM T sign(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : T(0); }  // 0 of NaN

// NaN if either is NaN.
template <class T>
FL_VM T maximum(T a, T b) {
  const T m = a > b ? a : b;
  return a == a ? m : a;
}
template <class T>
FL_VM T minimum(T a, T b) {
  const T m = a < b ? a : b;
  return a == a ? m : a;
}
// The number if one of them is NaN.
template <class T>
FL_VM T fmax(T a, T b) { return (a > b) | (b != b) ? a : b; }
template <class T>
FL_VM T fmin(T a, T b) { return (a < b) | (b != b) ? a : b; }

template <class T>
FL_VM T floor(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return std::floor(x);
}
template <class T>
FL_VM T ceil(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return std::ceil(x);
}
template <class T>
FL_VM T trunc(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return std::trunc(x);
}
// Half to even.
template <class T>
FL_VM T round(T x) {
  if constexpr (std::is_integral_v<T>) return x;
  else return std::nearbyint(x);
}
template <class T>
FL_VM T frac(T x) { return x - trunc(x); }
template <class T>
FL_VM T sqrt(T x) { return std::sqrt(x); }
template <class T>
FL_VM T rsqrt(T x) { return T(1) / std::sqrt(x); }
// An element as it lies in memory; with kTruths a bool, of which any byte but 0 is true.
template <bool kTruths, class T>
FL_VM T read_byte(T x) {
  if constexpr (kTruths) return x > 1 ? T(1) : x;
  else return x;
}
template <class T>
FL_VM T reciprocal(T x) { return T(1) / x; }

// a + b c and a - b c, rounded once where the processor can: unlike the operators, in every loop, also in one where b c
// is the same for all.
template <class T>
FL_VM T plus_product(T a, T b, T c) {
#if defined(__FMA__)
  if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(b, c, a);
  else if constexpr (std::is_same_v<T, double>) return __builtin_fma(b, c, a);
#endif
  return a + b * c;
}
template <class T>
FL_VM T minus_product(T a, T b, T c) {
  if constexpr (std::is_integral_v<T>) return a - b * c;
  else return plus_product(a, -b, c);
}

}  // namespace FL_ISA
}  // namespace fl::vm
