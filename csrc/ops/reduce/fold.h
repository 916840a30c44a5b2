// Folds: reductions that combine the images of elements in any order.
//
// The loops know three compute types (float, double, int64) and accumulate in double or int64, so that an
// accumulator is always eight bytes.
#pragma once

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {

enum class Fold : uint8_t {
  Sum,       // x
  Prod,      // x
  Max,       // NaN wins
  Min,       // NaN wins
  Any,       // x != 0, by or
  All,       // x != 0, by and
  NanSum,    // x, or 0 for NaN
  NonZero,   // 1 where x != 0
  Deviation, // (x - center)^2
  Exp,       // e^(x - center)
  Abs,       // |x|
  Square,    // x^2
  Power,     // |x|^p
  AbsMax,
  AbsMin,
};

// Whether a fold gives one of its elements, or 0 or 1: integers need not be widened for it.
constexpr bool keeps_type(Fold f) { return f == Fold::Max || f == Fold::Min || f == Fold::Any || f == Fold::All; }

// Whether a fold has a center or a power; those are of floats.
constexpr bool has_parameter(Fold f) { return f == Fold::Deviation || f == Fold::Exp || f == Fold::Power; }

// Of which there is fold_planes. A fold of few numbers that are not 0 has another type than they.
constexpr bool in_planes(Fold f) { return !has_parameter(f) && f != Fold::NonZero; }

}  // namespace fl

// acc combined with the fold of n contiguous elements, which all have the center *center. Here and below elements may also be of
// smaller types, as they lie: sums of 16-bit floats (acc is that of float), and folds that keep the type of all signed integers,
// bytes and bools (acc is that of int64).
FL_SIMD_KERNEL(void, fold_run, Fold op, DType type, const void* x, int64_t n, const void* center, double p, void* acc)
// acc[j] combined with the fold of x[i * stride + j] over i < rows, for j < n; column j has center[j].
FL_SIMD_KERNEL(void, fold_rows, Fold op, DType type, const void* x, int64_t stride, int64_t rows, int64_t n,
               const void* center, double p, void* acc)
// out[u * n + j] = the fold of x[u * plane + i * stride + j] over i < rows, for u < planes and j < n, divided by `divisor` where that is not 0. For few rows:
// all is in the elements' own type. Of folds without center and power, and not of 16-bit floats.
FL_SIMD_KERNEL(void, fold_planes, Fold op, DType type, const void* x, int64_t plane, int64_t planes, int64_t stride, int64_t rows, int64_t n,
               double divisor, void* out)
// acc[j] combined with the fold of the row x[j * stride + 0 .. n), for j < m; row j has center[j].
FL_SIMD_KERNEL(void, fold_runs, Fold op, DType type, const void* x, int64_t stride, int64_t m, int64_t n,
               const void* center, double p, void* acc)
// The same for sums of Float32, Float16 and BFloat16, of which fold_run and fold_runs make use.
FL_SIMD_KERNEL(void, fold_sums, DType type, const void* x, int64_t stride, int64_t m, int64_t n, double* acc)
// acc[0] and acc[1] plus the sums of the first and of the second ones of n pairs of Float32 or Float64, which begin `step` elements apart
FL_SIMD_KERNEL(void, fold_pairs, DType type, const void* x, int64_t step, int64_t n, double* acc)
// acc[j] = neutral element, and acc[j] combined with other[j].
FL_SIMD_KERNEL(void, fold_init, Fold op, DType type, void* acc, int64_t n)
FL_SIMD_KERNEL(void, fold_merge, Fold op, DType type, const void* other, void* acc, int64_t n)
