// Data in and out: Python numbers and lists, the buffer protocol (NumPy), DLPack.
#pragma once

#include <Python.h>

#include "dispatch/op_types.h"

namespace fl::py {

int get_buffer(PyObject* self, Py_buffer* view, int flags);
void release_buffer(PyObject* self, Py_buffer* view);

// Copies numbers, nested sequences, buffers or tensors into a new tensor.
Tensor tensor_from(PyObject* data, std::optional<DType> dtype);
// Shares the memory of an object with the buffer protocol; `size_bytes` etc. are its own.
// On the exporter's memory; with `or_copy` in memory of ours where its elements lie as those of no tensor can.
Tensor tensor_from_buffer(PyObject* exporter, bool or_copy = false);
// Moves x's storage to the memory of an object with the buffer protocol, which has room for it.
void move_to_buffer(const Tensor& x, PyObject* exporter);
// The object with the buffer protocol whose memory x's storage is, borrowed; null where it is nobody's.
PyObject* buffer_of(const Tensor& x);
PyObject* python_number(const Scalar& s);
// Nested lists of Python numbers.
PyObject* to_list(const Tensor& x);
PyObject* to_dlpack(PyObject* self, bool versioned, bool copy);
Tensor from_dlpack(PyObject* capsule);

// The integer that item_of() read from a tensor of this type, of uint64 by its bits.
inline PyObject* python_int(DType type, const Scalar& s) {
  return type == DType::UInt64 ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.as_int())) : PyLong_FromLongLong(s.as_int());
}

}  // namespace fl::py
