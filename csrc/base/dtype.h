// Element types, their promotion, the two 16-bit floats, and complex numbers as they lie in memory.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>
#include <utility>

namespace fl {

enum class DType : uint8_t {
  Bool, UInt8, Int8, Int16, Int32, Int64, UInt16, UInt32, UInt64,
  Float8E4M3, Float8E5M2, Float8E4M3Z, Float8E5M2Z, Float8E8M0, Float16, BFloat16, Float32, Float64, Complex32, Complex64, Complex128
};
constexpr int kDTypes = 21;

constexpr size_t kItemSize[kDTypes] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 1, 1, 1, 1, 1, 2, 2, 4, 8, 4, 8, 16};
constexpr const char* kDTypeName[kDTypes] = {
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"};

constexpr size_t item_size(DType t) { return kItemSize[static_cast<int>(t)]; }
constexpr const char* name(DType t) { return kDTypeName[static_cast<int>(t)]; }
constexpr bool is_complex(DType t) { return t >= DType::Complex32; }
constexpr bool is_inexact(DType t) { return t >= DType::Float8E4M3; }  // what gradients exist for
constexpr bool is_float(DType t) { return is_inexact(t) && !is_complex(t); }
constexpr bool is_float8(DType t) { return t >= DType::Float8E4M3 && t <= DType::Float8E8M0; }
constexpr bool is_integral(DType t) { return !is_inexact(t) && t != DType::Bool; }  // bool is neither
// Unsigned integers of more than a byte.
constexpr bool is_wide_unsigned(DType t) { return t >= DType::UInt16 && t <= DType::UInt64; }
// Types that are stored, cast and moved, and that loops over elements compute in another one: Note [Types without kernels].
constexpr bool is_rare(DType t) { return is_wide_unsigned(t) || is_float8(t) || t == DType::Complex32; }
// The integers of as many bits, with a sign.
constexpr DType with_sign(DType t) { return t == DType::UInt16 ? DType::Int16 : t == DType::UInt32 ? DType::Int32 : t == DType::UInt64 ? DType::Int64 : t; }
inline std::ostream& operator<<(std::ostream& out, DType t) { return out << name(t); }

// bool, integers, floats, complex numbers: what a number or a 0-d tensor has to exceed before it counts in promotion.
constexpr int kind_of(DType t) { return t == DType::Bool ? 0 : is_complex(t) ? 3 : is_float(t) ? 2 : 1; }
// The type of the parts of a complex type; a real type itself.
constexpr DType to_real(DType t) {
  return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t == DType::Complex32 ? DType::Float16 : t;
}
// The complex type that holds a float; what is no float of 32 or 64 bits gives complex64.
constexpr DType to_complex(DType t) { return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64; }

// The type that holds both, by PyTorch's lattice (bool < integers < floats; uint8 with a signed integer
// gives the next wider signed one; float16 with bfloat16 gives float32; a complex type has parts that hold the float). Wider unsigned
// integers follow the array API standard, where PyTorch refuses: uint16 with a signed integer of up to 16 bits gives int32.
// Nothing holds uint64 and negative numbers, nor a float of 8 bits and another type.
[[noreturn]] void refuse_promotion(DType a, DType b);
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) {
    const DType t = a;
    a = b;
    b = t;
  }  // a < b from here on
  if (is_float8(a) || (is_float8(b) && a != DType::Bool)) refuse_promotion(a, b);
  if (is_complex(b)) {
    if (!is_float(a)) return b;
    const DType part = promote(a, to_real(b));
    return part == DType::Float16 ? DType::Complex32 : to_complex(part);
  }
  if (is_float(b)) {
    if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
    return b;
  }
  if (a == DType::UInt8 && b == DType::Int8) return DType::Int16;
  if (is_wide_unsigned(b) && a != DType::Bool && a != DType::UInt8 && !is_wide_unsigned(a)) {  // a has a sign
    if (item_size(a) > item_size(b)) return a;
    if (b == DType::UInt64) refuse_promotion(a, b);
    return b == DType::UInt16 ? DType::Int32 : DType::Int64;
  }
  return b;
}

// An element of a bool tensor. Memory may be somebody else's, or have been written as bytes: any byte but 0 is true. A C++ bool is read by
// the compiler as 0 or 1, so that others become other numbers, places outside of a table, and branches that are taken twice.
struct Truth {
  uint8_t byte = 0;
  Truth() = default;
  constexpr Truth(bool v) : byte(v) {}
  constexpr operator bool() const { return byte != 0; }
};

// Arithmetic of 16-bit floats is done in float; these only convert (round to nearest even).
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((u >> 16) | 0x40)
                                           : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  Float16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t mag = u & 0x7fffffffu;
    uint32_t out;
    if (mag >= 0x7f800000u) {
      out = mag > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (mag >= 0x477ff000u) {  // rounds past the largest finite value
      out = 0x7c00u;
    } else if (mag < 0x38800000u) {  // subnormal or zero: let the float adder round
      const float shifted = std::bit_cast<float>(mag) + 0.5f;
      out = std::bit_cast<uint32_t>(shifted) - 0x3f000000u;
    } else {
      out = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | out);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exp = (bits >> 10) & 0x1fu;
    const uint32_t man = bits & 0x3ffu;
    if (exp == 0) {
      const float f = static_cast<float>(man) * 0x1p-24f;
      return std::bit_cast<float>(std::bit_cast<uint32_t>(f) | sign);
    }
    if (exp == 31) return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
    return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
  }
};

// A complex number as it lies in memory, its real part first. Arithmetic is in base/complex.h.
template <class R>
struct Complex {
  using Real = R;
  R re, im;
  Complex() = default;
  constexpr explicit Complex(R real, R imaginary = R(0)) : re(real), im(imaginary) {}
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<Truth> {
  static constexpr DType value = DType::Bool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::UInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::Int8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::Int16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::Int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::Int64;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::UInt16;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::UInt32;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::UInt64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::Float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::BFloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct DTypeOf<Complex<float>> {
  static constexpr DType value = DType::Complex64;
};
template <>
struct DTypeOf<Complex<double>> {
  static constexpr DType value = DType::Complex128;
};
template <class T>
constexpr bool is_complex_type = std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>;
template <class T>
constexpr bool is_half_type = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool is_integer_type = std::is_integral_v<T> || std::is_same_v<T, Truth>;
template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

// Raises: the code at hand is not for such a type. What is generated from the op table refuses such tensors before it is asked.
[[noreturn]] void refuse_type(DType t);

// Note [Types without kernels]
// uint16, uint32, uint64, complex32 and floats of 8 bits are stored, cast, made, moved, printed and exchanged. No loop is compiled for them: conversions
// go through tiles of a wider type, element-wise ops compute in int32, int64, complex64 and float32 as they do for other narrow types, and kernels that only move elements
// go by their size. uint64 is computed as int64, whose bits are the same for what depends on bits alone (`bytes` in the op table: sums,
// products, equality); other element-wise ops refuse it. Kernels refuse all of these types, unless their entry says `any_type`.

// Calls f with a value-initialised object of the C++ type of `t`, which is real and has kernels: visit(t, [&](auto zero) { using T = ... }).
template <class F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::Bool: return f(Truth{});
    case DType::UInt8: return f(uint8_t{});
    case DType::Int8: return f(int8_t{});
    case DType::Int16: return f(int16_t{});
    case DType::Int32: return f(int32_t{});
    case DType::Int64: return f(int64_t{});
    case DType::Float16: return f(Float16{});
    case DType::BFloat16: return f(BFloat16{});
    case DType::Float32: return f(float{});
    case DType::Float64: return f(double{});
    default: refuse_type(t);
  }
}
// The same for any type but complex32 and floats of 8 bits, which C++ has no numbers for.
template <class F>
decltype(auto) visit_any(DType t, F&& f) {
  if (t == DType::UInt16) return f(uint16_t{});
  if (t == DType::UInt32) return f(uint32_t{});
  if (t == DType::UInt64) return f(uint64_t{});
  if (t == DType::Complex64) return f(Complex<float>{});
  if (t == DType::Complex128) return f(Complex<double>{});
  return visit(t, std::forward<F>(f));
}

// Element-wise loops exist for four real types and, of some ops, for complex ones; the others are converted tile by tile (see dispatch/each.h).
constexpr DType compute_type(DType t) {
  if (t == DType::Complex32) return DType::Complex64;
  if (t == DType::UInt32 || t == DType::UInt64) return DType::Int64;
  if (is_complex(t) || t == DType::Float64 || t == DType::Int64 || t == DType::Int32 || t == DType::Float32) return t;
  return is_float(t) ? DType::Float32 : DType::Int32;
}

}  // namespace fl

// Not those of a type that nobody knows, which are 0.
template <>
struct std::numeric_limits<fl::Truth> : std::numeric_limits<bool> {};
