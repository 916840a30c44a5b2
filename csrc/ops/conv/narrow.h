// Convolutions one side of which has few channels: pictures that go into a network, or come out of it.
// Note [Narrow convolutions] in narrow.cpp. Each returns false where that is not the faster way; the caller then takes another.
#pragma once

#include "backend/onednn/onednn.h"

namespace fl::conv {

bool narrow_forward(const onednn::ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y);
bool narrow_backward_data(const onednn::ConvShape& s, const Tensor& dy, const Tensor& w, const Tensor& dx);
bool narrow_backward_weight(const onednn::ConvShape& s, const Tensor& dy, const Tensor& x, const Tensor& dw);

}  // namespace fl::conv
