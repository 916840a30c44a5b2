// What the folds are made of: neutral elements, images, and how two values combine. For *.simd.cpp files alone.
#pragma once

#include <algorithm>
#include <limits>

#include "base/vmath.h"
#include "ops/reduce/fold.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
using Acc = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <Fold F>
constexpr bool kMax = F == Fold::Max || F == Fold::AbsMax || F == Fold::Any;
template <Fold F>
constexpr bool kMin = F == Fold::Min || F == Fold::AbsMin || F == Fold::All;

template <Fold F, class A>
FL_VM A neutral() {
  if constexpr (F == Fold::Any) return 0;
  else if constexpr (F == Fold::All) return 1;
  else if constexpr (F == Fold::Prod) return 1;
  else if constexpr (F == Fold::AbsMax) return 0;
  else if constexpr (kMax<F>) return std::is_integral_v<A> ? std::numeric_limits<A>::lowest() : -vm::kInf<A>;
  else if constexpr (kMin<F>) return std::is_integral_v<A> ? std::numeric_limits<A>::max() : vm::kInf<A>;
  else return 0;
}
template <Fold F, class A>
FL_VM A combine(A a, A b) {
  if constexpr (F == Fold::Prod) return a * b;
  else if constexpr (kMax<F>) return vm::maximum(a, b);
  else if constexpr (kMin<F>) return vm::minimum(a, b);
  else return a + b;
}
template <Fold F, class T>
FL_VM T image(T x, T center, [[maybe_unused]] T p) {
  if constexpr (F == Fold::Any || F == Fold::All || F == Fold::NonZero) return x != 0 ? T(1) : T(0);
  else if constexpr (F == Fold::NanSum) return x == x ? x : T(0);
  else if constexpr (F == Fold::Deviation) return (x - center) * (x - center);
  else if constexpr (F == Fold::Square) return x * x;
  else if constexpr (F == Fold::Abs || F == Fold::AbsMax || F == Fold::AbsMin) return vm::abs(x);
  else if constexpr (F == Fold::Exp && std::is_floating_point_v<T>) return vm::exp(x - center);
  else if constexpr (F == Fold::Power && std::is_floating_point_v<T>) return vm::pow(vm::abs(x), p);
  else return x;
}

// f(T{}), T being what elements are folded as.
template <Fold F, class Fn>
void choose_type(DType type, Fn&& f) {
  if (type == DType::Float32) return f(float{});
  if (type == DType::Float64) return f(double{});
  if constexpr (keeps_type(F)) {
    switch (type) {
      case DType::Bool:
      case DType::UInt8: return f(uint8_t{});
      case DType::Int8: return f(int8_t{});
      case DType::Int16: return f(int16_t{});
      case DType::Int32: return f(int32_t{});
      default: break;
    }
  }
  if constexpr (!has_parameter(F)) f(int64_t{});
}
// f(std::integral_constant<Fold, op>{})
template <class Fn>
void choose(Fold op, Fn&& f) {
  switch (op) {
#define FL_CASE(F) \
  case Fold::F: return f(std::integral_constant<Fold, Fold::F>{});
    FL_CASE(Sum)
    FL_CASE(Prod)
    FL_CASE(Max)
    FL_CASE(Min)
    FL_CASE(Any)
    FL_CASE(All)
    FL_CASE(NanSum)
    FL_CASE(NonZero)
    FL_CASE(Deviation)
    FL_CASE(Exp)
    FL_CASE(Abs)
    FL_CASE(Square)
    FL_CASE(Power)
    FL_CASE(AbsMax)
    FL_CASE(AbsMin)
#undef FL_CASE
  }
}

}  // namespace
}  // namespace fl::kernels::FL_ISA
