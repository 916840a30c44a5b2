// Note [Winograd]
// A 3 x 3 convolution makes 4 x 4 results of 6 x 6 inputs by 144 multiplications. A polynomial of degree 5 is known by its values at six points, and the
// values of a product are products of values: over two axes 36 multiplications do (A. Lavin, S. Gray: Fast algorithms for convolutional neural networks,
// 2015):
//
//     y = A' [(G w G') * (B' d B)] A         the sum over input channels of each of the 36 is a product of matrices [tiles, channels] [channels, outputs]
//
// The gradient of the input is the same of dy with the window turned round. The gradient of the weight is G' [sum over tiles of (A dy A') * (B' d B)] G.
// Such tiles serve windows of 5 as well, with 2 x 2 results; for windows of 2 there are tiles of 5 x 5 inputs and 4 x 4 results (64 multiplications, 25).
// What else there is comes down to them:
//
//     other windows  are several of these, whose channels are added up together
//     dilation       every second row and column is an image by itself
//     stride 2       the four quarters of the taps are windows of half the size over every second row and column: four parts, whose channels are added up
//                    together. The gradient of the input has four quarters of results, which are convolutions of their own
//     three axes     each tap of the first one is a part
//     one axis       tiles of 6 inputs: 12 multiplications, 6
//
// The points 0, 3/4, -3/4, 3/2, -3/2, infinity are exact in float32 and lose less than the usual 1 and 2: of 256 channels the greatest error is 2.5 times
// that of adding up as written, and 10 times with those.
//
// A value that is not finite would spread over its tile as NaN. Results are looked at, and such a convolution is done again as written.
// Sums are cut by the shape alone: results do not depend on the number of threads.
#include "ops/conv/winograd.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ops/conv/shifted.h"
#include "ops/conv/winograd_tiles.h"
#include "storage/prepared.h"

namespace fl::conv {
namespace {

using kernels::WinogradAxis;
using kernels::WinogradGrid;
using kernels::WinogradTiles;
using kernels::WinogradWindow;
constexpr int64_t kLanes = kernels::kWinogradLanes;
constexpr int64_t kThreadBytes = int64_t{384} << 10;  // of transformed tiles that a thread works on: they stay in the second-level cache,
constexpr int64_t kThreadTiles = 48;                  // but at least so many for each pass over the transformed weight
constexpr int64_t kColumns = 64;                      // of products at once
constexpr int64_t kSharedBytes = int64_t{8} << 20;    // of the tiles of all images, where a pass over them for each panel of the weight is cheaper
constexpr int64_t kSumBytes = int64_t{2} << 20, kSumTiles = 96;  // of tiles that are added up together, for the gradient of the weight
constexpr int64_t kSumChannels = 64, kFewTiles = 64;             // the side of the sums that a thread makes from all tiles where there are so few
// What takes as long: a pass over the transformed weight, and making it, as products of so many tiles; transforms of a channel as products by so many
// others (one core of a Zen 1; where vectors are longer, products gain more by them).
constexpr int64_t kWeightTiles = 8;
constexpr double kTransform = 14, kTransformBack = 10, kLeastGain = 1.1;

std::atomic<Winograd> mode{[] {
  const char* s = std::getenv("FLAMBEAU_WINOGRAD");
  return s && std::strcmp(s, "0") == 0 ? Winograd::Never : Winograd::WherePaid;
}()};

// Rows of transformed tiles, and these for each product, an odd number of lines apart: not in the same sets of a cache.
struct Tiles {
  int64_t products, row, plane;
  Tiles(int64_t n, int64_t count, int64_t channels) : products(n), row(channels + kLanes), plane(ceil_div(count, 2) * 2 * row + kLanes) {}
  int64_t size() const { return products * plane; }
  WinogradTiles at(float* data) const { return {data, plane, row}; }
  WinogradTiles from(float* data, int64_t first) const { return {data - first * row, plane, row}; }  // as if tile `first` were the first
};

// Note [Winograd]: the tiles of inputs that are multiplied by one window. Parts are added up.
struct Part {
  WinogradGrid grid;
  WinogradWindow window;
};
// A convolution of some inputs to some results (for gradients, these are dy and dx).
struct Plan {
  std::vector<Part> parts;
  WinogradGrid out;
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

  explicit Geometry(const onednn::ConvShape& s) : n(s.x[0]), in(s.x[1]), outputs(s.y[1]) {
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
  int64_t window() const { return taps[0] * taps[1] * taps[2]; }
  int64_t over(int axis) const { return ceil_div(taps[axis], stride[axis]); }  // taps over every `stride`th position
  int64_t windows(int64_t of_side, int axis) const { return ceil_div(over(axis), of_side); }
  bool is_cut(int axis) const { return !flat || axis == columns; }
  int64_t side_of(int axis) const { return is_cut(axis) ? side : 1; }
  int64_t tiles(int axis, int64_t results) const { return ceil_div(ceil_div(results, dilation[axis]), is_cut(axis) ? kernels::winograd_out(side) : 1); }
};
int64_t pitch(const int64_t (&sizes)[3], int axis) { return axis == 1 ? sizes[2] : 1; }

bool may_be(const onednn::ConvShape& s, DType type) {
  if (winograd_mode() == Winograd::Never || type != DType::Float32 || s.groups != 1) return false;
  const Geometry g(s);
  for (const int axis : {g.rows, g.columns}) {
    if (!g.is_cut(axis)) continue;
    if (g.over(axis) < 2 || g.stride[axis] > 2 || (g.stride[axis] == 2 && g.dilation[axis] != 1)) return false;
    if (g.dilation[axis] > g.y[axis]) return false;  // images of no position
  }
  // A vector of channels each, and two at least: columns of a product come in pairs.
  const int64_t columns = gemm_cols<float>();
  return g.in % (columns / 2) == 0 && g.outputs % (columns / 2) == 0 && g.in >= columns && g.outputs >= columns;
}

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

Plan plan_of(const Geometry& g, std::vector<Part> parts, const WinogradGrid& out, int64_t quarters, bool turned) {
  Plan p{std::move(parts), out, g.n * out.planes * out.rows.classes * out.columns.classes * out.rows.tiles * out.columns.tiles, 0, turned};
  const auto made = static_cast<double>((p.tiles + kWeightTiles) * p.products() * static_cast<int64_t>(p.parts.size()));
  const double transforms = kTransform / static_cast<double>(p.columns()) + kTransformBack / static_cast<double>(p.rows());
  p.gain = static_cast<double>(multiplications(g)) / (static_cast<double>(quarters) * made * (1 + (isa() == Isa::V4 ? 2 : 1) * transforms));
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

Plan forward_plan(const Geometry& g) {
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
  return plan_of(g, std::move(parts), out, 1, false);
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

// One for each quarter of dx where strides are 2.
std::vector<Plan> backward_plans(const Geometry& g) {
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
      plans.push_back(plan_of(g, std::move(parts), out, static_cast<int64_t>(rows.size() * columns.size()), true));
    }
  return plans;
}

// The windows of a plan's parts, transformed, in panels of columns: (product p, row r, column n) at p * plane + n / width * rows * width + r * width +
// n % width.
struct Weight {
  const Tensor& weight;  // [output, input, tap]
  const Plan& plan;
  const Geometry& g;
  const int64_t window = g.window();
  const int64_t rows = plan.rows(), columns = plan.columns(), width = gemm_cols<float>(), panels = ceil_div(columns, width);

  int64_t panel_size() const { return rows * width; }
  // A panel's rows [r0, r1), which are of one part, for a buffer whose products are `plane` apart.
  void transform(int64_t panel, int64_t r0, int64_t r1, float* u, int64_t plane) const {
    const int64_t channels = plan.channels(), part = r0 / channels, n = panel * width;
    const int64_t n_step = plan.turned ? window : channels * window, r_step = plan.turned ? columns * window : window;
    kernels::winograd_weight_f32(plan.parts[static_cast<size_t>(part)].window, weight.data<float>() + n * n_step + (r0 - part * channels) * r_step, n_step,
                                 r_step, std::min(width, columns - n), width, r1 - r0, u + r0 * width, plane);
  }
  void transform(int64_t panel, float* u, int64_t plane) const {
    for (int64_t r = 0; r < rows; r += plan.channels()) transform(panel, r, r + plan.channels(), u, plane);
  }
  int64_t plane() const { return panels * panel_size() + kLanes; }
  Ref<Storage> transformed() const {
    Ref<Storage> bytes = Storage::allocate_now(static_cast<size_t>(plan.products() * plane()) * sizeof(float), weight.device());
    auto* const u = static_cast<float*>(bytes->data());
    constexpr int64_t kRows = 16;
    const int64_t channels = plan.channels(), pieces = ceil_div(channels, kRows), parts = rows / channels;
    parallel_work(panels * parts * pieces, kRows * width * 40, 32768, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t panel = i / pieces / parts, first = i / pieces % parts * channels, r = i % pieces * kRows;
        transform(panel, first + r, first + std::min(channels, r + kRows), u + panel * panel_size(), plane());
      }
    });
    return bytes;
  }
  // What is kept of a weight that is used again; else null.
  Ref<Storage> kept() const {
    // Sizes belong to it, since a tensor of other sizes may begin at the same address. The first window says which quarter it is.
    const WinogradWindow& first = plan.parts[0].window;
    std::string form = "winograd";
    for (const int64_t v : {int64_t{plan.turned}, rows, columns, width, g.taps[0], g.taps[1], g.taps[2], g.stride[1], g.stride[2], g.side, int64_t{g.columns},
                            int64_t{first.at[0]}, int64_t{first.at[first.count() - 1]}})
      form += ' ' + std::to_string(v);
    return prepared(weight.storage(), weight.data<float>(), form, [&] { return transformed(); });
  }
};

// All parts' tiles [t0, t1), side by side in a row; the first is tile `first` of `v`.
void transform_input(const Plan& plan, const float* x, int64_t t0, int64_t t1, WinogradTiles v) {
  for (const Part& part : plan.parts) {
    kernels::winograd_input_f32(part.grid, x, t0, t1, v);
    v.data += plan.channels();
  }
}

// m = v u of one product: `count` tiles, columns [0, n) in panels.
void multiply(const Weight& w, const Tiles& v_at, const float* v, const float* u, const Tiles& m_at, float* m, int64_t count, int64_t n) {
  GemmTile<float> t{};
  t.m = count, t.n = n;
  t.a_row = v_at.row, t.a_panel = gemm_rows<float>() * v_at.row, t.a_step = 1;
  t.b_panel = w.panel_size(), t.b_step = w.width;
  t.c = m, t.ldc = m_at.row;
  t.alpha = 1;
  for (int64_t r = 0; r < w.rows; r += kBlockK) {
    t.k = std::min(kBlockK, w.rows - r);
    t.a = v + r;
    t.b = u + r * w.width;
    gemm_tile(t);
    t.beta = 1;
  }
}

struct Convolve {
  const Plan& plan;
  const Weight& weight;
  const float *x, *bias;
  float* y;
  std::atomic<bool> finite{true};

  void write(const WinogradTiles& m, int64_t t0, int64_t t1, int64_t c0, int64_t c1) {
    if (!kernels::winograd_output_f32(plan.out, m, t0, t1, c0, c1, bias, y)) finite.store(false, std::memory_order_relaxed);
  }

  // Each thread takes tiles, and goes through the weight once for some of them.
  void by_tiles(const float* u) {
    const int64_t total = plan.tiles, in = plan.rows(), out = plan.columns(), threads = num_threads(), rows = gemm_rows<float>();
    const int64_t together = std::min(ceil_div(out, weight.width) * weight.width, kColumns);
    const int64_t most = std::max(kThreadBytes / plan.bytes_of(1, in + together) / rows * rows, kThreadTiles);
    const int64_t blocks = ceil_div(ceil_div(total, most), threads) * threads, block = ceil_div(total, blocks);
    parallel_for(0, ceil_div(total, block), 1, [&](int64_t b0, int64_t b1) {
      const Tiles v_at(plan.products(), block, in), m_at(plan.products(), block, together);
      const Buffer<float> v(v_at.size()), m(m_at.size());
      for (int64_t b = b0; b < b1; ++b) {
        const int64_t t0 = b * block, t1 = std::min(total, t0 + block);
        transform_input(plan, x, t0, t1, v_at.from(v.data(), t0));
        for (int64_t c0 = 0; c0 < out; c0 += together) {
          const int64_t c1 = std::min(out, c0 + together);
          const float* const from = u + c0 / weight.width * weight.panel_size();
          for (int64_t p = 0; p < plan.products(); ++p)
            multiply(weight, v_at, v.data() + p * v_at.plane, from + p * weight.plane(), m_at, m.data() + p * m_at.plane, t1 - t0, c1 - c0);
          WinogradTiles results = m_at.from(m.data(), t0);
          results.data -= c0;
          write(results, t0, t1, c0, c1);
        }
      }
    });
  }

  // Each thread takes panels of the weight, for all tiles. `u` may be null: then a panel is transformed where it is used.
  void by_panels(const float* u) {
    const int64_t total = plan.tiles;
    const int64_t products = plan.products();
    const Tiles v_at(products, total, plan.rows()), m_at(products, total, weight.width);
    const Buffer<float> v(v_at.size());
    parallel_work(total, products * plan.rows(), 32768, [&](int64_t t0, int64_t t1) { transform_input(plan, x, t0, t1, v_at.at(v.data())); });
    parallel_for(0, weight.panels, 1, [&](int64_t p0, int64_t p1) {
      const int64_t plane = u ? weight.plane() : weight.panel_size() + kLanes;
      const Buffer<float> m(m_at.size()), own(u ? 0 : products * plane);
      for (int64_t panel = p0; panel < p1; ++panel) {
        if (!u) weight.transform(panel, own.data(), plane);
        const float* const from = u ? u + panel * weight.panel_size() : own.data();
        const int64_t c0 = panel * weight.width, c1 = std::min(plan.columns(), c0 + weight.width);
        for (int64_t p = 0; p < products; ++p) multiply(weight, v_at, v.data() + p * v_at.plane, from + p * plane, m_at, m.data() + p * m_at.plane, total, c1 - c0);
        WinogradTiles results = m_at.at(m.data());
        results.data -= c0;
        write(results, 0, total, c0, c1);
      }
    });
  }

  bool run(bool keep) {
    const Ref<Storage> kept = keep ? weight.kept() : Ref<Storage>();
    if (plan.tiles < plan.columns() && plan.bytes_of(plan.tiles, plan.rows()) <= kSharedBytes) {
      by_panels(kept ? static_cast<const float*>(kept->data()) : nullptr);
    } else {
      const Ref<Storage> u = kept ? kept : weight.transformed();
      by_tiles(static_cast<const float*>(u->data()));
    }
    return finite.load(std::memory_order_relaxed);
  }
};

bool pays(const Plan& p) { return p.gain >= kLeastGain || winograd_mode() == Winograd::Always; }

bool convolve(const Plan& plan, const Geometry& g, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y, bool keep) {
  const Weight weight{w, plan, g};
  Convolve c{plan, weight, static_cast<const float*>(x.data()), bias.defined() ? bias.data<float>() : nullptr, static_cast<float*>(y.data())};
  return c.run(keep);
}

}  // namespace

Winograd winograd_mode() { return mode.load(std::memory_order_relaxed); }
void set_winograd_mode(Winograd m) { mode.store(m, std::memory_order_relaxed); }

bool winograd_forward(const onednn::ConvShape& s, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y) {
  if (!may_be(s, w.dtype())) return false;
  const Geometry g(s);
  const Plan plan = forward_plan(g);
  return pays(plan) && convolve(plan, g, x, w, bias, y, true);
}

bool winograd_backward_data(const onednn::ConvShape& s, const ChannelRows& dy, const Tensor& w, const ChannelRows& dx, bool keep) {
  if (!may_be(s, w.dtype())) return false;
  const Geometry g(s);
  if (g.stride[0] != 1 || (g.flat && g.stride[g.rows] != 1)) return false;
  const std::vector<Plan> plans = backward_plans(g);
  if (plans.empty() || !std::all_of(plans.begin(), plans.end(), pays)) return false;
  return std::all_of(plans.begin(), plans.end(), [&](const Plan& plan) { return convolve(plan, g, dy, w, {}, dx, keep); });
}

bool winograd_backward_weight(const onednn::ConvShape& s, const ChannelRows& dy, const ChannelRows& x, const Tensor& dw) {
  if (!may_be(s, dw.dtype())) return false;
  const Geometry g(s);
  const Plan plan = forward_plan(g);
  if (!pays(plan)) return false;
  const int64_t in = plan.rows(), out = plan.columns(), channels = plan.channels(), total = plan.tiles, window = g.window(), products = plan.products();
  const auto *from_x = static_cast<const float*>(x.data()), *from_dy = static_cast<const float*>(dy.data());
  // Either all tiles are there at once, and each thread makes pieces of the sums one after another, or tiles come in blocks, which are added to all sums.
  const bool at_once = total <= kFewTiles && plan.bytes_of(in, out) > 2 * kSumBytes;
  const int64_t most = at_once ? total : std::max(kSumBytes / plan.bytes_of(1, in + out), kSumTiles);
  const int64_t blocks = ceil_div(total, most), block = ceil_div(total, blocks);
  const Tiles v_at(products, block, in), d_at(products, block, out);
  const Buffer<float> v(v_at.size()), d(d_at.size());
  const auto transform = [&](int64_t t0, int64_t count) {
    parallel_work(count, products * (in + out), 32768, [&](int64_t a, int64_t b) {
      transform_input(plan, from_x, t0 + a, t0 + b, v_at.from(v.data(), t0));
      kernels::winograd_spread_f32(plan.out, from_dy, t0 + a, t0 + b, d_at.from(d.data(), t0));
    });
  };
  // Product p of rows [c0, c1) and columns [n0, n1), which begin a panel: to `sum`, or added to it.
  const auto multiply = [&](int64_t count, int64_t p, int64_t c0, int64_t c1, int64_t n0, int64_t n1, float* sum, int64_t row, bool add) {
    GemmTile<float> t{};
    t.m = c1 - c0, t.n = n1 - n0;
    t.a_row = 1, t.a_panel = gemm_rows<float>(), t.a_step = v_at.row;
    t.b_panel = gemm_cols<float>(), t.b_step = d_at.row;
    t.c = sum, t.ldc = row;
    t.alpha = 1, t.beta = add ? 1 : 0;
    for (int64_t k = 0; k < count; k += kBlockK) {
      t.k = std::min(kBlockK, count - k);
      t.a = v.data() + p * v_at.plane + k * v_at.row + c0;
      t.b = d.data() + p * d_at.plane + k * d_at.row + n0;
      gemm_tile(t);
      t.beta = 1;
    }
  };
  float* const to = dw.data<float>();
  std::atomic<bool> finite{true};
  // Rows [c0, c1) of one part.
  const auto write = [&](WinogradTiles sums, int64_t c0, int64_t c1, int64_t n0, int64_t n1) {
    const int64_t part = c0 / channels, first = part * channels;
    sums.data += first * sums.row;
    if (!kernels::winograd_gradient_f32(plan.parts[static_cast<size_t>(part)].window, sums, c0 - first, c1 - first, n1 - n0, to + n0 * channels * window,
                                        channels * window, window))
      finite.store(false, std::memory_order_relaxed);
  };
  const int64_t n_pieces = ceil_div(out, kSumChannels), c_pieces = ceil_div(channels, kSumChannels), parts = in / channels;
  if (at_once) {
    transform(0, total);
    parallel_for(0, n_pieces * parts * c_pieces, 1, [&](int64_t i0, int64_t i1) {
      const Tiles at(products, kSumChannels, kSumChannels);
      const Buffer<float> sums(at.size());
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t n0 = i / c_pieces / parts * kSumChannels, n1 = std::min(out, n0 + kSumChannels);
        const int64_t first = i / c_pieces % parts * channels, c0 = first + i % c_pieces * kSumChannels, c1 = std::min(first + channels, c0 + kSumChannels);
        for (int64_t p = 0; p < products; ++p) multiply(total, p, c0, c1, n0, n1, sums.data() + p * at.plane, at.row, false);
        write(at.from(sums.data(), c0), c0, c1, n0, n1);
      }
    });
    return finite.load(std::memory_order_relaxed);
  }
  const Tiles at(products, in, out);
  const Buffer<float> sums(at.size());
  for (int64_t t0 = 0; t0 < total; t0 += block) {
    const int64_t count = std::min(block, total - t0);
    transform(t0, count);
    parallel_for(0, products * n_pieces, 1, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t p = i / n_pieces, n0 = i % n_pieces * kSumChannels;
        multiply(count, p, 0, in, n0, std::min(out, n0 + kSumChannels), sums.data() + p * at.plane + n0, at.row, t0 > 0);
      }
    });
  }
  constexpr int64_t kRows = 8;
  const int64_t pieces = ceil_div(channels, kRows);
  parallel_work(parts * pieces, kRows * products * out, 32768, [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t first = i / pieces * channels, c0 = first + i % pieces * kRows;
      write(at.at(sums.data()), c0, std::min(first + channels, c0 + kRows), 0, out);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

}  // namespace fl::conv
