// Autograd's Python side: hooks, nodes, custom functions.
#pragma once

#include <Python.h>

#include "autograd/node.h"

namespace nanobind {
class module_;
}

namespace fl::py {

// Where the package's own Python lies: the profiler names lines outside of it.
void set_own_folder(const char* folder);

PyObject* wrap_node(Ref<Node> node);  // None for null
int traverse_hooks(const Tensor& x, visitproc visit, void* arg);
void clear_hooks(const Tensor& x);
// Raises the Python error that is set as a C++ exception which keeps it across GIL-free frames.
[[noreturn]] void throw_python_error();
void init_autograd(nanobind::module_& m);

}  // namespace fl::py
