// Calls below autograd as Python sees them: Note [Calls that are taken below autograd], csrc/graph/recorder.h.
#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

void init_dispatch(nanobind::module_& graph);

}  // namespace fl::py
