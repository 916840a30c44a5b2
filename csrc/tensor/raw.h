// A tensor's bytes as they lie. See Note [Deferred layout] in storage/layout.h.
#pragma once

#include "tensor/tensor.h"

namespace fl {

// x, or where its storage is deferred a stand-in over the same bytes with the strides in which they lie.
// The stand-in is for the code that made it, while it lives: no history, no version.
class RawTensor {
 public:
  explicit RawTensor(const Tensor& x, RawBytes::Use use = RawBytes::Read);
  const Tensor& tensor() const { return tensor_; }
  // The bytes are [n][s][c] and the tensor is [n, c, ...].
  bool channels_last() const { return bytes_.channels_last(); }

 private:
  RawBytes bytes_;
  Tensor tensor_;
};

// x as a row-major matrix [n * s, c]: its bytes as they lie where that is their order, else a copy.
class ChannelRows {
 public:
  explicit ChannelRows(const Tensor& x, RawBytes::Use use = RawBytes::Read);
  // Makes a fresh y channels-last, to be written as this matrix.
  static ChannelRows fresh(const Tensor& y);
  const Tensor& matrix() const { return matrix_; }
  void* data() const { return matrix_.data(); }

 private:
  ChannelRows() = default;
  RawBytes bytes_;
  Tensor matrix_;
};

// Whether a tensor of this shape can have its channels last: [N, C, ...] with more than one channel and position.
bool may_defer(IntList sizes);
ChannelsLast channels_last_layout(IntList sizes, size_t item);
// Whether x is deferred: the whole of a storage, or some of its channels.
bool is_deferred(const Tensor& x);
// For some channels of a deferred storage: a copy of them, deferred too; else undefined.
Tensor channel_slice_copy(const Tensor& x);
// The bytes of a deferred tensor as a row-major [n * s, c], copied; undefined for others. And the deferred tensor of such rows.
Tensor channel_rows(const Tensor& x);
Tensor from_channel_rows(const Tensor& rows, IntList sizes);
// Makes a fresh tensor's bytes channels-last.
void defer(const Tensor& fresh);

}  // namespace fl
