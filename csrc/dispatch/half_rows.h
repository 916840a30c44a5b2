// Rows of 16-bit floats, a vector at a time: widened as they are read and rounded as they are written. For files that are compiled once per
// instruction set.
#pragma once

#include <cstring>

#include "base/lanes.h"
#include "dispatch/half_vectors.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kLanes = kVectorFloats;
constexpr int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline Vector load_floats(const float* x) { return load_vector(reinterpret_cast<const char*>(x)); }
inline void store_floats(float* y, Vector v) { std::memcpy(y, &v, sizeof(v)); }
template <class S>
inline __attribute__((always_inline)) Vector widened_at(const S* x) {
  return widened<S>(reinterpret_cast<const char*>(x));
}

template <class Combine>
inline __attribute__((always_inline)) float folded(Vector v, Combine combine) {
  float lane[kLanes];
  std::memcpy(lane, &v, sizeof(v));
  vm::fold_lanes<kLanes / 2>(lane, combine);
  return lane[0];
}
inline float sum_of(Vector v) {
  return folded(v, [](float a, float b) { return a + b; });
}

// f(i, elements i ... of x) for vector after vector, the last one filled up with `rest`.
template <class S, class F>
inline __attribute__((always_inline)) void each_vector(const S* x, int64_t n, float rest, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, widened_at(x + i));
  if (i == n) return;
  S last[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) last[l] = vm::narrow<S>(rest);
  std::memcpy(static_cast<void*>(last), x + i, static_cast<size_t>(n - i) * sizeof(S));
  f(i, widened_at(last));
}

// Elements i ... of y, of which there are n.
template <class S>
inline __attribute__((always_inline)) void store_at(S* y, int64_t i, int64_t n, Vector v) {
  const auto made = narrowed<S>(v);
  if (i + kLanes <= n) std::memcpy(static_cast<void*>(y + i), &made, sizeof(made));
  else std::memcpy(static_cast<void*>(y + i), &made, static_cast<size_t>(n - i) * sizeof(S));
}

}  // namespace
}  // namespace fl::kernels::FL_ISA
