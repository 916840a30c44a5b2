#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

// (bytes, tensors): the bytes are equal for two calls iff their arguments are but for tensors, their tensors agree in whether they require grad,
// and the thread's modes are the same. `describe(x)` is called for what is neither a tensor, a plain value, nor a tuple, list or dict
// of such or a tensor that takes calls over, and returns a plain value or raises. (None, []) inside of a mode that takes calls over.
nanobind::tuple call_key(nanobind::handle args, nanobind::handle kwargs, nanobind::handle describe);

}  // namespace fl::py
