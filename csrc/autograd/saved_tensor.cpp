#include "autograd/saved_tensor.h"

#include "autograd/sparse.h"
#include "base/error.h"
#include "op/cast.h"
#include "op/clone.h"
#include "op/real.h"
#include "op/sum_to.h"

namespace fl {

void SavedTensor::save(const Tensor& x) {
  if (!x.defined()) return;
  if (x.storage().birth().inference)
    raise<AutogradError>("a tensor made in inference_mode can not be saved for backward; clone() it outside of inference_mode first");
  if (SavedHooks* hooks = thread_modes().saved_hooks) [[unlikely]] {
    if (requires_grad(x)) note_producer(x);
    return pack(*hooks, x);
  }
  version_ = noticed_var(*x.impl()).noticed();
  tensor_ = alias(x);
  if (requires_grad(x)) note_producer(x);
}

void SavedTensor::save_copy(const Tensor& x) {
  if (SavedHooks* hooks = thread_modes().saved_hooks) [[unlikely]] {
    if (!x.defined()) return;
    if (requires_grad(x)) note_producer(x);
    WithGrad off(false);
    return pack(*hooks, op::clone(x));
  }
  save(x);
  if (!tensor_.defined()) return;
  WithGrad off(false);
  tensor_ = op::clone(x);
  version_ = noticed_var(*tensor_.impl()).noticed();
}

void SavedTensor::save_output(const Tensor& y, uint32_t nr) {
  output_ = is_inexact(y.dtype());  // indices are outputs too, and have no history
  nr_ = nr;
  if (SavedHooks* hooks = thread_modes().saved_hooks) [[unlikely]] return pack(*hooks, alias(y));
  version_ = noticed_var(*y.impl()).noticed();
  tensor_ = alias(y);
}

void SavedTensor::detach_bytes() {
  if (!tensor_.defined() || noticed_var(*tensor_.impl()).noticed() != version_) return;
  WithGrad off(false);
  tensor_ = op::clone(tensor_);
  version_ = noticed_var(*tensor_.impl()).noticed();
}

void SavedTensor::note_producer(const Tensor& x) {
  Edge edge = gradient_edge(x);
  producer_ = std::move(edge.fn);
  nr_ = edge.nr;
}

void SavedTensor::pack(SavedHooks& hooks, const Tensor& x) {
  WithGrad off(false);
  const uint32_t version = x.storage().var().version();
  packed_ = hooks.pack(x);
  if (x.storage().var().version() != version)
    raise<AutogradError>("saved_tensors_hooks: pack wrote to its argument ", x.sizes(), "; expected a hook that leaves the tensor as it is");
}

Tensor SavedTensor::with_history(Tensor bytes, Node& node) const {
  if (!grad_enabled() || (!output_ && !producer_)) return bytes;
  Tensor out = alias(bytes);
  Edge edge = output_ ? edge_of_result(node, nr_) : Edge{producer_, nr_};
  set_history(out, std::move(edge.fn), edge.nr);
  return out;
}

Tensor SavedTensor::unpack(Node& node, const char* what) const {
  if (packed_) {
    const auto unpacked = [&] {
      WithGrad off(false);
      return alias(packed_->unpack());
    };
    return with_history(unpacked(), node);
  }
  if (!tensor_.defined()) {
    if (node.released) raise_released(node);
    return {};
  }
  Var& var = noticed_var(*tensor_.impl());
  if (var.noticed() != version_) {
    raise<AutogradError>(node.name(), ": one of the variables needed for gradient computation has been modified by an inplace operation: `", what, "` ", tensor_.dtype(), " ",
                         tensor_.sizes(), " was saved for backward", place_text(" at ", node.made_at, ""), ", and ", var.writer(), place_text(" at ", var.source()),
                         " wrote to it afterwards (version ", var.noticed(), ", saved at ", version_,
                         "); use the out-of-place form there, or clone() the tensor before writing");
  }
  return with_history(tensor_, node);
}

Tensor Fit::fitted(Tensor grad) const {
  if (is_sparse(grad)) [[unlikely]] {
    if (any_shape || grad.sizes() == sizes) return with_type(grad, dtype);
    grad = values_or_dense(grad, sizes);
  }
  if (!any_shape && !(grad.sizes() == sizes)) grad = op::sum_to(grad, sizes);
  if (is_complex(grad.dtype()) && !is_complex(dtype)) grad = op::real(grad);
  if (grad.dtype() != dtype) grad = op::cast(grad, dtype);
  return grad;
}

}  // namespace fl
