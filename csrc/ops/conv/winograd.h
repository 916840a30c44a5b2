// 3 x 3 convolutions of stride 1 with channels last, by fewer multiplications: Note [Winograd] in winograd.cpp.
#pragma once

#include "backend/onednn/onednn.h"
#include "tensor/raw.h"

namespace fl::conv {

// Whether they are used at all; FLAMBEAU_WINOGRAD=0 says no from the start.
bool winograd_enabled();
void set_winograd_enabled(bool on);

// False, with results undefined, for shapes that this is not for, and where a result is not finite.
bool winograd_forward(const onednn::ConvShape& s, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y);
bool winograd_backward_data(const onednn::ConvShape& s, const ChannelRows& dy, const Tensor& w, const ChannelRows& dx);
bool winograd_backward_weight(const onednn::ConvShape& s, const ChannelRows& dy, const ChannelRows& x, const Tensor& dw);

}  // namespace fl::conv
