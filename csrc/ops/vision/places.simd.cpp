#include "ops/vision/places.h"

#include <algorithm>
#include <array>

namespace fl::kernels::FL_ISA {
namespace {

using places::kPlaces;
using places::Places;

// The taps of a block's places. One that lies outside has index -1; `inside`: there is none. Between four elements: how far a
// place is from the left and the top ones, and how these parts move with the grid's coordinates.
template <class T, int N>
struct Taps {
  std::array<std::array<int32_t, kPlaces>, N> index;
  std::array<std::array<T, kPlaces>, N> weight;
  std::array<std::array<T, kPlaces>, 2> part, slope;
  bool inside;
};

template <class T>
void find(const T* place, int64_t count, const Places& of, Taps<T, 4>& out) {
  const auto h = static_cast<int32_t>(of.height), w = static_cast<int32_t>(of.width);
  bool all = true;
  for (int64_t p = 0; p < count; ++p) {
    const auto [x, x_slope] = inside(places::element_of(place[2 * p], w, of.align), w, of.padding, of.align);
    const auto [y, y_slope] = inside(places::element_of(place[2 * p + 1], h, of.align), h, of.padding, of.align);
    const T left = std::floor(x), top = std::floor(y), dx = x - left, dy = y - top;
    const auto i = static_cast<int32_t>(left), j = static_cast<int32_t>(top);
    const bool has_left = (i >= 0) & (i < w), has_right = (i >= -1) & (i + 1 < w), has_top = (j >= 0) & (j < h), has_bottom = (j >= -1) & (j + 1 < h);
    const auto at = static_cast<int32_t>(int64_t{j} * w + i);
    out.weight[0][p] = (1 - dx) * (1 - dy), out.index[0][p] = has_top & has_left ? at : -1;
    out.weight[1][p] = dx * (1 - dy), out.index[1][p] = has_top & has_right ? at + 1 : -1;
    out.weight[2][p] = (1 - dx) * dy, out.index[2][p] = has_bottom & has_left ? at + w : -1;
    out.weight[3][p] = dx * dy, out.index[3][p] = has_bottom & has_right ? at + w + 1 : -1;
    out.part[0][p] = dx, out.part[1][p] = dy, out.slope[0][p] = x_slope, out.slope[1][p] = y_slope;
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

template <class T, int N>
void spread(const T* dy, const T* x, const T* grid, T* dx, T* dgrid, const Places& of, int64_t n) {
  const int64_t plane = of.height * of.width;
  Taps<T, N> taps;
  for (int64_t begin = 0; begin < of.points; begin += kPlaces) {
    const int64_t count = std::min(kPlaces, of.points - begin);
    find(grid + (n * of.points + begin) * 2, count, of, taps);
    std::array<T, kPlaces> across{}, down{};
    for (int64_t k = 0; k < of.channels; ++k) {
      const T *from = x + (n * of.channels + k) * plane, *g = dy + (n * of.channels + k) * of.points + begin;
      T* to = dx + (n * of.channels + k) * plane;
      for (int64_t p = 0; p < count; ++p) {
        T v[N];
#pragma GCC unroll 4
        for (int q = 0; q < N; ++q) {
          const int32_t at = taps.index[q][p];
          v[q] = 0;
          if (!taps.inside && at < 0) continue;
          v[q] = from[at];
          to[at] += taps.weight[q][p] * g[p];
        }
        if constexpr (N == 4) {
          const T a = taps.part[0][p], b = taps.part[1][p];
          across[p] += g[p] * ((v[1] - v[0]) * (1 - b) + (v[3] - v[2]) * b);
          down[p] += g[p] * ((v[2] - v[0]) * (1 - a) + (v[3] - v[1]) * a);
        }
      }
    }
    T* slopes = dgrid + (n * of.points + begin) * 2;
    for (int64_t p = 0; p < count; ++p) {
      slopes[2 * p] = N == 4 ? across[p] * taps.slope[0][p] : T(0);
      slopes[2 * p + 1] = N == 4 ? down[p] * taps.slope[1][p] : T(0);
    }
  }
}

}  // namespace

void spread_places_f32(const float* dy, const float* x, const float* grid, float* dx, float* dgrid, const Places& of, int64_t n) {
  of.nearest ? spread<float, 1>(dy, x, grid, dx, dgrid, of, n) : spread<float, 4>(dy, x, grid, dx, dgrid, of, n);
}
void spread_places_f64(const double* dy, const double* x, const double* grid, double* dx, double* dgrid, const Places& of, int64_t n) {
  of.nearest ? spread<double, 1>(dy, x, grid, dx, dgrid, of, n) : spread<double, 4>(dy, x, grid, dx, dgrid, of, n);
}
void sample_places_f32(const float* x, const float* grid, float* y, const Places& of, int64_t first, int64_t last) {
  of.nearest ? sample<float, 1>(x, grid, y, of, first, last) : sample<float, 4>(x, grid, y, of, first, last);
}
void sample_places_f64(const double* x, const double* grid, double* y, const Places& of, int64_t first, int64_t last) {
  of.nearest ? sample<double, 1>(x, grid, y, of, first, last) : sample<double, 4>(x, grid, y, of, first, last);
}

}  // namespace fl::kernels::FL_ISA
