// Convolution over up to three spatial axes, forwards and both gradients.
//
// Our own algorithm works on any float type and layout NCHW without im2col. One image of one group is copied
// once into a padded buffer, split into the phases of the stride, so that every tap of the kernel is a shift:
//
//   input of stride 2, padded        buffer: phase planes, rows W' apart
//   a b a b a b                      a a a   b b b     y(oh, ow) = sum over taps k of
//   c d c d c d              ->      a a a   b b b         w[k] * buffer[offset[k] + oh * W' + ow]
//   a b a b a b                      c c c   d d d
//
// With q = oh * W' + ow that is a matrix product whose right operand is read where it lies: gemm's register
// tile with a table of offsets. The W' - OW columns between rows are computed and dropped. The gradient of
// the input is the same product over the padded dy, once per phase of dx, with the taps of that phase. The
// gradient of the weight is dot products along q of dy (spread to rows of W', zero between) and the buffer.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "ops/conv/direct.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/half.h"
#include "ops/reduce/fold.h"
#include "tensor/raw.h"
#include "kernel/channel_expand.h"

namespace fl {
namespace {

constexpr int64_t kBlockK = 256;
constexpr int64_t kSlack = 64;  // elements read past the last position: at most a panel

// Two spatial axes; one axis becomes [1, L], and three are cut into planes by the caller.
struct Conv {
  int64_t n, groups, ci, co;  // channels per group
  int64_t h, w, oh, ow, kh, kw;
  int64_t sh, sw, ph, pw, dh, dw;
  int64_t taps() const { return kh * kw; }
  // A matrix product per image. Not where a single position is left of several: its stride counts as 1 here.
  bool is_product() const { return kh * kw == 1 && sh == 1 && sw == 1 && ph == 0 && pw == 0 && h == oh && w == ow; }
};

Conv geometry(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation, int64_t groups) {
  const bool one = x.size() == 3;
  Conv c{};
  c.n = x[0];
  c.groups = groups;
  c.ci = w[1];
  c.co = w[0] / groups;
  c.h = one ? 1 : x[2], c.w = x.back();
  c.oh = one ? 1 : y[2], c.ow = y.back();
  c.kh = one ? 1 : w[2], c.kw = w.back();
  c.sh = one ? 1 : stride[0], c.sw = stride.back();
  c.ph = one ? 0 : padding[0], c.pw = padding.back();
  c.dh = one ? 1 : dilation[0], c.dw = dilation.back();
  // With a single output position the stride means nothing; beyond the kernel it would only make empty phases.
  if (c.oh == 1) c.sh = std::min(c.sh, c.dh * (c.kh - 1) + 1);
  if (c.ow == 1) c.sw = std::min(c.sw, c.dw * (c.kw - 1) + 1);
  return c;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t n) : tensor_(empty(Dims{n}, dtype_of<T>)) {}
  T* data() const { return tensor_.data<T>(); }

 private:
  Tensor tensor_;
};

// The padded input of one image and group, by phase.
struct PhaseBuffer {
  int64_t hq, wq, plane, channel, size;
  explicit PhaseBuffer(const Conv& c) {
    hq = c.oh + (c.dh * (c.kh - 1)) / c.sh;
    wq = c.ow + (c.dw * (c.kw - 1)) / c.sw;
    plane = hq * wq;
    channel = plane * std::min(c.sh, c.kh == 1 ? 1 : c.sh) * std::min(c.sw, c.kw == 1 ? 1 : c.sw);
    size = channel * c.ci + kSlack;
  }
  int64_t phases_h(const Conv& c) const { return c.kh == 1 ? 1 : c.sh; }
  int64_t phases_w(const Conv& c) const { return c.kw == 1 ? 1 : c.sw; }
  int64_t positions(const Conv& c) const { return (c.oh - 1) * wq + c.ow; }

  std::vector<int64_t> offsets(const Conv& c) const {
    std::vector<int64_t> out(c.ci * c.taps());
    for (int64_t i = 0, k = 0; i < c.ci; ++i)
      for (int64_t a = 0; a < c.kh; ++a)
        for (int64_t b = 0; b < c.kw; ++b, ++k)
          out[k] = i * channel + (a * c.dh % c.sh * phases_w(c) + b * c.dw % c.sw) * plane + a * c.dh / c.sh * wq + b * c.dw / c.sw;
    return out;
  }

  template <class T>
  void fill(const Conv& c, const T* x, T* out) const {
    const int64_t fh = phases_h(c), fw = phases_w(c);
    for (int64_t i = 0; i < c.ci; ++i)
      for (int64_t a = 0; a < fh; ++a)
        for (int64_t b = 0; b < fw; ++b) {
          T* to = out + i * channel + (a * fw + b) * plane;
          // columns j with 0 <= j * sw + b - pw < w
          const int64_t j0 = std::min(wq, std::max<int64_t>(0, ceil_div(std::max<int64_t>(c.pw - b, 0), c.sw)));
          const int64_t j1 = std::max(j0, std::min(wq, floor_div(c.w - 1 + c.pw - b, c.sw) + 1));
          for (int64_t r = 0; r < hq; ++r, to += wq) {
            const int64_t ih = r * c.sh + a - c.ph;
            if (ih < 0 || ih >= c.h || j0 >= j1) {
              std::memset(to, 0, sizeof(T) * wq);
              continue;
            }
            const T* from = x + (i * c.h + ih) * c.w + j0 * c.sw + b - c.pw;
            for (int64_t j = 0; j < j0; ++j) to[j] = 0;
            if (c.sw == 1) std::memcpy(to + j0, from, sizeof(T) * (j1 - j0));
            else
              for (int64_t j = j0; j < j1; ++j) to[j] = from[(j - j0) * c.sw];
            for (int64_t j = j1; j < wq; ++j) to[j] = 0;
          }
        }
    std::memset(out + channel * c.ci, 0, sizeof(T) * kSlack);
  }
};

// One shifted product: rows x cols results, `wq` apart in the buffer, m channels each.
template <class T>
struct Shifted {
  int64_t m, k, rows, cols, wq;
  const T* a;  // packed panels of A: [ceil(m / R)][k][R]
  const int64_t* offsets;
  const T* bias;  // m or null
};

// Computes result rows [r0, r1) into `tile` (m x block positions) and hands each block to `write(tile, ld, r, count)`.
template <class T, class Write>
void shifted_product(const Shifted<T>& s, const T* buffer, int64_t r0, int64_t r1, T* tile, int64_t tile_size, const Write& write) {
  const int64_t cols = gemm_cols<T>(), panel_rows = gemm_rows<T>();
  const int64_t step = std::max<int64_t>(1, (tile_size / s.m - s.cols) / s.wq + 1);
  for (int64_t r = r0; r < r1; r += step) {
    const int64_t count = std::min(step, r1 - r), n = (count - 1) * s.wq + s.cols;
    GemmTile<T> t{};
    t.m = s.m;
    t.n = n;
    t.a_panel = panel_rows * s.k;
    t.a_row = 1;
    t.a_step = panel_rows;
    t.b_panel = cols;
    t.b = buffer + r * s.wq;
    t.c = tile;
    t.ldc = n;
    t.alpha = 1;
    t.bias_m = s.bias;
    for (int64_t p = 0; p < s.k || p == 0; p += kBlockK) {
      t.k = std::min(kBlockK, s.k - p);
      t.a = s.a + p * panel_rows;
      t.b_offsets = s.offsets + p;
      gemm_tile(t);
      t.beta = 1;
      t.bias_m = nullptr;
    }
    write(tile, n, r, count);
  }
}

int64_t tile_elements(int64_t m, int64_t wq, int64_t cols) {
  // about 32 thousand results, but at least one row
  return std::max<int64_t>(m * cols, std::min<int64_t>(m * 512, 32768) / m >= wq ? std::min<int64_t>(std::max<int64_t>(m * 256, 16384), 65536) : m * (wq + cols));
}

// Calls body(image) for all (image, group) pairs when they can fill the threads evenly; else one after another with
// the threads inside. Never changes results.
template <class F>
void over_images(int64_t count, int64_t work_each, const F& body) {
  const int64_t threads = num_threads();
  if (count >= 4 * threads || (count > 1 && count % threads == 0) || work_each < 100000) {
    const int64_t grain = std::max<int64_t>(1, 100000 / std::max<int64_t>(work_each, 1));
    parallel_for(0, count, grain, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) body(i, false);
    });
  } else {
    for (int64_t i = 0; i < count; ++i) body(i, true);
  }
}

template <class T>
void forward(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const int64_t k = c.ci * c.taps(), out_plane = c.oh * c.ow, in_plane = c.h * c.w;
  if (c.is_product()) {  // a matrix product per image
    over_images(c.n * c.groups, c.co * k * out_plane, [&](int64_t i, bool) {
      const int64_t g = i % c.groups;
      gemm(Gemm<T>{c.co, out_plane, k, {w + g * c.co * k, k, 1}, {x + i * c.ci * in_plane, in_plane, 1}, y + i * c.co * out_plane, out_plane, 1, 0,
                   nullptr, bias ? bias + g * c.co : nullptr});
    });
    return;
  }
  const PhaseBuffer buf(c);
  const auto offsets = buf.offsets(c);
  const int64_t rows = gemm_rows<T>(), panels = ceil_div(c.co, rows);
  Buffer<T> packed(c.groups * panels * rows * k);
  parallel_for(0, c.groups * panels, std::max<int64_t>(1, 16384 / (rows * k)), [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) {
      const int64_t g = p / panels, o = p % panels * rows;
      gemm_pack(w + (g * c.co + o) * k, k, 1, std::min(rows, c.co - o), k, rows, packed.data() + p * rows * k);
    }
  });
  const int64_t tile_size = tile_elements(c.co, buf.wq, c.ow);
  over_images(c.n * c.groups, c.co * k * out_plane, [&](int64_t i, bool inside) {
    const int64_t g = i % c.groups;
    Buffer<T> buffer(buf.size);
    buf.fill(c, x + i * c.ci * in_plane, buffer.data());
    const Shifted<T> s{c.co, k, c.oh, c.ow, buf.wq, packed.data() + g * panels * rows * k, offsets.data(), bias ? bias + g * c.co : nullptr};
    T* out = y + i * c.co * out_plane;
    auto part = [&](int64_t r0, int64_t r1) {
      Buffer<T> tile(tile_size + kSlack);
      shifted_product(s, buffer.data(), r0, r1, tile.data(), tile_size, [&](const T* t, int64_t ld, int64_t r, int64_t count) {
        for (int64_t o = 0; o < c.co; ++o)
          for (int64_t a = 0; a < count; ++a)
            std::memcpy(out + o * out_plane + (r + a) * c.ow, t + o * ld + a * buf.wq, sizeof(T) * c.ow);
      });
    };
    if (inside) parallel_for(0, c.oh, 1, part);
    else part(0, c.oh);
  });
}

// One phase of dx: the rows and columns of dx that it owns and the taps that reach it.
struct Phase {
  int64_t a0, rows, b0, cols;   // dx row = (a0 + r) * sh + rh - ph
  int64_t first_h, first_w;     // dx position of r = 0, column 0
  std::vector<int64_t> tap_of;  // taps kh * kw of this phase
  std::vector<int64_t> offsets;  // per (co, tap)
};

template <class T>
void backward_data(const Conv& c, const T* dy, const T* w, T* dx) {
  const int64_t in_plane = c.h * c.w, out_plane = c.oh * c.ow, k_all = c.ci * c.taps();
  if (c.is_product()) {
    over_images(c.n * c.groups, c.co * k_all * out_plane, [&](int64_t i, bool) {
      const int64_t g = i % c.groups;
      gemm(Gemm<T>{c.ci, in_plane, c.co, {w + g * c.co * c.ci, 1, c.ci}, {dy + i * c.co * out_plane, out_plane, 1}, dx + i * c.ci * in_plane,
                   in_plane});
    });
    return;
  }
  // dy with borders: `top` rows above, `left` columns before.
  const int64_t top = (c.kh - 1) * c.dh / c.sh, left = (c.kw - 1) * c.dw / c.sw;
  const int64_t last_h = (c.h - 1 + c.ph) / c.sh, last_w = (c.w - 1 + c.pw) / c.sw;
  const int64_t hq = top + std::max(c.oh, last_h + 1), wq = left + std::max(c.ow, last_w + 1), plane = hq * wq;
  const int64_t rows = gemm_rows<T>(), panels = ceil_div(c.ci, rows);

  std::vector<Phase> phases;
  int64_t packed_size = 0, most_cols = 1;
  bool has_holes = false;  // a phase that no tap reaches
  for (int64_t rh = 0; rh < c.sh; ++rh)
    for (int64_t rw = 0; rw < c.sw; ++rw) {
      Phase f;
      f.a0 = ceil_div(std::max<int64_t>(c.ph - rh, 0), c.sh);
      f.b0 = ceil_div(std::max<int64_t>(c.pw - rw, 0), c.sw);
      f.first_h = f.a0 * c.sh + rh - c.ph;
      f.first_w = f.b0 * c.sw + rw - c.pw;
      f.rows = f.first_h < c.h ? (c.h - 1 - f.first_h) / c.sh + 1 : 0;
      f.cols = f.first_w < c.w ? (c.w - 1 - f.first_w) / c.sw + 1 : 0;
      if (f.rows == 0 || f.cols == 0) continue;
      std::vector<int64_t> shifts;
      for (int64_t a = 0; a < c.kh; ++a)
        for (int64_t b = 0; b < c.kw; ++b)
          if (a * c.dh % c.sh == rh && b * c.dw % c.sw == rw) {
            f.tap_of.push_back(a * c.kw + b);
            shifts.push_back((f.a0 - (a * c.dh - rh) / c.sh + top) * wq + f.b0 - (b * c.dw - rw) / c.sw + left);
          }
      for (int64_t o = 0; o < c.co; ++o)
        for (const int64_t s : shifts) f.offsets.push_back(o * plane + s);
      packed_size += c.groups * panels * rows * static_cast<int64_t>(f.offsets.size());
      most_cols = std::max(most_cols, f.cols);
      has_holes = has_holes || f.offsets.empty();
      phases.push_back(std::move(f));
    }
  Buffer<T> packed(packed_size + 1);
  {
    T* to = packed.data();
    for (const Phase& f : phases) {
      const int64_t nt = static_cast<int64_t>(f.tap_of.size()), k = c.co * nt;
      parallel_for(0, c.groups * panels, std::max<int64_t>(1, 16384 / (rows * k + 1)), [&](int64_t p0, int64_t p1) {
        for (int64_t p = p0; p < p1; ++p) {
          const int64_t g = p / panels, i0 = p % panels * rows, count = std::min(rows, c.ci - i0);
          T* dst = to + p * rows * k;
          for (int64_t o = 0; o < c.co; ++o)
            for (int64_t t = 0; t < nt; ++t, dst += rows) {
              const T* src = w + ((g * c.co + o) * c.ci + i0) * c.taps() + f.tap_of[t];
              for (int64_t i = 0; i < count; ++i) dst[i] = src[i * c.taps()];
              for (int64_t i = count; i < rows; ++i) dst[i] = 0;
            }
        }
      });
      to += c.groups * panels * rows * k;
    }
  }
  const int64_t tile_size = tile_elements(c.ci, wq, most_cols);
  over_images(c.n * c.groups, c.co * k_all * out_plane, [&](int64_t i, bool inside) {
    const int64_t g = i % c.groups;
    Buffer<T> buffer(plane * c.co + kSlack);
    T* b = buffer.data();
    std::memset(b, 0, sizeof(T) * (plane * c.co + kSlack));
    for (int64_t o = 0; o < c.co; ++o)
      for (int64_t r = 0; r < c.oh; ++r)
        std::memcpy(b + o * plane + (r + top) * wq + left, dy + (i * c.co + o) * out_plane + r * c.ow, sizeof(T) * c.ow);
    T* out = dx + i * c.ci * in_plane;
    if (has_holes) std::memset(out, 0, sizeof(T) * c.ci * in_plane);
    const T* from = packed.data();
    for (const Phase& f : phases) {
      const int64_t k = static_cast<int64_t>(f.offsets.size());
      if (k == 0) continue;
      const Shifted<T> s{c.ci, k, f.rows, f.cols, wq, from + g * panels * rows * k, f.offsets.data(), nullptr};
      from += c.groups * panels * rows * k;
      auto part = [&](int64_t r0, int64_t r1) {
        Buffer<T> tile(tile_size + kSlack);
        shifted_product(s, b, r0, r1, tile.data(), tile_size, [&](const T* t, int64_t ld, int64_t r, int64_t count) {
          for (int64_t ch = 0; ch < c.ci; ++ch)
            for (int64_t a = 0; a < count; ++a) {
              const T* src = t + ch * ld + a * wq;
              T* dst = out + ch * in_plane + (f.first_h + (r + a) * c.sh) * c.w + f.first_w;
              if (c.sw == 1) std::memcpy(dst, src, sizeof(T) * f.cols);
              else
                for (int64_t j = 0; j < f.cols; ++j) dst[j * c.sw] = src[j];
            }
        });
      };
      if (inside) parallel_for(0, f.rows, 1, part);
      else part(0, f.rows);
    }
  });
}

void conv_dots(int64_t images, const float* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const float* x, int64_t x_image,
               const int64_t* offsets, int64_t taps, int64_t n, float* dw, int64_t ldw) {
  kernels::conv_dots_f32(images, dy, dy_image, dy_row, rows, x, x_image, offsets, taps, n, dw, ldw);
}
void conv_dots(int64_t images, const double* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const double* x, int64_t x_image,
               const int64_t* offsets, int64_t taps, int64_t n, double* dw, int64_t ldw) {
  kernels::conv_dots_f64(images, dy, dy_image, dy_row, rows, x, x_image, offsets, taps, n, dw, ldw);
}

// dy of one image with rows `wq` apart and zeros between, each channel `q` long.
template <class T>
void spread_rows(const Conv& c, int64_t wq, int64_t q, const T* dy, T* out) {
  for (int64_t o = 0; o < c.co; ++o, out += q) {
    int64_t at = 0;
    for (int64_t r = 0; r < c.oh; ++r, dy += c.ow) {
      std::memcpy(out + at, dy, sizeof(T) * c.ow);
      at += c.ow;
      const int64_t end = r + 1 < c.oh ? at + wq - c.ow : q;
      for (; at < end; ++at) out[at] = 0;
    }
  }
}

template <class T>
void backward_weight(const Conv& c, const T* dy, const T* x, T* dw) {
  const int64_t in_plane = c.h * c.w, out_plane = c.oh * c.ow, k = c.ci * c.taps(), size = c.groups * c.co * k;
  const PhaseBuffer buf(c);
  const auto offsets = buf.offsets(c);
  const int64_t q = ceil_div(buf.positions(c), 16) * 16;
  // Images are summed in fixed chunks, each into its own copy of dw; the copies are added in order.
  const int64_t chunks = std::max<int64_t>(1, std::min({c.n, int64_t(16), (int64_t(1) << 22) / std::max<int64_t>(size, 1)}));
  // Tasks per chunk and group: parts of the taps, in whole tiles.
  const int64_t threads = num_threads();
  const int64_t parts = std::min<int64_t>(ceil_div(k, 24), chunks * c.groups >= 2 * threads || chunks * c.groups == threads ? 1 : ceil_div(2 * threads, chunks * c.groups));
  Buffer<T> partial(chunks > 1 ? chunks * size : 1);
  T* sums = chunks > 1 ? partial.data() : dw;
  // Small planes: several images at once, so that the dot products are long and dw is passed over seldom; then
  // the taps in blocks whose planes stay in the second-level cache.
  const int64_t together = std::max<int64_t>(1, std::min<int64_t>({1024 / q, (int64_t(1) << 20) / (buf.size + c.co * q), c.n / chunks}));
  const int64_t block = together == 1 ? k : std::max<int64_t>(24, (int64_t(1) << 17) / static_cast<int64_t>(sizeof(T)) / (together * buf.channel) * c.taps() / 24 * 24);
  parallel_for(0, chunks * c.groups * parts, 1, [&](int64_t t0, int64_t t1) {
    Buffer<T> xs(together * buf.size), ds(together * c.co * q);
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t part = t % parts, g = t / parts % c.groups, chunk = t / parts / c.groups;
      const int64_t tiles = ceil_div(k, 24), k0 = tiles * part / parts * 24, k1 = std::min(k, tiles * (part + 1) / parts * 24);
      T* to = sums + chunk * size + g * c.co * k;
      for (int64_t o = 0; o < c.co; ++o) std::memset(to + o * k + k0, 0, sizeof(T) * (k1 - k0));
      const int64_t end = c.n * (chunk + 1) / chunks;
      for (int64_t n0 = c.n * chunk / chunks; n0 < end; n0 += together) {
        const int64_t images = std::min(together, end - n0);
        for (int64_t i = 0; i < images; ++i) {
          const int64_t image = (n0 + i) * c.groups + g;
          buf.fill(c, x + image * c.ci * in_plane, xs.data() + i * buf.size);
          spread_rows(c, buf.wq, q, dy + image * c.co * out_plane, ds.data() + i * c.co * q);
        }
        for (int64_t i = k0; i < k1; i += block)
          conv_dots(images, ds.data(), c.co * q, q, c.co, xs.data(), buf.size, offsets.data() + i, std::min(block, k1 - i), q, to + i, k);
      }
    }
  });
  if (chunks == 1) return;
  parallel_for(0, size, 8192, [&](int64_t i0, int64_t i1) {
    std::memcpy(dw + i0, sums + i0, sizeof(T) * (i1 - i0));
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      const T* from = sums + chunk * size;
      for (int64_t i = i0; i < i1; ++i) dw[i] += from[i];
    }
  });
}

onednn::ConvShape shape_of(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation, int64_t groups) {
  return {x, w, y, Dims(stride), Dims(padding), Dims(dilation), groups};
}

void zero(const Tensor& t) { std::memset(t.data(), 0, t.numel() * t.item_bytes()); }

// Which of the two for row-major bytes (deferred layout off), as measured on AVX2: oneDNN loses time to reorders where
// there are few channels or the stride is not 1 in the data gradient, our own to the columns between rows of small
// planes and to depthwise convolutions. Its weight gradient depends on the number of threads, so it is only used
// for depthwise ones and 16-bit floats. It has float32 and native 16-bit floats only.
enum class Part { Forward, BackwardData, BackwardWeight };
bool use_onednn(Part part, DType t, const Dims& w, const Dims& y, IntList stride, int64_t groups) {
  if (is_half(t) || w.size() == 5) return true;
  if (groups > 1 && w[1] == 1) return true;
  int64_t k = w[1];
  for (int d = 2; d < w.size(); ++d) k *= w[d];
  const int64_t co = w[0] / groups, ci = w[1];
  switch (part) {
    case Part::Forward: return co >= 32 && k >= 128;
    case Part::BackwardData: {
      const bool unit = std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; });
      return co >= 32 && ci >= 32 && (unit || y.back() <= 8);
    }
    default: return false;
  }
}

// Activations stay channels-last between ops: Note [Deferred layout]. oneDNN then computes all three parts.
bool channels_last(const Tensor& a, const Tensor& b) {
  return layout_mode() == LayoutMode::Deferred && onednn::convolves(a.dtype()) && a.numel() > 0 && b.numel() > 0 &&
         (may_defer(a.sizes()) || may_defer(b.sizes()));
}

// m[r, c] += row[c].
void add_row(const Tensor& m, const Tensor& row) {
  const int64_t n = m.size(1);
  const WideOutput out(m, true);
  const Tensor wide = widened(row);
  visit_float(wide.dtype(), [&](auto z) {
    using T = decltype(z);
    const T* b = wide.data<T>();
    T* p = out.wide.data<T>();
    parallel_for(0, m.size(0), std::max<int64_t>(1, 16384 / n), [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = 0; c < n; ++c) p[r * n + c] += b[c];
    });
  });
}

// Sums down the columns of m, by fixed bands of rows.
void column_sums(const Tensor& m, const Tensor& sums) {
  constexpr int64_t kBand = 1024;
  const int64_t rows = m.size(0), n = m.size(1), bands = (rows + kBand - 1) / kBand;
  std::vector<double> parts(static_cast<size_t>(bands * n));
  parallel_for(0, bands, std::max<int64_t>(1, 32768 / (kBand * n)), [&](int64_t b0, int64_t b1) {
    for (int64_t b = b0; b < b1; ++b) {
      double* acc = parts.data() + b * n;
      kernels::fold_init(Fold::Sum, m.dtype(), acc, n);
      kernels::fold_rows(Fold::Sum, m.dtype(), m.data<char>() + b * kBand * n * static_cast<int64_t>(m.item_bytes()), n, std::min(kBand, rows - b * kBand), n,
                         nullptr, 0, acc);
    }
  });
  visit_float(sums.dtype(), [&](auto z) {
    using T = decltype(z);
    for (int64_t c = 0; c < n; ++c) {
      double total = 0;
      for (int64_t b = 0; b < bands; ++b) total += parts[static_cast<size_t>(b * n + c)];
      sums.data<T>()[c] = static_cast<T>(total);
    }
  });
}

template <class F>
void native(const Tensor& out, const F& f) {
  visit_float(out.dtype(), f);
}

// Three spatial axes, as sums of two-dimensional convolutions over planes of the depth axis. Our own kernels
// only: oneDNN has it as one primitive.
struct Depth {
  int64_t stride, padding, dilation;
  // Input plane that output plane `o` sees through tap `k`.
  int64_t at(int64_t o, int64_t k) const { return o * stride - padding + k * dilation; }
};

Tensor plane(const Tensor& t, int64_t i) {  // t[:, :, i]
  Dims sizes = t.sizes(), strides = t.strides();
  const int64_t offset = t.offset() + i * strides[2];
  sizes.erase(2), strides.erase(2);
  return alias(t, sizes, strides, offset);
}
Tensor plane_copy(const Tensor& t, int64_t i) {
  const Tensor from = plane(t, i), copy = empty(from.sizes(), t.dtype());
  copy_elements(copy, from);
  return copy;
}
Dims without_depth(const Dims& d) {
  Dims out = d;
  out.erase(2);
  return out;
}

// out[:, :, i] = sum of part(i, j, result) over those j < count for which part returns true.
template <class T, class Part>
void sum_of_planes(const Tensor& out, int64_t count, const Part& part) {
  const Tensor sum = empty(without_depth(out.sizes()), dtype_of<T>), term = empty(sum.sizes(), dtype_of<T>);
  T *s = sum.data<T>(), *t = term.data<T>();
  for (int64_t i = 0; i < out.size(2); ++i) {
    std::fill_n(s, sum.numel(), T(0));
    for (int64_t j = 0; j < count; ++j)
      if (part(i, j, t))
        for (int64_t e = 0; e < sum.numel(); ++e) s[e] += t[e];
    copy_elements(plane(out, i), sum);
  }
}

}  // namespace

namespace kernels {

void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList dilation, int64_t groups,
                 const Tensor& y) {
  if (y.numel() == 0) return;
  if (weight.numel() == 0) return bias.defined() ? channel_expand(bias, y.sizes(), y) : zero(y);  // no input channels
  const auto shape = shape_of(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation, groups);
  if (channels_last(x, y) && onednn::conv_forward(shape, true, ChannelRows(x).matrix(), weight, bias, ChannelRows::fresh(y).matrix())) return;
  if (use_onednn(Part::Forward, x.dtype(), weight.sizes(), y.sizes(), stride, groups) && onednn::conv_forward(shape, false, x, weight, bias, y)) return;
  const WideOutput out(y);
  const Tensor wx = widened(x), ww = widened(weight), wb = widened(bias);
  if (x.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const Conv c = geometry(without_depth(x.sizes()), without_depth(weight.sizes()), without_depth(y.sizes()), stride.subspan(1), padding.subspan(1),
                            dilation.subspan(1), groups);
    return native(out.wide, [&](auto z) {
      using T = decltype(z);
      const Tensor no_bias = empty(Dims{weight.size(0)}, dtype_of<T>);
      std::fill_n(no_bias.data<T>(), no_bias.numel(), T(0));
      const T* b = wb.defined() ? wb.data<T>() : no_bias.data<T>();
      // Tap 0 is the bias alone, so that a plane that sees only padding has it too.
      sum_of_planes<T>(out.wide, weight.size(2) + 1, [&](int64_t o, int64_t k, T* to) {
        if (k == 0) {
          for (int64_t r = 0; r < c.n * c.groups * c.co; ++r) std::fill_n(to + r * c.oh * c.ow, c.oh * c.ow, b[r % (c.groups * c.co)]);
          return true;
        }
        const int64_t i = depth.at(o, k - 1);
        if (i < 0 || i >= x.size(2)) return false;
        forward<T>(c, plane_copy(wx, i).template data<T>(), plane_copy(ww, k - 1).template data<T>(), nullptr, to);
        return true;
      });
    });
  }
  const Conv c = geometry(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation, groups);
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    forward<T>(c, wx.data<T>(), ww.data<T>(), wb.defined() ? wb.data<T>() : nullptr, out.wide.data<T>());
  });
}

void conv_backward_data(const Tensor& dy, const Tensor& weight, IntList, IntList stride, IntList padding, IntList dilation, int64_t groups,
                        const Tensor& dx) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || weight.numel() == 0) return zero(dx);
  const auto shape = shape_of(dx.sizes(), weight.sizes(), dy.sizes(), stride, padding, dilation, groups);
  if (channels_last(dy, dx) && onednn::conv_backward_data(shape, true, ChannelRows(dy).matrix(), weight, ChannelRows::fresh(dx).matrix())) return;
  if (use_onednn(Part::BackwardData, dy.dtype(), weight.sizes(), dy.sizes(), stride, groups) &&
      onednn::conv_backward_data(shape, false, dy, weight, dx))
    return;
  const WideOutput out(dx);
  const Tensor wdy = widened(dy), ww = widened(weight);
  if (dx.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const Conv c = geometry(without_depth(dx.sizes()), without_depth(weight.sizes()), without_depth(dy.sizes()), stride.subspan(1),
                            padding.subspan(1), dilation.subspan(1), groups);
    const int64_t taps = weight.size(2);
    return native(out.wide, [&](auto z) {
      using T = decltype(z);
      sum_of_planes<T>(out.wide, dy.size(2) * taps, [&](int64_t i, int64_t j, T* to) {
        if (depth.at(j / taps, j % taps) != i) return false;
        backward_data<T>(c, plane_copy(wdy, j / taps).template data<T>(), plane_copy(ww, j % taps).template data<T>(), to);
        return true;
      });
    });
  }
  const Conv c = geometry(dx.sizes(), weight.sizes(), dy.sizes(), stride, padding, dilation, groups);
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    backward_data<T>(c, wdy.data<T>(), ww.data<T>(), out.wide.data<T>());
  });
}

void conv_backward_weight(const Tensor& dy, const Tensor& x, IntList, IntList stride, IntList padding, IntList dilation, int64_t groups,
                          const Tensor& dw) {
  if (dw.numel() == 0) return;
  if (dy.numel() == 0 || x.numel() == 0) return zero(dw);
  const auto shape = shape_of(x.sizes(), dw.sizes(), dy.sizes(), stride, padding, dilation, groups);
  if (channels_last(x, dy) && onednn::conv_backward_weight(shape, true, ChannelRows(dy).matrix(), ChannelRows(x).matrix(), dw, {})) return;
  if (use_onednn(Part::BackwardWeight, dy.dtype(), dw.sizes(), dy.sizes(), stride, groups) &&
      onednn::conv_backward_weight(shape, false, dy, x, dw, {}))
    return;
  const WideOutput out(dw);
  const Tensor wdy = widened(dy), wx = widened(x);
  if (x.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const Conv c = geometry(without_depth(x.sizes()), without_depth(dw.sizes()), without_depth(dy.sizes()), stride.subspan(1), padding.subspan(1),
                            dilation.subspan(1), groups);
    return native(out.wide, [&](auto z) {
      using T = decltype(z);
      sum_of_planes<T>(out.wide, dy.size(2), [&](int64_t k, int64_t o, T* to) {
        const int64_t i = depth.at(o, k);
        if (i < 0 || i >= x.size(2)) return false;
        backward_weight<T>(c, plane_copy(wdy, o).template data<T>(), plane_copy(wx, i).template data<T>(), to);
        return true;
      });
    });
  }
  const Conv c = geometry(x.sizes(), dw.sizes(), dy.sizes(), stride, padding, dilation, groups);
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    backward_weight<T>(c, wdy.data<T>(), wx.data<T>(), out.wide.data<T>());
  });
}

void conv_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList, IntList dilation,
                     int64_t groups, const Tensor& y) {
  conv_backward_data(x, weight, y.sizes(), stride, padding, dilation, groups, y);
  if (!bias.defined() || y.numel() == 0) return;
  if (y.storage().maybe_deferred()) {
    const ChannelRows rows(y);
    const Tensor row = converted(bias, y.dtype());
    return add_row(rows.matrix(), row);
  }
  const WideOutput out(y, true);
  const Tensor wb = widened(bias);
  const int64_t channels = y.size(1), plane = y.numel() / (y.size(0) * channels);
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    T* p = out.wide.data<T>();
    const T* b = wb.data<T>();
    parallel_for(0, y.size(0) * channels, std::max<int64_t>(1, 16384 / plane), [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t i = 0; i < plane; ++i) p[r * plane + i] += b[r % channels];
    });
  });
}

// Sums over everything but axis 1.
void channel_sums(const Tensor& x, const Tensor& y) {
  const WideOutput out(y);
  if (x.storage().maybe_deferred() && is_deferred(x)) {
    const ChannelRows rows(x);
    return column_sums(widened(rows.matrix()), out.wide);
  }
  const Tensor wx = widened(x);
  const int64_t n = x.size(0), channels = x.size(1), plane = channels && n ? x.numel() / (n * channels) : 0;
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    const T* p = wx.data<T>();
    T* to = out.wide.data<T>();
    parallel_for(0, channels, std::max<int64_t>(1, 16384 / (n * plane + 1)), [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) {
          const T* row = p + (i * channels + c) * plane;
          T part[16] = {};  // lanes, so that the loop is a vector sum
          int64_t j = 0;
          for (; j + 16 <= plane; j += 16)
            for (int l = 0; l < 16; ++l) part[l] += row[j + l];
          double s = 0;
          for (; j < plane; ++j) s += row[j];
          for (int l = 0; l < 16; ++l) s += part[l];
          sum += s;
        }
        to[c] = static_cast<T>(sum);
      }
    });
  });
}

// The adjoint: each channel's value everywhere in the channel.
void channel_expand(const Tensor& x, IntList shape, const Tensor& y) {
  const WideOutput out(y);
  const Tensor wx = widened(x);
  const int64_t channels = shape[1], rows = shape[0] * channels, plane = rows ? y.numel() / rows : 0;
  native(out.wide, [&](auto z) {
    using T = decltype(z);
    for (int64_t r = 0; r < rows; ++r) std::fill_n(out.wide.data<T>() + r * plane, plane, wx.data<T>()[r % channels]);
  });
}

}  // namespace kernels
}  // namespace fl
