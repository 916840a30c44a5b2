// A Python number on its way into an op: bool, int or float. It never becomes a tensor.
#pragma once

#include <cstdint>
#include <ostream>
#include <type_traits>

#include "base/dtype.h"

namespace fl {

class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };
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
  Kind kind() const { return kind_; }
  bool is_float() const { return kind_ == Kind::Float; }
  double as_double() const { return is_float() ? d_ : static_cast<double>(i_); }
  int64_t as_int() const { return is_float() ? static_cast<int64_t>(d_) : i_; }
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) return is_float() ? d_ != 0 : i_ != 0;
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(as_int());
    else return static_cast<T>(as_double());
  }
  Scalar operator-() const { return is_float() ? Scalar(-d_) : Scalar(-i_); }
  friend std::ostream& operator<<(std::ostream& out, const Scalar& s) {
    if (s.kind_ == Kind::Bool) return out << (s.i_ ? "True" : "False");
    return s.is_float() ? out << s.d_ : out << s.i_;
  }

 private:
  union {
    double d_;
    int64_t i_;
  };
  Kind kind_;
};

}  // namespace fl
