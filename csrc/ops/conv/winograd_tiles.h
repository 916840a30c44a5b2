// Transforms of tiles of images, whose channels are the last axis: Note [Winograd] in winograd.cpp.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl::kernels {

constexpr int64_t kWinogradLanes = 16;  // room behind a row of channels
// Inputs and results of a tile's side, for windows of 2, 3 and 5 taps.
constexpr int64_t winograd_in(int64_t taps) { return taps == 2 ? 5 : 6; }
constexpr int64_t winograd_out(int64_t taps) { return winograd_in(taps) + 1 - taps; }

// Along one axis of an image: tile i of a class begins at position i * out * step + class - first.
struct WinogradAxis {
  int64_t tiles, classes;
  int64_t step;         // from one position of a tile to the next: a dilation, or a stride
  int64_t first;
  int64_t size, pitch;  // of an image: positions, and how far apart these are
};
// Where tiles lie. Tile t is (sample, plane, class of rows, class of columns, row of tiles, column of tiles).
struct WinogradGrid {
  int64_t taps;  // of a window's side: 2, 3 or 5
  bool flat;     // windows of one row: `out` is 1 along rows
  WinogradAxis rows, columns;
  int64_t planes, plane_step, plane_first;  // plane i of tiles is plane i * plane_step + plane_first of a sample
  int64_t depth, positions, channels;       // of a sample: planes, and positions of each
};

// Where transformed tiles lie: element (product p, tile t, channel c) at data + p * plane + t * row + c.
struct WinogradTiles {
  float* data;
  int64_t plane, row;
};

// A window's taps: offsets from its first one, or -1 for zero.
struct WinogradWindow {
  int64_t taps;
  bool flat;
  int32_t at[25];
  int64_t count() const { return flat ? taps : taps * taps; }
};

}  // namespace fl::kernels

// B' d B of each tile [t0, t1) of x.
FL_SIMD_KERNEL(void, winograd_input_f32, const WinogradGrid& g, const float* x, int64_t t0, int64_t t1, const WinogradTiles& to)
// A d A' of each tile of results.
FL_SIMD_KERNEL(void, winograd_spread_f32, const WinogradGrid& g, const float* dy, int64_t t0, int64_t t1, const WinogradTiles& to)
// y = A' m A + bias for channels [c0, c1) of each tile of results. False where one is not finite.
FL_SIMD_KERNEL(bool, winograd_output_f32, const WinogradGrid& g, const WinogradTiles& from, int64_t t0, int64_t t1, int64_t c0, int64_t c1, const float* bias,
               float* y)
// G w G' of windows, which begin at w + n * n_step + r * r_step for n < columns, r < rows: (product p, n, r) goes to u + p * plane + r * width + n, zeros
// from `columns` to `width`.
FL_SIMD_KERNEL(void, winograd_weight_f32, const WinogradWindow& window, const float* w, int64_t n_step, int64_t r_step, int64_t columns, int64_t width,
               int64_t rows, float* u, int64_t plane)
// The window at dw + n * n_step + c * c_step = G' s G for c0 <= c < c1, n < columns, where (product p, c, n) of s lies at s.data + p * s.plane + c * s.row + n.
// False where a result is not finite.
FL_SIMD_KERNEL(bool, winograd_gradient_f32, const WinogradWindow& window, const WinogradTiles& s, int64_t c0, int64_t c1, int64_t columns, float* dw,
               int64_t n_step, int64_t c_step)
