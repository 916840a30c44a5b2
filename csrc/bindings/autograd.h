// Autograd's Python side: hooks, nodes, custom functions.
#pragma once

#include <Python.h>

#include "autograd/node.h"

namespace nanobind {
class module_;
}

namespace fl::py {

// Where the package's own Python lies: the profiler names calls outside of it.
void set_own_folder(const char* folder);
// The lines of a stack of profile::Event's, the innermost first: "net.py:33, in forward (`y = x + 1`)".
std::vector<std::string> stack_lines(uint32_t stack);

PyObject* wrap_node(Ref<Node> node);  // None for null
// What a tensor alone keeps alive of Python through C++: Note [The Python object of a tensor].
bool owns_python(const Tensor& x);
int traverse_owned(const Tensor& x, visitproc visit, void* arg);
void clear_owned(const Tensor& x);
// Raises the Python error that is set as a C++ exception which keeps it across GIL-free frames.
[[noreturn]] void throw_python_error();
void init_autograd(nanobind::module_& m);

}  // namespace fl::py
