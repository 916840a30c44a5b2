// Places in pictures: from a grid's coordinates to elements, and the loops over the places that programs meet most, once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/isa.h"
#include "base/vmath_basic.h"

namespace fl::places {

enum class Mode { Linear, Nearest, Cubic };
enum class Padding { Zeros, Border, Reflection };

struct Places {
  int64_t channels, height, width, points;
  bool nearest;
  Padding padding;
  bool align;
};

constexpr int64_t kPlaces = 64;  // of a block

inline namespace FL_ISA {

template <class T>
struct Moved {
  T at, slope;  // a coordinate in elements, and its derivative by the coordinate of the grid
};

template <class T>
FL_VM Moved<T> clipped(Moved<T> x, int64_t size) {
  if (!(x.at > 0)) return {0, 0};
  const T last = static_cast<T>(size - 1);
  return x.at >= last ? Moved<T>{last, 0} : x;
}

// Mirrored at low and high until it lies between them; these are halves.
template <class T>
FL_VM Moved<T> reflected(Moved<T> x, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return {0, 0};
  const T low = static_cast<T>(twice_low) / 2, span = static_cast<T>(twice_high - twice_low) / 2;
  T at = x.at - low, sign = 1;
  if (at < 0) at = -at, sign = -1;
  const bool once = at < 2 * span, first = at < span;  // as a rule, and without a division
  const T rest = first ? at : once ? at - span : std::fmod(at, span);
  const bool turned = once ? !first : static_cast<int64_t>(std::fmod(std::floor(at / span), T(2))) != 0;
  return turned ? Moved<T>{span - rest + low, -sign * x.slope} : Moved<T>{rest + low, sign * x.slope};
}

template <class T>
FL_VM Moved<T> inside(Moved<T> x, int64_t size, Padding padding, bool align) {
  if (padding == Padding::Reflection) x = align ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1);
  if (padding != Padding::Zeros) x = clipped(x, size);
  return x;
}

// From -1 .. 1 to elements; what is no number, or too far to count, lies outside, but for mirrors, which hold it at the first one.
template <class T>
FL_VM Moved<T> element_of(T v, int64_t size, Padding padding, bool align) {
  const T slope = static_cast<T>(align ? size - 1 : size) / 2;
  const T at = align ? (v + 1) * slope : ((v + 1) * static_cast<T>(size) - 1) / 2;
  if (std::fabs(at) < T(1e9)) return {at, slope};
  return {padding == Padding::Reflection ? T(0) : at > 0 ? T(1e9) : T(-100), 0};
}

}  // namespace FL_ISA
}  // namespace fl::places

// Blocks [first, last) of kPlaces places, of which each picture has its own: x [N, C, H, W], grid [N, points, 2] -> y [N, C, points].
FL_SIMD_KERNEL(void, sample_places_f32, const float* x, const float* grid, float* y, const places::Places& places, int64_t first, int64_t last)
FL_SIMD_KERNEL(void, sample_places_f64, const double* x, const double* grid, double* y, const places::Places& places, int64_t first, int64_t last)
// Their gradients, of picture n: what dy [N, C, points] gives to dx, which starts as zeros, and to dgrid.
FL_SIMD_KERNEL(void, spread_places_f32, const float* dy, const float* x, const float* grid, float* dx, float* dgrid, const places::Places& places, int64_t n)
FL_SIMD_KERNEL(void, spread_places_f64, const double* dy, const double* x, const double* grid, double* dx, double* dgrid, const places::Places& places,
               int64_t n)
