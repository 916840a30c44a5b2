#include "ops/vision/places.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

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
  void end(int64_t count) {  // a block of fewer places is one whose others lie outside
    for (int64_t p = count; p < kPlaces; ++p)
      for (int q = 0; q < N; ++q) index[q][p] = -1, weight[q][p] = 0;
  }
};

// Places in elements along both axes, and how they move with the grid's coordinates.
template <class T>
struct Where {
  std::array<std::array<T, kPlaces>, 2> at, slope;
};

template <class T>
void locate(const T* place, int64_t count, int64_t size, const Places& of, T* __restrict at, T* __restrict slope) {
  if (of.padding == places::Padding::Reflection) {
    for (int64_t p = 0; p < count; ++p) {
      const auto moved = inside(places::element_of(place[2 * p], size, of.padding, of.align), size, of.padding, of.align);
      at[p] = moved.at, slope[p] = moved.slope;
    }
    return;
  }
  const T end = static_cast<T>(size - 1), span = of.align ? end : static_cast<T>(size), back = of.align ? T(0) : T(1);
  const bool border = of.padding == places::Padding::Border;
  const T low = border ? T(0) : -vm::kInf<T>, high = border ? end : vm::kInf<T>;
#pragma omp simd
  for (int64_t p = 0; p < count; ++p) {
    const T v = ((place[2 * p] + 1) * span - back) / 2, far = vm::abs(v);
    const T x = far < T(1e9) ? v : v > 0 ? T(1e9) : T(-100), moves = far < T(1e9) ? span / 2 : T(0);
    const T above = x > low ? x : low, moves_above = x > low ? moves : T(0);
    at[p] = above < high ? above : high;
    slope[p] = above < high ? moves_above : T(0);
  }
}
template <class T>
void locate(const T* place, int64_t count, const Places& of, Where<T>& out) {
  locate(place, count, of.width, of, out.at[0].data(), out.slope[0].data());
  locate(place + 1, count, of.height, of, out.at[1].data(), out.slope[1].data());
}

template <class T>
void find(const T* place, int64_t count, const Places& of, Taps<T, 4>& out) {
  const auto h = static_cast<int32_t>(of.height), w = static_cast<int32_t>(of.width);
  Where<T> where;
  locate(place, count, of, where);
  const T *xs = where.at[0].data(), *ys = where.at[1].data();
  T *w0 = out.weight[0].data(), *w1 = out.weight[1].data(), *w2 = out.weight[2].data(), *w3 = out.weight[3].data();
  int32_t *i0 = out.index[0].data(), *i1 = out.index[1].data(), *i2 = out.index[2].data(), *i3 = out.index[3].data();
  T *across = out.part[0].data(), *down = out.part[1].data();
  int32_t all = 1;
#pragma omp simd reduction(& : all)
  for (int64_t p = 0; p < count; ++p) {
    const T left = std::floor(xs[p]), top = std::floor(ys[p]), dx = xs[p] - left, dy = ys[p] - top;
    const auto i = static_cast<int32_t>(left), j = static_cast<int32_t>(top);
    const int32_t has_left = (i >= 0) & (i < w), has_right = (i >= -1) & (i + 1 < w), has_top = (j >= 0) & (j < h), has_bottom = (j >= -1) & (j + 1 < h);
    const auto at = static_cast<int32_t>(static_cast<uint32_t>(j) * static_cast<uint32_t>(w) + static_cast<uint32_t>(i));  // wraps where it is not used
    w0[p] = (1 - dx) * (1 - dy), i0[p] = has_top & has_left ? at : -1;
    w1[p] = dx * (1 - dy), i1[p] = has_top & has_right ? at + 1 : -1;
    w2[p] = (1 - dx) * dy, i2[p] = has_bottom & has_left ? at + w : -1;
    w3[p] = dx * dy, i3[p] = has_bottom & has_right ? at + w + 1 : -1;
    across[p] = dx, down[p] = dy;
    all &= has_left & has_right & has_top & has_bottom;
  }
  out.slope = where.slope;
  out.inside = all;
  out.end(count);
}

template <class T>
void find(const T* place, int64_t count, const Places& of, Taps<T, 1>& out) {
  const auto h = static_cast<int32_t>(of.height), w = static_cast<int32_t>(of.width);
  Where<T> where;
  locate(place, count, of, where);
  const T *xs = where.at[0].data(), *ys = where.at[1].data();
  int32_t* index = out.index[0].data();
  int32_t all = 1;
#pragma omp simd reduction(& : all)
  for (int64_t p = 0; p < count; ++p) {
    const auto i = static_cast<int32_t>(std::nearbyint(xs[p])), j = static_cast<int32_t>(std::nearbyint(ys[p]));
    const int32_t has = (i >= 0) & (i < w) & (j >= 0) & (j < h);
    index[p] = has ? static_cast<int32_t>(static_cast<uint32_t>(j) * static_cast<uint32_t>(w) + static_cast<uint32_t>(i)) : -1;
    all &= has;
  }
  out.weight[0].fill(1);
  out.inside = all;
  out.end(count);
}

// What lies at L indices; 0 for those outside, whatever lies elsewhere. GCC takes the elements one by one where it is not told otherwise.
#if defined(__AVX512F__) && defined(__AVX512VL__)
FL_VM __m512 gathered(const float* from, const int32_t* index) {
  const __m512i at = _mm512_loadu_si512(index);
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512()), at, from, 4);
}
FL_VM __m512d gathered(const double* from, const int32_t* index) {
  const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), _mm256_cmpge_epi32_mask(at, _mm256_setzero_si256()), at, from, 8);
}
#elif defined(__AVX2__)
FL_VM __m256 gathered(const float* from, const int32_t* index) {
  const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), from, at, _mm256_castsi256_ps(_mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1))), 4);
}
FL_VM __m256d gathered(const double* from, const int32_t* index) {
  const __m128i at = _mm_loadu_si128(reinterpret_cast<const __m128i*>(index));
  return _mm256_mask_i32gather_pd(_mm256_setzero_pd(), from, at, _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_cmpgt_epi32(at, _mm_set1_epi32(-1)))), 8);
}
#else
template <class T>
FL_VM T gathered(const T* from, const int32_t* index) { return *index < 0 ? T(0) : from[*index]; }
#endif

template <class T, int N>
void mix(const T* from, T* to, int64_t count, const Taps<T, N>& taps) {
  using Lanes = decltype(gathered(from, taps.index[0].data()));
  constexpr int64_t kLanes = static_cast<int64_t>(sizeof(Lanes) / sizeof(T));
  for (int64_t p = 0; p < count; p += kLanes) {
    Lanes sum{};
#pragma GCC unroll 4
    for (int q = 0; q < N; ++q) {
      Lanes weight;
      std::memcpy(&weight, taps.weight[q].data() + p, sizeof weight);
      sum += weight * gathered(from, taps.index[q].data() + p);
    }
    if (p + kLanes <= count) std::memcpy(to + p, &sum, sizeof sum);
    else std::memcpy(to + p, &sum, static_cast<size_t>(count - p) * sizeof(T));
  }
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
      mix(from, to, count, taps);
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
