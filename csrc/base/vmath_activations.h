// Vector math: slopes and curvatures of activations.
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

// sigmoid(-v), v >= 0, as t = e / (1 + e) with e = e^-v = m power. m - m t is sigmoid(v) m with the digits of m.
template <class T>
struct Sigmoid {
  T t, m, power;
};
template <class T>
FL_VM Sigmoid<T> sigmoid_parts(T v) {
  const auto [m, power] = scaled_exp(-v);
  const T e = m * power;
  return {e / (T(1) + e), m, power};
}
// sigmoid(x) sigmoid(-x)
template <class T>
FL_VM T sigmoid_slope(T x) {
  const auto [t, m, power] = sigmoid_parts(abs(x));
  const T n = m - m * t;
  return (n - n * t) * power;
}
// x sigmoid(v) for an odd v(x), whose derivatives at a = |x| are dv and ddv: at -a the slope is
// sigmoid(-v) (1 - a dv sigmoid(v)), at a it is 1 minus that. The curvature is even.
template <class T>
FL_VM T times_sigmoid_slope(T x, T a, T v, T dv) {
  const auto [t, m, power] = sigmoid_parts(v);
  const T g = a * dv, y = (m - m * t) * ((T(1) - g) + g * t);
  const T one = x < 0 ? T(0) : T(1), signed_power = x < 0 ? power : -power;
  return one + y * signed_power;
}
template <class T>
FL_VM T times_sigmoid_curvature(T a, T v, T dv, T ddv) {
  const auto [t, m, power] = sigmoid_parts(v);
  const T n = m - m * t, g = a * (dv * dv);
  return (n - n * t) * (((T(2) * dv + a * ddv) - g) + g * (t + t)) * power;
}
template <class T>
FL_VM T silu_slope(T x) {
  const T a = abs(x);
  return times_sigmoid_slope(x, a, a, T(1));
}
template <class T>
FL_VM T silu_curvature(T x) {
  const T a = abs(x);
  return times_sigmoid_curvature(a, a, T(1), T(0));
}
// gelu by tanh: x (1 + tanh(k (x + c x^3))) / 2 = x sigmoid(v). The rounding of v makes it err by |v| ulp far below
// zero.
template <class T>
struct GeluTanh {
  static constexpr T k = T(2 * 0.79788456080286535588), kc = T(2 * 0.79788456080286535588 * 0.044715);
};
template <class T>
FL_VM T gelu_tanh(T x) {
  using G = GeluTanh<T>;
  return times_sigmoid(x, x * (G::k + G::kc * (x * x)));
}
// |x| up to where e^-v is 0.
template <class T>
FL_VM T gelu_tanh_range(T x) {
  constexpr T limit = sizeof(T) == 4 ? T(14) : T(30);
  const T a = abs(x);
  return a > limit ? limit : a;
}
template <class T>
FL_VM T gelu_tanh_slope(T x) {
  using G = GeluTanh<T>;
  const T a = gelu_tanh_range(x), z = a * a;
  return times_sigmoid_slope(x, a, a * (G::k + G::kc * z), G::k + T(3) * G::kc * z);
}
template <class T>
FL_VM T gelu_tanh_curvature(T x) {
  using G = GeluTanh<T>;
  const T a = gelu_tanh_range(x), z = a * a;
  return times_sigmoid_curvature(a, a * (G::k + G::kc * z), G::k + T(3) * G::kc * z, T(6) * G::kc * a);
}
// mish: x w, w = n / (n + 2) with e = e^x and n = e (e + 2), w' = 4 e (1 + e) / (n + 2)^2. Below 0, where w is small,
// 2 / (n + 2) is 1 - w, which has fewer roundings.
template <class T>
FL_VM T mish_slope(T x) {
  constexpr T high = sizeof(T) == 4 ? T(20) : T(40);  // where the slope is 1
  const T c = x > high ? high : x;
  const auto [m, power] = scaled_exp(c);
  const T e = m * power, n = e * (e + T(2)), r = T(1) / (n + T(2)), w = n * r, f = T(1) + e;
  const T below = (T(1) + c) + (T(0.5) * e - c * (w * f - e)), above = (T(1) + T(0.5) * e) + c * f * (r + r);
  const T q = x < 0 ? T(1) - w : r + r;
  return m * q * (x < 0 ? below : above) * power;
}
// By u = e^-|x|, whose square is a factor above 0: one / (n + one) is 2 / (n + 2) of the above below 0, and e^2 / 2
// times that above. Below 4.5 ulp.
template <class T>
FL_VM T mish_curvature(T x) {
  const auto [m, power] = scaled_exp(x < 0 ? x : T(-2) * x);
  const T e = m * power, u = x < 0 ? e : sqrt(e), one = x < 0 ? T(2) : T(1);
  const T n = u * (x < 0 ? u + T(2) : (u + u) + T(2));
  const T r = T(1) / (n + one), p = n * r, q = p < T(0.5) ? T(1) - p : one * r;
  const T below = (T(1) + T(0.5) * x) + u * (T(1) - x * p);
  const T above = (T(1) - x) + u * (T(1) + x * (T(0.5) + (u + u) * r));
  return m * (x < 0 ? T(2) : T(8)) * (q * q) * (x < 0 ? below : above) * power;
}

}  // namespace FL_ISA
}  // namespace fl::vm
