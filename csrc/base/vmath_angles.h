// Vector math: angles and hyperbolic functions.
//
// Floats with fused products: x = q pi/2 + r by a three-part pi/2. What the first part leaves is exact, as long as q is; the
// others round once each, which leaves sin, cos and tan within 2.5 ulp up to 2^17. Beyond, and without fused products, in
// double lanes, whose first product with q must be exact, which bounds x again.
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

#if defined(__FMA__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif
template <class T>
FL_VM bool far_angle(T x) {
  constexpr T limit = kFused ? T(0x1p17) : T(0x1p20);
  if constexpr (sizeof(T) == 4) {  // limit < |x| < infinity, whose sine is NaN either way
    const uint32_t above = bits<uint32_t>(limit) + 1;
    return (bits<uint32_t>(x) & 0x7fffffffu) - above < 0x7f800000u - above;
  } else {
    const uint64_t above = bits<uint64_t>(0x1p20) + 1;
    return (bits<uint64_t>(x) & 0x7fffffffffffffffull) - above < 0x7ff0000000000000ull - above;
  }
}
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

#if defined(__FMA__)
struct Quarter {
  float r;
  uint32_t q;
};
FL_VM Quarter quarter(float x) {
  constexpr float magic = 12582912.0f;
  const float t = __builtin_fmaf(x, 0.636619772f, magic), q = t - magic;
  const float r = __builtin_fmaf(q, 4.37113900018624283e-8f, __builtin_fmaf(-q, 1.57079637050628662109375f, x));
  return {__builtin_fmaf(q, 1.71512451e-15f, r), bits<uint32_t>(t)};
}
// sin(r + q pi/2)
FL_VM float turned_sin(float r, uint32_t q) {
  const float z = r * r;
  const float s = __builtin_fmaf(r * z, poly(z, -0.166666539f, 0.00833211304f, -0.000195087412f), r);
  const float c = __builtin_fmaf(z * z, poly(z, 0.0416666444f, -0.00138872515f, 2.44256815e-5f), __builtin_fmaf(z, -0.5f, 1.0f));
  const float y = (q & 1) != 0 ? c : s;
  return bits<float>(bits<uint32_t>(y) ^ ((q & 2) << 30));
}
FL_VM float sin(float x) {
  const auto [r, q] = quarter(x);
  const float y = turned_sin(r, q);
  return x == 0 ? x : y;
}
FL_VM float cos(float x) {
  const auto [r, q] = quarter(x);
  return turned_sin(r, q + 1);
}
FL_VM float tan(float x) {
  const auto [r, q] = quarter(x);
  const float z = r * r;
  const float t = __builtin_fmaf(r * z, poly(z, 0.333333527f, 0.133325593f, 0.0540720128f, 0.021218251f, 0.0110050928f, -0.00012924203f, 0.00448611298f), r);
  const bool odd = (q & 1) != 0;
  const float y = (odd ? -1.0f : t) / (odd ? t : 1.0f);
  return x == 0 ? x : y;
}
#else
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
#endif
// Of angles that are far, for any x.
FL_VM bool beyond_lanes(float x) { return !(abs(x) <= (kFused ? 0x1p45f : 0x1p20f)); }
inline float far_sin(float x) { return static_cast<float>(beyond_lanes(x) ? std::sin(static_cast<double>(x)) : sincos_lane(x).sin); }
inline float far_cos(float x) { return static_cast<float>(beyond_lanes(x) ? std::cos(static_cast<double>(x)) : sincos_lane(x).cos); }
inline float far_tan(float x) {
  if (beyond_lanes(x)) return static_cast<float>(std::tan(static_cast<double>(x)));
  const auto [s, c] = sincos_lane(x);
  return static_cast<float>(s / c);
}
inline double far_sin(double x) { return std::sin(x); }
inline double far_cos(double x) { return std::cos(x); }
inline double far_tan(double x) { return std::tan(x); }

// Doubles up to 2^20: four parts of pi/2, of which the products of the first three with q are exact, leave a rest that is
// right to the last bit unless x is within 2^-50 of its zero; the series end below 2^-60.
FL_VM SinCos sincos_wide(double x) {
  constexpr double magic = 6755399441055744.0;
  const double t = x * 0.63661977236758134308 + magic;
  const double q = t - magic;
  const uint64_t i = bits<uint64_t>(t);
  const double r0 = (x - q * 1.57079632673412561417) - q * 6.07710050630396597660e-11;
  const double r = (r0 - q * 2.02226624871116645580e-21) - q * 8.47842766036889956997e-32;
  const double z = r * r;
  const double s = r + r * z * poly(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                                    -1.0 / 1307674368000, 1.0 / 355687428096000);
  const double h = 0.5 * z, w = 1.0 - h;  // what 1 - h loses is added to the rest
  const double c = w + (((1.0 - w) - h) + z * z * poly(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                                       -1.0 / 87178291200, 1.0 / 20922789888000));
  const bool swap = (i & 1) != 0;
  const double sn = swap ? c : s, cs = swap ? s : c;
  return {bits<double>(bits<uint64_t>(sn) ^ ((i & 2) << 62)), bits<double>(bits<uint64_t>(cs) ^ (((i + 1) & 2) << 62))};
}
FL_VM double sin(double x) {
  const double y = sincos_wide(x).sin;
  return x == 0 ? x : y;
}
FL_VM double cos(double x) { return sincos_wide(x).cos; }
FL_VM double tan(double x) {
  const auto [s, c] = sincos_wide(x);
  const double y = s / c;
  return x == 0 ? x : y;
}
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
FL_VM double sin_pi(double x) {
  const auto [rest, sign] = half_turns(x);
  return sign * sincos_wide(rest * kPi).sin;
}
FL_VM double cos_pi(double x) {
  const auto [rest, sign] = half_turns(x);
  return sign * sincos_wide(rest * kPi).cos;
}
// sin(pi x) / (pi x)
FL_VM float sinc(float x) {
  const float y = static_cast<float>(sin_pi(x) / (static_cast<double>(x) * kPi));
  return x == 0 ? 1.0f : y;
}
FL_VM double sinc(double x) {  // x pi may overflow
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
// pi / 2 is their sum.
template <class T>
constexpr T kQuarterTurn = sizeof(T) == 4 ? T(1.57079637f) : T(1.57079632679489655800);
template <class T>
constexpr T kQuarterTurnRest = sizeof(T) == 4 ? T(-4.37113883e-8f) : T(6.12323399573676603587e-17);
// Of 1 / |x| where |x| is above 1, by which a right angle is missed.
FL_VM float atan(float x) {
  const float a = abs(x);
  const bool steep = a > 1.0f;
  const float t = (steep ? -1.0f : a) / (steep ? a : 1.0f), z = t * t;
  const float p = poly(z, -0.333332991f, 0.199985483f, -0.142642417f, 0.109521858f, -0.0840345041f, 0.0579575947f, -0.0311778468f,
                       0.0109146061f, -0.00179362178f);
  const float y = t * z * p + (t + (steep ? kQuarterTurnRest<float> : 0.0f));
  return copysign(y + (steep ? kQuarterTurn<float> : 0.0f), x);
}
// s and tail with asin(a) = s + tail for a up to 1/2, and half of acos(a) = s + tail above: asin(sqrt(z)) by a minimax polynomial
// (relative 5e-9 and 2e-17), of z = (1 - a) / 2 there.
FL_VM float asin_tail(float z) { return poly(z, 0.166667539f, 0.0749524177f, 0.0454770983f, 0.0241476043f, 0.0422185605f); }
FL_VM double asin_tail(double z) {
  return poly(z, 0.166666666666653827, 0.0750000000034305921, 0.0446428568234767339, 0.0303819593312844742, 0.0223717535263768416,
              0.0173597710175803171, 0.0138845996475264008, 0.012173270342910892, 0.00651089542788572272, 0.0195737855210049489,
              -0.0162938794061913263, 0.0319588308874023542);
}
template <class T>
struct ArcParts {
  T s, tail;
};
template <class T>
FL_VM ArcParts<T> arc_parts(T a) {
  const bool above = a > T(0.5);
  const T z = above ? T(0.5) - T(0.5) * a : a * a, s = above ? sqrt(z) : a;
  return {s, s * (z * asin_tail(z))};
}
template <class T>
FL_VM T asin(T x) {
  const T a = abs(x);
  const auto [s, tail] = arc_parts(a);
  const T above = (kQuarterTurn<T> - T(2) * s) - (T(2) * tail - kQuarterTurnRest<T>), below = s + tail;
  return copysign(a > T(0.5) ? above : below, x);
}
template <class T>
FL_VM T acos(T x) {
  const auto [s, tail] = arc_parts(abs(x));
  const T y = s + tail, middle = kQuarterTurn<T> - (copysign(y, x) - kQuarterTurnRest<T>);
  const T left = T(2) * kQuarterTurn<T> - (T(2) * y - T(2) * kQuarterTurnRest<T>), end = x < 0 ? left : T(2) * y;
  return abs(x) > T(0.5) ? end : middle;
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
// The angle of (x, y) from that of a point within an eighth turn of an axis or of the diagonal, in doubles.
FL_VM double atan_tail(double z) {
  return poly(z, -0.333333333333331989, 0.199999999999540331, -0.142857142802433872, 0.111111107858741212, -0.0909089782867546605,
              0.0769206149577148248, -0.0666311874486522157, 0.0584799676920135839, -0.0503978983621707144, 0.0380768836291442955,
              -0.0179206814032789396);
}
FL_VM double atan2(double y0, double x0) {
  constexpr double tangent = 0.41421356237309504880;
  // Infinities become ones beside zeros; halves of what is large have a sum, and what is tiny has digits once it is larger.
  const double most = abs(y0) > abs(x0) ? abs(y0) : abs(x0);
  const bool endless = most == kInf<double>;
  const double scale = most > 1e300 ? 0.5 : most < 1e-290 ? 0x1p100 : 1.0;
  const double ay = endless ? (isinf(y0) ? 1.0 : 0.0) : abs(y0) * scale, ax = endless ? (isinf(x0) ? 1.0 : 0.0) : abs(x0) * scale;
  const bool steep = ay * tangent > ax, middle = ay > ax * tangent;
  const double num = steep ? -ax : middle ? ay - ax : ay, sum = middle ? ay + ax : ax, den = steep ? ay : sum;
  const double t = num / (den == 0 ? 1.0 : den), z = t * t;
  double high = steep ? kQuarterTurn<double> : middle ? 0.5 * kQuarterTurn<double> : 0.0;
  double low = steep ? kQuarterTurnRest<double> : middle ? 0.5 * kQuarterTurnRest<double> : 0.0;
  const double tail = t * (z * atan_tail(z));
  // Left of it all turns round: pi minus the angle.
  const double sign = copysign(1.0, x0), turn = 0.5 - 0.5 * sign;
  high = turn * (2.0 * kQuarterTurn<double>) + sign * high;
  low = turn * (2.0 * kQuarterTurnRest<double>) + sign * low;
  const double y = copysign(high + (sign * t + (sign * tail + low)), y0);
  return (x0 != x0) | (y0 != y0) ? kNaN<double> : y;
}
FL_VM double atan(double x) {
  constexpr double tangent = 0.41421356237309504880;
  const double a = abs(x);
  const bool steep = a * tangent > 1.0, middle = a > tangent;
  const double num = steep ? -1.0 : middle ? a - 1.0 : a, sum = middle ? a + 1.0 : 1.0, den = steep ? a : sum;
  const double t = num / den, z = t * t;
  const double high = steep ? kQuarterTurn<double> : middle ? 0.5 * kQuarterTurn<double> : 0.0;
  const double low = steep ? kQuarterTurnRest<double> : middle ? 0.5 * kQuarterTurnRest<double> : 0.0;
  return copysign(high + (t + (t * (z * atan_tail(z)) + low)), x);
}

// From 1 on e^a / 2 and its inverse, the half first, so that nothing overflows early.
template <class T>
FL_VM T sinh(T x) {
  const T a = abs(x), t = expm1_near(a > 1 ? T(1) : a);
  const auto [m, power] = scaled_exp(a);
  const T near = T(0.5) * (t + t / (t + T(1))), far = T(0.5) * m * power - T(0.5) / (m * power);
  return copysign(a > 1 ? far : near, x);
}
template <class T>
FL_VM T cosh(T x) {
  const auto [m, power] = scaled_exp(abs(x));
  return T(0.5) * m * power + T(0.5) / (m * power);
}
// Far out log(2 a): the square of a would be no number, and adds nothing before that.
template <class T>
FL_VM T asinh(T x) {
  const T a = abs(x);
  const bool far = a > T(1e8);
  const T y = log1p(far ? a - T(1) : a + a * (a / (T(1) + sqrt(a * a + T(1)))));
  return copysign(y + (far ? T(0.6931471805599453094) : T(0)), x);
}
template <class T>
FL_VM T acosh(T x) {
  const T t = x - T(1);
  const bool far = x > T(1e8);
  const T y = log1p(far ? t : t + sqrt(t * (t + T(2)))) + (far ? T(0.6931471805599453094) : T(0));
  return x < 1 ? kNaN<T> : y;
}
template <class T>
FL_VM T atanh(T x) {
  const T a = abs(x);
  return copysign(T(0.5) * log1p(T(2) * a / (T(1) - a)), x);
}
FL_VM float hypot(float a, float b) {
  const double x = a, y = b;
  const float r = static_cast<float>(sqrt(x * x + y * y));
  return isinf(a) | isinf(b) ? kInf<float> : r;
}
// Of numbers whose squares are none, shares.
FL_VM double hypot(double a, double b) {
  const double x = abs(a), y = abs(b), most = x > y ? x : y;
  const double share = most > 0x1p500 ? 0x1p-600 : most < 0x1p-500 ? 0x1p600 : 1.0, whole = most > 0x1p500 ? 0x1p600 : most < 0x1p-500 ? 0x1p-600 : 1.0;
  const double p = x * share, q = y * share, r = sqrt(p * p + q * q) * whole;
  return isinf(a) | isinf(b) ? kInf<double> : r;
}

}  // namespace FL_ISA
}  // namespace fl::vm
