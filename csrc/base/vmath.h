// Vector math: element functions that the compiler can turn into SIMD loops.
//
// The bodies of `each:` entries and the kernels call these inside `#pragma omp simd` loops, so they are
// branch-free: every case is computed and the right one is selected. Three families:
//
//   own code in both types  exp expm1 exp2 log log2 log10 log1p tanh sigmoid softplus sin cos erfinv
//   float in double lanes   pow tan asin .. atanh sinh cosh erfc hypot sinc lgamma: nearly correctly rounded; the double
//                           versions are libm's, but for pow (vmath_pow.h)
//   not vectorised          digamma i0 nextafter
//
// Beside this file: vmath_angles.h, vmath_division.h, vmath_special.h and vmath_activations.h.
//
// Errors stay below 4 ulp of the result, denormals included, where a function says nothing else;
// benchmarks/accuracy.py measures them and tests/ops/test_accuracy.py holds them. sin and cos, and tan of floats, are right
// for near angles alone (far_angle): the ops take others to libm (`rare` in the op table).
//
// Conditions are single comparisons wherever possible: GCC does not vectorise a loop in which a bool made
// of several others selects a value.
//
// Everything lives in an inline namespace per instruction set (see base/isa.h): the linker must never
// hand an AVX-512 copy of an inline function to the portable build.
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

// ---- exp ----------------------------------------------------------------------------------------------
//
// x = k ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^k (1 + r + r^2 P(r)). 2^k is applied as two factors, so that
// results may be denormal and the largest finite ones do not overflow on the way. A sum with 1.5 * 2^(mantissa
// bits) rounds to the integer k, which stands in the low bits then; twice the bias is added with it, so that half
// of these bits, rounded down for one factor and up for the other, is its exponent with the bias.

template <class T>
constexpr T kRounder = sizeof(T) == 4 ? T(12582912.0 + 254) : T(6755399441055744.0 + 2046);
// k + kRounder for the integer k nearest to x, at most the largest that two factors can express; NaN gives any k.
FL_VM float rounded(float x) {
  const int32_t t = bits<int32_t>(x + kRounder<float>), limit = bits<int32_t>(kRounder<float> + 254);
  return bits<float>(t < limit ? t : limit);
}
FL_VM double rounded(double x) {
  const int64_t t = bits<int64_t>(x + kRounder<double>), limit = bits<int64_t>(kRounder<double> + 2046);
  return bits<double>(t < limit ? t : limit);
}
template <class T>
struct Pow2 {
  T a, b;
};
FL_VM Pow2<float> pow2_factors(float t) {
  const uint32_t u = bits<uint32_t>(t), h = u >> 1;
  return {bits<float>(h << 23), bits<float>((u - h) << 23)};
}
FL_VM Pow2<double> pow2_factors(double t) {
  const uint64_t u = bits<uint64_t>(t), h = u >> 1;
  return {bits<double>(h << 52), bits<double>((u - h) << 52)};
}
// 1 / x for a power of two
FL_VM float inverse_power(float x) { return bits<float>((254u << 23) - bits<uint32_t>(x)); }
FL_VM double inverse_power(double x) { return bits<double>((2046ull << 52) - bits<uint64_t>(x)); }

template <class T>
struct Reduced {
  T r;
  Pow2<T> power;
};
FL_VM Reduced<float> reduce_ln2(float x) {
  const float t = rounded(x * 1.44269504f), k = t - kRounder<float>;
  return {(x - k * 0.693359375f) - k * -2.12194440e-4f, pow2_factors(t)};
}
FL_VM Reduced<double> reduce_ln2(double x) {
  const double t = rounded(x * 1.4426950408889634074), k = t - kRounder<double>;
  return {(x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10, pow2_factors(t)};
}
// (e^r - 1 - r) / r^2
FL_VM float exp_tail(float r) { return poly(r, 0.5f, 0.16666573382f, 0.04166655011f, 0.0083637738744f, 0.0013926926614f); }
FL_VM double exp_tail(double r) {
  return poly(r, 0.5000000000000001128, 0.16666666666666667534, 0.041666666666620638584, 0.0083333333333297934996,
              0.0013888888918939167785, 0.00019841269864380513295, 0.000024801518641395993583,
              2.7557266418612303703e-6, 2.76213386691429238e-7, 2.5101346928350340198e-8);
}
// e^x as m times a power of two, so that a factor which m gets first saves the bits that a denormal would lose.
template <class T>
struct ScaledExp {
  T m, power;
};
template <class T>
FL_VM ScaledExp<T> scaled_exp(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-176) : T(-1418);  // below it two factors can not express 2^k
  const auto [r, power] = reduce_ln2(x);
  const T m = (T(1) + r * (T(1) + r * exp_tail(r))) * power.a;
  return {x < low ? T(0) : m, x < low ? T(0) : power.b};
}
template <class T>
FL_VM T exp(T x) {
  const auto [m, power] = scaled_exp(x);
  return m * power;
}
template <class T>
FL_VM T exp2(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-151) : T(-1076);
  const T t = rounded(x);
  const T r = (x - (t - kRounder<T>)) * T(0.6931471805599453094);
  const auto [a, b] = pow2_factors(t);
  const T y = (T(1) + r * (T(1) + r * exp_tail(r))) * a * b;
  return x < low ? T(0) : y;
}
// 2^k (e^r - 1) + (2^k - 1), with the factors arranged so that nothing overflows early.
template <class T>
FL_VM T expm1(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-18) : T(-40);  // e^low - 1 is -1
  const auto [r, power] = reduce_ln2(x);
  const auto [a, b] = power;
  const T p = r + r * r * exp_tail(r);
  const T y = (p * a + (a - inverse_power(b))) * b;
  return x < low ? T(-1) : x == 0 ? x : y;
}
template <class T>
FL_VM T tanh(T x) {
  constexpr T high = sizeof(T) == 4 ? T(10) : T(20);
  T a = abs(x);
  a = a > high ? high : a;
  const T t = expm1(a + a);
  return copysign(t / (t + T(2)), x);
}
template <class T>
FL_VM T sigmoid(T x) {
  const T e = exp(-abs(x));
  return (x < 0 ? e : T(1)) / (T(1) + e);
}
// x sigmoid(v), v of the sign of x.
template <class T>
FL_VM T times_sigmoid(T x, T v) {
  const auto [m, power] = scaled_exp(-abs(v));
  return (x < 0 ? x * m * power : x) / (T(1) + m * power);
}
template <class T>
FL_VM T silu(T x) { return times_sigmoid(x, x); }
// x tanh(log(1 + e)) = x n / (n + 2) with e = e^x and n = e (e + 2).
template <class T>
FL_VM T mish(T x) {
  constexpr T high = sizeof(T) == 4 ? T(20) : T(40);  // n / (n + 2) = 1
  const auto [m, power] = scaled_exp(x > high ? high : x);
  const T e = m * power, q = (e + T(2)) / (e * (e + T(2)) + T(2));
  return x > 0 ? x * (e * q) : x * m * q * power;
}

// ---- log ----------------------------------------------------------------------------------------------
//
// x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f), and
// log m = f - (f^2/2 - s (f^2/2 + s^2 Q(s^2))).

template <class T>
struct LogParts {
  T k, f, half_sq, tail;  // log x = k ln 2 + f - (half_sq - tail)
};
FL_VM LogParts<float> log_parts(float x) {
  const bool small = x < 1.17549435e-38f;
  const float n = small ? x * 33554432.0f : x;
  const int32_t i = bits<int32_t>(n) - 0x3f3504f3;
  const float k = static_cast<float>((i >> 23) - (small ? 25 : 0));
  const float f = bits<float>((i & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
  const float q = z * poly(z, 0.6666666655f, 0.40000125595f, 0.2855039696f, 0.23341943389f);
  return {k, f, h, s * (h + q)};
}
FL_VM LogParts<double> log_parts(double x) {
  const bool small = x < 2.2250738585072014e-308;
  const double n = small ? x * 18014398509481984.0 : x;  // 2^54
  const uint64_t i = bits<uint64_t>(n) - 0x3fe6a09e667f3bcdull + (uint64_t{1024} << 52);
  const double e = bits<double>((i >> 52) | 0x4330000000000000ull) - 4503599627371520.0;  // 2^52 + 1024
  const double k = e - (small ? 54.0 : 0.0);
  const double f = bits<double>((i & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
  const double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  const double q = z * poly(z, 0.6666666666666669907, 0.39999999999893221763, 0.28571428628810995598,
                            0.22222210674238515246, 0.18182922513515941633, 0.15330617306743304885,
                            0.14630031364122860469);
  return {k, f, h, s * (h + q)};
}
// The right answer outside (0, inf).
template <class T>
FL_VM T log_edges(T x, T y) {
  T r = x > 0 ? y : kNaN<T>;
  r = x == 0 ? -kInf<T> : r;
  return x == kInf<T> ? x : r;
}
template <class T>
FL_VM T log(T x) {
  constexpr T hi = sizeof(T) == 4 ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T lo = sizeof(T) == 4 ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  const auto [k, f, h, tail] = log_parts(x);
  return log_edges(x, k * hi + (f - (h - (tail + k * lo))));
}
template <class T>
FL_VM T log2(T x) {
  const auto [k, f, h, tail] = log_parts(x);
  return log_edges(x, k + (f - (h - tail)) * T(1.4426950408889634074));
}
template <class T>
FL_VM T log10(T x) {
  constexpr T hi = sizeof(T) == 4 ? T(0.30102539062) : T(3.01029995663611771306e-01);
  constexpr T lo = sizeof(T) == 4 ? T(4.6050389811952137e-06) : T(3.69423907715893078616e-13);
  const auto [k, f, h, tail] = log_parts(x);
  return log_edges(x, k * hi + ((f - (h - tail)) * T(0.43429448190325182765) + k * lo));
}
// log(u) + (x - (u - 1)) / u with u = 1 + x rounded.
template <class T>
FL_VM T log1p(T x) {
  const T u = T(1) + x, l = log(u);
  T c = (x - (u - T(1))) / u;
  c = u > 0 ? c : T(0);
  c = u < kInf<T> ? c : T(0);
  return x == 0 ? x : l + c;
}
// Near 1/2, where the logarithm has its zero, by log1p((2 x - 1) / (1 - x)), whose numerator is exact.
template <class T>
FL_VM T logit(T x) {
  const T d = T(1) - x, t = (x + x - T(1)) / d, v = T(1) + t;
  const bool near = abs(x - T(0.5)) < T(0.25);
  const T c = near ? (t - (v - T(1))) / v : T(0);
  return log(near ? v : x / d) + c;
}
// log(1 + e^x)
template <class T>
FL_VM T log1p_exp(T x) { return (x > 0 ? x : T(0)) + log1p(exp(-abs(x))); }
template <class T>
FL_VM T logsigmoid(T x) { return (x < 0 ? x : T(0)) - log1p(exp(-abs(x))); }
template <class T>
FL_VM T softplus(T x, T beta, T threshold) {
  const T b = beta * x;
  return b > threshold ? x : log1p_exp(b) / beta;
}
template <class T>
FL_VM T logaddexp(T a, T b) {
  const T m = maximum(a, b), d = abs(a - b);
  return a == b ? a + T(0.6931471805599453094) : d == kInf<T> ? m : m + log1p(exp(-d));
}
template <class T>
FL_VM T logaddexp2(T a, T b) {
  const T m = maximum(a, b), d = abs(a - b);
  return a == b ? a + T(1) : d == kInf<T> ? m : m + log1p(exp2(-d)) * T(1.4426950408889634074);
}
template <class T>
FL_VM T xlogy(T x, T y) {
  const T p = x * log(y);
  return (x == 0) & (y == y) ? T(0) : p;
}
template <class T>
FL_VM T xlog1py(T x, T y) {
  const T p = x * log1p(y);
  return (x == 0) & (y == y) ? T(0) : p;
}

// ---- error function and the normal distribution ---------------------------------------------------------

FL_VM float erf(float x) {
  const float a0 = abs(x), z = x * x;
  const float near = x * poly(z, 1.1283791666f, -0.37612633517f, 0.1128369152f, -0.026859151472f, 0.0052003685869f,
                              -0.00081347093321f, 8.3347186152e-5f);
  const float a = a0 > 4.0f ? 4.0f : a0;
  const float l = poly(a, 0.00031853966241f, -1.1302310552f, -0.63182391811f, -0.1100871665f, 0.026427637154f,
                       -0.0047626258325f, 0.00059758577023f, -4.6163858625e-5f, 1.6430636557e-6f);
  const float far = copysign(1.0f - exp(l), x);
  return a0 < 0.92f ? near : far;
}
inline double erf(double x) { return std::erf(x); }
// e^(-x^2) R((a - 2) / (a + 2)), a = |x|, in double lanes.
FL_VM float erfc(float xf) {
  const double x = xf;
  double a = abs(x);
  a = a > 10.2 ? 10.2 : a;
  const double y = (a - 2.0) / (a + 2.0);
  const double r = poly(y, 0.25539567631059228521, -0.42718584741425580025, 0.24165819422591971888,
                        -0.078978580966523700234, 0.0037328929539817503148, 0.0069974603555300778658,
                        -0.00084715085826341344141, -0.00098196264691691950545, 0.000043612653219195113402,
                        0.00017429454778270484766, 0.000027273289144153294217, -0.000027457484942309455512,
                        -0.000013316061555814546014, 1.4430659187070585588e-6, 2.8822340925944556164e-6,
                        7.1529076966864722964e-7);
  const double t = exp(-a * a) * r;
  return static_cast<float>(x < 0 ? 2.0 - t : t);
}
inline double erfc(double x) { return std::erfc(x); }
// gelu and its derivatives are made of a = |x| and
//
//     pdf(a) = (1 + e) power unit / sqrt(2 pi)        cdf(-a) = (1 + e) power unit (1 + s) / d,   d = 3.9375 + 1.375 a
//
// with e and s apart from 1, where they would lose bits. power is scaled by 1 / unit, so that what is multiplied with
// unit last may be denormal. That is 0 at the largest a, which NaN becomes too.
// |x|, limited. Of floats an integer minimum, since GCC makes two paths of the other; of 64 bits SSE2 has none.
FL_VM float normal_range(float x) {
  const int32_t a = bits<int32_t>(x) & 0x7fffffff, limit = bits<int32_t>(15.0f);
  return bits<float>(a < limit ? a : limit);
}
FL_VM double normal_range(double x) {
  const double a = abs(x);
  return a < 39.0 ? a : 39.0;
}
// a^2 + c, where c is about -a^2 and the sum of the rounded terms would have no digits left.
template <class T>
FL_VM T add_square(T a, T c) {
#if defined(__FMA__)
  return plus_product(c, a, a);
#else
  T h;  // half the bits of a, whose square is exact
  if constexpr (sizeof(T) == 4) h = bits<T>(bits<uint32_t>(a) & 0xfffff000u);
  else h = bits<T>(bits<uint64_t>(a) & 0xfffffffff8000000ull);
  return (h * h + c) + (a - h) * (a + h);
#endif
}
// e^(-r / 2) - 1 for |r| <= ln 2, to 2^-26 and 2^-55 of e^(-r / 2).
FL_VM float expm1_half(float r) {
  return r * poly(r, -0.5f, 0.124999985f, -0.02083304f, 0.00260425f, -0.00026169274f, 2.1630687e-5f);
}
FL_VM double expm1_half(double r) {
  const double h = -0.5 * r;
  return h + h * h * exp_tail(h);
}
template <class T>
FL_VM T normal_divisor(T a) { return a * T(1.375) + T(3.9375); }
// s at w = a / d: minimax polynomials, to 2^-25 and 2^-55 of 1 + s.
FL_VM float normal_ratio(float w) {
  return poly(w - 0.125f, 0.5666173f, -2.9437482f, 2.266776f, 0.4889225f, -1.3136226f, -0.6626731f, 0.5407151f,
              1.7611588f, -1.4609579f);
}
FL_VM double normal_ratio(double w) {
  return poly(w - 0.375, -0.025568105306424053, -1.8082658296082221, 2.095133115848615, -0.9091899357091023,
              -1.0717373170910454, 1.190715962038867, 1.0838945773866666, -1.3344608482876004,
              -1.8748295226311376, 1.0962251375232739, 3.6037783565857304, 0.8087480186782644,
              -5.6212911710257325, -6.8474725503451825, 3.4977818402708696, 17.59082931259531,
              14.551206861150566, -18.800954709647723, -58.49159600049874, -35.451260619940385,
              89.21380146291007, 175.60120351744663, 9.539477419096594, -236.81340703315183, -177.29150845522398);
}
template <class T>
struct HalfSquareExp {
  T e, power;
  static constexpr T unit = sizeof(T) == 4 ? T(0x1p-64) : T(0x1p-512);
};
template <class T>
FL_VM HalfSquareExp<T> exp_half_square(T a) {
  constexpr bool single = sizeof(T) == 4;
  // The exponent of power stands in the low bits of t.
  constexpr T magic = single ? T(12582912.0 + 127 + 64) : T(6755399441055744.0 + 1023 + 512);
  constexpr T hi = single ? T(2 * 0.693359375) : T(2 * 6.93147180369123816490e-01);
  constexpr T lo = single ? T(2 * -2.12194440e-4) : T(2 * 1.90821492927058770002e-10);
  const T t = a * (a * T(-0.72134752044448170368)) + magic, k = t - magic;
  const T e = expm1_half(k * lo + add_square(a, k * hi));
  if constexpr (single) return {e, bits<T>(bits<uint32_t>(t) << 23)};
  else return {e, bits<T>(bits<uint64_t>(t) << 52)};
}
// x cdf(x): max(x, 0) - a cdf(-a), and NaN at -infinity.
template <class T>
FL_VM T gelu(T x) {
  const T a = normal_range(x), w = a / normal_divisor(a);
  const auto [e, power] = exp_half_square(a);
  const T m = w * power, n = m + m * normal_ratio(w), y = n + n * e;
  return (x - (x < 0 ? x : T(0))) - y * HalfSquareExp<T>::unit;
}
// cdf(x) + x pdf(x): at -a it is cdf(-a) - a pdf(a), at a 1 minus that.
template <class T>
FL_VM T gelu_slope(T x) {
  constexpr T unit = HalfSquareExp<T>::unit;
  const T a = normal_range(x), r = T(1) / normal_divisor(a);
  const auto [e, power] = exp_half_square(a);
  const T m = ((r + r * normal_ratio(a * r)) - a * T(0.39894228040143267794)) * power, y = m + m * e;
  const T one = x > 0 ? T(1) : T(0), signed_unit = x > 0 ? -unit : unit;
  return one + y * (x == x ? signed_unit : x);
}
// 2 / sqrt(pi) e^(-x^2), the square of e^(-x^2 / 2)
template <class T>
FL_VM T erf_slope(T x) {
  const auto [e, power] = exp_half_square(normal_range(x));
  const T p = power * HalfSquareExp<T>::unit, m = p * T(1.12837916709551257390), y = (m + m * (e * (T(2) + e))) * p;
  return x == x ? y : x;
}
// pdf(x) (2 - x^2)
template <class T>
FL_VM T gelu_curvature(T x) {
  const T a = normal_range(x);
  const auto [e, power] = exp_half_square(a);
  const T m = (T(2) - a * a) * T(0.39894228040143267794) * power, y = (m + m * e) * HalfSquareExp<T>::unit;
  return x == x ? y : x;
}
// ---- pow ------------------------------------------------------------------------------------------------

// x^y from |x|^y, which is right for finite |x| other than 1 and exponents other than 0 and NaN. Plain selects only: GCC
// gives up on loops whose conditions are combined from several others.
FL_VM double pow_edges(double x, double y, double r) {
  const double a = abs(x), half = 0.5 * y;
  const double big = abs(y) == kInf<double> ? 1.0 : r;
  r = a == 1 ? big : r;  // (-1)^inf
  const double odd = round(half) == half ? r : copysign(r, x);
  const double fractional = a < kInf<double> ? kNaN<double> : r;
  const double other = x == 0 ? r : fractional;
  const double negative = round(y) == y ? odd : other;
  r = signbit(x) ? negative : r;
  r = x == x ? r : x;
  r = y == y ? r : y;
  r = x == 1 ? 1.0 : r;
  return y == 0 ? 1.0 : r;
}
FL_VM float pow(float x, float y) { return static_cast<float>(pow_edges(x, y, exp(double{y} * log(abs(double{x}))))); }
FL_VM double pow(double x, double y);  // vmath_pow.h
// x limited to [low, high], NaN kept; high where low > high.
template <class T>
FL_VM T clamped(T x, T low, T high) {
  const T t = x < low ? low : x;
  return t > high ? high : t;
}
// n-th derivative of x^y by x: y (y - 1) ... (y - n + 1) x^(y - n), and 0 where that product is.
template <class T>
FL_VM T falling_power(T x, T y, int64_t n) {
  T product = 1;
  for (int64_t k = 0; k < n; ++k) product *= y - static_cast<T>(k);
  return product == 0 ? T(0) : product * pow(x, y - static_cast<T>(n));
}
// ... and its derivative by y.
template <class T>
FL_VM T falling_power_slope(T x, T y, int64_t n) {
  T product = 1, slope = 0;
  for (int64_t k = 0; k < n; ++k) {
    slope = slope * (y - static_cast<T>(k)) + product;
    product *= y - static_cast<T>(k);
  }
  return pow(x, y - static_cast<T>(n)) * (product == 0 ? slope : product * log(x) + slope);
}
// Wraps; a negative exponent gives 0 unless the base is 1 or -1.
template <class T>
  requires std::is_integral_v<T>
inline T pow(T base, T exponent) {
  if (exponent < 0) return base == 1 ? T(1) : base == -1 ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  using U = std::make_unsigned_t<T>;
  U result = 1, b = static_cast<U>(base);
  for (U e = static_cast<U>(exponent); e; e >>= 1) {
    if (e & 1) result *= b;
    b *= b;
  }
  return static_cast<T>(result);
}

// ---- the rest ---------------------------------------------------------------------------------------------

template <class T>
FL_VM T heaviside(T x, T at_zero) { return x == 0 ? at_zero : x < 0 ? T(0) : x == x ? T(1) : x; }
template <class T>
inline T nextafter(T a, T b) { return std::nextafter(a, b); }
// Rounds to `decimals` digits after the point (before it where negative).
template <class T>
FL_VM T round_decimals(T x, int64_t decimals) {
  if constexpr (std::is_integral_v<T>) {
    return x;
  } else {
    const T scale = std::pow(T(10), static_cast<T>(abs(decimals)));
    const T up = round(x * scale) / scale, down = round(x / scale) * scale;
    return decimals < 0 ? down : up;
  }
}
template <class T>
FL_VM T lerp(T a, T b, T w) {  // exact at both ends
  return abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
}
template <class T>
FL_VM bool isclose(T a, T b, T rtol, T atol, bool equal_nan) {
  const bool near = (abs(a - b) <= atol + rtol * abs(b)) & isfinite(a) & isfinite(b);
  return near | (a == b) | (equal_nan & (a != a) & (b != b));
}

// Vector norms: d|x|_p / dx times v, with y = |x|_p.
template <class T>
FL_VM T norm_slope(T v, T x, T y, T p) {
  if (p == 0) return T(0);
  if (p == 1) return v * (x == 0 ? T(0) : sign(x));
  if (p == 2) return y == 0 ? T(0) : v * x / y;
  if (p == kInf<T> || p == -kInf<T>) return abs(x) == y ? v * (x == 0 ? T(0) : sign(x)) : T(0);
  return (x == 0) | (y == 0) ? T(0) : v * sign(x) * pow(abs(x) / y, p - T(1));
}
// The part of the second derivative that does not go through y.
template <class T>
FL_VM T norm_curvature(T v, T x, T y, T p) {
  if (p == 0 || p == 1 || p == kInf<T> || p == -kInf<T>) return T(0);
  if (p == 2) return y == 0 ? T(0) : v / y;
  return (x == 0) | (y == 0) ? T(0) : v * (p - T(1)) * pow(abs(x) / y, p - T(2)) / y;
}
template <class T>
FL_VM T norm_fade(T v, T y, T p) {
  if (p == 0 || p == kInf<T> || p == -kInf<T>) return T(0);
  return y == 0 ? T(0) : v * (T(1) - p) / y;
}

}  // namespace FL_ISA
}  // namespace fl::vm

#include "base/vmath_pow.h"
