// Channels are the lanes of vectors: each has its sum in registers, in the order of the positions, on every processor.
#include "ops/conv/planes.h"

namespace fl::kernels::FL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64, kTaps = 8;  // taps whose sums fit into registers
#elif defined(__AVX__)
constexpr int kVecBytes = 32, kTaps = 5;
#else
constexpr int kVecBytes = 16, kTaps = 2;
#endif
constexpr int kLanes = kVecBytes / 4, kVectors = kPlaneChannels / kLanes;

typedef float Floats __attribute__((vector_size(kVecBytes)));
typedef float Loose __attribute__((vector_size(kVecBytes), aligned(4), may_alias));

inline const Loose& at(const float* p, int v) { return *reinterpret_cast<const Loose*>(p + v * kLanes); }

// Those o < out for which o * stride + from is in [0, in).
struct Inside {
  int64_t begin, end;
  Inside(int64_t from, int64_t in, int64_t stride, int64_t out) {
    const auto first = [&](int64_t least) { return least <= from ? 0 : (least - from + stride - 1) / stride; };
    begin = first(0) < out ? first(0) : out;
    end = first(in) < out ? first(in) : out;
    if (end < begin) end = begin;
  }
};

// K taps side by side, the first in row a and column b of the window.
template <int K>
void taps_of_row(const PlaneWindow& g, const float* x, const float* dy, int64_t a, int64_t b, float* sums) {
  Floats acc[K * kVectors];
#pragma GCC unroll 32
  for (int j = 0; j < K * kVectors; ++j) acc[j] = Floats{};
  const int64_t step = g.dilation[1] * g.pitch, from = b * g.dilation[1] - g.padding[1];
  const Inside rows(a * g.dilation[0] - g.padding[0], g.in[0], g.stride[0], g.out[0]);
  const Inside first(from, g.in[1], g.stride[1], g.out[1]), last(from + (K - 1) * g.dilation[1], g.in[1], g.stride[1], g.out[1]);
  for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
    const float* const x_row = x + ((oh * g.stride[0] + a * g.dilation[0] - g.padding[0]) * g.in[1] + from) * g.pitch;
    const float* const d_row = dy + oh * g.out[1] * g.pitch;
    const auto edge = [&](int64_t begin, int64_t end) {
      for (int64_t ow = begin; ow < end; ++ow) {
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) {
          const int64_t column = ow * g.stride[1] + from + k * g.dilation[1];
          if (column < 0 || column >= g.in[1]) continue;
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) acc[k * kVectors + v] += at(d_row + ow * g.pitch, v) * at(x_row + ow * g.stride[1] * g.pitch + k * step, v);
        }
      }
    };
    const int64_t begin = first.begin, end = last.end > begin ? last.end : begin;  // where all taps are inside
    edge(0, begin);
    const float *p = x_row + begin * g.stride[1] * g.pitch, *d = d_row + begin * g.pitch;
    for (int64_t ow = begin; ow < end; ++ow, p += g.stride[1] * g.pitch, d += g.pitch) {
      Floats of[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) of[v] = at(d, v);
#pragma GCC unroll 32
      for (int j = 0; j < K * kVectors; ++j) acc[j] += of[j % kVectors] * at(p + j / kVectors * step, j % kVectors);
    }
    edge(end, g.out[1]);
  }
#pragma GCC unroll 32
  for (int j = 0; j < K * kVectors; ++j) *reinterpret_cast<Loose*>(sums + j * kLanes) += acc[j];
}

}  // namespace

void plane_dots_f32(const PlaneWindow& g, const float* x, const float* dy, float* sums) {
  for (int64_t a = 0; a < g.taps[0]; ++a)
    for (int64_t b = 0; b < g.taps[1];) {
      const int64_t left = g.taps[1] - b, parts = (left + kTaps - 1) / kTaps, k = (left + parts - 1) / parts;
      float* const to = sums + (a * g.taps[1] + b) * kPlaneChannels;
      switch (k) {
        case 1: taps_of_row<1>(g, x, dy, a, b, to); break;
        case 2: taps_of_row<2>(g, x, dy, a, b, to); break;
#if defined(__AVX__)
        case 3: taps_of_row<3>(g, x, dy, a, b, to); break;
        case 4: taps_of_row<4>(g, x, dy, a, b, to); break;
        case 5: taps_of_row<5>(g, x, dy, a, b, to); break;
#endif
#if defined(__AVX512F__)
        case 6: taps_of_row<6>(g, x, dy, a, b, to); break;
        case 7: taps_of_row<7>(g, x, dy, a, b, to); break;
        case 8: taps_of_row<8>(g, x, dy, a, b, to); break;
#endif
        default: break;
      }
      b += k;
    }
}

}  // namespace fl::kernels::FL_ISA
