// Vector math: modified Bessel functions of order 0 and 1 for floats, branch-free and in double, where sums that cancel are right to a float's digits.
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

// sum of c[k] T_k(t), |t| <= 1, by Clenshaw's recurrence, for loops that become vector instructions.
template <class T, int N>
FL_VM T chebyshev_series(const T (&c)[N], T t) {
  T a = 0, b = 0;
#pragma GCC unroll 64
  for (int k = N - 1; k > 0; --k) {
    const T next = T(2) * t * a - b + c[k];
    b = a;
    a = next;
  }
  return t * a - b + c[0];
}

// The coefficients of the powers of t in sum of c[k] T_k(t), for sums that end before these grow too large.
template <int N>
struct Powers {
  double c[N];
};
template <int N>
constexpr Powers<N> chebyshev_powers(const double (&c)[N]) {
  double before[N] = {1}, now[N] = {0, 1};  // T_0 and T_1
  Powers<N> sum = {{c[0], c[1]}};
  for (int k = 2; k < N; ++k) {
    for (int i = N - 1; i >= 0; --i) {
      const double next = (i ? 2 * now[i - 1] : 0) - before[i];
      before[i] = next;
    }
    for (int i = 0; i < N; ++i) {
      const double next = before[i];
      before[i] = now[i];
      now[i] = next;
      sum.c[i] += c[k] * next;
    }
  }
  return sum;
}
template <int N>
FL_VM double power_series(const Powers<N>& p, double t) {
  double y = p.c[N - 1];
#pragma GCC unroll 32
  for (int k = N - 2; k >= 0; --k) y = y * t + p.c[k];
  return y;
}

// e^-|x| I_n(x): smooth in |x| up to 8 (of order 1 after a division by x), then in 1 / |x| but for a root, whose rounding is that of a float.
FL_VM double scaled_i0(float x) {
  constexpr Powers near0 = chebyshev_powers({0.33839763720473803, -0.30468267234319835, 0.17162090152220877, -0.094901097048047639, 0.049305284239670712,
                              -0.023737414805899477, 0.010546460394595003, -0.0043243099950505742, 0.001639475616941331, -0.00057637557453857813,
                              0.00018850288509584067, -5.7541950100829395e-05, 1.644844807074627e-05, -4.4167383584815476e-06,
                              1.1173875391463255e-06, -2.6707938542344011e-07, 6.0469950253549706e-08, -1.3000250124583182e-08,
                              2.6598237460949093e-09, -5.1897957404343838e-10});
  constexpr Powers far0 = chebyshev_powers({0.40224520550705439, 0.0033691164782556939, 6.8897583469168191e-05, 2.8913705208347012e-06, 2.0489185894686628e-07,
                             2.2666689905107512e-08, 3.3962320255974794e-09, 4.9406023884223229e-10});
  const float a = abs(x), r = 1 / sqrt(a);
  const double u = r;
  return a <= 8 ? power_series(near0, a * 0.25 - 1) : power_series(far0, 16 * u * u - 1) * u;
}
FL_VM double scaled_i1(float x) {
  constexpr Powers near1 = chebyshev_powers({0.12629359322181682, -0.17641651835783403, 0.10264365868984708, -0.052945981208094989, 0.02472644903062652,
                              -0.010564084894626204, 0.0041564229443128917, -0.0015135724506312523, 0.0005122859561685724, -0.00016176081582589344,
                              4.7815651075499363e-05, -1.3273163656043439e-05, 3.4702513081467265e-06, -8.568720264815455e-07,
                              2.0032947536896826e-07, -4.445059130312572e-08, 9.3815374011206782e-09, -1.887249764907425e-09,
                              3.6255903978581735e-10, -6.663490450181679e-11});
  constexpr Powers far1 = chebyshev_powers({0.38928811750914005, -0.0097610974913614687, -0.00011058893876262361, -3.8825648088775347e-06, -2.5122362378690124e-07,
                             -2.6314688469267593e-08, -3.8353803856354129e-09, -5.589743462866353e-10});
  const float a = abs(x), r = 1 / sqrt(a);
  const double u = copysign(r, x), far = power_series(far1, 16 * u * u - 1) * u;
  return a <= 8 ? x * power_series(near1, a * 0.25 - 1) : far;
}
FL_VM float i0e(float x) { return static_cast<float>(scaled_i0(x)); }
FL_VM float i1e(float x) { return static_cast<float>(scaled_i1(x)); }
// NaN of infinity, as SciPy has it.
FL_VM float i0(float x) { return static_cast<float>(scaled_i0(x) * exp(abs(double{x}))); }
FL_VM float i1(float x) { return static_cast<float>(scaled_i1(x) * exp(abs(double{x}))); }

}  // namespace FL_ISA
}  // namespace fl::vm
