#include "ops/conv/winograd_plan.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ops/conv/winograd.h"

namespace fl::conv {
namespace winograd {
namespace {

using kernels::WinogradAxis;
using kernels::WinogradGrid;
using kernels::WinogradWindow;

// What takes as long, as products of tiles: a pass over a weight that is kept transformed, and one over a weight that is to be transformed, as so many
// tiles; the transforms of a channel as so many others. And what a product takes of oneDNN's time for as many multiplications.
struct Cost {
  int64_t kept, made;
  double transform, transform_back, product, least_gain;
};
constexpr Cost kCost = {8, 8, 14, 10, 1, 1.1};         // one core of a Zen 1
constexpr Cost kCostV4 = {8, 16, 21, 15, 1.25, 1.18};  // of a Xeon with AVX-512 and 2 MiB of second-level cache
const Cost& cost() { return isa() == Isa::V4 ? kCostV4 : kCost; }

std::atomic<Winograd> current_mode{[] {
  const char* s = std::getenv("FLAMBEAU_WINOGRAD");
  return s && std::strcmp(s, "0") == 0 ? Winograd::Never : Winograd::WherePaid;
}()};

int64_t pitch(const int64_t (&sizes)[3], int axis) { return axis == 1 ? sizes[2] : 1; }

// A window along one axis: its first tap, and where it is held to the input.
struct Cut {
  int64_t tap;
  WinogradAxis in;
};

// The window of every `stride`th tap from the given ones on; turned round from the last such one.
WinogradWindow window_of(const Geometry& g, int64_t depth, const Cut& row, const Cut& column, bool turned) {
  WinogradWindow w{g.side, g.flat, {}};
  const int64_t rows = g.side_of(g.rows), columns = g.side;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      int64_t at[3] = {depth, 0, 0};
      at[g.rows] = row.tap + g.stride[g.rows] * (turned ? rows - 1 - i : i);
      at[g.columns] = column.tap + g.stride[g.columns] * (turned ? columns - 1 - j : j);
      const bool there = at[1] < g.taps[1] && at[2] < g.taps[2];
      w.at[i * columns + j] = there ? static_cast<int32_t>((at[0] * g.taps[1] + at[1]) * g.taps[2] + at[2]) : -1;
    }
  return w;
}

// How many results of an axis a tap of each part reaches an input with, over all taps.
int64_t reached(int64_t taps, int64_t stride, int64_t padding, int64_t dilation, int64_t inputs, int64_t results) {
  int64_t count = 0;
  for (int64_t k = 0; k < taps; ++k) {  // of 0 <= o * stride - padding + k * dilation < inputs
    const int64_t shift = k * dilation - padding;
    const int64_t first = std::max<int64_t>(0, ceil_div(-shift, stride)), last = std::min(results - 1, floor_div(inputs - 1 - shift, stride));
    count += std::max<int64_t>(0, last - first + 1);
  }
  return count;
}
int64_t multiplications(const Geometry& g) {
  int64_t count = g.n;
  for (int d = 0; d < 3; ++d) count *= reached(g.taps[d], g.stride[d], g.padding[d], g.dilation[d], g.x[d], g.y[d]);
  return count;
}

Plan plan_of(const Geometry& g, std::vector<Part> parts, const WinogradGrid& out, int64_t quarters, bool turned, bool keeps) {
  Plan p{std::move(parts), out, g.n * out.planes * out.rows.classes * out.columns.classes * out.rows.tiles * out.columns.tiles, 0, turned};
  const Cost& c = cost();
  const auto made = static_cast<double>((p.tiles + (keeps ? c.kept : c.made)) * p.products() * static_cast<int64_t>(p.parts.size()));
  const double transforms = c.transform / static_cast<double>(p.columns()) + c.transform_back / static_cast<double>(p.rows());
  p.gain = static_cast<double>(multiplications(g)) / (static_cast<double>(quarters) * made * c.product * (1 + transforms));
  return p;
}

WinogradGrid grid_of(const Geometry& g, const WinogradAxis& rows, const WinogradAxis& columns, const int64_t (&sizes)[3], int64_t channels) {
  WinogradGrid t{};
  t.taps = g.side, t.flat = g.flat;
  t.rows = rows, t.columns = columns;
  t.plane_step = 1;
  t.depth = sizes[0], t.positions = sizes[1] * sizes[2], t.channels = channels;
  return t;
}

// The results of an axis that are `stride` apart, from `a` on, and what they see of dy: result a + stride * i sees i + (a + padding - tap) / stride - u
// through tap + stride * u.
struct Share {
  WinogradAxis out;
  std::vector<Cut> cuts;
};
std::vector<Share> shares_of(const Geometry& g, int axis) {
  const int64_t d = g.dilation[axis], s = g.stride[axis], side = g.side_of(axis);
  std::vector<Share> shares;
  for (int64_t a = 0; a < std::min(s, g.x[axis]); ++a) {
    Share share{{g.tiles(axis, ceil_div(g.x[axis] - a, s)), d, d * s, -a, g.x[axis], pitch(g.x, axis)}, {}};
    const int64_t first = (a + g.padding[axis]) % s, shift = (a + g.padding[axis] - first) / s;
    for (int64_t i = 0; i < g.windows(side, axis); ++i)
      if (const int64_t tap = first + i * s * side; tap < g.taps[axis])
        share.cuts.push_back({tap, {share.out.tiles, d, d, d * (i * side + side - 1) - shift, g.y[axis], pitch(g.y, axis)}});
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace

Geometry::Geometry(const onednn::ConvShape& s) : n(s.x[0]), in(s.x[1]), outputs(s.y[1]) {
  const int missing = 5 - s.x.size();
  for (int d = 0; d < 3; ++d) {
    const int at = d - missing;
    const bool there = at >= 0;
    x[d] = there ? s.x[at + 2] : 1, y[d] = there ? s.y[at + 2] : 1, taps[d] = there ? s.w[at + 2] : 1;
    stride[d] = there ? s.stride[at] : 1, padding[d] = there ? s.padding[at] : 0, dilation[d] = there && taps[d] > 1 ? s.dilation[at] : 1;
  }
  flat = taps[1] == 1 || taps[2] == 1;
  columns = taps[2] == 1 ? 1 : 2, rows = 3 - columns;
  double least = 1e300;
  side = 5;
  for (const int64_t candidate : {5, 3, 2}) {
    const auto in_size = static_cast<double>(kernels::winograd_in(candidate)), out_size = static_cast<double>(kernels::winograd_out(candidate));
    double cost = static_cast<double>(windows(candidate, columns)) * in_size / out_size;
    if (!flat) cost *= static_cast<double>(windows(candidate, rows)) * in_size / out_size;
    if (cost < least) least = cost, side = candidate;
  }
}

std::optional<Geometry> geometry_of(const onednn::ConvShape& s, DType type) {
  if (winograd_mode() == Winograd::Never || type != DType::Float32 || s.groups != 1) return {};
  const Geometry g(s);
  for (const int axis : {g.rows, g.columns}) {
    if (!g.is_cut(axis)) continue;
    if (g.over(axis) < 2 || g.stride[axis] > 2 || (g.stride[axis] == 2 && g.dilation[axis] != 1)) return {};
    if (g.dilation[axis] > g.y[axis]) return {};  // images of no position
  }
  // A vector of channels each, and two at least: columns of a product come in pairs.
  const int64_t columns = gemm_cols<float>();
  if (g.in % (columns / 2) || g.outputs % (columns / 2) || g.in < columns || g.outputs < columns) return {};
  return g;
}

bool pays(const Plan& p) { return p.gain >= cost().least_gain || winograd_mode() == Winograd::Always; }

Plan forward_plan(const Geometry& g, bool keeps) {
  WinogradAxis axes[3] = {};
  std::vector<Cut> cuts[3];
  for (const int axis : {1, 2}) {
    const int64_t d = g.dilation[axis], s = g.stride[axis], side = g.side_of(axis);
    axes[axis] = {g.tiles(axis, g.y[axis]), d, d, 0, g.y[axis], pitch(g.y, axis)};
    for (int64_t i = 0; i < s * g.windows(side, axis); ++i) {
      const int64_t tap = i % s + i / s * s * side;
      if (tap < g.taps[axis]) cuts[axis].push_back({tap, {axes[axis].tiles, d, d * s, g.padding[axis] - d * tap, g.x[axis], pitch(g.x, axis)}});
    }
  }
  WinogradGrid out = grid_of(g, axes[g.rows], axes[g.columns], g.y, g.outputs);
  out.planes = g.y[0];
  std::vector<Part> parts;
  for (int64_t k = 0; k < g.taps[0]; ++k)
    for (const Cut& row : cuts[g.rows])
      for (const Cut& column : cuts[g.columns]) {
        WinogradGrid in = grid_of(g, row.in, column.in, g.x, g.in);
        in.planes = g.y[0], in.plane_step = g.stride[0], in.plane_first = k * g.dilation[0] - g.padding[0];
        parts.push_back({in, window_of(g, k, row, column, false)});
      }
  return plan_of(g, std::move(parts), out, 1, false, keeps);
}

std::vector<Plan> backward_plans(const Geometry& g, bool keeps) {
  const std::vector<Share> rows = shares_of(g, g.rows), columns = shares_of(g, g.columns);
  std::vector<Plan> plans;
  for (const Share& row : rows)
    for (const Share& column : columns) {
      WinogradGrid out = grid_of(g, row.out, column.out, g.x, g.in);
      out.planes = g.x[0];
      std::vector<Part> parts;
      for (int64_t k = 0; k < g.taps[0]; ++k)
        for (const Cut& r : row.cuts)
          for (const Cut& c : column.cuts) {
            WinogradGrid in = grid_of(g, r.in, c.in, g.y, g.outputs);
            in.planes = g.x[0], in.plane_first = g.padding[0] - k * g.dilation[0];
            parts.push_back({in, window_of(g, k, r, c, true)});
          }
      if (parts.empty()) return {};  // nothing reaches these results
      plans.push_back(plan_of(g, std::move(parts), out, static_cast<int64_t>(rows.size() * columns.size()), true, keeps));
    }
  return plans;
}

}  // namespace winograd

Winograd winograd_mode() { return winograd::current_mode.load(std::memory_order_relaxed); }
void set_winograd_mode(Winograd m) { winograd::current_mode.store(m, std::memory_order_relaxed); }

}  // namespace fl::conv
