// Vector math: Bessel functions of order 0 and 1 and Airy's function, one element at a time, of floats in double.
#pragma once

#include "base/vmath.h"
#include "base/vmath_special.h"

namespace fl::vm {
inline namespace FL_ISA {

// sum of c[k] T_k(t), |t| <= 1: Clenshaw's recurrence.
template <int N>
inline double chebyshev_sum(const double (&c)[N], double t) {
  double a = 0, b = 0;
  for (int k = N - 1; k > 0; --k) {
    const double next = 2 * t * a - b + c[k];
    b = a;
    a = next;
  }
  return t * a - b + c[0];
}

// e^-|x| I_n(x); see bessel_i.
inline double bessel_i_scaled(double x, int order) {
  const double a = std::fabs(x);
  double y;
  if (a < 20) {
    y = std::exp(-a) * std::fabs(bessel_i(x, order));
  } else {
    const double t = 1 / (8 * a), m = order * 4;
    double term = 1, sum = 0;
    for (int k = 1; k < 40 && std::fabs(term) > 0x1p-60; ++k) {
      term *= ((2 * k - 1) * (2 * k - 1) - m) * t / k;
      sum += term;
    }
    y = (1 + sum) / std::sqrt(2 * kPi * a);
  }
  return order && std::signbit(x) ? -y : y;
}
inline double i0e(double x) { return bessel_i_scaled(x, 0); }
inline double i1e(double x) { return bessel_i_scaled(x, 1); }

// e^x K_v(x) for x >= 1: the trapezoidal rule for the integral of e^(-x (cosh t - 1)) cosh(v t) over t > 0. The integrand and
// its derivatives vanish at infinity twice exponentially, so that the rule errs by less than 2^-53 with these steps.
inline double bessel_k_integral(double x, double v) {
  const double step = std::fmin(0.2, 0.6 / std::sqrt(x));
  double sum = 0.5;
  for (int k = 1; k < 200; ++k) {
    const double t = k * step, s = std::sinh(0.5 * t), term = std::exp(-2 * x * s * s) * std::cosh(v * t);
    sum += term;
    if (term < 0x1p-60 * sum) break;
  }
  return sum * step;
}
// K_0 and K_1 below 1 by their power series; of order n the part beside log(x / 2) I_n(x) has positive terms alone.
inline double bessel_k_series(double x, int order) {
  constexpr double kEuler = 0.57721566490153286061;
  const double z = 0.25 * x * x, l = -std::log(0.5 * x);
  double term = order ? 0.5 * x : 1, psi = order ? 1 - 2 * kEuler : -kEuler, sum = 0;
  for (int k = 0; k < 30; ++k) {
    sum += term * (order ? 0.5 * psi + l : psi + l);
    psi += order ? 1.0 / (k + 1) + 1.0 / (k + 2) : 1.0 / (k + 1);
    term *= z / ((k + 1.0) * (k + 1 + order));
    if (term < 1e-40) break;
  }
  return order ? 1 / x - sum : sum;
}
inline double bessel_k(double x, int order, bool scaled) {
  if (!(x > 0)) return x == 0 ? kInf<double> : kNaN<double>;
  if (x == kInf<double>) return 0;
  if (x < 1) return bessel_k_series(x, order) * (scaled ? std::exp(x) : 1);
  return bessel_k_integral(x, order) * (scaled ? 1 : std::exp(-x));
}
inline double bessel_k0(double x) { return bessel_k(x, 0, false); }
inline double bessel_k1(double x) { return bessel_k(x, 1, false); }
inline double scaled_bessel_k0(double x) { return bessel_k(x, 0, true); }
inline double scaled_bessel_k1(double x) { return bessel_k(x, 1, true); }

// The C library's; NaN of infinity, as PyTorch has it.
inline double bessel_j0(double x) { return isinf(x) ? kNaN<double> : ::j0(x); }
inline double bessel_j1(double x) { return isinf(x) ? kNaN<double> : ::j1(x); }
inline double bessel_y0(double x) { return x == 0 ? -kInf<double> : x > 0 && !isinf(x) ? ::y0(x) : kNaN<double>; }
inline double bessel_y1(double x) { return x == 0 ? -kInf<double> : x > 0 && !isinf(x) ? ::y1(x) : kNaN<double>; }
inline double spherical_j0(double x) {
  if (isinf(x)) return 0;
  if (std::fabs(x) > 0.5) return std::sin(x) / x;
  const double z = x * x;
  return poly(z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000);
}

// Ai near 0: its two power series, in more digits than a double has.
inline double airy_near(double x) {
  const long double z = static_cast<long double>(x) * x * x;
  long double f = 1, g = x, first = 1, second = x;
  for (int k = 1; k < 60; ++k) {
    f *= z / ((3 * k - 1) * (3 * k));
    g *= z / ((3 * k) * (3 * k + 1));
    first += f;
    second += g;
  }
  return static_cast<double>(0.355028053887817239260063186004L * first - 0.258819403792806798405183560189L * second);
}
// Above by K_1/3, below by the amplitude and phase of its oscillation, smooth functions of 1 / zeta^2.
inline double airy_ai(double x) {
  if (!isfinite(x)) return kNaN<double>;
  if (x > -5 && x < 1.5) return airy_near(x);
  const double a = std::fabs(x), root = std::sqrt(a), zeta = 2.0 / 3 * a * root;
  if (x > 0) return std::sqrt(a / 3) / kPi * bessel_k_integral(zeta, 1.0 / 3) * std::exp(-zeta);
  constexpr double p[] = {0.99967234154610054, -0.00032554835610553222, 2.0697451559691191e-6, -3.8909617364744243e-8,
                          1.3645959446950336e-9, -7.2655634388666817e-11, 5.2346756290629069e-12, -4.749669415821452e-13,
                          5.1721561396041887e-14, -6.5337252955452845e-15, 9.339274072777209e-16, -1.4823330512580455e-16, 2.5745988399644003e-17};
  constexpr double q[] = {0.069115280401605025, -0.0003251060364586695, 3.9459777438663225e-6, -1.0689290905143409e-7,
                          4.8003347189516165e-9, -3.0691067169997638e-10, 2.5517594369013927e-11, -2.6016067317524339e-12,
                          3.1236668551191861e-13, -4.2903251712839484e-14, 6.5967105959774351e-15, -1.116833216041688e-15,
                          2.0551350158850326e-16, -4.0680056098438255e-17, 8.589182631392619e-18, -1.9210188189020541e-18};
  const double t = 2 / (0.018 * zeta * zeta) - 1;
  const long double phase = 2.0L / 3 * a * std::sqrt(static_cast<long double>(a)) - 0.25L * kPiLong;
  const double c = static_cast<double>(std::cos(phase)), s = static_cast<double>(std::sin(phase));
  return (chebyshev_sum(p, t) * c + chebyshev_sum(q, t) / zeta * s) / std::sqrt(kPi * root);
}

#define FL_VM_FLOAT_BY_DOUBLE(name) \
  inline float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
FL_VM_FLOAT_BY_DOUBLE(bessel_k0)
FL_VM_FLOAT_BY_DOUBLE(bessel_k1)
FL_VM_FLOAT_BY_DOUBLE(scaled_bessel_k0)
FL_VM_FLOAT_BY_DOUBLE(scaled_bessel_k1)
FL_VM_FLOAT_BY_DOUBLE(bessel_j0)
FL_VM_FLOAT_BY_DOUBLE(bessel_j1)
FL_VM_FLOAT_BY_DOUBLE(bessel_y0)
FL_VM_FLOAT_BY_DOUBLE(bessel_y1)
FL_VM_FLOAT_BY_DOUBLE(spherical_j0)
FL_VM_FLOAT_BY_DOUBLE(airy_ai)

}  // namespace FL_ISA
}  // namespace fl::vm
