// Note [Narrow convolutions]
// oneDNN's kernels make whole vectors of channels, so that for a picture's three 13 of 16 are made for nothing. Here the
// narrow side is a plane for each channel, and with a column for each channel and tap
//
//   P[column, position] = W wide'    is added up, each row where its tap lies: the result of a last layer, the data gradient of a first one
//   dW[column, :] = U wide           U[column, position] = narrow[position + tap]: the weight's gradient of a last layer
//
// are products of full width with the wide side's bytes as they lie, channels last. The two are one convolution: a layer to few
// channels is one from them with its taps turned round, where its stride is 1. The other parts (the result of a first
// layer, say) are as fast by oneDNN. Milliseconds of one core of a Zen 4, oneDNN's and these:
//
//                                                result        weight        data
//     64 -> 3 channels, 3 x 3, 64 x 64, 16 of    12.2, 3.8     12.8, 2.5
//     32 -> 1, 5 x 5, 96 x 96, 8 of              16.6, 1.7     16.8, 1.3
//     3 -> 64, 7 x 7 by 2, 224 x 224, 8 of                                   94.6, 26.7
//     1 -> 32, 3 x 3, 28 x 28, 64 of                                          5.3, 0.9
//
// Work is cut by the shape alone and sums are in a fixed order: results do not depend on the number of threads.
#include "ops/conv/narrow.h"

#include "ops/conv/direct.h"
#include "ops/conv/shifted.h"
#include "tensor/raw.h"

namespace fl::conv {
namespace {

constexpr int64_t kWide = 16;                      // at least so many channels
constexpr int64_t kLeast = 1536;                   // elements of an image of the wide side: below, calls cost more than products
constexpr int64_t kStripBytes = int64_t{1} << 19;  // of P and U: they stay in the second-level cache
constexpr int64_t kPieces = 8;                     // of a batch, at least, where images are large enough

// The rows of images in pieces that are worked on apart, and these in strips that are one product each.
struct Cut {
  int64_t pieces, piece_rows, strip_rows;
  Cut(const Conv& c, int64_t rows, int64_t least_rows) {
    pieces = std::clamp<int64_t>(rows / least_rows, 1, ceil_div(kPieces, c.n));
    piece_rows = ceil_div(rows, pieces);
    pieces = ceil_div(rows, piece_rows);
    strip_rows = std::clamp<int64_t>(kStripBytes / (static_cast<int64_t>(sizeof(float)) * c.ci * c.taps() * c.ow), 1, piece_rows);
  }
};

// Rows of a phase that one position reaches, less one.
int64_t reach(const Conv& c) { return c.dh * (c.kh - 1) / c.sh; }

int64_t positions_of(const Dims& sizes) {
  int64_t count = 1;
  for (int d = 2; d < sizes.size(); ++d) count *= sizes[d];
  return count;
}
// For each position of the wide side there are products with all taps, also with those that lead out of the narrow one: of a
// kernel as large as its input one of as many is of use. oneDNN makes a vector of channels for each position of the result.
bool may_be_narrow(const onednn::ConvShape& s, DType type, const Dims& narrow, const Dims& wide) {
  const int64_t most = isa() == Isa::V4 ? 8 : 4;  // half of a vector
  const int64_t positions = positions_of(wide);
  return type == DType::Float32 && s.groups == 1 && s.x.size() <= 4 && narrow[1] <= most && wide[1] >= kWide && positions * wide[1] >= kLeast &&
         positions * narrow[1] <= positions_of(narrow) * most;
}
Conv as_it_is(const onednn::ConvShape& s) {
  Conv c = geometry(s.x, s.w, s.y, s.stride, s.padding, s.dilation, s.groups);
  if (s.x.size() == 3) {  // the one axis is cut as rows are
    std::swap(c.h, c.w), std::swap(c.oh, c.ow), std::swap(c.kh, c.kw);
    std::swap(c.sh, c.sw), std::swap(c.ph, c.pw), std::swap(c.dh, c.dw);
  }
  return c;
}

// From its few output channels to its many input channels. False where a stride lies in between, or where results see the padding alone.
bool turned_round(const onednn::ConvShape& s, Conv& c) {
  c = as_it_is(s);
  c.ph = (c.kh - 1) * c.dh - c.ph, c.pw = (c.kw - 1) * c.dw - c.pw;
  std::swap(c.ci, c.co), std::swap(c.h, c.oh), std::swap(c.w, c.ow);
  return c.sh == 1 && c.sw == 1 && c.ph >= 0 && c.pw >= 0;
}

// The weight [wide, column], which is that of the convolution as it is, and back; turned round it is [channel, wide, tap], its last tap first.
Tensor columns_of(const Conv& c, const Tensor& w) {
  const Tensor rows = empty(Dims{c.ci * c.taps(), c.co}, DType::Float32);
  for (int64_t k = 0; k < rows.size(0); ++k)
    for (int64_t o = 0; o < c.co; ++o) rows.data<float>()[k * c.co + o] = w.data<float>()[o * rows.size(0) + k];
  return rows;
}
int64_t turned_place(const Conv& c, int64_t column, int64_t wide) {
  const int64_t taps = c.taps();
  return (column / taps * c.co + wide) * taps + taps - 1 - column % taps;
}

// narrow = P of all positions, added up, and `bias`. `weight` is [column, wide].
void add_up(const Conv& c, const Tensor& wide, const Tensor& weight, const Tensor& bias, const Tensor& narrow) {
  const int64_t columns = c.ci * c.taps();
  const ChannelRows rows(wide);
  const float *dy = static_cast<const float*>(rows.data()), *factors = weight.data<float>(), *add = bias.defined() ? bias.data<float>() : nullptr;
  float* x = narrow.data<float>();
  const PhaseBuffer whole(c);
  if (!whole.covers(c)) std::fill_n(x, narrow.numel(), 0.f);
  const Cut cut(c, whole.hq, 2 * reach(c) + 1);
  const PhaseBuffer buf(c, cut.piece_rows);
  const auto offsets = buf.offsets(c);
  parallel_for(0, c.n * cut.pieces, 1, [&](int64_t t0, int64_t t1) {
    const OneCore one;  // also where there is one piece: sgemm's bits depend on how many threads it has
    const Buffer<float> buffer(buf.size), p(columns * cut.strip_rows * c.ow);
    for (int64_t t = t0; t < t1; ++t) {
      // Rows [begin, end) of the buffer are made here, from those rows of the wide side that reach them.
      const int64_t image = t / cut.pieces, begin = t % cut.pieces * cut.piece_rows, end = std::min(whole.hq, begin + cut.piece_rows);
      for (int64_t i = 0; i < c.ci; ++i) std::fill_n(buffer.data() + i * buf.channel, buf.channel, add ? add[i] : 0.f);
      const int64_t last = std::min(c.oh, end);
      for (int64_t r = std::max<int64_t>(0, begin - reach(c)); r < last; r += cut.strip_rows) {
        const int64_t count = std::min(cut.strip_rows, last - r), m = count * c.ow;
        gemm(Gemm<float>{columns, m, c.co, {factors, c.co, 1}, {dy + (image * c.oh + r) * c.ow * c.co, 1, c.co}, p.data(), m});
        for (int64_t k = 0; k < columns; ++k) {
          const int64_t down = k / c.kw % c.kh * c.dh / c.sh;  // row r + i goes to row r + i + down, of which the offset says `down`
          const int64_t i0 = std::max<int64_t>(0, begin - r - down), i1 = std::min(count, end - r - down);
          if (i0 >= i1) continue;
          float* to = buffer.data() + offsets[static_cast<size_t>(k)] + (r + i0 - begin) * buf.wq;
          kernels::add_rows_f32(i1 - i0, c.ow, p.data() + k * m + i0 * c.ow, c.ow, to, buf.wq);
        }
      }
      buf.drain(c, buffer.data(), begin, end, x + image * c.ci * c.h * c.w);
    }
  });
}

}  // namespace

bool narrow_forward(const onednn::ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  Conv c;
  if (!may_be_narrow(s, x.dtype(), s.y, s.x) || !turned_round(s, c)) return false;
  const Tensor weight = empty(Dims{c.ci * c.taps(), c.co}, DType::Float32);
  for (int64_t k = 0; k < weight.size(0); ++k)
    for (int64_t i = 0; i < c.co; ++i) weight.data<float>()[k * c.co + i] = w.data<float>()[turned_place(c, k, i)];
  add_up(c, x, weight, bias, y);
  return true;
}

bool narrow_backward_data(const onednn::ConvShape& s, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  if (!may_be_narrow(s, dy.dtype(), s.x, s.y)) return false;
  const Conv c = as_it_is(s);
  add_up(c, dy, columns_of(c, w), {}, dx);
  return true;
}

bool narrow_backward_weight(const onednn::ConvShape& s, const Tensor& dy, const Tensor& x, const Tensor& dw) {
  Conv c;
  if (!may_be_narrow(s, dy.dtype(), s.y, s.x) || !turned_round(s, c)) return false;
  const int64_t columns = c.ci * c.taps(), size = columns * c.co;
  const ChannelRows rows(x);
  const float *narrow = dy.data<float>(), *wide = static_cast<const float*>(rows.data());
  const Cut cut(c, c.oh, 2 * reach(c) + 1);
  const PhaseBuffer buf(c, cut.piece_rows + reach(c));
  const auto offsets = buf.offsets(c);
  // Pieces are summed in fixed groups, each into a sum of its own; the sums are added in order.
  const int64_t pieces = c.n * cut.pieces, groups = std::min<int64_t>({pieces, 16, std::max<int64_t>(1, (int64_t{1} << 22) / size)});
  const Buffer<float> sums(groups * size);
  parallel_for(0, groups, 1, [&](int64_t g0, int64_t g1) {
    const OneCore one;
    const Buffer<float> buffer(buf.size), u(columns * cut.strip_rows * c.ow);
    for (int64_t g = g0; g < g1; ++g) {
      float beta = 0;
      for (int64_t t = pieces * g / groups; t < pieces * (g + 1) / groups; ++t) {
        const int64_t image = t / cut.pieces, begin = t % cut.pieces * cut.piece_rows, end = std::min(c.oh, begin + cut.piece_rows);
        buf.fill(c, narrow + image * c.ci * c.h * c.w, buffer.data(), begin);
        for (int64_t r = begin; r < end; r += cut.strip_rows) {
          const int64_t count = std::min(cut.strip_rows, end - r), m = count * c.ow;
          float* to = u.data();
          for (const int64_t offset : offsets) {
            const float* from = buffer.data() + offset + (r - begin) * buf.wq;
            if (buf.wq == c.ow) std::memcpy(to, from, sizeof(float) * m);
            else
              for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * c.ow, from + i * buf.wq, sizeof(float) * c.ow);
            to += m;
          }
          gemm(Gemm<float>{columns, c.co, m, {u.data(), m, 1}, {wide + (image * c.oh + r) * c.ow * c.co, c.co, 1}, sums.data() + g * size, c.co, 1, beta});
          beta = 1;
        }
      }
    }
  });
  float* sum = sums.data();
  for (int64_t g = 1; g < groups; ++g) kernels::add_rows_f32(1, size, sum + g * size, size, sum, size);
  for (int64_t k = 0; k < columns; ++k)
    for (int64_t i = 0; i < c.co; ++i) dw.data<float>()[turned_place(c, k, i)] = sum[k * c.co + i];
  return true;
}

}  // namespace fl::conv
