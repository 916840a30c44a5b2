// Convolutions with channels last, by fewer multiplications: Note [Winograd] in winograd.cpp.
#pragma once

#include "backend/onednn/onednn.h"
#include "tensor/raw.h"

namespace fl::conv {

// When they are used; FLAMBEAU_WINOGRAD=0 says never from the start. Always is for tests: wherever they can be.
enum class Winograd { Never, WherePaid, Always };
Winograd winograd_mode();
void set_winograd_mode(Winograd mode);

// False, with results undefined, for shapes that this is not for, and where a result is not finite.
bool winograd_forward(const onednn::ConvShape& s, const ChannelRows& x, const Tensor& w, const Tensor& bias, const ChannelRows& y);
// `keep`: the transformed weight, which is several times as large, if it is used again. For results of prediction, not for gradients.
bool winograd_backward_data(const onednn::ConvShape& s, const ChannelRows& dy, const Tensor& w, const ChannelRows& dx, bool keep);
bool winograd_backward_weight(const onednn::ConvShape& s, const ChannelRows& dy, const ChannelRows& x, const Tensor& dw);

}  // namespace fl::conv
