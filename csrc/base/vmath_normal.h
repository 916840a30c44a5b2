// Vector math: the error function and the normal distribution.
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

// 1 - 2^l with l = log2 erfc(a) = k + r, in which 2^r - 1 is by itself: near 0, where k is 0, it is all there is. Minimax polynomials: of l / a, to
// 2^-28 of erf, and of (2^r - 1) / r, to 2^-26.
FL_VM float erf(float x) {
  const float a0 = abs(x), a = a0 > 4.0f ? 4.0f : a0;
  const float l = a * poly(a, -1.62790704f, -0.918447625f, -0.148277067f, 0.0276320327f, 0.000231398657f, -0.00240500861f,
                           0.000912988732f, -0.000169719989f, 1.33539161e-5f);
  constexpr float rounder = 12582912.0f + 127.0f;
  const float t = l + rounder, r = l - (t - rounder), power = bits<float>(bits<uint32_t>(t) << 23);
  const float m = r * poly(r, 0.693147188f, 0.240226498f, 0.05550357f, 0.00961823836f, 0.00133909647f, 0.00015403513f);
  return copysign((1.0f - power) - power * m, x);
}
// gelu and its derivatives are made of a = |x| and
//
//     pdf(a) = (1 + e) power unit / sqrt(2 pi)        cdf(-a) = (1 + e) power unit (1 + s) / d,   d = 3.9375 + 1.375 a
//
// with e and s apart from 1, where they would lose bits. power is scaled by 1 / unit, so that what is multiplied with
// unit last may be denormal. That is 0 at the largest a, which NaN becomes too.
// |x|, limited. Of floats an integer minimum, since GCC makes two paths of the other; of 64 bits SSE2 has none.
FL_VM float normal_range(float x, float most = 15.0f) {
  const int32_t a = bits<int32_t>(x) & 0x7fffffff, limit = bits<int32_t>(most);
  return bits<float>(a < limit ? a : limit);
}
FL_VM double normal_range(double x, double most = 39.0) {
  const double a = abs(x);
  return a < most ? a : most;
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
  return poly_halves(w - 0.375, -0.025568105306424053, -1.8082658296082221, 2.095133115848615, -0.9091899357091023,
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
// e^(-a^2 / 2), and e^(-a^2) with `whole`.
template <class T, bool whole = false>
FL_VM HalfSquareExp<T> exp_half_square(T a) {
  constexpr bool single = sizeof(T) == 4;
  constexpr T half = whole ? 1 : 2;
  // The exponent of power stands in the low bits of t.
  constexpr T magic = single ? T(12582912.0 + 127 + 64) : T(6755399441055744.0 + 1023 + 512);
  constexpr T hi = half * (single ? T(0.693359375) : T(6.93147180369123816490e-01));
  constexpr T lo = half * (single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10));
  const T t = a * (a * (T(-1.44269504088896340736) / half)) + magic, k = t - magic;
  const T r = k * lo + add_square(a, k * hi), e = expm1_half(whole ? r + r : r);
  if constexpr (single) return {e, bits<T>(bits<uint32_t>(t) << 23)};
  else return {e, bits<T>(bits<uint64_t>(t) << 52)};
}
// e^(a^2) erfc(a) d at w = a / d with d = 4 + 2.5 a: a minimax polynomial, relative 4e-9.
FL_VM float erfcx_ratio(float w) {
  return poly(w - 0.125f, 2.99881603f, -7.74048425f, 4.0670837f, 15.765459f, -1.67787644f, -50.697748f, -68.4874233f, 64.1075049f,
              507.297894f, 796.35407f, -3069.7f);
}
FL_VM float erfc(float x) {
  const float a = normal_range(x, 10.6f), r = 1.0f / (a * 2.5f + 4.0f);
  const auto [e, power] = exp_half_square<float, true>(a);
  const float m = r * erfcx_ratio(a * r) * power, y = (m + m * e) * HalfSquareExp<float>::unit;
  return x < 0 ? 2.0f - y : x == x ? y : x;
}
// erfc(-x / sqrt(2)) / 2, the exponential of x itself, since the quotient's rounding would show in it.
FL_VM float ndtr(float x) {
  const float a = normal_range(x), r = 1.0f / (a * 1.76776695f + 4.0f);
  const auto [e, power] = exp_half_square(a);
  const float m = r * erfcx_ratio(a * 0.707106781f * r) * power, y = (m + m * e) * (0.5f * HalfSquareExp<float>::unit);
  return x > 0 ? 1.0f - y : x == x ? y : x;
}
// The same in doubles by the quotient of gelu: erfc(a) = 2 cdf(-sqrt(2) a).
FL_VM double erfc_above(double a) {
  const double b = a * 1.41421356237309504880, r = 1.0 / normal_divisor(b);
  const auto [e, power] = exp_half_square<double, true>(a);
  const double m = (r + r * normal_ratio(b * r)) * power;
  return (m + m * e) * (2.0 * HalfSquareExp<double>::unit);
}
FL_VM double erfc(double x) {
  const double y = erfc_above(normal_range(x, 27.5));
  return x < 0 ? 2.0 - y : x == x ? y : x;
}
// Far from 0 it is 1 - 2^l with l = log2 erfc(a): a minimax polynomial, to 2^-60 of erf, so that it need not be near where erfc is small.
FL_VM double erf(double x) {
  const double z = x * x, a0 = abs(x);
  const double near = x * poly(z, 1.12837916709551257, -0.376126389031836196, 0.112837916709469008, -0.0268661706431406591,
                                0.00522397760067656778, -0.00085483252216362525, 0.000120552510275162424, -0.0000149232473771437208,
                                1.64165844541720673e-6, -1.58242073797389605e-7, 1.10682375892408884e-8);
  const double a = a0 > 5.93 ? 5.93 : a0;
  const double l = poly_halves(a - 1.0, -2.6684166967815996, -3.80722534585360837, -1.21634665768588552, -0.0599599900456090297,
                               0.0144757501950932896, -0.00285351088018379558, 0.000342387182754789661, 0.0000379001297111230106,
                               -0.0000391563685134911634, 0.0000138173198623341806, -2.91261019864407162e-6, 1.48496181702419939e-7,
                               1.83202208717306487e-7, -9.86591083528282682e-8, 3.12961967606537932e-8, -7.11002788975368801e-9,
                               1.1755628423348017e-9, -1.35171367479725779e-10, 9.67090979213810382e-12, -3.23526427695056709e-13);
  constexpr double rounder = 6755399441055744.0 + 1023;
  const double t = l + rounder, r = l - (t - rounder);
  const double m = poly_halves(r, 0.999999999999999997, 0.69314718055994533, 0.240226506959101562, 0.0555041086648199213,
                               0.00961812910758833599, 0.0013333558146789987, 0.000154035304625140187, 0.0000152527334899327032,
                               1.32154330897112558e-6, 1.01781980429782641e-7, 7.07410562752060383e-9, 4.43527972360996877e-10);
  const double far = copysign(1.0 - m * shifted_to_power(t), x);
  return a0 < 0.8 ? near : a0 == a0 ? far : x;
}
FL_VM double ndtr(double x) {
  const double a = normal_range(x), r = 1.0 / normal_divisor(a);
  const auto [e, power] = exp_half_square(a);
  const double m = (r + r * normal_ratio(a * r)) * power, y = (m + m * e) * HalfSquareExp<double>::unit;
  return x > 0 ? 1.0 - y : x == x ? y : x;
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

}  // namespace FL_ISA
}  // namespace fl::vm
