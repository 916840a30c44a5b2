// flambeau._C.graph: recording, and the registry of ops.
#pragma once

#include <nanobind/nanobind.h>

#include "graph/tape.h"

namespace fl::py {

void init_graph(nanobind::module_& m);
nanobind::object tuple_of(IntList values);
// An argument that is no tensor as Python's object; None for draws.
nanobind::object plain_argument(const graph::Tape& tape, const graph::Box& box);

}  // namespace fl::py
