// x^y of doubles, as e^(y log x) with a logarithm of two doubles: included by base/vmath.h alone.
//
// The largest exponent that has a result is 745, so log x must be right to 2^-64 of itself for the last bit to be. With
// x = 2^k m, f = m - 1 and s = f / (2 + f), log m = 2 s (1 + z/3 + z^2 P(z)) with z = s^2 below 0.03: s, z/3 and all sums
// that they go into are pairs, and z^2 P, at most 2^-12 of the whole, is a double. Without FMA, libm's.
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

#if defined(__FMA__)

template <class T>
struct Pair {
  T hi, lo;
};
// a b with what rounding loses. hi is a product that no compiler fuses with a later sum: lo would count twice.
FL_VM Pair<double> exact_product(double a, double b) {
  const double hi = __builtin_fma(a, b, 0.0);
  return {hi, __builtin_fma(a, b, -hi)};
}

// Of finite x > 0.
FL_VM Pair<double> log_pair(double x) {
  constexpr double third = 1.0 / 3, third_lo = 1.850371707708594e-17;
  constexpr double ln2_hi = 6.93147180369123816490e-01, ln2_lo = 1.90821492927058770002e-10;  // k ln2_hi is exact
  const double k = log_parts(x).k, f = log_parts(x).f;
  const double d = 2.0 + f, d_lo = f - (d - 2.0), inverse = 1.0 / d;
  const double s = __builtin_fma(f, inverse, 0.0), s_lo = __builtin_fma(-s, d_lo, __builtin_fma(-s, d, f)) * inverse;
  const auto [z, zz] = exact_product(s, s);
  const double z_lo = zz + 2.0 * s * s_lo;
  const auto [t, tt] = exact_product(z, third);
  const double p = poly(z, 0.2, 0.1428571428571469, 0.1111111111082441, 0.09090909168496285, 0.07692297395881176,
                        0.06667406985646002, 0.058529940782504536, 0.05862885610905572);
  const double q = __builtin_fma(z * z, p, 0.0), v = t + q, v_lo = q - (v - t);
  const double u = 1.0 + v, u_lo = (v - (u - 1.0)) + (v_lo + (tt + (z * third_lo + z_lo * third)));
  const auto [m, mm] = exact_product(2.0 * s, u);
  const double m_lo = mm + 2.0 * (s * u_lo + s_lo * u);
  const double n = k * ln2_hi, hi = n + m;
  return {hi, (m - (hi - n)) + (m_lo + k * ln2_lo)};
}

FL_VM double pow(double x, double y) {
  constexpr double range = 760, far = 1180591620717411303424.0;  // e^760 is inf, e^-760 is 0; |log x| is 0 or above 760 / far
  const double a = abs(x), bounded = abs(y) > far ? copysign(far, y) : y;
  const auto [l, l_lo] = log_pair(a);
  const auto [e, ee] = exact_product(bounded, log_edges(a, l));
  const double e_lo = ee + bounded * l_lo;
  const double c = abs(e) > range ? copysign(range, e) : e;
  const auto [r0, power] = reduce_ln2(c);
  const double r = r0 + (c == e ? e_lo : 0.0);
  return pow_edges(x, y, (1.0 + (r + r * r * exp_tail(r))) * power.a * power.b);
}

#else

inline double pow(double x, double y) { return std::pow(x, y); }

#endif

}  // namespace FL_ISA
}  // namespace fl::vm
