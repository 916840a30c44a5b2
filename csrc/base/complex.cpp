#include "base/complex.h"

#include <cmath>
#include <complex>
#include <numbers>

namespace fl::cx {
namespace {

using C = std::complex<double>;

C reciprocal(C z) {
  using namespace fl::vm;
  const Complex<double> q = Complex<double>(1) / Complex<double>(z.real(), z.imag());
  return {q.re, q.im};
}

// 2^z, and e^z - 1 without losing what is small: e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2).
C exp2(C z) {
  if (z.imag() == 0) return {std::exp2(z.real()), z.imag()};
  const double size = std::exp2(z.real());
  const long double turn = z.imag() * std::numbers::ln2_v<long double>;  // the digits before the point are lost
  return {size * static_cast<double>(std::cos(turn)), size * static_cast<double>(std::sin(turn))};
}
C expm1(C z) {
  if (!std::isfinite(z.real()) || !std::isfinite(z.imag())) return std::exp(z) - 1.0;
  const double half = std::sin(z.imag() / 2), minus = std::expm1(z.real());
  return {minus * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
}
// log(1 + z): the logarithm of |1 + z|^2 = 1 + (2 x + x^2 + y^2), where that is near 1.
C log1p(C z) {
  const double x = z.real(), y = z.imag();
  if (std::fabs(x) > 0.5 || std::fabs(y) > 0.5 || std::isnan(x) || std::isnan(y)) return std::log(C(1 + x, y));
  const long double square = static_cast<long double>(x) * (2 + static_cast<long double>(x)) + static_cast<long double>(y) * y;
  return {static_cast<double>(std::log1p(square) / 2), std::atan2(y, 1 + x)};
}
C log2(C z) {
  const C y = std::log(z);
  return {y.real() / std::numbers::ln2, y.imag() / std::numbers::ln2};
}
C rsqrt(C z) { return reciprocal(std::sqrt(z)); }
C sigmoid(C z) { return reciprocal(1.0 + std::exp(-z)); }
C exp(C z) { return std::exp(z); }
C log(C z) { return std::log(z); }
C log10(C z) { return std::log10(z); }
C sqrt(C z) { return std::sqrt(z); }
C sin(C z) { return std::sin(z); }
C cos(C z) { return std::cos(z); }
C tan(C z) { return std::tan(z); }
C asin(C z) { return std::asin(z); }
C acos(C z) { return std::acos(z); }
C atan(C z) { return std::atan(z); }
C sinh(C z) { return std::sinh(z); }
C cosh(C z) { return std::cosh(z); }
C tanh(C z) { return std::tanh(z); }
C asinh(C z) { return std::asinh(z); }
C acosh(C z) { return std::acosh(z); }
C atanh(C z) { return std::atanh(z); }

template <class R>
Complex<R> back(C z) {
  return Complex<R>(static_cast<R>(z.real()), static_cast<R>(z.imag()));
}

template <class R>
Complex<R> power(Complex<R> z, Complex<R> w) {
  if (w.re == 0 && w.im == 0) return Complex<R>(1);
  if (z.re == 0 && z.im == 0 && w.im == 0 && w.re > 0) return Complex<R>(0);
  return back<R>(std::pow(C(z.re, z.im), C(w.re, w.im)));
}

}  // namespace

#define FL_COMPLEX_FUNCTION(name)                                                    \
  Complex<float> name(Complex<float> z) { return back<float>(name(C(z.re, z.im))); } \
  Complex<double> name(Complex<double> z) { return back<double>(name(C(z.re, z.im))); }
FL_COMPLEX_FUNCTIONS(FL_COMPLEX_FUNCTION)
#undef FL_COMPLEX_FUNCTION

Complex<float> pow(Complex<float> z, Complex<float> w) { return power(z, w); }
Complex<double> pow(Complex<double> z, Complex<double> w) { return power(z, w); }
float abs(Complex<float> z) {
  if (std::isinf(z.re) || std::isinf(z.im)) return vm::kInf<float>;
  const double re = z.re, im = z.im;
  return static_cast<float>(std::sqrt(re * re + im * im));
}
double abs(Complex<double> z) {
  const double square = z.re * z.re + z.im * z.im;
  return square > 1e-280 && square < 1e300 ? std::sqrt(square) : std::hypot(z.re, z.im);
}

}  // namespace fl::cx
