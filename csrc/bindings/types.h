// The small Python types: dtype, device, Generator.
#pragma once

#include <Python.h>

#include "base/device.h"
#include "base/dtype.h"
#include "base/scalar.h"

namespace fl::py {

bool is_dtype(PyObject* o);
DType dtype_value(PyObject* o);
bool is_generator(PyObject* o);
PyObject* make_device(const Device& device);  // new reference
// "cpu", a device object, or an int (a CUDA index); throws TypeMismatch.
Device device_value(PyObject* o, const char* op, const char* arg);
Scalar item_scalar(PyObject* tensor);
DType default_float_type();

// Python exception classes of flambeau, borrowed.
struct ErrorTypes {
  PyObject *shape, *dtype, *device, *no_data, *autograd, *linalg, *argument, *range, *memory;
};
extern ErrorTypes error_types;

}  // namespace fl::py
