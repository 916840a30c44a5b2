// Elements as they lie in memory and as they are computed with: 16-bit floats are read as float, and rounded to
// nearest even where they are written. For loops that the compiler vectorises, so every function is branch-free; what
// base/dtype.h has of this is for single values.
//
// Everything lives in an inline namespace per instruction set, as in base/vmath.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/isa.h"
#include "base/vmath_basic.h"

namespace fl {
// The type that elements of type S are computed in.
template <class S>
using Computed = std::conditional_t<sizeof(S) == 2, float, S>;
}  // namespace fl

namespace fl::vm {
inline namespace FL_ISA {

FL_VM float wide(float x) { return x; }
FL_VM double wide(double x) { return x; }
FL_VM float wide(BFloat16 x) { return bits<float>(static_cast<uint32_t>(x.bits) << 16); }
FL_VM float wide(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, mag = x.bits & 0x7fffu;
  const uint32_t normal = (mag << 13) + (112u << 23), special = (mag << 13) | 0x7f800000u;
  const uint32_t small = bits<uint32_t>(static_cast<float>(static_cast<int32_t>(mag)) * 0x1p-24f);
  const uint32_t finite = mag < 0x400u ? small : normal;
  return bits<float>(sign | (mag >= 0x7c00u ? special : finite));
}

template <class S>
FL_VM S narrow(Computed<S> x) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    const uint32_t u = bits<uint32_t>(x), rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16, nan = (u >> 16) | 0x40u;
    BFloat16 y;
    y.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    return y;
  } else if constexpr (std::is_same_v<S, Float16>) {
    const uint32_t u = bits<uint32_t>(x), sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
    const uint32_t normal = (mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1)) >> 13;
    const uint32_t small = bits<uint32_t>(bits<float>(mag) + 0.5f) - 0x3f000000u;  // the adder rounds
    const uint32_t finite = mag < 0x38800000u ? small : normal;
    const uint32_t special = mag > 0x7f800000u ? 0x7e00u : 0x7c00u;
    Float16 y;
    y.bits = static_cast<uint16_t>(sign | (mag >= 0x477ff000u ? special : finite));
    return y;
  } else {
    return x;
  }
}

}  // namespace FL_ISA
}  // namespace fl::vm
