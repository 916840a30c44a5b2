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

// e^-|x| I_n(x): smooth in |x| up to 8 (of order 1 after a division by x), then in 1 / |x| but for a root.
FL_VM double scaled_i0(double x) {
  constexpr double near0[] = {0.33839763720473803, -0.30468267234319835, 0.17162090152220877, -0.094901097048047639, 0.049305284239670712,
                              -0.023737414805899477, 0.010546460394595003, -0.0043243099950505742, 0.001639475616941331, -0.00057637557453857813,
                              0.00018850288509584067, -5.7541950100829395e-05, 1.644844807074627e-05, -4.4167383584815476e-06,
                              1.1173875391463255e-06, -2.6707938542344011e-07, 6.0469950253549706e-08, -1.3000250124583182e-08,
                              2.6598237460949093e-09, -5.1897957404343838e-10};
  constexpr double far0[] = {0.40224520550705439, 0.0033691164782556939, 6.8897583469168191e-05, 2.8913705208347012e-06, 2.0489185894686628e-07,
                             2.2666689905107512e-08, 3.3962320255974794e-09, 4.9406023884223229e-10};
  const double a = abs(x);
  return a <= 8 ? chebyshev_series(near0, a * 0.25 - 1) : chebyshev_series(far0, 16 / a - 1) / sqrt(a);
}
FL_VM double scaled_i1(double x) {
  constexpr double near1[] = {0.12629359322181682, -0.17641651835783403, 0.10264365868984708, -0.052945981208094989, 0.02472644903062652,
                              -0.010564084894626204, 0.0041564229443128917, -0.0015135724506312523, 0.0005122859561685724, -0.00016176081582589344,
                              4.7815651075499363e-05, -1.3273163656043439e-05, 3.4702513081467265e-06, -8.568720264815455e-07,
                              2.0032947536896826e-07, -4.445059130312572e-08, 9.3815374011206782e-09, -1.887249764907425e-09,
                              3.6255903978581735e-10, -6.663490450181679e-11};
  constexpr double far1[] = {0.38928811750914005, -0.0097610974913614687, -0.00011058893876262361, -3.8825648088775347e-06, -2.5122362378690124e-07,
                             -2.6314688469267593e-08, -3.8353803856354129e-09, -5.589743462866353e-10};
  const double a = abs(x), far = chebyshev_series(far1, 16 / a - 1) / sqrt(a);
  return a <= 8 ? x * chebyshev_series(near1, a * 0.25 - 1) : x < 0 ? -far : far;
}
FL_VM float i0e(float x) { return static_cast<float>(scaled_i0(x)); }
FL_VM float i1e(float x) { return static_cast<float>(scaled_i1(x)); }
// NaN of infinity, as SciPy has it.
FL_VM float i0(float x) { return static_cast<float>(scaled_i0(x) * exp(abs(double{x}))); }
FL_VM float i1(float x) { return static_cast<float>(scaled_i1(x) * exp(abs(double{x}))); }

}  // namespace FL_ISA
}  // namespace fl::vm
