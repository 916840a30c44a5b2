// The result of a convolution, by shifted products.
#include "ops/conv/shifted.h"

namespace fl::conv {

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
  parallel_work(c.groups * panels, rows * k, 16384, [&](int64_t p0, int64_t p1) {
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

template void forward<float>(const Conv&, const float*, const float*, const float*, float*);
template void forward<double>(const Conv&, const double*, const double*, const double*, double*);

}  // namespace fl::conv
