// Which tiles a convolution is made of: Note [Winograd] in winograd.cpp.
#pragma once

#include <optional>
#include <vector>

#include "backend/onednn/onednn.h"
#include "ops/conv/shifted.h"
#include "ops/conv/winograd_tiles.h"

namespace fl::conv::winograd {

// The tiles of inputs that are multiplied by one window. Parts are added up.
struct Part {
  kernels::WinogradGrid grid;
  kernels::WinogradWindow window;
};
// A convolution of some inputs to some results (for gradients, these are dy and dx).
struct Plan {
  std::vector<Part> parts;
  kernels::WinogradGrid out;
  int64_t tiles;
  double gain;  // multiplications as written, for each that takes as long here
  bool turned;  // the weight's outputs are its rows

  int64_t products() const { return kernels::winograd_in(out.taps) * (out.flat ? 1 : kernels::winograd_in(out.taps)); }
  int64_t bytes_of(int64_t count, int64_t width) const { return products() * count * width * static_cast<int64_t>(sizeof(float)); }
  int64_t channels() const { return parts[0].grid.channels; }
  int64_t rows() const { return static_cast<int64_t>(parts.size()) * channels(); }
  int64_t columns() const { return out.channels; }
};

// Three spatial axes; two are planes of depth 1, and one is a plane of one row.
struct Geometry {
  int64_t n, in, outputs;  // channels
  int64_t x[3], y[3], taps[3], stride[3], padding[3], dilation[3];
  bool flat;          // windows of one row, or one column
  int rows, columns;  // the axes of tiles; tiles of flat windows go along columns
  int64_t side;       // of the windows that take the fewest multiplications; several may make one

  explicit Geometry(const onednn::ConvShape& s);
  int64_t window() const { return taps[0] * taps[1] * taps[2]; }
  int64_t over(int axis) const { return ceil_div(taps[axis], stride[axis]); }  // taps over every `stride`th position
  int64_t windows(int64_t of_side, int axis) const { return ceil_div(over(axis), of_side); }
  bool is_cut(int axis) const { return !flat || axis == columns; }
  int64_t side_of(int axis) const { return is_cut(axis) ? side : 1; }
  int64_t tiles(int axis, int64_t results) const { return ceil_div(ceil_div(results, dilation[axis]), is_cut(axis) ? kernels::winograd_out(side) : 1); }
};

// None where there are no tiles for it.
std::optional<Geometry> geometry_of(const onednn::ConvShape& s, DType type);
// Whether tiles take less time.
bool pays(const Plan& p);

// `keeps`: whether the transformed weight may be there already.
Plan forward_plan(const Geometry& g, bool keeps);
// Of the input's gradient: one for each quarter of dx where strides are 2. None where some results are reached by nothing.
std::vector<Plan> backward_plans(const Geometry& g, bool keeps);

}  // namespace fl::conv::winograd
