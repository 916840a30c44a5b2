// Inner loops of depthwise convolutions over planes whose channels are the last axis.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl::kernels {

constexpr int kPlaneChannels = 16;  // at once: a line of the cache

struct PlaneWindow {
  int64_t in[2], out[2], taps[2], stride[2], padding[2], dilation[2];
  int64_t pitch;  // floats from one position to the next one
};

}  // namespace fl::kernels

// sums[16 k + c] += the sum over positions q of dy[q, c] x[where tap k reads for q, c], for 16 channels of one image.
FL_SIMD_KERNEL(void, plane_dots_f32, const PlaneWindow& g, const float* x, const float* dy, float* sums)
