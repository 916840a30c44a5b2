// The transforms of Note [Winograd]: channels are the lanes of vectors.
#include "ops/conv/winograd_tiles.h"

namespace fl::kernels::FL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64;
#elif defined(__AVX__)
constexpr int kVecBytes = 32;
#else
constexpr int kVecBytes = 16;
#endif
constexpr int64_t kLanes = kVecBytes / 4;

typedef float Floats __attribute__((vector_size(kVecBytes)));
typedef float Loose __attribute__((vector_size(kVecBytes), aligned(4), may_alias));

inline __attribute__((always_inline)) Floats load(const float* p) { return *reinterpret_cast<const Loose*>(p); }
inline __attribute__((always_inline)) void store(float* p, Floats v) { *reinterpret_cast<Loose*>(p) = v; }
inline bool is_zero(Floats v) {
  bool zero = true;
  for (int64_t l = 0; l < kLanes; ++l) zero = zero && v[l] == 0;
  return zero;
}

template <int N>
struct Constant {
  constexpr operator int() const { return N; }
};

// A polynomial is known by its values at six points: 0, a, -a, b, -b and infinity; one of degree 4 by five, without -b.
constexpr float kA = 0.75f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
constexpr float power(float x, int n) { return n == 0 ? 1 : x * power(x, n - 1); }

// One axis. B':
struct SixInputs {
  static constexpr int kFrom = 6, kTo = 6;
  static inline __attribute__((always_inline)) void run(const Floats* d, Floats* o) {
    const Floats even_a = d[4] - kB2 * d[2], odd_a = kA * (d[3] - kB2 * d[1]), even_b = d[4] - kA2 * d[2], odd_b = kB * (d[3] - kA2 * d[1]);
    o[0] = kA2 * kB2 * d[0] + (d[4] - (kA2 + kB2) * d[2]);
    o[1] = even_a + odd_a;
    o[2] = even_a - odd_a;
    o[3] = even_b + odd_b;
    o[4] = even_b - odd_b;
    o[5] = kA2 * kB2 * d[1] + (d[5] - (kA2 + kB2) * d[3]);
  }
};
struct FiveInputs {
  static constexpr int kFrom = 5, kTo = 5;
  static inline __attribute__((always_inline)) void run(const Floats* d, Floats* o) {
    const Floats even = d[3] - kB * d[2], odd = kA * (d[2] - kB * d[1]);
    o[0] = kA2 * (kB * d[0] - d[1]) + even;
    o[1] = even + odd;
    o[2] = even - odd;
    o[3] = d[3] - kA2 * d[1];
    o[4] = kA2 * (kB * d[1] - d[2]) + (d[4] - kB * d[3]);
  }
};

// The values of a polynomial of N coefficients at Points points: A. G divides them by the products of each point's distances from the others.
template <int Points, bool kScaled>
struct Scales;
template <int Points>
struct Scales<Points, false> {
  static constexpr float k0 = 1, kPlusA = 1, kMinusA = 1, kPlusB = 1, kMinusB = 1;
};
template <>
struct Scales<6, true> {
  static constexpr float k0 = 1 / (kA2 * kB2), kPlusA = 1 / (2 * kA2 * (kA2 - kB2)), kMinusA = kPlusA, kPlusB = 1 / (2 * kB2 * (kB2 - kA2)), kMinusB = kPlusB;
};
template <>
struct Scales<5, true> {
  static constexpr float k0 = 1 / (kA2 * kB), kPlusA = 1 / (2 * kA2 * (kA - kB)), kMinusA = -1 / (2 * kA2 * (kA + kB)), kPlusB = 1 / (kB * (kB2 - kA2));
};

template <int Points, int N, bool kScaled>
struct Values {
  static constexpr int kFrom = N, kTo = Points;
  static inline __attribute__((always_inline)) void run(const Floats* y, Floats* o) {
    using S = Scales<Points, kScaled>;
    Floats even_a = y[0], odd_a = kA * y[1], even_b = y[0], odd_b = kB * y[1];
#pragma GCC unroll 6
    for (int j = 2; j < N; ++j) {
      (j % 2 ? odd_a : even_a) += power(kA, j) * y[j];
      (j % 2 ? odd_b : even_b) += power(kB, j) * y[j];
    }
    o[0] = S::k0 * y[0];
    o[1] = S::kPlusA * (even_a + odd_a);
    o[2] = S::kMinusA * (even_a - odd_a);
    o[3] = S::kPlusB * (even_b + odd_b);
    if constexpr (Points == 6) o[4] = S::kMinusB * (even_b - odd_b);
    o[Points - 1] = y[N - 1];
  }
};

// The same turned round: A', or G'.
template <int Points, int N, bool kScaled>
struct Sums {
  static constexpr int kFrom = Points, kTo = N;
  static inline __attribute__((always_inline)) void run(const Floats* m, Floats* y) {
    using S = Scales<Points, kScaled>;
    const Floats plus_a = S::kPlusA * m[1], minus_a = S::kMinusA * m[2], plus_b = S::kPlusB * m[3];
    Floats even_b = plus_b, odd_b = plus_b;
    if constexpr (Points == 6) {
      const Floats minus_b = S::kMinusB * m[4];
      even_b += minus_b, odd_b -= minus_b;
    }
    const Floats even_a = plus_a + minus_a, odd_a = plus_a - minus_a;
#pragma GCC unroll 6
    for (int j = 0; j < N; ++j) y[j] = power(kA, j) * (j % 2 ? odd_a : even_a) + power(kB, j) * (j % 2 ? odd_b : even_b);
    y[0] += S::k0 * m[0];
    y[N - 1] += m[Points - 1];
  }
};

// A matrix of vectors, transformed from both sides, or a row of them: element (i, j) is read by in(i, j), a column at a time, and written by
// out(i, j, value).
template <class Axis, bool kFlat, class Read, class Write>
inline __attribute__((always_inline)) void transform(Read in, Write out) {
  constexpr int kFrom = Axis::kFrom, kTo = Axis::kTo;
  if constexpr (kFlat) {
    Floats from[kFrom], to[kTo];
#pragma GCC unroll 6
    for (int j = 0; j < kFrom; ++j) from[j] = in(0, j);
    Axis::run(from, to);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) out(0, j, to[j]);
    return;
  }
  Floats half[kTo][kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    Floats from[kFrom], to[kTo];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) from[i] = in(i, j);
    Axis::run(from, to);
#pragma GCC unroll 6
    for (int i = 0; i < kTo; ++i) half[i][j] = to[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    Floats to[kTo];
    Axis::run(half[i], to);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) out(i, j, to[j]);
  }
}

// A tile's place: of `size` rows and columns those [r0, r1) and [c0, c1) are within the image.
struct Place {
  int64_t at, r0, r1, c0, c1;  // `at`: of its first element, which may be outside
};
Place place_of(const WinogradGrid& g, int64_t tile, int64_t size) {
  const WinogradAxis &r = g.rows, &c = g.columns;
  const int64_t column = tile % c.tiles, row = (tile /= c.tiles) % r.tiles, column_class = (tile /= r.tiles) % c.classes,
                row_class = (tile /= c.classes) % r.classes, plane = (tile /= r.classes) % g.planes * g.plane_step + g.plane_first, sample = tile / g.planes;
  const int64_t out = winograd_out(g.taps), y = row * (g.flat ? 1 : out) * r.step + row_class - r.first, x = column * out * c.step + column_class - c.first;
  // Positions before `end`, of those that begin at `from`.
  const auto before = [&](int64_t from, int64_t end, int64_t step, int64_t most) {
    const int64_t count = end <= from ? 0 : (end - from + step - 1) / step;
    return count < most ? count : most;
  };
  const bool there = plane >= 0 && plane < g.depth;
  const int64_t height = g.flat ? 1 : size;
  return {((sample * g.depth + plane) * g.positions + y * r.pitch + x * c.pitch) * g.channels, before(y, 0, r.step, height),
          there ? before(y, r.size, r.step, height) : 0, before(x, 0, c.step, size), before(x, c.size, c.step, size)};
}

template <class Axis, bool kFlat>
void tiles_of(const WinogradGrid& g, const float* x, int64_t t0, int64_t t1, const WinogradTiles& to) {
  constexpr int kFrom = Axis::kFrom;
  const int64_t row = g.rows.step * g.rows.pitch * g.channels, column = g.columns.step * g.columns.pitch * g.channels;
  for (int64_t t = t0; t < t1; ++t) {
    const Place p = place_of(g, t, kFrom);
    const bool inside = p.r0 == 0 && p.r1 == (kFlat ? 1 : kFrom) && p.c0 == 0 && p.c1 == kFrom;
    for (int64_t c = 0; c < g.channels; c += kLanes) {
      const float* from = x + p.at + c;
      float* out = to.data + t * to.row + c;
      const auto write = [&](int i, int j, Floats v) { store(out + (i * Axis::kTo + j) * to.plane, v); };
      if (inside)
        transform<Axis, kFlat>([&](int i, int j) { return load(from + i * row + j * column); }, write);
      else
        transform<Axis, kFlat>([&](int i, int j) { return i >= p.r0 && i < p.r1 && j >= p.c0 && j < p.c1 ? load(from + i * row + j * column) : Floats{}; }, write);
    }
  }
}

template <class Axis, bool kFlat>
bool outputs(const WinogradGrid& g, const WinogradTiles& from, int64_t t0, int64_t t1, int64_t c0, int64_t c1, const float* bias, float* y) {
  Floats seen{};
  const int64_t row = g.rows.step * g.rows.pitch * g.channels, column = g.columns.step * g.columns.pitch * g.channels;
  for (int64_t t = t0; t < t1; ++t) {
    const Place p = place_of(g, t, Axis::kTo);
    for (int64_t c = c0; c < c1; c += kLanes) {
      const Floats add = bias ? load(bias + c) : Floats{};
      const float* in = from.data + t * from.row + c;
      float* to = y + p.at + c;
      transform<Axis, kFlat>([&](int i, int j) { return load(in + (i * Axis::kFrom + j) * from.plane); },
                       [&](int i, int j, Floats v) {
                                   v += add;
                                   if (i >= p.r1 || j >= p.c1) return;
                                   seen += v * 0.f;
                                   store(to + i * row + j * column, v);
                                 });
    }
  }
  return is_zero(seen);
}

template <int Points, int N, bool kFlat>
void weights(const WinogradWindow& window, const float* w, int64_t n_step, int64_t r_step, int64_t columns, int64_t width, int64_t rows, float* u, int64_t plane) {
  constexpr int kTaps = kFlat ? N : N * N;
  float taps[kTaps][kLanes];
  for (int64_t r = 0; r < rows; ++r, u += width)
    for (int64_t n0 = 0; n0 < width; n0 += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        const float* from = w + (n0 + l) * n_step + r * r_step;
        for (int k = 0; k < kTaps; ++k) taps[k][l] = n0 + l < columns && window.at[k] >= 0 ? from[window.at[k]] : 0.f;
      }
      transform<Values<Points, N, true>, kFlat>([&](int i, int j) { return load(taps[i * N + j]); },
                                          [&](int i, int j, Floats v) { store(u + (i * Points + j) * plane + n0, v); });
    }
}

template <int Points, int N, bool kFlat>
bool gradients(const WinogradWindow& window, const WinogradTiles& s, int64_t c0, int64_t c1, int64_t columns, float* dw, int64_t n_step, int64_t c_step) {
  Floats seen{};
  constexpr int kTaps = kFlat ? N : N * N;
  float taps[kTaps][kLanes];
  for (int64_t c = c0; c < c1; ++c) {
    const float* row = s.data + c * s.row;
    for (int64_t n0 = 0; n0 < columns; n0 += kLanes) {
      transform<Sums<Points, N, true>, kFlat>([&](int i, int j) { return load(row + (i * Points + j) * s.plane + n0); },
                                        [&](int i, int j, Floats v) {
                                  seen += v * 0.f;
                                  store(taps[i * N + j], v);
                                });
      for (int64_t l = 0; l < kLanes; ++l) {
        float* to = dw + (n0 + l) * n_step + c * c_step;
        for (int k = 0; k < kTaps; ++k)
          if (window.at[k] >= 0) to[window.at[k]] = taps[k][l];
      }
    }
  }
  return is_zero(seen);
}

// f(points, taps, flat), which are constants: for each kind of windows.
template <class F>
auto for_windows(int64_t taps, bool flat, const F& f) {
  const auto with = [&](auto is_flat) {
    switch (taps) {
      case 2: return f(Constant<5>(), Constant<2>(), is_flat);
      case 3: return f(Constant<6>(), Constant<3>(), is_flat);
      default: return f(Constant<6>(), Constant<5>(), is_flat);
    }
  };
  return flat ? with(Constant<1>()) : with(Constant<0>());
}

}  // namespace

void winograd_input_f32(const WinogradGrid& g, const float* x, int64_t t0, int64_t t1, const WinogradTiles& to) {
  if (g.taps == 2) g.flat ? tiles_of<FiveInputs, true>(g, x, t0, t1, to) : tiles_of<FiveInputs, false>(g, x, t0, t1, to);
  else g.flat ? tiles_of<SixInputs, true>(g, x, t0, t1, to) : tiles_of<SixInputs, false>(g, x, t0, t1, to);
}

void winograd_spread_f32(const WinogradGrid& g, const float* dy, int64_t t0, int64_t t1, const WinogradTiles& to) {
  for_windows(g.taps, g.flat, [&](auto points, auto taps, auto flat) { tiles_of<Values<points, points + 1 - taps, false>, flat>(g, dy, t0, t1, to); });
}

bool winograd_output_f32(const WinogradGrid& g, const WinogradTiles& from, int64_t t0, int64_t t1, int64_t c0, int64_t c1, const float* bias, float* y) {
  return for_windows(g.taps, g.flat, [&](auto points, auto taps, auto flat) {
    return outputs<Sums<points, points + 1 - taps, false>, flat>(g, from, t0, t1, c0, c1, bias, y);
  });
}

void winograd_weight_f32(const WinogradWindow& window, const float* w, int64_t n_step, int64_t r_step, int64_t columns, int64_t width, int64_t rows, float* u,
                         int64_t plane) {
  for_windows(window.taps, window.flat, [&](auto points, auto taps, auto flat) {
    weights<points, taps, flat>(window, w, n_step, r_step, columns, width, rows, u, plane);
  });
}

bool winograd_gradient_f32(const WinogradWindow& window, const WinogradTiles& s, int64_t c0, int64_t c1, int64_t columns, float* dw, int64_t n_step,
                           int64_t c_step) {
  return for_windows(window.taps, window.flat, [&](auto points, auto taps, auto flat) {
    return gradients<points, taps, flat>(window, s, c0, c1, columns, dw, n_step, c_step);
  });
}

}  // namespace fl::kernels::FL_ISA
