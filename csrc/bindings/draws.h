// Random ops that Python takes over: `flambeau.vmap` says there what a draw inside of a batch is.
#pragma once

#include <Python.h>

#include "base/refcount.h"
#include "bindings/objects.h"

namespace fl::py {

// Of the running thread, owned; null where nobody takes draws over.
extern FL_HOT_THREAD_LOCAL constinit PyObject* draw_hook;

// What the hook returns for (name, args, kwargs), where a method's `self` is the first argument.
PyObject* call_draw_hook(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
bool init_draws(PyObject* module);

}  // namespace fl::py
