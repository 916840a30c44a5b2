// A Python number on its way into an op: bool, int, float or complex. It never becomes a tensor.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <type_traits>

#include "base/dtype.h"

namespace fl {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float, Complex };
  Scalar() : i_(0), kind_(Kind::Int) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T v) {
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::Bool;
      i_ = v;
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = Kind::Int;
      i_ = static_cast<int64_t>(v);
    } else {
      kind_ = Kind::Float;
      d_ = static_cast<double>(v);
    }
  }
  static Scalar complex(double real, double imaginary) {
    Scalar s(real);
    s.imaginary_ = imaginary;
    s.kind_ = Kind::Complex;
    return s;
  }
  Kind kind() const { return kind_; }
  bool is_float() const { return kind_ == Kind::Float; }
  bool is_complex() const { return kind_ == Kind::Complex; }
  // Of a complex number, its real part: who does not want that asks is_complex() first, as the bindings of ops for real numbers do.
  double as_double() const { return kind_ >= Kind::Float ? d_ : static_cast<double>(i_); }
  double imaginary() const { return is_complex() ? imaginary_ : 0.0; }
  int64_t as_int() const { return kind_ >= Kind::Float ? static_cast<int64_t>(d_) : i_; }
  Scalar conj() const { return is_complex() ? complex(d_, -imaginary_) : *this; }
  template <class T>
  T as() const {
    if constexpr (is_complex_type<T>) return T(static_cast<typename T::Real>(as_double()), static_cast<typename T::Real>(imaginary()));
    else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, Truth>) return kind_ >= Kind::Float ? d_ != 0 || imaginary() != 0 : i_ != 0;
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(as_int());
    else return static_cast<T>(as_double());
  }
  Scalar operator-() const { return is_complex() ? complex(-d_, -imaginary_) : is_float() ? Scalar(-d_) : Scalar(-i_); }
  friend std::ostream& operator<<(std::ostream& out, const Scalar& s) {
    if (s.kind_ == Kind::Bool) return out << (s.i_ ? "True" : "False");
    if (s.is_complex()) return out << '(' << s.d_ << (std::signbit(s.imaginary_) ? "" : "+") << s.imaginary_ << "j)";
    return s.is_float() ? out << s.d_ : out << s.i_;
  }

 private:
  union {
    double d_;
    int64_t i_;
  };
  double imaginary_;  // of complex numbers alone
  Kind kind_;
};

// Smallest and largest value of an integer type.
struct IntRange {
  int64_t low, high;
};
constexpr IntRange int_range(DType t) {
  switch (t) {
    case DType::UInt8: return {0, 255};
    case DType::Int8: return {-128, 127};
    case DType::UInt16: return {0, 65535};
    case DType::UInt32: return {0, 4294967295};
    case DType::UInt64: return {0, std::numeric_limits<int64_t>::max()};  // as far as a number here goes
    case DType::Int16: return {-32768, 32767};
    case DType::Int32: return {std::numeric_limits<int32_t>::lowest(), std::numeric_limits<int32_t>::max()};
    default: return {std::numeric_limits<int64_t>::lowest(), std::numeric_limits<int64_t>::max()};
  }
}
// Whether the number, rounded towards 0, is a value of t. Floats and bool take any real number, complex types any.
inline bool holds(DType t, const Scalar& s) {
  if (s.is_complex() && !is_complex(t)) return false;
  if (!is_integral(t)) return true;
  const IntRange range = int_range(t);
  if (!s.is_float()) return s.as_int() >= range.low && s.as_int() <= range.high;
  // high + 1 is a power of two, so both bounds are exact; NaN is in no range
  return s.as_double() > static_cast<double>(range.low) - (t == DType::Int64 ? 0x1p11 : 1) && s.as_double() < static_cast<double>(range.high / 2 + 1) * 2;
}

// A number as an element of t: one that t has no value for is taken modulo the number of its values.
inline Scalar wrapped(DType t, const Scalar& s) {
  switch (t) {
    case DType::UInt8: return Scalar(int64_t{static_cast<uint8_t>(s.as_int())});
    case DType::Int8: return Scalar(int64_t{static_cast<int8_t>(s.as_int())});
    case DType::UInt16: return Scalar(int64_t{static_cast<uint16_t>(s.as_int())});
    case DType::Int16: return Scalar(int64_t{static_cast<int16_t>(s.as_int())});
    case DType::UInt32: return Scalar(int64_t{static_cast<uint32_t>(s.as_int())});
    case DType::Int32: return Scalar(int64_t{static_cast<int32_t>(s.as_int())});
    default: return s;
  }
}

}  // namespace fl
