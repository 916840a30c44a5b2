// The Python type of tensors, and the way between it and fl::Tensor.
//
// Note [The Python object of a tensor]
// It is a type of its own rather than a nanobind class, because it is made once per op: objects come from
// a free list and are entered into the garbage collector only when they get, or hand out, something that can
// form a cycle: attributes, their dict, hooks, a grad_fn, a .grad, a part in a custom function. The collector is
// then told what the tensor keeps alive of Python through C++: callables of hooks and contexts of functions, as far
// down the graph as each node has one owner. What has two owners is not looked into, since who of them is garbage
// can not be told. The object owns its TensorImpl; the impl points back without owning, so
// that one tensor has one object for as long as Python holds it.
#pragma once

#include <Python.h>

#include <vector>

#include "tensor/tensor.h"

namespace fl::py {

struct TensorObject {
  PyObject_HEAD
  Tensor tensor;
  PyObject* dict;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* size_type;

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type); }
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

// New reference; None for an undefined tensor.
PyObject* wrap(Tensor tensor);
PyObject* wrap_list(std::vector<Tensor>&& tensors);
// A new object of a Python subclass around the tensor, which must have no object yet.
PyObject* wrap_as(PyTypeObject* type, Tensor tensor);
PyObject* make_size(IntList sizes);
// Lets the garbage collector see the object.
void track(PyObject* o);

bool init_tensor_type(PyObject* module);

}  // namespace fl::py
