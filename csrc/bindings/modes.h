// The bases of `no_grad`, `enable_grad` and `inference_mode`.
#pragma once

#include <Python.h>

namespace fl::py {

bool init_modes(PyObject* module);

}  // namespace fl::py
