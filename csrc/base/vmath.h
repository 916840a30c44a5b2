// Vector math: element functions that the compiler can turn into SIMD loops.
//
// The bodies of `each:` entries and the kernels call these inside `#pragma omp simd` loops, so they are
// branch-free: every case is computed and the right one is selected. Three families:
//
//   hot in both types      exp expm1 exp2 log log2 log10 log1p tanh sigmoid softplus   own code, float and double
//   float through double   pow sin cos tan asin .. atanh sinh cosh erfc hypot sinc     own code in double lanes,
//                          which makes them nearly correctly rounded; the double versions are libm's
//   not vectorised         lgamma digamma erfinv i0 nextafter
//
// Errors stay below 4 ulp of the result, denormals included, where a function says nothing else;
// benchmarks/accuracy.py measures them and tests/ops/test_accuracy.py holds them. sin, cos and tan of floats are right
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
// A start good to 2e-3, then two steps of Halley's rule on erf or, near the ends, on erfc.
inline double erfinv(double x) {
  const double a = std::fabs(x);
  if (!(a < 1)) return a == 1 ? std::copysign(kInf<double>, x) : kNaN<double>;
  if (a < 1e-9) return x * 0.88622692545275801365;
  const double l = std::log1p(-x * x), b = 4.3307467508 + 0.5 * l;
  double y = std::sqrt(std::sqrt(b * b - l / 0.147) - b);
  for (int step = 0; step < 3; ++step) {
    const double e = a < 0.5 ? std::erf(y) - a : (1.0 - a) - std::erfc(y);
    const double u = e / (1.12837916709551257390 * std::exp(-y * y));
    y -= u / (1.0 + y * u);
  }
  return std::copysign(y, x);
}
inline float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

// ---- trigonometry ---------------------------------------------------------------------------------------
//
// Floats in double lanes: x = q pi/2 + r by a three-part pi/2, then both polynomials and a choice by q.
// The first product with q must be exact, which bounds x.

template <class T>
FL_VM bool far_angle(T x) {
#if defined(__FMA__)
  constexpr T limit = T(0x1p45);
#else
  constexpr T limit = T(0x1p20);
#endif
  if constexpr (sizeof(T) == 4) {  // limit < |x| < infinity, whose sine is NaN either way
    const uint32_t above = bits<uint32_t>(limit) + 1;
    return (bits<uint32_t>(x) & 0x7fffffffu) - above < 0x7f800000u - above;
  }
  return false;
}
inline float far_sin(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
inline float far_cos(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
inline float far_tan(float x) { return static_cast<float>(std::tan(static_cast<double>(x))); }
inline double far_sin(double x) { return std::sin(x); }
inline double far_cos(double x) { return std::cos(x); }
inline double far_tan(double x) { return std::tan(x); }

struct SinCos {
  double sin, cos;
};
FL_VM SinCos sincos_lane(double x) {
  constexpr double magic = 6755399441055744.0;
  const double t = x * 0.63661977236758134308 + magic;
  const double q = t - magic;
  const uint64_t i = bits<uint64_t>(t);
  const double r = ((x - q * 1.57079632673412561417) - q * 6.07710050630396597660e-11) - q * 2.02226624879595063154e-21;
  const double z = r * r;
  const double s = r + r * z * poly(z, -0.1666666666666359546, 0.0083333333308928122821, -0.00019841266737518745956,
                                    2.755593717025998272e-6, -2.4800706240605850485e-8);
  const double c = 1.0 - 0.5 * z + z * z * poly(z, 0.041666666664127211898, -0.001388888759732781124,
                                                0.000024800560429914503467, -2.729583082761461564e-7);
  const bool swap = (i & 1) != 0;
  const double sn = swap ? c : s, cs = swap ? s : c;
  return {bits<double>(bits<uint64_t>(sn) ^ ((i & 2) << 62)), bits<double>(bits<uint64_t>(cs) ^ (((i + 1) & 2) << 62))};
}
FL_VM float sin(float x) {
  const float y = static_cast<float>(sincos_lane(x).sin);
  return x == 0 ? x : y;
}
FL_VM float cos(float x) { return static_cast<float>(sincos_lane(x).cos); }
FL_VM float tan(float x) {
  const auto [s, c] = sincos_lane(x);
  const float y = static_cast<float>(s / c);
  return x == 0 ? x : y;
}
inline double sin(double x) { return std::sin(x); }
inline double cos(double x) { return std::cos(x); }
inline double tan(double x) { return std::tan(x); }
// x as a whole number and a rest of at most 1/2, which is exact, so that no x is too large below; and -1 where the
// whole number is odd, else 1.
struct HalfTurns {
  double rest, sign;
};
FL_VM HalfTurns half_turns(double x) {
  const double whole = round(x), odd = whole - 2.0 * round(0.5 * whole);
  return {x - whole, 1.0 - 2.0 * odd * odd};
}
FL_VM double sin_pi(float x) {
  const auto [rest, sign] = half_turns(x);
  return sign * sincos_lane(rest * kPi).sin;
}
FL_VM float cos_pi(float x) {
  const auto [rest, sign] = half_turns(x);
  return static_cast<float>(sign * sincos_lane(rest * kPi).cos);
}
inline double sin_pi(double x) {
  const auto [rest, sign] = half_turns(x);
  return sign * std::sin(rest * kPi);
}
inline double cos_pi(double x) {
  const auto [rest, sign] = half_turns(x);
  return sign * std::cos(rest * kPi);
}
// sin(pi x) / (pi x)
FL_VM float sinc(float x) {
  const float y = static_cast<float>(sin_pi(x) / (static_cast<double>(x) * kPi));
  return x == 0 ? 1.0f : y;
}
inline double sinc(double x) {  // x pi may overflow
  return x == 0 ? 1.0 : sin_pi(x) / kPi / x;
}

// The angle of (x, y) for any signs, infinities not included.
FL_VM double atan2_lane(double y, double x) {
  const double ay = abs(y), ax = abs(x);
  const bool steep = ay > ax;
  const double num = steep ? ax : ay, den = steep ? ay : ax;
  const double t = den == 0 ? 0.0 : num / den, z = t * t;
  double a = t * poly(z, 0.99999999992930367522, -0.33333331290889987906, 0.1999990110217155447,
                      -0.14283813255743193563, 0.11091922963683302164, -0.089741719583638810844,
                      0.072282783453772522332, -0.053956680571371717816, 0.033826218952786872196,
                      -0.015828322749149415576, 0.0047324841934219206569, -0.00066339545711047871928);
  a = steep ? 0.5 * kPi - a : a;
  a = signbit(x) ? kPi - a : a;
  return copysign(a, y);
}
FL_VM float atan(float x) {
  const double a = abs(static_cast<double>(x));
  return static_cast<float>(copysign(atan2_lane(a > 1e40 ? 1e40 : a, 1.0), static_cast<double>(x)));
}
FL_VM float asin(float x) {
  const double a = x;
  const double r = atan2_lane(abs(a), sqrt((1.0 - a) * (1.0 + a)));
  const double s = copysign(r, a);
  return static_cast<float>((a >= -1) & (a <= 1) ? s : kNaN<double>);
}
FL_VM float acos(float x) {
  const double a = x;
  const double r = atan2_lane(sqrt((1.0 - a) * (1.0 + a)), a);
  return static_cast<float>((a >= -1) & (a <= 1) ? r : kNaN<double>);
}
FL_VM float atan2(float y, float x) {
  // Infinities become huge equals, which gives the multiples of pi/4 of the C standard.
  const double dy = y, dx = x;
  const bool both = isinf(dy) & isinf(dx);
  const double cy = isinf(dy) ? copysign(both ? 1.0 : 1e300, dy) : dy;
  const double cx = isinf(dx) ? copysign(both ? 1.0 : 1e300, dx) : dx;
  const double r = atan2_lane(cy, cx);
  return static_cast<float>((y != y) | (x != x) ? kNaN<double> : r);
}
inline double asin(double x) { return std::asin(x); }
inline double acos(double x) { return std::acos(x); }
inline double atan(double x) { return std::atan(x); }
inline double atan2(double y, double x) { return std::atan2(y, x); }

FL_VM float sinh(float x) {
  const double a = abs(static_cast<double>(x));
  const double t = expm1(a > 100.0 ? 100.0 : a);
  return copysign(static_cast<float>(0.5 * (t + t / (t + 1.0))), x);
}
FL_VM float cosh(float x) {
  const double e = exp(abs(static_cast<double>(x)));
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
FL_VM float asinh(float x) {
  const double a = abs(static_cast<double>(x));
  const double y = log1p(a + a * (a / (1.0 + sqrt(a * a + 1.0))));
  return isinf(x) ? x : copysign(static_cast<float>(y), x);
}
FL_VM float acosh(float x) {
  const double t = static_cast<double>(x) - 1.0;
  const double y = log1p(t + sqrt(t * (t + 2.0)));
  return static_cast<float>(t >= 0 ? y : kNaN<double>);
}
FL_VM float atanh(float x) {
  const double a = abs(static_cast<double>(x));
  return copysign(static_cast<float>(0.5 * log1p(2.0 * a / (1.0 - a))), x);
}
inline double sinh(double x) { return std::sinh(x); }
inline double cosh(double x) { return std::cosh(x); }
inline double asinh(double x) { return std::asinh(x); }
inline double acosh(double x) { return std::acosh(x); }
inline double atanh(double x) { return std::atanh(x); }
FL_VM float hypot(float a, float b) {
  const double x = a, y = b;
  const float r = static_cast<float>(sqrt(x * x + y * y));
  return isinf(a) | isinf(b) ? kInf<float> : r;
}
inline double hypot(double a, double b) { return std::hypot(a, b); }

// ---- pow ------------------------------------------------------------------------------------------------

FL_VM float pow(float xf, float yf) {
  const double x = xf, y = yf, a = abs(x);
  double r = exp(y * log(a));
  // Plain selects only: GCC gives up on loops whose conditions are combined from several others.
  const double half = 0.5 * y, big = abs(y) == kInf<double> ? 1.0 : r;
  r = a == 1 ? big : r;                                  // (-1)^inf
  const double odd = round(half) == half ? r : copysign(r, x);
  const double fractional = a < kInf<double> ? kNaN<double> : r;
  const double negative = round(y) == y ? odd : fractional;
  r = signbit(x) ? (x == 0 ? (round(y) == y ? odd : r) : negative) : r;
  r = x == x ? r : x;
  r = y == y ? r : y;
  r = x == 1 ? 1.0 : r;
  r = y == 0 ? 1.0 : r;
  return static_cast<float>(r);
}
inline double pow(double x, double y) { return std::pow(x, y); }
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

// ---- division, with Python's signs ------------------------------------------------------------------------
//
// By quotients in double lanes, which are right as long as they are not too large (far_quotient); the ops leave others
// to the far_ versions (`rare` in the op table). Integers divided by zero give 0 here (never a trap); the ops refuse it
// beforehand (fl::check::no_zero_divisor).

// Whether a / b may round to another integer than the exact quotient does, or a or b is no number or no divisor.
FL_VM bool far_quotient(float a, float b) {
  const double x = abs(static_cast<double>(a)), y = abs(static_cast<double>(b));
  return !(x < 16777216.0 * y) | !(y < kInf<double>);
}
FL_VM bool far_quotient([[maybe_unused]] double a, [[maybe_unused]] double b) {
#if defined(__FMA__)
  return !(abs(a) < 4503599627370496.0 * abs(b)) | !(abs(b) < kInf<double>);
#else
  return true;
#endif
}
FL_VM bool far_quotient(int32_t, int32_t) { return false; }
FL_VM bool far_quotient(int64_t a, int64_t) { return (a >= (int64_t(1) << 53)) | (a <= -(int64_t(1) << 53)); }

// Whether the signs of a and b differ.
template <class T>
FL_VM bool opposite(T a, T b) {
  if constexpr (std::is_integral_v<T>) return (a ^ b) < 0;
  else if constexpr (sizeof(T) == 4) return static_cast<int32_t>(bits<uint32_t>(a) ^ bits<uint32_t>(b)) < 0;
  else return static_cast<int64_t>(bits<uint64_t>(a) ^ bits<uint64_t>(b)) < 0;
}

template <class T>
struct Division {  // a = quotient b + rest, truncated
  T quotient, rest;
};
FL_VM Division<float> divided(float a, float b) {
  const double x = a, y = b, q = std::trunc(x / y);
  return {static_cast<float>(q), copysign(static_cast<float>(x - q * y), a)};
}
FL_VM Division<double> divided(double a, double b) {
  const double q = std::trunc(a / b), r = plus_product(a, -q, b);  // exact; a / b may have been rounded up
  const double q1 = q - copysign(1.0, a / b), r1 = r + copysign(b, a);
  const double q2 = opposite(r, a) ? q1 : q, r2 = opposite(r, a) ? r1 : r;
  return {r == 0 ? q : q2, copysign(r == 0 ? r : r2, a)};
}
template <class T>
  requires std::is_integral_v<T>
FL_VM Division<T> divided(T a, T b) {
  using U = std::make_unsigned_t<T>;
  T safe = b == 0 ? T(1) : b;
  safe = b == -1 ? T(1) : safe;
  T q = static_cast<T>(static_cast<double>(a) / static_cast<double>(safe));
  q = b == -1 ? static_cast<T>(U(0) - static_cast<U>(a)) : q;
  q = b == 0 ? T(0) : q;
  const T r = static_cast<T>(static_cast<U>(a) - static_cast<U>(q) * static_cast<U>(b));
  return {q, b == 0 ? T(0) : r};
}
template <class T>
FL_VM T trunc_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) return divided(a, b).quotient;
  else return std::trunc(a / b);
}
template <class T>
FL_VM T fmod(T a, T b) { return divided(a, b).rest; }
template <class T>
FL_VM T remainder(T a, T b) {
  const T r = divided(a, b).rest;
  const T other = opposite(r, b) ? static_cast<T>(r + b) : r;
  return r == 0 ? r : other;
}
template <class T>
FL_VM T floor_divide(T a, T b) {
  const auto [q, r] = divided(a, b);
  if constexpr (std::is_integral_v<T>) {
    const T below = opposite(r, b) ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(q) - 1) : q;
    return r == 0 ? q : below;
  } else {
    const T below = opposite(r, b) ? q - T(1) : q;
    const T floored = r == 0 ? q : below;
    return floored == 0 ? copysign(T(0), a / b) : floored;
  }
}

template <class T>
inline T far_trunc_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::trunc(a / b);
  else return b == 0 ? T(0) : b == -1 ? static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a)) : static_cast<T>(a / b);
}
template <class T>
inline T far_fmod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  else return b == 0 || b == -1 ? T(0) : static_cast<T>(a % b);
}
template <class T>
inline T far_remainder(T a, T b) {
  const T r = far_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
inline T far_floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T q = far_trunc_divide(a, b), r = far_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
  } else {
    if (b == 0) return a / b;
    const T m = std::fmod(a, b);
    T d = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) d -= 1;
    if (d == 0) return copysign(T(0), a / b);
    T f = std::floor(d);
    if (d - f > T(0.5)) f += 1;
    return f;
  }
}

template <class T>
inline T gcd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  U x = static_cast<U>(abs(a)), y = static_cast<U>(abs(b));
  while (y) {
    const U r = x % y;
    x = y;
    y = r;
  }
  return static_cast<T>(x);
}
template <class T>
inline T lcm(T a, T b) {
  const T g = gcd(a, b);
  return g == 0 ? T(0) : abs(static_cast<T>(static_cast<std::make_unsigned_t<T>>(a / g) * static_cast<std::make_unsigned_t<T>>(b)));
}
// Shifts by a negative count or by the width and more give what an unbounded integer would, cut to T.
template <class T>
FL_VM T left_shift(T a, T b) {
  constexpr T width = sizeof(T) * 8;
  return (b < 0) | (b >= width) ? T(0) : static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) << b);
}
template <class T>
FL_VM T right_shift(T a, T b) {
  constexpr T width = sizeof(T) * 8;
  return a >> ((b < 0) | (b >= width) ? width - 1 : b);
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

// ---- slopes and curvatures of activations ------------------------------------------------------------------

// sigmoid(-v), v >= 0, as t = e / (1 + e) with e = e^-v = m power. m - m t is sigmoid(v) m with the digits of m.
template <class T>
struct Sigmoid {
  T t, m, power;
};
template <class T>
FL_VM Sigmoid<T> sigmoid_parts(T v) {
  const auto [m, power] = scaled_exp(-v);
  const T e = m * power;
  return {e / (T(1) + e), m, power};
}
// sigmoid(x) sigmoid(-x)
template <class T>
FL_VM T sigmoid_slope(T x) {
  const auto [t, m, power] = sigmoid_parts(abs(x));
  const T n = m - m * t;
  return (n - n * t) * power;
}
// x sigmoid(v) for an odd v(x), whose derivatives at a = |x| are dv and ddv: at -a the slope is
// sigmoid(-v) (1 - a dv sigmoid(v)), at a it is 1 minus that. The curvature is even.
template <class T>
FL_VM T times_sigmoid_slope(T x, T a, T v, T dv) {
  const auto [t, m, power] = sigmoid_parts(v);
  const T g = a * dv, y = (m - m * t) * ((T(1) - g) + g * t);
  const T one = x < 0 ? T(0) : T(1), signed_power = x < 0 ? power : -power;
  return one + y * signed_power;
}
template <class T>
FL_VM T times_sigmoid_curvature(T a, T v, T dv, T ddv) {
  const auto [t, m, power] = sigmoid_parts(v);
  const T n = m - m * t, g = a * (dv * dv);
  return (n - n * t) * (((T(2) * dv + a * ddv) - g) + g * (t + t)) * power;
}
template <class T>
FL_VM T silu_slope(T x) {
  const T a = abs(x);
  return times_sigmoid_slope(x, a, a, T(1));
}
template <class T>
FL_VM T silu_curvature(T x) {
  const T a = abs(x);
  return times_sigmoid_curvature(a, a, T(1), T(0));
}
// gelu by tanh: x (1 + tanh(k (x + c x^3))) / 2 = x sigmoid(v). The rounding of v makes it err by |v| ulp far below
// zero.
template <class T>
struct GeluTanh {
  static constexpr T k = T(2 * 0.79788456080286535588), kc = T(2 * 0.79788456080286535588 * 0.044715);
};
template <class T>
FL_VM T gelu_tanh(T x) {
  using G = GeluTanh<T>;
  return times_sigmoid(x, x * (G::k + G::kc * (x * x)));
}
// |x| up to where e^-v is 0.
template <class T>
FL_VM T gelu_tanh_range(T x) {
  constexpr T limit = sizeof(T) == 4 ? T(14) : T(30);
  const T a = abs(x);
  return a > limit ? limit : a;
}
template <class T>
FL_VM T gelu_tanh_slope(T x) {
  using G = GeluTanh<T>;
  const T a = gelu_tanh_range(x), z = a * a;
  return times_sigmoid_slope(x, a, a * (G::k + G::kc * z), G::k + T(3) * G::kc * z);
}
template <class T>
FL_VM T gelu_tanh_curvature(T x) {
  using G = GeluTanh<T>;
  const T a = gelu_tanh_range(x), z = a * a;
  return times_sigmoid_curvature(a, a * (G::k + G::kc * z), G::k + T(3) * G::kc * z, T(6) * G::kc * a);
}
// mish: x w, w = n / (n + 2) with e = e^x and n = e (e + 2), w' = 4 e (1 + e) / (n + 2)^2. Below 0, where w is small,
// 2 / (n + 2) is 1 - w, which has fewer roundings.
template <class T>
FL_VM T mish_slope(T x) {
  constexpr T high = sizeof(T) == 4 ? T(20) : T(40);  // where the slope is 1
  const T c = x > high ? high : x;
  const auto [m, power] = scaled_exp(c);
  const T e = m * power, n = e * (e + T(2)), r = T(1) / (n + T(2)), w = n * r, f = T(1) + e;
  const T below = (T(1) + c) + (T(0.5) * e - c * (w * f - e)), above = (T(1) + T(0.5) * e) + c * f * (r + r);
  const T q = x < 0 ? T(1) - w : r + r;
  return m * q * (x < 0 ? below : above) * power;
}
// By u = e^-|x|, whose square is a factor above 0: one / (n + one) is 2 / (n + 2) of the above below 0, and e^2 / 2
// times that above. Below 4.5 ulp.
template <class T>
FL_VM T mish_curvature(T x) {
  const auto [m, power] = scaled_exp(x < 0 ? x : T(-2) * x);
  const T e = m * power, u = x < 0 ? e : sqrt(e), one = x < 0 ? T(2) : T(1);
  const T n = u * (x < 0 ? u + T(2) : (u + u) + T(2));
  const T r = T(1) / (n + one), p = n * r, q = p < T(0.5) ? T(1) - p : one * r;
  const T below = (T(1) + T(0.5) * x) + u * (T(1) - x * p);
  const T above = (T(1) - x) + u * (T(1) + x * (T(0.5) + (u + u) * r));
  return m * (x < 0 ? T(2) : T(8)) * (q * q) * (x < 0 ? below : above) * power;
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

inline double lgamma(double x) {
#if defined(__GLIBC__)
  int sign;  // std::lgamma writes a global
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}
inline float lgamma(float x) { return static_cast<float>(lgamma(static_cast<double>(x))); }
// On [1, 2] (x - zero) P(2 x - 3), where zero = 1.46 is given in two parts; recurrence to there below 10, the
// asymptotic series above; reflection below 0.
inline double digamma(double x) {
  if (x == 0) return std::copysign(kInf<double>, -x);
  double shift = 0;
  if (x < 0) {
    const double whole = round(x);
    if (whole == x) return kNaN<double>;
    shift = static_cast<double>(-kPiLong / std::tan(kPiLong * (x - whole)));
    x = 1 - x;
  }
  if (x >= 10) {
    const double z = 1 / (x * x);
    const double series = z * poly(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
    return shift + (x == kInf<double> ? x : std::log(x) - 0.5 / x - series);
  }
  double steps = 0;  // the small terms first
  while (x > 2) {
    x -= 1;
    steps += 1 / x;
  }
  if (x < 1) {
    steps -= 1 / x;
    x += 1;
  }
  const double p = poly(
      2 * x - 3,
      0.9510558760318328, -0.21181371064073024, 0.06013562106019684, -0.01855061538173984, 0.005936795278301761,
      -0.001935066664735652, 0.0006368880303865817, -0.00021074841288961643, 6.995018825112794e-05,
      -2.3258232466707952e-05, 7.741234508636364e-06, -2.578134894751126e-06, 8.589060721930695e-07,
      -2.8620904099739414e-07, 9.543298288278275e-08, -3.181266980138485e-08, 1.0527692435026686e-08,
      -3.5032218996509724e-09, 1.2469984616707403e-09, -4.197772636734229e-10, 8.734528429142953e-11,
      -2.7468150389464952e-11, 2.918622732168261e-11, -1.0015117602062808e-11);
  return shift + (steps + ((x - 1.4616321449683622) - 9.549995429965697e-17) * p);
}
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }
// psi'(x), the derivative of digamma.
inline double trigamma(double x) {
  double sign = 1, shift = 0;
  if (x < 0) {
    sign = -1;
    const long double s = std::sin(kPiLong * (x - round(x))), t = kPiLong / s;
    shift = static_cast<double>(-t * t);
    x = 1 - x;
  }
  const int n = x < 10 ? static_cast<int>(std::ceil(10 - x)) : 0;
  double steps = 0;
  for (int k = n - 1; k >= 0; --k) steps += 1 / ((x + k) * (x + k));  // the small terms first
  x += n;
  const double z = 1 / (x * x);
  const double series =
      (1 + 0.5 / x + z * poly(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798)) / x;
  return sign * (shift + (steps + series));
}
inline float trigamma(float x) { return static_cast<float>(trigamma(static_cast<double>(x))); }
// Modified Bessel function of order n = 0 or 1: the power series, whose terms are positive, below 20, then the
// asymptotic one, whose smallest term is below 2^-53 from there on.
inline double bessel_i(double x, int order) {
  const double a = std::fabs(x);
  double y = 0;
  if (a > 1400) {
    y = std::numeric_limits<double>::infinity() - a;  // NaN of infinity, as SciPy has it
  } else if (a < 20) {
    const long double z = 0.25L * a * a;  // a term has the errors of those before it
    long double term = 1, sum = 1;
    for (int k = 1; term > 0x1p-60L * sum; ++k) {
      term *= z / (k * (k + order));
      sum += term;
    }
    y = static_cast<double>(order ? 0.5L * a * sum : sum);
  } else {
    const double t = 1 / (8 * a), m = order * 4;
    double term = 1, sum = 0;
    for (int k = 1; k < 40 && std::fabs(term) > 0x1p-60; ++k) {
      term *= ((2 * k - 1) * (2 * k - 1) - m) * t / k;
      sum += term;
    }
    const double rest = (1 + sum) / std::sqrt(2 * kPi * a), half = std::exp(0.5 * a);
    y = a < 700 ? std::exp(a) * rest : half * rest * half;  // e^a overflows earlier than the result
  }
  return order && x < 0 ? -y : y;
}
inline double i0(double x) { return bessel_i(x, 0); }
inline float i0(float x) { return static_cast<float>(i0(static_cast<double>(x))); }
inline double i1(double x) { return bessel_i(x, 1); }
inline float i1(float x) { return static_cast<float>(i1(static_cast<double>(x))); }

}  // namespace FL_ISA
}  // namespace fl::vm
