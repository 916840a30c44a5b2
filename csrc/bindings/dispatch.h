// Calls below autograd as Python sees them: Note [Calls that are taken below autograd], csrc/graph/recorder.h.
#pragma once

#include <nanobind/nanobind.h>

#include "tensor/tensor.h"

namespace fl {
class Recording;
}

namespace fl::py {

// Whether a class has a `__torch_dispatch__`: calls with its tensors are handed to it.
bool dispatches(PyTypeObject* type);

// While it lives this thread's calls are taken, those with tensors of such a class handed on, and the others run. With the GIL, at both ends.
class TakenRegion {
 public:
  TakenRegion();
  TakenRegion(const TakenRegion&) = delete;
  TakenRegion& operator=(const TakenRegion&) = delete;
  ~TakenRegion();

 private:
  Recording* const before_;
  const size_t kept_;
};

// x.detach() of a hollow tensor, which is its class's to say.
Tensor detached_hollow(const Tensor& x);

void init_dispatch(nanobind::module_& graph);

}  // namespace fl::py
