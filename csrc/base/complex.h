// Arithmetic of complex numbers for element-wise loops, which the compiler vectorises, and functions of them, which are calls.
//
// Products are (ac - bd) + (ad + bc) i, without the repairs of infinities that C's Annex G asks for; quotients are scaled by Smith's
// method, so that squares neither overflow nor vanish. Both are what NumPy and PyTorch compute.
#pragma once

#include "base/dtype.h"
#include "base/vmath_basic.h"

namespace fl::cx {

// Functions of one number, with the branch cuts and special values of C99's Annex G. Those of complex64 are computed in complex128 and
// rounded once.
#define FL_COMPLEX_FUNCTIONS(declare)                                                                                                      \
  declare(exp) declare(exp2) declare(expm1) declare(log) declare(log2) declare(log10) declare(log1p) declare(sqrt) declare(rsqrt)          \
  declare(sin) declare(cos) declare(tan) declare(asin) declare(acos) declare(atan) declare(sinh) declare(cosh) declare(tanh)               \
  declare(asinh) declare(acosh) declare(atanh) declare(sigmoid)
#define FL_COMPLEX_FUNCTION(name)                \
  Complex<float> name(Complex<float> z);         \
  Complex<double> name(Complex<double> z);
FL_COMPLEX_FUNCTIONS(FL_COMPLEX_FUNCTION)
#undef FL_COMPLEX_FUNCTION
Complex<float> pow(Complex<float> z, Complex<float> w);
Complex<double> pow(Complex<double> z, Complex<double> w);
float abs(Complex<float> z);
double abs(Complex<double> z);

}  // namespace fl::cx

namespace fl::vm {
inline namespace FL_ISA {

template <class R>
FL_VM Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re + b.re, a.im + b.im);
}
template <class R>
FL_VM Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re - b.re, a.im - b.im);
}
template <class R>
FL_VM Complex<R> operator-(Complex<R> a) {
  return Complex<R>(-a.re, -a.im);
}
template <class R>
FL_VM Complex<R> operator*(Complex<R> a, Complex<R> b) {
  return Complex<R>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <class R>
FL_VM Complex<R> operator/(Complex<R> a, Complex<R> b) {
  const bool wide = std::fabs(b.re) >= std::fabs(b.im);
  const bool zero = b.re == 0 && b.im == 0;
  const R p = wide ? b.re : b.im, q = wide ? b.im : b.re;  // |p| >= |q|
  const R ratio = q / p, scale = R(1) / (p + q * ratio);
  const R re = wide ? a.re + a.im * ratio : a.re * ratio + a.im;
  const R im = wide ? a.im - a.re * ratio : a.im * ratio - a.re;
  return zero ? Complex<R>(a.re / std::fabs(b.re), a.im / std::fabs(b.re)) : Complex<R>(re * scale, im * scale);
}
// a + k b, where a real factor is no product of complex numbers, in which infinity times 0 i is NaN.
template <class R>
FL_VM Complex<R> scaled(Complex<R> k, Complex<R> b) {
  return k.im == 0 ? Complex<R>(k.re * b.re, k.re * b.im) : k * b;
}
template <class R>
FL_VM Complex<R> plus_product(Complex<R> a, Complex<R> k, Complex<R> b) {
  return a + scaled(k, b);
}
template <class R>
FL_VM Complex<R> minus_product(Complex<R> a, Complex<R> k, Complex<R> b) {
  return a - scaled(k, b);
}
template <class R>
FL_VM bool operator==(Complex<R> a, Complex<R> b) {
  return a.re == b.re && a.im == b.im;
}
template <class R>
FL_VM bool operator!=(Complex<R> a, Complex<R> b) {
  return !(a == b);
}
template <class R>
FL_VM Complex<R> conj(Complex<R> z) {
  return Complex<R>(z.re, -z.im);
}
template <class R>
FL_VM bool truth(Complex<R> z) {
  return z.re != 0 || z.im != 0;
}
template <class R>
FL_VM bool isnan(Complex<R> z) {
  return z.re != z.re || z.im != z.im;
}
template <class R>
FL_VM bool isinf(Complex<R> z) {
  return isinf(z.re) || isinf(z.im);
}
template <class R>
FL_VM bool isfinite(Complex<R> z) {
  return isfinite(z.re) && isfinite(z.im);
}

}  // namespace FL_ISA
}  // namespace fl::vm
