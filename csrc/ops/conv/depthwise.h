// Depthwise convolutions over three axes, Note [Depthwise volumes] in depthwise.cpp; and the weight's gradient over planes whose channels are the last axis.
#pragma once

#include "backend/onednn/onednn.h"

namespace fl::conv {

// A channel of its own for each result, and float32.
bool is_depthwise_volume(const onednn::ConvShape& s, DType type);
void depthwise_forward(const onednn::ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
void depthwise_backward_data(const onednn::ConvShape& s, const Tensor& dy, const Tensor& w, const Tensor& dx);
void depthwise_backward_weight(const onednn::ConvShape& s, const Tensor& dy, const Tensor& x, const Tensor& dw);

// The same over one or two axes. oneDNN's kernels for the weight's gradient look at blocks of channels where the window is wider than 3, of which a group
// has one (96 channels of 32 x 32, 7 x 7: 17 ms, here 2), and split it by the number of threads.
bool is_depthwise_plane(const onednn::ConvShape& s, DType type);
void depthwise_plane_weight(const onednn::ConvShape& s, const float* dy, const float* x, const Tensor& dw);  // rows of channels

}  // namespace fl::conv
