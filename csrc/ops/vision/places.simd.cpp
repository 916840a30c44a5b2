#include "ops/vision/places.h"

#include <algorithm>
#include <array>

namespace fl::kernels::FL_ISA {
namespace {

using places::kPlaces;
using places::Places;

// The taps of a block's places. One that lies outside has index -1; `inside`: there is none.
template <class T, int N>
struct Taps {
  std::array<std::array<int32_t, kPlaces>, N> index;
  std::array<std::array<T, kPlaces>, N> weight;
  bool inside;
};

template <class T>
void find(const T* place, int64_t count, const Places& of, Taps<T, 4>& out) {
  const auto h = static_cast<int32_t>(of.height), w = static_cast<int32_t>(of.width);
  bool all = true;
  for (int64_t p = 0; p < count; ++p) {
    const T x = inside(places::element_of(place[2 * p], w, of.align), w, of.padding, of.align).at;
    const T y = inside(places::element_of(place[2 * p + 1], h, of.align), h, of.padding, of.align).at;
    const T left = std::floor(x), top = std::floor(y), dx = x - left, dy = y - top;
    const auto i = static_cast<int32_t>(left), j = static_cast<int32_t>(top);
    const bool has_left = (i >= 0) & (i < w), has_right = (i >= -1) & (i + 1 < w), has_top = (j >= 0) & (j < h), has_bottom = (j >= -1) & (j + 1 < h);
    const auto at = static_cast<int32_t>(int64_t{j} * w + i);
    out.weight[0][p] = (1 - dx) * (1 - dy), out.index[0][p] = has_top & has_left ? at : -1;
    out.weight[1][p] = dx * (1 - dy), out.index[1][p] = has_top & has_right ? at + 1 : -1;
    out.weight[2][p] = (1 - dx) * dy, out.index[2][p] = has_bottom & has_left ? at + w : -1;
    out.weight[3][p] = dx * dy, out.index[3][p] = has_bottom & has_right ? at + w + 1 : -1;
    all &= has_left & has_right & has_top & has_bottom;
  }
  out.inside = all;
}

template <class T>
void find(const T* place, int64_t count, const Places& of, Taps<T, 1>& out) {
  const auto h = static_cast<int32_t>(of.height), w = static_cast<int32_t>(of.width);
  bool all = true;
  for (int64_t p = 0; p < count; ++p) {
    const auto i = static_cast<int32_t>(std::nearbyint(inside(places::element_of(place[2 * p], w, of.align), w, of.padding, of.align).at));
    const auto j = static_cast<int32_t>(std::nearbyint(inside(places::element_of(place[2 * p + 1], h, of.align), h, of.padding, of.align).at));
    const bool has = (i >= 0) & (i < w) & (j >= 0) & (j < h);
    out.index[0][p] = has ? j * w + i : -1;
    out.weight[0][p] = 1;
    all &= has;
  }
  out.inside = all;
}

template <class T, int N>
void sample(const T* x, const T* grid, T* y, const Places& of, int64_t first, int64_t last) {
  const int64_t blocks = (of.points + kPlaces - 1) / kPlaces, plane = of.height * of.width;
  Taps<T, N> taps;
  for (int64_t block = first; block < last; ++block) {
    const int64_t n = block / blocks, begin = block % blocks * kPlaces, count = std::min(kPlaces, of.points - begin);
    find(grid + (n * of.points + begin) * 2, count, of, taps);
    for (int64_t k = 0; k < of.channels; ++k) {
      const T* from = x + (n * of.channels + k) * plane;
      T* to = y + (n * of.channels + k) * of.points + begin;
      if (taps.inside) {
        for (int64_t p = 0; p < count; ++p) {
          T sum = 0;
#pragma GCC unroll 4
          for (int q = 0; q < N; ++q) sum += taps.weight[q][p] * from[taps.index[q][p]];
          to[p] = sum;
        }
      } else {
        for (int64_t p = 0; p < count; ++p) {
          T sum = 0;
#pragma GCC unroll 4
          for (int q = 0; q < N; ++q) sum += taps.index[q][p] < 0 ? T(0) : taps.weight[q][p] * from[taps.index[q][p]];
          to[p] = sum;
        }
      }
    }
  }
}

}  // namespace

void sample_places_f32(const float* x, const float* grid, float* y, const Places& of, int64_t first, int64_t last) {
  of.nearest ? sample<float, 1>(x, grid, y, of, first, last) : sample<float, 4>(x, grid, y, of, first, last);
}
void sample_places_f64(const double* x, const double* grid, double* y, const Places& of, int64_t first, int64_t last) {
  of.nearest ? sample<double, 1>(x, grid, y, of, first, last) : sample<double, 4>(x, grid, y, of, first, last);
}

}  // namespace fl::kernels::FL_ISA
