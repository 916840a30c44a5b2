// What the type of tensors is made of, a file for each part: tensor_numbers.cpp, tensor_attributes.cpp, tensor_methods.cpp.
// tensor_object.cpp puts them together.
#pragma once

#include <Python.h>

#include "base/sanitized.h"
#include "bindings/args.h"
#include "bindings/collector.h"
#include "tensor/sparse.h"
#include "tensor/tensor.h"

namespace fl::py {

// Each ends with an empty entry.
extern const PyType_Slot tensor_number_slots[];
extern PyGetSetDef tensor_attributes[];
extern const PyGetSetDef* const tensor_dict;  // x.__dict__, which nothing takes over
extern PyMethodDef tensor_methods[];

// Objects of tensors that have gone, for the next ones. Used with the GIL.
struct FreeObjects {
  static constexpr int kMost = 256;
  TensorObject* objects[kMost];
  int count = 0;
  TensorObject* take() {
    if (count == 0) return PyObject_GC_New(TensorObject, tensor_type);
    TensorObject* o = objects[--count];
    PyObject_Init(reinterpret_cast<PyObject*>(o), tensor_type);
    return o;
  }
  bool keep(TensorObject* o) {
    if (count == kMost || kAddressSanitizer) return false;
    objects[count++] = o;
    return true;
  }
};
extern FreeObjects free_objects;

// A new object of the Python class of sparse tensors.
PyObject* wrap_sparse(Tensor tensor);

// ... and of one that stands for others: Note [Hollow tensors].
PyObject* wrap_hollow(Tensor tensor);

// wrap() without a call, where a call shows.
inline PyObject* wrap_here(Tensor&& tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  if (PyObject* o = tensor.impl()->pyobj) {
    Py_INCREF(o);
    return o;
  }
  if (is_sparse(tensor)) [[unlikely]] return wrap_sparse(std::move(tensor));
  if (tensor.storage().is_hollow()) [[unlikely]] return wrap_hollow(std::move(tensor));
  TensorObject* o = free_objects.take();
  if (!o) return nullptr;
  tensor.impl()->pyobj = reinterpret_cast<PyObject*>(o);
  new (&o->tensor) Tensor(std::move(tensor));
  o->dict = nullptr;
  o->weakrefs = nullptr;
  if (o->tensor.impl()->meta && owns_python(o->tensor)) [[unlikely]] track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

// The same memory without a history.
Tensor detached(const Tensor& x);

template <class F>
PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    return translate_exception();
  }
}

}  // namespace fl::py
