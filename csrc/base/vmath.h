// Vector math: element functions that the compiler can turn into SIMD loops.
//
// The bodies of `each:` entries and the kernels call these inside `#pragma omp simd` loops, so they are
// branch-free: every case is computed and the right one is selected. Three families:
//
//   own code in both types  exp expm1 exp2 log log2 log10 log1p tanh sigmoid softplus sin cos tan asin acos atan sinh cosh
//                           asinh acosh atanh erf erfc erfinv ndtr; atan2 and hypot of doubles (without fused products,
//                           sin, cos and tan of floats take double lanes)
//   float in double lanes   pow atan2 hypot sinc lgamma: nearly correctly rounded; sinc, pow (vmath_pow.h) and lgamma
//                           (vmath_special.h) of doubles are their own
//   not vectorised          digamma i0
//
// Below this file: vmath_basic.h. Beside it: vmath_angles.h, vmath_division.h, vmath_normal.h, vmath_special.h and
// vmath_activations.h.
//
// Errors stay below 4 ulp of the result, denormals included, where a function says nothing else (4.3: erfc of doubles
// without fused products); benchmarks/accuracy.py measures them and tests/ops/test_accuracy.py holds them. sin, cos and
// tan are right for near angles alone (far_angle): the ops take others to libm (`rare` in the op table).
//
// Conditions are single comparisons wherever possible: GCC does not vectorise a loop in which a bool made
// of several others selects a value.
//
// Everything lives in an inline namespace per instruction set (see base/isa.h): the linker must never
// hand an AVX-512 copy of an inline function to the portable build.
#pragma once

#include "base/vmath_basic.h"

namespace fl::vm {
inline namespace FL_ISA {

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
// 2^k from k + 1.5 * 2^(mantissa bits) + the bias, for k whose power is a normal number.
FL_VM float shifted_to_power(float t) { return bits<float>(bits<uint32_t>(t) << 23); }
FL_VM double shifted_to_power(double t) { return bits<double>(bits<uint64_t>(t) << 52); }
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
// The same of x so near to 0 that 2^k is one factor: |x| up to 40.
template <class T>
FL_VM T expm1_near(T x) {
  constexpr bool f = sizeof(T) == 4;
  constexpr T rounder = f ? T(12582912.0 + 127) : T(6755399441055744.0 + 1023);
  constexpr T hi = f ? T(0.693359375) : T(6.93147180369123816490e-01), lo = f ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  const T t = x * T(1.4426950408889634074) + rounder, k = t - rounder;
  const T r = (x - k * hi) - k * lo, power = shifted_to_power(t);
  return (r + r * r * exp_tail(r)) * power + (power - T(1));
}
// Of x <= 0; any number of others.
template <class T>
FL_VM T expm1_below(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-18) : T(-40);
  return expm1_near(x < low ? low : x);
}
template <class T>
FL_VM T tanh(T x) {
  constexpr T high = sizeof(T) == 4 ? T(10) : T(20);
  T a = abs(x);
  a = a > high ? high : a;
  const T t = expm1_near(a + a);
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
// log m = f - (f^2/2 - s (f^2/2 + s^2 Q(s^2))); of floats f - (f^2/2 - f^3 P(f)), where P (minimax, relative to log m: 6e-9)
// costs less than the division.

template <class T>
struct LogParts {
  T k, f, half_sq, tail;  // log x = k ln 2 + f - (half_sq - tail)
};
template <bool kDenormals = true>
FL_VM LogParts<float> log_parts(float x) {
  const bool small = kDenormals && x < 1.17549435e-38f;
  const float n = small ? x * 33554432.0f : x;
  const int32_t i = bits<int32_t>(n) - 0x3f3504f3;
  const float k = static_cast<float>((i >> 23) - (small ? 25 : 0));
  const float f = bits<float>((i & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float z = f * f;
  const float p = poly(f, 0.33333331347f, -0.25000819564f, 0.20001226664f, -0.16623358428f, 0.14201767743f, -0.13160179555f,
                       0.12761509418f, -0.07634425163f);
  return {k, f, 0.5f * z, f * z * p};
}
template <bool kDenormals = true>
FL_VM LogParts<double> log_parts(double x) {
  const bool small = kDenormals && x < 2.2250738585072014e-308;
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
FL_VM T log_of(const LogParts<T>& parts) {
  constexpr T hi = sizeof(T) == 4 ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T lo = sizeof(T) == 4 ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  const auto [k, f, h, tail] = parts;
  return k * hi + (f - (h - (tail + k * lo)));
}
template <class T>
FL_VM T log(T x) { return log_edges(x, log_of(log_parts(x))); }
// Of finite x > 0 that are no denormals; the ops take others to log (`rare`).
template <class T>
FL_VM T log_inside(T x) { return log_of(log_parts<false>(x)); }
FL_VM bool outside_log(float x) { return bits<uint32_t>(x) - 0x00800000u >= 0x7f000000u; }
FL_VM bool outside_log(double x) { return bits<uint64_t>(x) - (1ull << 52) >= (0x7feull << 52); }
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
// Near 1/2, where the logarithm has its zero, by log1p((2 x - 1) / (1 - x)), whose numerator is exact: log(v) + c / v with v = 1 + q
// rounded and c what was lost, where 1 / v is about 2 - v, since c is small.
template <bool kEdges = true, class T>
FL_VM T logit(T x) {
  const bool near = abs(x - T(0.5)) < T(0.125);
  const T q = (near ? x + x - T(1) : x) / (T(1) - x), v = T(1) + q, u = near ? v : q;
  const T c = near ? (q - (v - T(1))) * (T(2) - v) : T(0);
  if constexpr (kEdges) return log(u) + c;
  else return log_inside(u) + c;
}
// Of 0 < x < 1 that are no denormals.
template <class T>
FL_VM T logit_inside(T x) { return logit<false>(x); }
FL_VM bool outside_logit(float x) { return bits<uint32_t>(x) - 0x00800000u >= 0x3f800000u - 0x00800000u; }
FL_VM bool outside_logit(double x) { return bits<uint64_t>(x) - (1ull << 52) >= (0x3feull << 52); }
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
// By the bits of x, or of its multiple where it is denormal.
template <class T>
struct Parts {
  static constexpr bool single = sizeof(T) == 4;
  using Bits = std::conditional_t<single, int32_t, int64_t>;
  static constexpr int kDigits = single ? 23 : 52, kBias = single ? 126 : 1022;
  static constexpr Bits kExponent = static_cast<Bits>(2 * kBias + 3) << kDigits;
  Bits u;
  bool raised, has;  // it was multiplied; it has parts
  FL_VM explicit Parts(T x) {
    raised = abs(x) < std::numeric_limits<T>::min();
    u = bits<Bits>(raised ? x * (single ? T(0x1p24) : T(0x1p53)) : x);
    has = (x != 0) & ((u & kExponent) != kExponent);
  }
};
template <class T>
FL_VM T mantissa(T x) {
  using P = Parts<T>;
  const P p(x);
  return p.has ? bits<T>((p.u & ~P::kExponent) | (static_cast<typename P::Bits>(P::kBias) << P::kDigits)) : x;
}
template <class T>
FL_VM T exponent(T x) {
  using P = Parts<T>;
  const P p(x);
  const auto e = ((p.u & P::kExponent) >> P::kDigits) - P::kBias - (p.raised ? P::kDigits + 1 : 0);
  return p.has ? static_cast<T>(e) : T(0);
}
// 1 / b, where x * (1 / b) is x / b for every x: b is a power of two, and neither is subnormal. Else 0.
template <class T>
inline T exact_reciprocal(T b) {
  int e;
  if (!isfinite(b) || std::abs(std::frexp(b, &e)) != T(0.5)) return 0;
  const T inverse = 1 / b;
  return std::isnormal(b) && std::isnormal(inverse) ? inverse : T(0);
}
// The bits of a number, where negative ones count down from 0, are in the order of the numbers.
template <class T>
FL_VM T nextafter(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr Bits kFirst = std::numeric_limits<Bits>::min();
  const Bits i = bits<Bits>(a), ordered = i < 0 ? kFirst - i : i;
  const Bits next = a < b ? ordered + 1 : ordered - 1;
  T y = bits<T>(next < 0 ? kFirst - next : next);
  y = a == b ? b : y;
  y = a == a ? y : a;
  return b == b ? y : b;
}
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

// Vector norms: d|x|_p / dx times v, with y = |x|_p and finite p but 0.
template <class T>
FL_VM T norm_slope(T v, T x, T y, T p) {
  const T slope = v * copysign(pow(abs(x) / y, p - T(1)), x);
  return (x == 0) | (y == 0) ? T(0) : slope;
}
// The part of the second derivative that does not go through y.
template <class T>
FL_VM T norm_curvature(T v, T x, T y, T p) {
  const T curvature = v * (p - T(1)) * pow(abs(x) / y, p - T(2)) / y;
  return (x == 0) | (y == 0) ? T(0) : curvature;
}
template <class T>
FL_VM T norm_fade(T v, T y, T p) {
  const T fade = v * (T(1) - p) / y;
  return y == 0 ? T(0) : fade;
}

}  // namespace FL_ISA
}  // namespace fl::vm

#include "base/vmath_pow.h"
