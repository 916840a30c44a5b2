// Depthwise convolutions over three axes. Note [Depthwise volumes] in depthwise.cpp.
#pragma once

#include "backend/onednn/onednn.h"

namespace fl::conv {

// A channel of its own for each result, and float32.
bool is_depthwise_volume(const onednn::ConvShape& s, DType type);
void depthwise_forward(const onednn::ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
void depthwise_backward_data(const onednn::ConvShape& s, const Tensor& dy, const Tensor& w, const Tensor& dx);
void depthwise_backward_weight(const onednn::ConvShape& s, const Tensor& dy, const Tensor& x, const Tensor& dw);

}  // namespace fl::conv
