// What the type of tensors is made of, a file for each part: tensor_numbers.cpp, tensor_attributes.cpp, tensor_methods.cpp.
// tensor_object.cpp puts them together.
#pragma once

#include <Python.h>

#include "bindings/args.h"
#include "tensor/tensor.h"

namespace fl::py {

// Each ends with an empty entry.
extern const PyType_Slot tensor_number_slots[];
extern PyGetSetDef tensor_attributes[];
extern PyMethodDef tensor_methods[];

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
