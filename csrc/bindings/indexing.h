// x[...] and x[...] = value.
#pragma once

#include <Python.h>

namespace fl::py {

PyObject* get_item(PyObject* self, PyObject* index);
int set_item(PyObject* self, PyObject* index, PyObject* value);

}  // namespace fl::py
