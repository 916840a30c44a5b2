// Convolution as a product of shifted planes.
//
// One image of one group is copied once into a padded buffer, split into the phases of the stride, so that every tap
// of the kernel is a shift:
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
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "ops/conv/native.h"
#include "ops/matmul/panels.h"
#include "tensor/scratch.h"

namespace fl::conv {

constexpr int64_t kBlockK = 256;
constexpr int64_t kSlack = 64;  // elements read past the last position: at most a panel

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t n) : tensor_(scratch_memory(n, dtype_of<T>)) {}
  T* data() const { return tensor_.data<T>(); }

 private:
  Tensor tensor_;
};

// The padded input of one image and group, by phase: all of it, or `rows` of each phase.
struct PhaseBuffer {
  int64_t hq, wq, plane, channel, size;
  explicit PhaseBuffer(const Conv& c) : PhaseBuffer(c, c.oh + (c.dh * (c.kh - 1)) / c.sh) {}
  PhaseBuffer(const Conv& c, int64_t rows) : hq(rows) {
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

  // Phase `b`'s places [first, last) of `count`, from `begin` on, are places j * s + b - p of an axis of the image.
  struct Places {
    int64_t first, last;
  };
  static Places places(int64_t begin, int64_t count, int64_t size, int64_t s, int64_t p, int64_t b) {
    const int64_t first = std::clamp<int64_t>(ceil_div(std::max<int64_t>(p - b, 0), s) - begin, 0, count);
    return {first, std::max(first, std::min(count, floor_div(size - 1 + p - b, s) + 1 - begin))};
  }
  Places inside(const Conv& c, int64_t b) const { return places(0, wq, c.w, c.sw, c.pw, b); }
  // One axis: an image of one column, which no kernel crosses.
  bool one_column(const Conv& c) const { return c.w == 1 && wq == 1 && c.pw == 0; }

  // Rows from `begin` on of each phase, from an image.
  template <class T>
  void fill(const Conv& c, const T* x, T* out, int64_t begin = 0) const {
    const int64_t fh = phases_h(c), fw = phases_w(c);
    for (int64_t i = 0; i < c.ci; ++i)
      for (int64_t a = 0; a < fh; ++a)
        for (int64_t b = 0; b < fw; ++b) {
          T* to = out + i * channel + (a * fw + b) * plane;
          if (one_column(c)) {
            const auto [r0, r1] = places(begin, hq, c.h, c.sh, c.ph, a);
            const T* from = x + i * c.h + (begin + r0) * c.sh + a - c.ph;
            std::fill_n(to, r0, T(0)), std::fill(to + r1, to + hq, T(0));
            for (int64_t r = r0; r < r1; ++r) to[r] = from[(r - r0) * c.sh];
            continue;
          }
          const auto [j0, j1] = inside(c, b);
          for (int64_t r = 0; r < hq; ++r, to += wq) {
            const int64_t ih = (begin + r) * c.sh + a - c.ph;
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

  // Whether every element of an image has a place in the phases.
  bool covers(const Conv& c) const {
    return phases_h(c) == c.sh && phases_w(c) == c.sw && hq * c.sh - c.ph >= c.h && wq * c.sw - c.pw >= c.w;
  }
  // The way back: rows [begin, end) of the phases to an image.
  template <class T>
  void drain(const Conv& c, const T* from, int64_t begin, int64_t end, T* x) const {
    const int64_t fh = phases_h(c), fw = phases_w(c);
    for (int64_t i = 0; i < c.ci; ++i)
      for (int64_t a = 0; a < fh; ++a)
        for (int64_t b = 0; b < fw; ++b) {
          const T* rows = from + i * channel + (a * fw + b) * plane;
          if (one_column(c)) {
            const auto [r0, r1] = places(begin, end - begin, c.h, c.sh, c.ph, a);
            T* to = x + i * c.h + (begin + r0) * c.sh + a - c.ph;
            for (int64_t r = r0; r < r1; ++r) to[(r - r0) * c.sh] = rows[r];
            continue;
          }
          const auto [j0, j1] = inside(c, b);
          for (int64_t r = begin; r < end; ++r, rows += wq) {
            const int64_t ih = r * c.sh + a - c.ph;
            if (ih < 0 || ih >= c.h || j0 >= j1) continue;
            T* to = x + (i * c.h + ih) * c.w + j0 * c.sw + b - c.pw;
            if (c.sw == 1) std::memcpy(to, rows + j0, sizeof(T) * (j1 - j0));
            else
              for (int64_t j = j0; j < j1; ++j) to[(j - j0) * c.sw] = rows[j];
          }
        }
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

inline int64_t tile_elements(int64_t m, int64_t wq, int64_t cols) {
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

}  // namespace fl::conv
