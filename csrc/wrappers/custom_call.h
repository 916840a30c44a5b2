// A call of a custom op as a node of a recording.
#pragma once

#include <string_view>

#include "dispatch/op_types.h"

namespace fl {

// Notes that the custom op `op` is called with `arguments` (a text that the Python package understands), reading some tensors and writing others.
// It can not be run where recordings are, since that holds locks under which nobody may wait for the GIL: src/flambeau/library/_graph.py runs it.
void custom_call(std::string_view op, std::string_view arguments, TensorList reads, TensorList writes);

}  // namespace fl
