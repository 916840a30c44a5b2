// Autograd's Python side: nodes, backward, and the thread's modes.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "autograd/node.h"

namespace fl::py {

PyObject* wrap_node(Ref<Node> node);  // None for null
Ref<Node> node_of(const Tensor& x);   // where x's gradient goes; null where it requires none
std::vector<Tensor> tensors_of(nanobind::handle list, bool none_allowed);
void init_autograd(nanobind::module_& m);

}  // namespace fl::py
