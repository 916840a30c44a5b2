// The gradient of a convolution's weight: dot products of dy and the shifted planes of the input.
#include "ops/conv/direct.h"
#include "ops/conv/shifted.h"

namespace fl::conv {
namespace {

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
void add_products(const Conv& c, const T* dy, const T* x, T* dw) {
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

template <class T>
bool all_finite(const T* v, int64_t n) {
  T seen = 0;
  for (int64_t i = 0; i < n; ++i) seen += v[i] * T(0);
  return seen == 0;
}

// What elements of x that are not finite add to dw, each by the taps that see it alone.
template <class T>
void add_elements(const Conv& c, const T* dy, const T* x, const std::vector<int64_t>& elements, T* dw) {
  const int64_t taps = c.taps(), plane = c.h * c.w, out_plane = c.oh * c.ow;
  std::vector<bool> settled(static_cast<size_t>(c.groups * c.ci));  // all of its dw are NaN
  for (const int64_t e : elements) {
    const int64_t w = e % c.w, h = e / c.w % c.h, channel = e / plane % (c.groups * c.ci), image = e / plane / (c.groups * c.ci), g = channel / c.ci;
    if (settled[static_cast<size_t>(channel)]) continue;
    int64_t numbers = 0;
    for (int64_t o = 0; o < c.co; ++o) {
      T* to = dw + ((g * c.co + o) * c.ci + channel % c.ci) * taps;
      const T* from = dy + ((image * c.groups + g) * c.co + o) * out_plane;
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t r = h + c.ph - k / c.kw * c.dh, q = w + c.pw - k % c.kw * c.dw;
        if (r >= 0 && q >= 0 && r % c.sh == 0 && q % c.sw == 0 && r / c.sh < c.oh && q / c.sw < c.ow) to[k] += x[e] * from[r / c.sh * c.ow + q / c.sw];
        numbers += to[k] == to[k];
      }
    }
    settled[static_cast<size_t>(channel)] = numbers == 0;
  }
}

}  // namespace

template <class T>
void backward_weight(const Conv& c, const T* dy, const T* x, T* dw) {
  add_products(c, dy, x, dw);
  const int64_t size = c.n * c.groups * c.ci * c.h * c.w;
  if (all_finite(dw, c.groups * c.co * c.ci * c.taps()) || all_finite(x, size)) return;
  // The sums run over zeros between the rows of dy, times which what is not finite is NaN.
  std::vector<int64_t> elements;
  const Buffer<T> finite(size);
  for (int64_t i = 0; i < size; ++i) {
    const bool is = x[i] * T(0) == 0;
    finite.data()[i] = is ? x[i] : T(0);
    if (!is) elements.push_back(i);
  }
  add_products(c, dy, finite.data(), dw);
  add_elements(c, dy, x, elements, dw);
}

template void backward_weight<float>(const Conv&, const float*, const float*, float*);
template void backward_weight<double>(const Conv&, const double*, const double*, double*);

}  // namespace fl::conv
