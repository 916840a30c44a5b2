// What a convolution's bias needs, in whichever layout the activations are.
#pragma once

#include "tensor/tensor.h"

namespace fl::conv {

// y[:, c, ...] += bias[c]
void add_channel_bias(const Tensor& y, const Tensor& bias);

}  // namespace fl::conv
