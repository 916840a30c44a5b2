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
#include <string>
#include <vector>

#include "ops/conv/shifted.h"
#include "ops/conv/winograd_plan.h"
#include "storage/prepared.h"

namespace fl::conv {
using namespace winograd;
namespace {

using kernels::WinogradTiles;
using kernels::WinogradWindow;
constexpr int64_t kLanes = kernels::kWinogradLanes;
constexpr int64_t kThreadBytes = int64_t{384} << 10;  // of transformed tiles that a thread works on: they stay in the second-level cache,
constexpr int64_t kThreadTiles = 48;                  // but at least so many for each pass over the transformed weight
constexpr int64_t kColumns = 64;                      // of products at once
constexpr int64_t kSharedBytes = int64_t{8} << 20;    // of the tiles of all images, where a pass over them for each panel of the weight is cheaper
constexpr int64_t kSumBytes = int64_t{2} << 20, kSumTiles = 96;  // of tiles that are added up together, for the gradient of the weight
constexpr int64_t kSumChannels = 64, kFewTiles = 64;             // the side of the sums that a thread makes from all tiles where there are so few

// Rows of transformed tiles, and these for each product, an odd number of lines apart: not in the same sets of a cache.
struct Tiles {
  int64_t products, row, plane;
  Tiles(int64_t n, int64_t count, int64_t channels) : products(n), row(channels + kLanes), plane(ceil_div(count, 2) * 2 * row + kLanes) {}
  int64_t size() const { return products * plane; }
  WinogradTiles at(float* data) const { return {data, plane, row}; }
  WinogradTiles from(float* data, int64_t first) const { return {data - first * row, plane, row}; }  // as if tile `first` were the first
};

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
  t.a = v, t.b = u;
  gemm_tile(t, w.rows);
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
    const int64_t total = plan.tiles, products = plan.products();
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

bool convolve(const Plan& plan, const Geometry& g, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y, bool keep) {
  const Weight weight{w, plan, g};
  Convolve c{plan, weight, static_cast<const float*>(x.data()), bias.defined() ? bias.data<float>() : nullptr, static_cast<float*>(y.data())};
  return c.run(keep);
}

}  // namespace

bool winograd_forward(const onednn::ConvShape& s, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y) {
  const auto geometry = geometry_of(s, w.dtype());
  if (!geometry) return false;
  const Geometry& g = *geometry;
  const Plan plan = forward_plan(g, true);
  return pays(plan) && convolve(plan, g, x, w, bias, y, true);
}

bool winograd_backward_data(const onednn::ConvShape& s, const ChannelRows& dy, const Tensor& w, const ChannelRows& dx, bool keep) {
  const auto geometry = geometry_of(s, w.dtype());
  if (!geometry) return false;
  const Geometry& g = *geometry;
  if (g.stride[0] != 1 || (g.flat && g.stride[g.rows] != 1)) return false;
  const std::vector<Plan> plans = backward_plans(g, keep);
  if (plans.empty() || !std::all_of(plans.begin(), plans.end(), pays)) return false;
  return std::all_of(plans.begin(), plans.end(), [&](const Plan& plan) { return convolve(plan, g, dy, w, {}, dx, keep); });
}

bool winograd_backward_weight(const onednn::ConvShape& s, const ChannelRows& dy, const ChannelRows& x, const Tensor& dw) {
  const auto geometry = geometry_of(s, dw.dtype());
  if (!geometry) return false;
  const Geometry& g = *geometry;
  const Plan plan = forward_plan(g, false);
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
    t.a = v.data() + p * v_at.plane + c0;
    t.b = d.data() + p * d_at.plane + n0;
    gemm_tile(t, count);
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
