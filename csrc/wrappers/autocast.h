// Autocast: ops that compute well in 16 bits get their float32 arguments in 16 bits, others the reverse.
//
// Which ones is said by the key `autocast` of the op table. The wrapper of such an op asks the thread's modes
// once; inside a region it casts, and calls itself again without autocast:
//
//     if (thread_modes().autocast) {
//       const AutocastCall cast(AutocastCall::Lower);
//       return op::mm(cast(a), cast(b));
//     }
//
// The casts are ops like any other, so gradients arrive in the type of the argument.
//
// Note [Casts of weights]
//
// A weight is used once per layer, but a recurrent or shared one often, and each use would cast it again. So a
// cast of a leaf that requires grad is kept until the outermost region ends, for the memory and the version that
// it was made of: a step of an optimizer inside of the region makes it anew. What is kept has the graph of the
// cast, which saves nothing and may be run by any number of backward calls. One that was made without recording
// serves only where nothing is recorded. There the values are also kept from region to region, with the weight, from the
// second region on.
#pragma once

#include <optional>

#include "wrappers/wrap.h"

namespace fl {

struct AutocastSettings {
  DType dtype = DType::BFloat16;
  bool cache = true;  // whether casts of weights are kept
  int depth = 0;      // regions around the current line
};
AutocastSettings& autocast_settings();
int enter_autocast();  // these return how many regions there are around the next line
int leave_autocast();  // of the outermost region: drops what is kept
void clear_autocast_cache();

class AutocastCall {
 public:
  enum Kind { Lower, Widen };
  explicit AutocastCall(Kind kind) : type_(kind == Lower ? autocast_settings().dtype : DType::Float32) {}
  // To the type that holds all of `args`.
  explicit AutocastCall(std::initializer_list<const Tensor*> args);

  // x in the type of the call; float64, integers and tensors without data stay as they are.
  Tensor operator()(const Tensor& x) const;
  std::vector<Tensor> operator()(TensorList xs) const;
  // What `dtype` is where an op makes its result of x in the type of the call by itself.
  std::optional<DType> result(const Tensor& x) const;

 private:
  WithoutAutocast off_;
  DType type_;
};

}  // namespace fl
