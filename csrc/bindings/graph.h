// flambeau._C.graph: recording, and the registry of ops.
#pragma once

#include <nanobind/nanobind.h>

namespace fl::py {

void init_graph(nanobind::module_& m);

}  // namespace fl::py
