// Python errors and C++ exceptions, each turned into the other.
#pragma once

#include <Python.h>

#include <exception>

#include "bindings/objects.h"

namespace fl::py {

// A Python error on its way through C++ frames that may not hold the GIL.
struct PyException final : std::exception {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyException() { PyErr_Fetch(&type, &value, &trace); }
  PyException(const PyException& o) : type(o.type), value(o.value), trace(o.trace) {
    GilAcquire gil;
    Py_XINCREF(type);
    Py_XINCREF(value);
    Py_XINCREF(trace);
  }
  ~PyException() override {
    for (PyObject* o : {type, value, trace}) drop_from_anywhere(o);
  }
  void restore() {
    PyErr_Restore(std::exchange(type, nullptr), std::exchange(value, nullptr), std::exchange(trace, nullptr));
  }
  const char* what() const noexcept override { return "a Python exception"; }
};

// Raises the Python error that is set as a C++ exception which keeps it across GIL-free frames.
[[noreturn]] void throw_python_error();
// Sets the Python error for the C++ exception that is being handled; always null.
PyObject* translate_exception();

}  // namespace fl::py
