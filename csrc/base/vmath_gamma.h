// Vector math: incomplete gamma functions, Hurwitz' zeta function and the derivatives of digamma, one element at a time, of
// floats in double.
#pragma once

#include "base/vmath.h"
#include "base/vmath_special.h"

namespace fl::vm {
inline namespace FL_ISA {

// m - log(1 + m), without the loss that the difference has near 0.
inline double log1p_gap(double m) {
  if (m > 0.4 || m < -0.35) return m - std::log1p(m);
  const double s = m / (2 + m), z = s * s;  // log(1 + m) = 2 (s + s^3 / 3 + ...), m = 2 s / (1 - s)
  double term = s * z, sum = 0;
  for (int k = 3; k < 60; k += 2) {
    const double next = sum + term / k;
    if (next == sum) break;
    sum = next;
    term *= z;
  }
  return s * m - 2 * sum;  // m - 2 s = s m
}
// log Gamma(1 + a), |a| <= 0.5, with all digits near 0.
inline double lgamma1p(double a) {
  if (std::fabs(a) > 0.2) return lgamma(1 + a);
  return a * poly(a, -0.57721566490153286061, 0.82246703342411322, -0.40068563438653143, 0.27058080842778455, -0.20738555102867399,
                  0.16955717699740819, -0.14404989676884612, 0.12550966952474304, -0.11133426586956469, 0.10009945751278181,
                  -0.090954017145829042, 0.083353840546109004, -0.076932516411352191, 0.071432946295361336, -0.066668705882420468,
                  0.062500955141213041, -0.058823978658684582, 0.055555767627403611, -0.052631679379616661, 0.050000047698101694,
                  -0.047619070330142228, 0.045454556293204669, -0.043478266053040259);
}
// x^a e^-x / Gamma(a + 1).
inline double gamma_power(double a, double x) {
  if (a < 10) return std::exp(a * std::log(x) - x - (a < 0.5 ? lgamma1p(a) : lgamma(a + 1)));
  const double r = 1 / a, z = r * r;
  const double stirling = r * poly(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156);
  return std::exp(-a * log1p_gap((x - a) / a) - stirling) / std::sqrt(2 * kPi * a);
}
// P by its power series, whose terms are positive; what is below `small` of it is left out.
inline double gamma_series(double a, double x, double small) {
  double term = 1, sum = 1;
  for (int64_t k = 1; k < 200000 && term > small * sum; ++k) {
    term *= x / (a + static_cast<double>(k));
    sum += term;
  }
  return gamma_power(a, x) * sum;
}
// Q for x < 1 and small a: 1 - P with what they have in common taken away first.
inline double gamma_complement(double a, double x) {
  double term = 1, sum = 0;
  for (int k = 1; k < 60; ++k) {
    term *= -x / k;
    sum += term / (a + k);
    if (std::fabs(term) < 0x1p-60) break;
  }
  const double u = std::expm1(a * std::log(x) - lgamma1p(a));
  return -u - (1 + u) * a * sum;
}
// Q by Legendre's continued fraction: from its end, for as many terms as this x wants, or, where rounding matters less, from its
// beginning (Lentz, "Generating Bessel functions in Mie scattering calculations using continued fractions", 1976) for as many as change it.
inline double gamma_fraction(double a, double x, double small) {
  if (small > 0x1p-40) {
    double b = x + 1 - a, c = 0x1p500, d = 1 / b, product = d;
    for (int k = 1; k < 100000; ++k) {
      const double n = static_cast<double>(k), numerator = n * (a - n);
      b += 2;
      d = 1 / (numerator * d + b);
      c = b + numerator / c;
      const double change = c * d;
      product *= change;
      if (std::fabs(change - 1) < small) break;
    }
    return gamma_power(a, x) * a * product;
  }
  const double apart = (x - a) / std::sqrt(x);
  const int64_t terms = static_cast<int64_t>(30 + (a < x - 1 ? 700 / (apart * apart + 0.02) : 0) + (x < 20 ? 200 / x : 0) + 3 * std::sqrt(a));
  double tail = 0;
  for (int64_t k = terms; k > 0; --k) {
    const double n = static_cast<double>(k);
    tail = n * (n - a) / (x + 2 * n + 1 - a - tail);
  }
  return gamma_power(a, x) * a / (x + 1 - a - tail);
}
// Q for large a: Temme's uniform expansion (DLMF 8.12.4), two terms of it.
inline double gamma_uniform(double a, double x, bool upper) {
  const double m = (x - a) / a, gap = log1p_gap(m), eta = std::copysign(std::sqrt(2 * gap), m);
  double c0, c1;
  if (std::fabs(eta) < 0.1) {
    c0 = poly(eta, -1.0 / 3, 1.0 / 12, -2.0 / 135, 1.0 / 864, 1.0 / 2835, -139.0 / 777600, 1.0 / 25515);
    c1 = poly(eta, -1.0 / 540, -1.0 / 288, 1.0 / 378, -77.0 / 77760, 0.00026455026455026457);
  } else {
    c0 = 1 / m - 1 / eta;
    c1 = 1 / (eta * eta * eta) - 1 / (m * m * m) - 1 / (m * m) - 1 / (12 * m);
  }
  const double rest = std::exp(-a * gap) / std::sqrt(2 * kPi * a) * (c0 + c1 / a), z = eta * std::sqrt(0.5 * a);
  return upper ? 0.5 * std::erfc(z) + rest : 0.5 * std::erfc(-z) - rest;
}
// The regularised incomplete gamma functions: P(a, x), and Q = 1 - P with `upper`, to about `small` of them.
inline double gamma_incomplete(double a, double x, bool upper, double small = 0x1p-56) {
  if (x < 0 || a < 0) return kNaN<double>;
  if (a == 0) return x > 0 ? (upper ? 0.0 : 1.0) : kNaN<double>;
  if (x == 0) return upper ? 1.0 : 0.0;
  if (isinf(a)) return isinf(x) ? kNaN<double> : upper ? 1.0 : 0.0;
  if (isinf(x)) return upper ? 0.0 : 1.0;
  if (x != x || a != a) return kNaN<double>;
  if (a > 1e5) return gamma_uniform(a, x, upper);
  if (x < 1 && a < 0.5) {
    const double q = gamma_complement(a, x);
    return upper ? q : q < 0.5 ? 1 - q : gamma_series(a, x, small);
  }
  if (x < a + 1 || x < 1) {
    const double p = gamma_series(a, x, small);
    return upper ? 1 - p : p;
  }
  const double q = gamma_fraction(a, x, small);
  return upper ? q : 1 - q;
}
inline double gammainc(double a, double x) { return gamma_incomplete(a, x, false); }
inline double gammaincc(double a, double x) { return gamma_incomplete(a, x, true); }
// dP / dx = x^(a - 1) e^-x / Gamma(a)
inline double gamma_density(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNaN<double>;
  if (x == 0) return a == 1 ? 1 : a > 1 ? 0 : kInf<double>;
  if (isinf(a) || isinf(x)) return 0;
  return gamma_power(a, x) * (a / x);
}

// sum of (q + k)^-x over k >= 0 for finite x > 1 and q > 0: some terms, then Euler and Maclaurin's formula for the others.
inline double zeta_above(double x, double q) {
  double sum = 0, at = q;
  for (int k = 0; k < 12; ++k, at += 1) {
    const double term = std::pow(at, -x);
    sum += term;
    if (term < 0x1p-54 * sum / (1 + at)) return sum;
  }
  // B_2k / (2k)!
  constexpr double b[] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0,
                          1.0 / 74724249600.0, -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0, -174611.0 / 802857662698291200000.0};
  const double power = std::pow(at, -x);
  double tail = at / (x - 1) + 0.5, factor = x / at;
  for (int k = 0; k < 10; ++k) {
    const double term = b[k] * factor;
    tail += term;
    if (std::fabs(term) < 0x1p-56 * std::fabs(tail)) break;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (at * at);
  }
  return sum + power * tail;
}
inline double zeta(double x, double q) {
  if (x == 1) return kInf<double>;
  if (x < 1) return kNaN<double>;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf<double>;
    if (x != std::floor(x)) return kNaN<double>;
  }
  if (x != x || q != q) return kNaN<double>;
  if (isinf(q)) return 0;
  if (isinf(x)) return q < 1 ? kInf<double> : q == 1 ? 1 : 0;
  if (q > 0) return zeta_above(x, q);
  // The terms below 0 are those from 1 - r to -q, with a sign; r is what q is above an integer.
  const double r = q - std::floor(q), below = zeta_above(x, 1 - r) - zeta_above(x, 1 - q);
  return zeta_above(x, r) + (std::fmod(x, 2) == 0 ? below : -below);
}
// The n-th derivative of digamma.
inline double polygamma(double x, int64_t n) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  const double order = static_cast<double>(n), size = n < 170 ? std::tgamma(order + 1) * zeta(order + 1, x) : std::exp(lgamma(order + 1) + std::log(zeta(order + 1, x)));
  return n % 2 ? size : -size;
}

inline float gammainc(float a, float x) { return static_cast<float>(gamma_incomplete(double{a}, double{x}, false, 0x1p-34)); }
inline float gammaincc(float a, float x) { return static_cast<float>(gamma_incomplete(double{a}, double{x}, true, 0x1p-34)); }
inline float gamma_density(float a, float x) { return static_cast<float>(gamma_density(double{a}, double{x})); }
inline float zeta(float x, float q) { return static_cast<float>(zeta(double{x}, double{q})); }
inline float polygamma(float x, int64_t n) { return static_cast<float>(polygamma(double{x}, n)); }

}  // namespace FL_ISA
}  // namespace fl::vm
