#include "autograd/saved_tensor.h"

#include "base/error.h"
#include "op/cast.h"
#include "op/clone.h"
#include "op/sum_to.h"

namespace fl {

std::string (*describe_source)(SourceId) = nullptr;

void SavedTensor::save(const Tensor& x) {
  if (!x.defined()) return;
  if (x.impl()->inference)
    raise<AutogradError>("a tensor made in inference_mode can not be saved for backward; clone() it outside of inference_mode first");
  version_ = x.storage().var().version();
  tensor_ = alias(x);
  if (requires_grad(x)) producer_ = gradient_edge(x);
}

void SavedTensor::save_copy(const Tensor& x) {
  save(x);
  if (!tensor_.defined()) return;
  WithGrad off(false);
  tensor_ = op::clone(x);
  version_ = tensor_.storage().var().version();
}

void SavedTensor::save_output(const Tensor& y, uint32_t nr) {
  version_ = y.storage().var().version();
  tensor_ = alias(y);
  output_ = is_float(y.dtype());  // indices are outputs too, and have no history
  producer_.nr = nr;
}

Tensor SavedTensor::unpack(Node& node, const char* what) const {
  if (!tensor_.defined()) {
    if (node.released)
      raise<AutogradError>(node.name(), ": the graph was already used by a backward and its saved tensors are gone; "
                           "pass retain_graph=True to the first backward() to run it twice");
    return {};
  }
  Var& var = tensor_.storage().var();
  if (var.version() != version_) {
    std::string where = describe_source ? describe_source(var.source()) : "";
    std::string writer = var.writer() ? var.writer() : "an in-place operation";
    raise<AutogradError>(node.name(), ": `", what, "` ", tensor_.dtype(), " ", tensor_.sizes(), " was saved for backward, but ", writer,
                         where.empty() ? std::string() : " at " + where, " wrote to it afterwards (version ", var.version(),
                         ", saved at ", version_, "); use the out-of-place form there, or clone() the tensor before writing");
  }
  if (!grad_enabled() || (!output_ && !producer_.fn)) return tensor_;
  Tensor with_history = alias(tensor_);
  set_history(with_history, output_ ? Ref<Node>::share(&node) : producer_.fn, producer_.nr);
  return with_history;
}

Tensor Fit::fitted(Tensor grad) const {
  if (!any_shape && !(grad.sizes() == sizes)) grad = op::sum_to(grad, sizes);
  if (grad.dtype() != dtype) grad = op::cast(grad, dtype);
  return grad;
}

}  // namespace fl
