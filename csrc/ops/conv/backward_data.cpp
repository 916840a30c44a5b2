// The gradient of a convolution's input: shifted products over the padded dy, one per phase of dx.
#include "ops/conv/shifted.h"

namespace fl::conv {
namespace {

// One phase of dx: the rows and columns of dx that it owns and the taps that reach it.
struct Phase {
  int64_t a0, rows, b0, cols;   // dx row = (a0 + r) * sh + rh - ph
  int64_t first_h, first_w;     // dx position of r = 0, column 0
  std::vector<int64_t> tap_of;  // taps kh * kw of this phase
  std::vector<int64_t> offsets;  // per (co, tap)
};

}  // namespace

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
      parallel_work(c.groups * panels, rows * k, 16384, [&](int64_t p0, int64_t p1) {
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

template void backward_data<float>(const Conv&, const float*, const float*, float*);
template void backward_data<double>(const Conv&, const double*, const double*, double*);

}  // namespace fl::conv
