// Vector math: division, remainders and whole numbers, with Python's signs.
//
// By quotients in double lanes, which are right as long as nothing is too large (far_quotient); the ops leave others
// to the far_ versions (`rare` in the op table). Integers divided by zero give 0 here (never a trap); the ops refuse it
// beforehand (fl::check::no_zero_divisor).
#pragma once

#include "base/vmath.h"

namespace fl::vm {
inline namespace FL_ISA {

// Whether a / b may round to another integer than the exact quotient does, or a or b is no number or no divisor.
FL_VM bool far_quotient(float a, float b) {
  const double x = abs(static_cast<double>(a)), y = abs(static_cast<double>(b));
  return !(x < 16777216.0 * y) | !(y < kInf<double>);
}
FL_VM bool far_quotient([[maybe_unused]] double a, [[maybe_unused]] double b) {
#if defined(__FMA__)
  return !(abs(a) < 4503599627370496.0 * abs(b)) | !(abs(b) < kInf<double>);
#else
  return true;
#endif
}
FL_VM bool far_quotient(int32_t, int32_t) { return false; }
FL_VM bool far_quotient(int64_t a, int64_t b) {
  constexpr uint64_t kNear = uint64_t(1) << 51;  // both are in [-kNear, kNear)
  return (((static_cast<uint64_t>(a) + kNear) | (static_cast<uint64_t>(b) + kNear)) >> 52) != 0;
}

// Whether the signs of a and b differ.
template <class T>
FL_VM bool opposite(T a, T b) {
  if constexpr (std::is_integral_v<T>) return (a ^ b) < 0;
  else if constexpr (sizeof(T) == 4) return static_cast<int32_t>(bits<uint32_t>(a) ^ bits<uint32_t>(b)) < 0;
  else return static_cast<int64_t>(bits<uint64_t>(a) ^ bits<uint64_t>(b)) < 0;
}

template <class T>
struct Division {  // a = quotient b + rest, truncated
  T quotient, rest;
};
FL_VM Division<float> divided(float a, float b) {
  const double x = a, y = b, q = std::trunc(x / y);
  return {static_cast<float>(q), copysign(static_cast<float>(x - q * y), a)};
}
FL_VM Division<double> divided(double a, double b) {
  const double q = std::trunc(a / b), r = plus_product(a, -q, b);  // exact; a / b may have been rounded up
  const double q1 = q - copysign(1.0, a / b), r1 = r + copysign(b, a);
  const double q2 = opposite(r, a) ? q1 : q, r2 = opposite(r, a) ? r1 : r;
  return {r == 0 ? q : q2, copysign(r == 0 ? r : r2, a)};
}
template <class T>
  requires std::is_integral_v<T>
FL_VM Division<T> divided(T a, T b) {
  using U = std::make_unsigned_t<T>;
  T safe = b == 0 ? T(1) : b;
  safe = b == -1 ? T(1) : safe;
  T q = static_cast<T>(static_cast<double>(a) / static_cast<double>(safe));
  q = b == -1 ? static_cast<T>(U(0) - static_cast<U>(a)) : q;
  q = b == 0 ? T(0) : q;
  const T r = static_cast<T>(static_cast<U>(a) - static_cast<U>(q) * static_cast<U>(b));
  return {q, b == 0 ? T(0) : r};
}
// Integers of 64 bits that are not far: by doubles throughout, in which they and all that is made of them are exact. AVX2 has no
// conversions between the two, but added to 1.5 * 2^52 an integer is the last bits of a double.
constexpr double kWholes = 6755399441055744.0;
FL_VM double near_double(int64_t a) { return bits<double>(static_cast<uint64_t>(a) + bits<uint64_t>(kWholes)) - kWholes; }
FL_VM int64_t near_integer(double x) { return static_cast<int64_t>(bits<uint64_t>(x + kWholes) - bits<uint64_t>(kWholes)); }
struct NearDivision {  // a = quotient b + rest, the quotient rounded to the nearest
  double a, b, quotient, rest;
};
FL_VM NearDivision near_divided(int64_t a, int64_t b) {
  const double x = near_double(a), y = near_double(b), q = (x / (y == 0 ? 1.0 : y) + kWholes) - kWholes;
  return {x, y, y == 0 ? 0.0 : q, y == 0 ? 0.0 : x - q * y};
}
FL_VM Division<int64_t> divided(int64_t a, int64_t b) {
  const auto [x, y, q, r] = near_divided(a, b);
  const bool over = r * x < 0;
  return {near_integer(over ? q - copysign(1.0, q) : q), near_integer(over ? r + copysign(abs(y), x) : r)};
}

template <class T>
FL_VM T trunc_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) return divided(a, b).quotient;
  else return std::trunc(a / b);
}
template <class T>
FL_VM T fmod(T a, T b) { return divided(a, b).rest; }
template <class T>
FL_VM T remainder(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    const NearDivision d = near_divided(a, b);
    return near_integer(d.rest * d.b < 0 ? d.rest + d.b : d.rest);
  }
  const T r = divided(a, b).rest;
  const T other = opposite(r, b) ? static_cast<T>(r + b) : r;
  return r == 0 ? r : other;
}
template <class T>
FL_VM T floor_divide(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    const NearDivision d = near_divided(a, b);
    return near_integer(d.rest * d.b < 0 ? d.quotient - 1 : d.quotient);
  }
  const auto [q, r] = divided(a, b);
  if constexpr (std::is_integral_v<T>) {
    const T below = opposite(r, b) ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(q) - 1) : q;
    return r == 0 ? q : below;
  } else {
    const T below = opposite(r, b) ? q - T(1) : q;
    const T floored = r == 0 ? q : below;
    return floored == 0 ? copysign(T(0), a / b) : floored;
  }
}

template <class T>
inline T far_trunc_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::trunc(a / b);
  else return b == 0 ? T(0) : b == -1 ? static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a)) : static_cast<T>(a / b);
}
template <class T>
inline T far_fmod(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  else return b == 0 || b == -1 ? T(0) : static_cast<T>(a % b);
}
template <class T>
inline T far_remainder(T a, T b) {
  const T r = far_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <class T>
inline T far_floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T q = far_trunc_divide(a, b), r = far_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
  } else {
    if (b == 0) return a / b;
    const T m = std::fmod(a, b);
    T d = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) d -= 1;
    if (d == 0) return copysign(T(0), a / b);
    T f = std::floor(d);
    if (d - f > T(0.5)) f += 1;
    return f;
  }
}

template <class T>
inline T gcd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  U x = static_cast<U>(abs(a)), y = static_cast<U>(abs(b));
  while (y) {
    const U r = x % y;
    x = y;
    y = r;
  }
  return static_cast<T>(x);
}
template <class T>
inline T lcm(T a, T b) {
  const T g = gcd(a, b);
  return g == 0 ? T(0) : abs(static_cast<T>(static_cast<std::make_unsigned_t<T>>(a / g) * static_cast<std::make_unsigned_t<T>>(b)));
}
// Shifts by a negative count or by the width and more give what an unbounded integer would, cut to T.
template <class T>
FL_VM T left_shift(T a, T b) {
  constexpr T width = sizeof(T) * 8;
  return (b < 0) | (b >= width) ? T(0) : static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) << b);
}
template <class T>
FL_VM T right_shift(T a, T b) {
  constexpr T width = sizeof(T) * 8;
  return a >> ((b < 0) | (b >= width) ? width - 1 : b);
}

}  // namespace FL_ISA
}  // namespace fl::vm
