// What the garbage collector is told of autograd.
//
// Note [Two passes of the collector]
// CPython finds garbage in two walks: the first subtracts every reference that it is shown from the count of what it leads to,
// the second shows what is left over as reachable. Whoever is shown in the first and hidden in the second is taken for
// garbage while it is in use. What we show depends on reference counts of C++ objects ("as far as each has one owner"), and
// these change while the collector works, since other threads compute without the GIL. So the first walk decides, and
// leaves its decision in `visited`; later ones repeat it.
#pragma once

#include <Python.h>

#include "autograd/node.h"

namespace fl::py {

// What a tensor alone keeps alive of Python through C++: Note [The Python object of a tensor]. `self` is its object.
bool owns_python(const Tensor& x);
int traverse_owned(const Tensor& x, PyObject* self, visitproc visit, void* arg);
void clear_owned(const Tensor& x);
// ... and a Python object that owns one reference to a node.
int traverse_node(Node* node, PyObject* self, visitproc visit, void* arg);
void clear_node(Node* node);

}  // namespace fl::py
