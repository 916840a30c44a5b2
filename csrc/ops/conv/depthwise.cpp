// Note [Depthwise volumes]
// oneDNN makes columns of each channel's volume and multiplies them by a row of weights, so that most of the time goes into the columns. Here
// a channel is copied once between borders of zeros, its columns apart by the phases of the stride,
//
//   x x x x x x, stride 2, padded        0 x x x | x x x 0        a tap reads `ow` elements in a row of one phase
//
// and each row of results is the sum of its taps' rows, kept in registers meanwhile. The data gradient is the same with its taps turned round
// and a stride of 1 over dy, which is copied with zeros between its elements; the weight's is dot products of rows of dy with what each tap reads.
// Channels are shared out among threads, and sums are in a fixed order: results do not depend on the number of threads.
#include "ops/conv/depthwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "ops/conv/direct.h"
#include "ops/conv/planes.h"
#include "ops/conv/shifted.h"

namespace fl::conv {
namespace {

using Three = std::array<int64_t, 3>;

Three three(const Dims& d, int from = 0) { return {d[from], d[from + 1], d[from + 2]}; }

// Volumes of `in` elements between zeros, as results of size `out` read them. An element of an axis lies at `pad` + i * `apart`.
struct Bordered {
  Three in, out, taps, stride, dilation, pad, apart;
  Three rows;      // of the buffer; the last axis by phases
  int64_t phase;   // elements of a row of one phase
  int64_t size;

  Bordered(Three in_, Three out_, Three taps_, Three stride_, Three dilation_, Three pad_, Three apart_)
      : in(in_), out(out_), taps(taps_), stride(stride_), dilation(dilation_), pad(pad_), apart(apart_) {
    for (size_t a = 0; a < 3; ++a) rows[a] = (out[a] - 1) * stride[a] + dilation[a] * (taps[a] - 1) + 1;  // all that is read
    phase = ceil_div(rows[2], stride[2]);
    rows[2] = phase * stride[2];
    size = rows[0] * rows[1] * rows[2] + kSlack;
  }
  int64_t place(int64_t column) const { return column % stride[2] * phase + column / stride[2]; }

  void fill(const float* x, float* to) const {
    std::memset(to, 0, sizeof(float) * static_cast<size_t>(size));
    for (int64_t d = 0; d < in[0]; ++d) {
      const int64_t at_d = pad[0] + d * apart[0];
      if (at_d < 0 || at_d >= rows[0]) continue;
      for (int64_t h = 0; h < in[1]; ++h) {
        const int64_t at_h = pad[1] + h * apart[1];
        if (at_h < 0 || at_h >= rows[1]) continue;
        const float* from = x + (d * in[1] + h) * in[2];
        float* row = to + (at_d * rows[1] + at_h) * rows[2];
        const int64_t first = std::max<int64_t>(0, ceil_div(-pad[2], apart[2])), last = std::min(in[2], floor_div(rows[2] - 1 - pad[2], apart[2]) + 1);
        if (stride[2] == 1 && apart[2] == 1) {
          if (last > first) std::memcpy(row + pad[2] + first, from + first, sizeof(float) * static_cast<size_t>(last - first));
        } else {
          for (int64_t j = first; j < last; ++j) row[place(pad[2] + j * apart[2])] = from[j];
        }
      }
    }
  }
  int64_t row(int64_t d, int64_t h) const { return (d * stride[0] * rows[1] + h * stride[1]) * rows[2]; }
  std::vector<int64_t> offsets() const {
    std::vector<int64_t> out_;
    for (int64_t a = 0; a < taps[0]; ++a)
      for (int64_t b = 0; b < taps[1]; ++b)
        for (int64_t c = 0; c < taps[2]; ++c) out_.push_back((a * dilation[0] * rows[1] + b * dilation[1]) * rows[2] + place(c * dilation[2]));
    return out_;
  }
};

Bordered over_input(const onednn::ConvShape& s) {
  return {three(s.x, 2), three(s.y, 2), three(s.w, 2), three(s.stride), three(s.dilation), three(s.padding), {1, 1, 1}};
}

int64_t volume(const Three& t) { return t[0] * t[1] * t[2]; }

// f(channel) for all channels, of which each of `images` takes one pass over its results for each tap.
template <class F>
void over_channels(const Bordered& b, int64_t images, int64_t channels, F&& f) {
  parallel_work(channels, images * volume(b.taps) * volume(b.out), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) f(c);
  });
}

// y = bias + the sums of what the taps read of x; `w` has the taps of each channel.
void sum_up(const Bordered& b, int64_t images, int64_t channels, const Tensor& x, const float* w, const Tensor& bias, const Tensor& y) {
  const std::vector<int64_t> offsets = b.offsets();
  const int64_t taps = volume(b.taps), in = volume(b.in), out = volume(b.out);
  over_channels(b, images, channels, [&](int64_t c) {
    const Buffer<float> buffer(b.size);
    const float first = bias.defined() ? bias.data<float>()[c] : 0.f;
    for (int64_t n = 0; n < images; ++n) {
      b.fill(x.data<float>() + (n * channels + c) * in, buffer.data());
      float* to = y.data<float>() + (n * channels + c) * out;
      for (int64_t d = 0; d < b.out[0]; ++d)
        for (int64_t h = 0; h < b.out[1]; ++h, to += b.out[2])
          kernels::sum_taps_f32(b.out[2], w + c * taps, offsets.data(), taps, buffer.data() + b.row(d, h), first, to);
    }
  });
}

}  // namespace

bool is_depthwise_volume(const onednn::ConvShape& s, DType type) {
  if (type != DType::Float32 || s.x.size() != 5 || s.groups < 2 || s.w[1] != 1 || s.w[0] != s.groups) return false;
  double bordered = 1, given = 1, made = 1;  // far taps may leave little of a volume between borders that no memory has room for
  for (int a = 0; a < 3; ++a) {
    const double in = static_cast<double>(s.x[a + 2]), out = static_cast<double>(s.y[a + 2]), stride = static_cast<double>(s.stride[a]);
    bordered *= std::max(in, out * stride) + static_cast<double>(s.dilation[a]) * static_cast<double>(s.w[a + 2] - 1);
    given *= in, made *= out;
  }
  return bordered <= 16 * (given + made) + 65536;
}

void depthwise_forward(const onednn::ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  sum_up(over_input(s), s.x[0], s.groups, x, w.data<float>(), bias, y);
}

void depthwise_backward_data(const onednn::ConvShape& s, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const Three sizes = three(s.w, 2), dilation = three(s.dilation), padding = three(s.padding);
  Three pad{};
  for (size_t a = 0; a < 3; ++a) pad[a] = dilation[a] * (sizes[a] - 1) - padding[a];
  const Bordered b(three(s.y, 2), three(s.x, 2), sizes, {1, 1, 1}, dilation, pad, three(s.stride));
  const int64_t taps = volume(sizes);
  const Buffer<float> turned(w.numel());
  for (int64_t at = 0; at < w.numel(); at += taps) std::reverse_copy(w.data<float>() + at, w.data<float>() + at + taps, turned.data() + at);
  sum_up(b, s.x[0], s.groups, dy, turned.data(), {}, dx);
}

void depthwise_backward_weight(const onednn::ConvShape& s, const Tensor& dy, const Tensor& x, const Tensor& dw) {
  const Bordered b = over_input(s);
  const std::vector<int64_t> offsets = b.offsets();
  const int64_t channels = s.groups, taps = volume(b.taps), in = volume(b.in), out = volume(b.out);
  constexpr int64_t kLanes = 16;
  over_channels(b, s.x[0], channels, [&](int64_t c) {
    const Buffer<float> buffer(b.size), lanes(taps * kLanes);
    std::fill_n(lanes.data(), taps * kLanes, 0.f);
    for (int64_t n = 0; n < s.x[0]; ++n) {
      b.fill(x.data<float>() + (n * channels + c) * in, buffer.data());
      const float* from = dy.data<float>() + (n * channels + c) * out;
      for (int64_t d = 0; d < b.out[0]; ++d)
        for (int64_t h = 0; h < b.out[1]; ++h, from += b.out[2])
          kernels::add_products_f32(b.out[2], from, offsets.data(), taps, buffer.data() + b.row(d, h), lanes.data());
    }
    for (int64_t k = 0; k < taps; ++k) {
      double sum = 0;
      for (int64_t j = 0; j < kLanes; ++j) sum += static_cast<double>(lanes.data()[k * kLanes + j]);
      dw.data<float>()[c * taps + k] = static_cast<float>(sum);
    }
  });
}

bool is_depthwise_plane(const onednn::ConvShape& s, DType type) {
  return type == DType::Float32 && s.x.size() == 4 && s.groups >= kernels::kPlaneChannels && s.w[1] == 1 && s.w[0] == s.groups;
}

// Blocks of channels of groups of images have sums of their own, which are added in order: also on one thread.
void depthwise_plane_weight(const onednn::ConvShape& s, const float* dy, const float* x, const Tensor& dw) {
  constexpr int64_t kBlock = kernels::kPlaneChannels, kMostGroups = 16;
  const int64_t channels = s.groups, images = s.x[0], taps = s.w[2] * s.w[3];
  const int64_t blocks = ceil_div(channels, kBlock), groups = std::min(images, kMostGroups);
  const kernels::PlaneWindow window{{s.x[2], s.x[3]}, {s.y[2], s.y[3]}, {s.w[2], s.w[3]}, {s.stride[0], s.stride[1]}, {s.padding[0], s.padding[1]}, {s.dilation[0], s.dilation[1]}, channels};
  const int64_t x_image = s.x[2] * s.x[3] * channels, y_image = s.y[2] * s.y[3] * channels;
  const auto first = [&](int64_t block) { return std::min(block * kBlock, channels - kBlock); };  // the last one covers some channels twice
  std::vector<float> sums(static_cast<size_t>(groups * blocks * taps * kBlock));
  const auto sums_of = [&](int64_t unit) { return sums.data() + unit * taps * kBlock; };
  parallel_work(groups * blocks, images / groups * s.y[2] * s.y[3] * taps * kBlock, 65536, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t g = unit / blocks, c = first(unit % blocks);
      for (int64_t n = g * images / groups; n < (g + 1) * images / groups; ++n)
        kernels::plane_dots_f32(window, x + n * x_image + c, dy + n * y_image + c, sums_of(unit));
    }
  });
  float* to = dw.data<float>();
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t c = 0; c < kBlock; ++c)
      for (int64_t k = 0; k < taps; ++k) {
        double sum = 0;
        for (int64_t g = 0; g < groups; ++g) sum += static_cast<double>(sums_of(g * blocks + block)[k * kBlock + c]);
        to[(first(block) + c) * taps + k] = static_cast<float>(sum);
      }
}

}  // namespace fl::conv
