// The bases of `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`, `autocast` and
// of anomaly mode; the mode of functions that are differentiated; `held`, for whatever a function in C replaces, and `as_method`, for functions in C that classes in Python have as methods.
#pragma once

#include <Python.h>

namespace fl::py {

bool init_modes(PyObject* module);

}  // namespace fl::py
