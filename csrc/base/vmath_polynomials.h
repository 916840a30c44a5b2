// Vector math: orthogonal polynomials of degree n by their recurrences, in double, and functions of the normal distribution.
#pragma once

#include "base/vmath.h"
#include "base/vmath_bessel.h"
#include "base/vmath_normal.h"

namespace fl::vm {
inline namespace FL_ISA {

// p_{k+1} = step(k, p_k, p_{k-1}) from p_0 = 1 and p_1 = first; 0 for negative degrees. Steps are linear, so that large values
// are scaled by a power of two and back at the end: two terms that overflow would otherwise cancel to NaN.
// A degree beyond 2^20 is NaN: so many steps have no digits left, nor an end in reasonable time.
template <class Step>
inline double recurrence(double n, double first, Step step) {
  if (n != n || n > 0x1p20) return kNaN<double>;
  if (n <= -1) return 0;
  const int64_t degree = static_cast<int64_t>(n);
  double before = 1, now = first;
  if (degree == 0) return before;
  int scaled = 0;
  for (int64_t k = 1; k < degree && isfinite(now); ++k) {
    if (std::fabs(now) > 0x1p512) {
      now *= 0x1p-512;
      before *= 0x1p-512;
      ++scaled;
    }
    const double next = step(static_cast<double>(k), now, before);
    before = now;
    now = next;
  }
  return scaled ? std::ldexp(now, 512 * scaled) : now;
}
// Chebyshev polynomials differ in their first one alone.
inline double chebyshev(double x, double n, double first) {
  return recurrence(n, first, [x](double, double p, double q) { return 2 * x * p - q; });
}
inline double chebyshev_t(double x, double n) { return chebyshev(x, n, x); }
inline double chebyshev_u(double x, double n) { return chebyshev(x, n, 2 * x); }
inline double chebyshev_v(double x, double n) { return chebyshev(x, n, 2 * x - 1); }
inline double chebyshev_w(double x, double n) { return chebyshev(x, n, 2 * x + 1); }
inline double hermite_h(double x, double n) {
  return recurrence(n, 2 * x, [x](double k, double p, double q) { return 2 * (x * p - k * q); });
}
inline double hermite_he(double x, double n) {
  return recurrence(n, x, [x](double k, double p, double q) { return x * p - k * q; });
}
inline double laguerre_l(double x, double n) {
  return recurrence(n, 1 - x, [x](double k, double p, double q) { return ((2 * k + 1 - x) * p - k * q) / (k + 1); });
}
inline double legendre_p(double x, double n) {
  return recurrence(n, x, [x](double k, double p, double q) { return ((2 * k + 1) * x * p - k * q) / (k + 1); });
}
#define FL_VM_POLYNOMIAL(name) \
  inline float name(float x, float n) { return static_cast<float>(name(double{x}, double{n})); }
FL_VM_POLYNOMIAL(chebyshev_t)
FL_VM_POLYNOMIAL(chebyshev_u)
FL_VM_POLYNOMIAL(chebyshev_v)
FL_VM_POLYNOMIAL(chebyshev_w)
FL_VM_POLYNOMIAL(hermite_h)
FL_VM_POLYNOMIAL(hermite_he)
FL_VM_POLYNOMIAL(laguerre_l)
FL_VM_POLYNOMIAL(legendre_p)

// e^(-s x^2) with the digits that a rounded x^2 would lose.
inline double exp_square(double x, double s) {
  const double square = x * x;
  return square < 1e4 ? std::exp(s * square) * (1 + s * std::fma(x, x, -square)) : std::exp(s * square);
}
// e^(x^2) erfc(x): (1 + 2 x) times it is a smooth function of (x - 3.75) / (x + 3.75).
inline double erfcx(double x) {
  constexpr double c[] = {1.1775789345674018, -0.0045900545806464773, -0.084249133366517916, 0.05920993999819189, -0.026658668435305752,
                          0.0090749976707052651, -0.0024131635404176082, 0.00049077583652580863, -6.9169733025012064e-5,
                          4.1390279860730102e-6, 7.7403830661984907e-7, -2.1886401049234396e-7, 1.076499946567091e-8,
                          4.5219598112182869e-9, -7.7544002088313511e-10, -6.3180883408866845e-11, 2.8687950109306699e-11,
                          1.9455868545777347e-13, -9.6546967484334389e-13, 3.2525481481487398e-14, 3.3478119482868054e-14,
                          -1.8645628804193131e-15, -1.2507950530688647e-15, 7.4182352566240435e-17, 5.0681489047961113e-17};
  if (x != x) return x;
  const double a = std::fabs(x);
  if (a > 1e8) return x > 0 ? 0.56418958354775628695 / x : kInf<double>;
  const double y = chebyshev_sum(c, (a - 3.75) / (a + 3.75)) / (1 + 2 * a);
  return x < 0 ? 2 * exp_square(x, 1) - y : y;
}
constexpr double kRootHalf = 0.70710678118654752440;
inline double log_ndtr(double x) {
  if (x < -1) return std::log(0.5 * erfcx(-x * kRootHalf)) - 0.5 * x * x;
  return std::log1p(-ndtr(-x));
}
// The x whose ndtr(x) is p: near 1/2 an odd function of p - 1/2, else z less a smooth function of z = sqrt(-2 log p).
inline double ndtri(double p) {
  constexpr double middle[] = {2.7399251870174153, 0.25651556491538271, 0.026132442852559032, 0.003322113007364875, 0.00046934104726911738,
                               7.0527442246322516e-5, 1.1035327506436429e-5, 1.7766280978545385e-6, 2.9215030059160908e-7,
                               4.8833203423583015e-8, 8.2692697760056182e-9, 1.4151791054719755e-9, 2.4432336978095869e-10,
                               4.2494142699597346e-11, 7.4376430489483555e-12, 1.3089130258297677e-12, 2.3144805945282163e-13,
                               4.1097539521812303e-14, 7.3247327899893972e-15, 1.3098108619334042e-15, 2.3491983249849631e-16, 4.2247377758502738e-17};
  constexpr double near[] = {0.73070909093768657, -0.14753374319405409, 0.017626165650182536, -0.0022600832010705968, 0.00030254175633508662,
                             -4.1808287996186608e-5, 5.9293770260936992e-6, -8.5962247975834617e-7, 1.2698648718553854e-7,
                             -1.9060129135393845e-8, 2.8995307190839286e-9, -4.4610045531483182e-10, 6.9289119258328515e-11,
                             -1.084904593875969e-11, 1.7104120799541019e-12, -2.7125666148580079e-13, 4.324108272541238e-14,
                             -6.9243043750970402e-15, 1.1132518762424536e-15, -1.7962204727274429e-16, 2.9074698943154059e-17};
  constexpr double far[] = {0.43819817315931633, -0.13244994924928667, 0.022967210142521908, -0.0042071647420823484, 0.00079451452269260254,
                            -0.00015304430929951699, 2.9904087861956241e-5, -5.9084118383373956e-6, 1.1781717480403817e-6,
                            -2.3681913211432944e-7, 4.7944556244500042e-8, -9.770481777674466e-9, 2.0032626457012133e-9,
                            -4.1306807341592566e-10, 8.5623984706308622e-11, -1.7835814026363149e-11, 3.7320841702128786e-12,
                            -7.841744502290156e-13, 1.6539592927671892e-13, -3.500614429369244e-14, 7.4325450086558204e-15,
                            -1.5826400877637349e-15, 3.3788362552297676e-16, -7.2309086751558117e-17, 1.5508526404185543e-17, -3.3328921864346032e-18};
  constexpr double end[] = {0.19068246568728397, -0.096282678026181833, 0.026970138200167782, -0.0078675787830367807, 0.0023471059991269045,
                            -0.00071041439745003948, 0.00021723651831462911, -6.6939019614695504e-5, 2.0750013257370447e-5,
                            -6.4630906026729797e-6, 2.0210406914214436e-6, -6.3408219924726392e-7, 1.9949805919774716e-7,
                            -6.2919812054237857e-8, 1.9886525301419201e-8, -6.2971801565077785e-9, 1.9973860691440033e-9,
                            -6.3450535515325241e-10, 2.0183996747935567e-10, -6.4287859687328942e-11, 2.0500300302454342e-11,
                            -6.544359980520106e-12, 2.0913253320511638e-12, -6.6895942064742387e-13, 2.1418139508267942e-13,
                            -6.8635786065813363e-14, 2.201364730004086e-14, -7.0663247349743204e-15, 2.2700985016727258e-15,
                            -7.2985398445891868e-16, 2.3483299822316033e-16, -7.5614765606153921e-17, 2.4365287276527777e-17,
                            -7.8568312941542396e-18, 2.5352927263658595e-18};
  if (!(p > 0 && p < 1)) return p == 0 ? -kInf<double> : p == 1 ? kInf<double> : kNaN<double>;
  const double y = p - 0.5;
  if (std::fabs(y) <= 0.364) return y * chebyshev_sum(middle, 2 * y * y / (0.366 * 0.366) - 1);
  const double z = std::sqrt(-2 * std::log(y < 0 ? p : 1 - p));
  const double gap = z < 4 ? chebyshev_sum(near, z - 3) : z < 10 ? chebyshev_sum(far, (z - 7) / 3) : chebyshev_sum(end, (z - 25) / 15);
  return y < 0 ? gap - z : z - gap;
}
FL_VM float erfcx(float x) {
  constexpr double c[] = {1.1775789345674018, -0.0045900545806464773, -0.084249133366517916, 0.05920993999819189, -0.026658668435305752,
                          0.0090749976707052651, -0.0024131635404176082, 0.00049077583652580863, -6.9169733025012064e-5,
                          4.1390279860730102e-6, 7.7403830661984907e-7, -2.1886401049234396e-7, 1.076499946567091e-8};
  const double wide = x, size = abs(wide), a = size > 1e300 ? 1e300 : size;
  const double y = chebyshev_series(c, (a - 3.75) / (a + 3.75)) / (1 + 2 * a);
  return static_cast<float>(wide < 0 ? 2 * exp(wide * wide) - y : y);
}
FL_VM_FLOAT_BY_DOUBLE(log_ndtr)
FL_VM float ndtri(float p) {
  constexpr float middle[] = {2.73992519f, 0.256515565f, 0.0261324429f, 0.00332211301f, 0.000469341047f, 7.05274422e-05f, 1.10353275e-05f,
                              1.7766281e-06f, 2.92150301e-07f, 4.88332034e-08f};
  constexpr float near[] = {0.740498516f, -0.159624848f, 0.0203790933f, -0.00279422498f, 0.000400236981f, -5.92190079e-05f, 8.99723558e-06f,
                            -1.39794215e-06f, 2.21382745e-07f, -3.56280827e-08f, 5.8118703e-09f};
  constexpr float far[] = {0.380951516f, -0.163758485f, 0.0400425429f, -0.0103084101f, 0.00273076795f, -0.000736919394f, 0.000201499446f,
                           -5.56524135e-05f, 1.54953672e-05f, -4.34387264e-06f, 1.22501235e-06f, -3.4732431e-07f, 9.89632291e-08f,
                           -2.83276875e-08f};
  const float y = p - 0.5f, tail = y < 0 ? p : 1 - p;
  const float centre = y * chebyshev_series(middle, 2 * y * y / (0.366f * 0.366f) - 1);
  const float z = sqrt(-2 * log(tail));
  const float gap = z < 4 ? chebyshev_series(near, (z - 2.95f) / 1.05f) : chebyshev_series(far, (z - 9.25f) / 5.25f);
  const float outer = y < 0 ? gap - z : z - gap, inner = abs(y) <= 0.364f ? centre : outer;
  return p > 0 && p < 1 ? inner : p == 0 ? -kInf<float> : p == 1 ? kInf<float> : kNaN<float>;
}

template <class T>
FL_VM T entr(T x) { return x > 0 ? -x * log(x) : x == 0 ? T(0) : x != x ? x : -kInf<T>; }

}  // namespace FL_ISA
}  // namespace fl::vm
