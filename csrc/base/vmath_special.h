// Vector math: special functions, the gamma function's relatives, the inverse of erf and Bessel functions.
#pragma once

#include "base/vmath.h"
#include "base/vmath_angles.h"
#include "base/vmath_bessel_i.h"

namespace fl::vm {
inline namespace FL_ISA {

// erf^-1(x) = x P(w), w = -log(1 - x^2): polynomials in w up to 6, for floats of (P(w) - P(0)) / w, and in its root above,
// on [-1, 1] each. Nearly all arguments are near: for those alone see erfinv_near.
template <class T>
FL_VM T erfinv_edges(T x, T w, T y) {
  y = w < kInf<T> ? y : copysign(kInf<T>, x);
  return w == w ? y : w;  // |x| > 1
}
FL_VM float erfinv_middle(float w) {
  return plus_product(0.88622692545f, w, poly((w - 3.0f) * 0.333333333f,
              0.245771694f, -0.00414132344f, -0.0130731115f, 0.00554816301f, -0.00028091897f, -0.000753089846f,
              0.000325004475f, 1.2750939e-5f, -5.68520075e-5f, 9.79289673e-6f, 4.14152477e-6f));
}
FL_VM double erfinv_middle(double w) {
  return poly((w - 3.0) * 0.33333333333333333,
              1.6235420064648299, 0.72489121249847715, -0.051643216989051103, -0.022576907976752251,
              0.015799967277408936, -0.0030900906960069145, -0.0012742935269051566, 0.00098411806321472223,
              -0.00015542174564679535, -0.0001076100698424784, 6.5591535513905159e-5, -5.5686252192731671e-6,
              -9.209264951016122e-6, 4.3074162898403177e-6, 2.9924225986895651e-8, -7.6700393794674806e-7,
              2.7249848831772915e-7, 4.3784914749303779e-8, -6.2696188030389166e-8, 9.0814289305955078e-9,
              7.0004130724063137e-9, -1.7464278707660834e-9, -2.9924124499656108e-10);
}
// Of |x| <= 0.9986, where w is below 6.
template <class T>
FL_VM bool far_erfinv(T x) { return !(abs(x) <= T(0.9986)); }
template <class T>
FL_VM T erfinv_near(T x) {
  const T a = abs(x);
  return x * erfinv_middle(-log_inside((T(1) - a) * (T(1) + a)));
}
FL_VM float erfinv(float x) {
  const float a = abs(x), w = -log((1.0f - a) * (1.0f + a)), s = sqrt(w);
  const float far = poly((s - 3.27474487f) * 1.21174648f,
              3.10876385f, 0.829808464f, 0.00347445439f, -0.00196943542f, 0.00105997677f, -0.000614813842f,
              0.000291713512f, -6.40326918e-5f, -5.3219849e-6f);
  return erfinv_edges(x, w, x * (w < 6.0f ? erfinv_middle(w) : far));
}
FL_VM double erfinv(double x) {
  const double a = abs(x), w = -log((1.0 - a) * (1.0 + a)), s = sqrt(w);
  const double far = poly((s - 3.024744871391589) * 1.738359121489419,
              2.8577687944848211, 0.57647986404080976, 0.0029446589733791192, -0.00135203709753902,
              0.00057583333267897065, -0.00021044250311445318, 5.2666341659344741e-5, -4.1796807583365689e-6,
              -2.8622937831618292e-6, 1.3336208218768845e-6, -2.0568698058487579e-7, -3.8059563731396732e-8,
              2.6234029147495123e-8, -4.7866475867780959e-9, -4.6526597031628463e-10, 4.1406491959400866e-10,
              -6.7429293846866308e-11);
  const double end = poly((s - 4.85) * 0.8,
              4.6983589762414001, 1.2629081102832212, -4.8431423896755628e-5, -0.00051831998897486036,
              0.00022561106711977559, -7.4074310922798517e-5, 2.1880727532605678e-5, -6.377568819603756e-6,
              2.1486753547639073e-6, -1.0222858506378555e-6, 6.5093801697234935e-7, -4.35997159926641e-7,
              2.6297958441568737e-7, -1.3142111274926051e-7, 5.1255474113686406e-8, -1.384014102485469e-8,
              -1.0437110181098691e-9, 5.0135045724390529e-9, -2.7190357607838798e-9, 1.8416806866635803e-10,
              1.7125493644319987e-10);
  const double tail = s < 3.6 ? far : end;
  return erfinv_edges(x, w, x * (w < 6.0 ? erfinv_middle(w) : tail));
}

// Below zero by reflection: log |Gamma(x)| = log(pi / s) - log Gamma(a) with a = 1 - x and s = |sin(pi x)|, which is 0 at the poles.
// a in [0, 9) goes by steps of one to b in [1.25, 2.25) with log Gamma(b) = (b - 2) P(b - 2), and what the steps multiply by has
// one logarithm with pi / s. Integers are taken from |x|, which is exact, and not from a. For larger a Stirling's series, of which
// (a - 1/2) (log a - 1) is the whole but for a small rest, with what a lost as 1 - x.
FL_VM double lgamma(double x) {
  const bool low = x < 0.0;
  const double a = low ? 1.0 - x : x, lost = low ? (1.0 - a) - x : 0.0, z = abs(x), one = low ? 1.0 : 0.0;
  const bool far = a >= 9.0;
  const double steps = far ? 0.0 : floor(a - 0.25) - 1.0, t = z - (steps + 2.0 - one);
  double down = 1.0;
  for (int k = 1; k <= 7; ++k) down *= k <= steps ? z - (k - one) : 1.0;
  const double up = (steps < 0.0 ? a : 1.0) * (steps < -1.0 ? a + 1.0 : 1.0);
  const double near = t * poly(t,
              0.42278433509846713, 0.3224670334241132, -0.06735230105319823, 0.02058080842778444, -0.007385551028649568,
              0.0028905103307947477, -0.001192753913439862, 0.0005096695185614742, -0.00022315470468798278,
              9.945780353777825e-05, -4.492679365957888e-05, 2.0500993799998817e-05, -9.445886656193155e-06,
              4.426760701307675e-06, -1.8662273006662246e-06, 1.0097988830992574e-06, -1.2200711395016354e-06,
              -1.8113133156469553e-06, -2.578971781823122e-06, -1.5632566725962541e-06, -4.938973877783741e-07);
  const double r = 1.0 / a;
  const double series = 0.41893853320467274178 + r * poly(r * r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360,
                                                          1.0 / 156, -3617.0 / 122400);
  const double s = abs(sin((low ? x - round(x) : 0.5) * kPi));
  const double turned = low ? kPi / s : 1.0;
  const double rest = log(far ? turned : low ? turned * up / down : steps < 0.0 ? up : down);
  const double l = log(a), y = far ? (a - 0.5) * (l - 1.0) + (series + lost * l) : near;
  const double whole = low ? rest - y : steps < 0.0 ? y - rest : y + rest;
  const double finite = abs(x) < kInf<double> ? (s == 0 ? kInf<double> : whole) : kInf<double>;
  return x == x ? finite : x;
}
// Where both terms of the reflection are large and their difference is not: 1/n! beside -n.
FL_VM bool lgamma_cancels(double x) {
  const double whole = abs(x - round(x)), inside = x < -7.5 ? whole : 1.0, beside = inside == 0 ? 1.0 : inside;
  return ((x > -25.0 ? beside : 1.0) < 1.5e-3) | ((x < 0.0) & (x > -1e-300));  // or where pi / s is beyond what a double holds
}
FL_VM bool lgamma_cancels(float) { return false; }
inline double exact_lgamma(double x) {
#if defined(__GLIBC__)
  int sign;  // std::lgamma writes a global
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}
// Floats in double lanes: Stirling's series at b >= 7.5, which is a + 7 for small a; a is x, or 1 - x below 1/2. Both logarithms
// of what is divided by afterwards, the product a (a + 1) ... (a + 6) and the reflection's sine, are one.
FL_VM float lgamma(float xf) {
  const double x = xf;
  const bool low = x < 0.5;
  const double a = low ? 1.0 - x : x;
  const double product = a * (a + 1.0) * (a + 2.0) * (a + 3.0) * (a + 4.0) * (a + 5.0) * (a + 6.0);
  const double p = a < 8.0 ? product : 1.0, b = a < 8.0 ? a + 7.0 : a;
  const double r = 1.0 / b;
  const double stirling = (b - 0.5) * log(b) - b + (0.91893853320467274178 + r * poly(r * r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680,
                                                    1.0 / 1188, -691.0 / 360360, 1.0 / 156));
  const double s = abs(sin_pi(low ? xf : 0.5f));
  const double rest = log(low ? kPi * p / s : 1.0 / p);
  const double y = low ? rest - stirling : rest + stirling;
  const double finite = abs(x) < kInf<double> ? y : kInf<double>;
  return static_cast<float>(x == x ? finite : x);
}
inline float exact_lgamma(float x) { return lgamma(x); }
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
inline double i1(double x) { return bessel_i(x, 1); }

}  // namespace FL_ISA
}  // namespace fl::vm
