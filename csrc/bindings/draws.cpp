#include "bindings/draws.h"

#include "bindings/errors.h"

namespace fl::py {

FL_HOT_THREAD_LOCAL constinit PyObject* draw_hook = nullptr;

PyObject* call_draw_hook(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  try {
    const Py_ssize_t first = self ? 1 : 0;
    const Owned all(make_tuple(nargs + first, [&](Py_ssize_t i) { return Py_NewRef(i < first ? self : args[i - first]); }));
    const Owned kwargs(PyDict_New());
    if (!kwargs.object) throw PythonError{};
    for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); ++k)
      if (PyDict_SetItem(kwargs.object, PyTuple_GET_ITEM(kw, k), args[nargs + k]) < 0) throw PythonError{};
    const Owned hook(Py_NewRef(draw_hook));  // it may put another in its place
    const Owned call(Py_BuildValue("(sOO)", name, all.object, kwargs.object));
    if (!call.object) throw PythonError{};
    return call_python(hook.object, call.object);
  } catch (...) {
    return translate_exception();
  }
}

namespace {

// set_draw_hook(function or None) -> what was there
PyObject* set_draw_hook(PyObject*, PyObject* hook) {
  PyObject* before = draw_hook;
  draw_hook = hook == Py_None ? nullptr : Py_NewRef(hook);
  return before ? before : Py_NewRef(Py_None);
}

PyObject* get_draw_hook(PyObject*, PyObject*) { return Py_NewRef(draw_hook ? draw_hook : Py_None); }

PyMethodDef functions[] = {{"draw_hook", get_draw_hook, METH_NOARGS, nullptr}, {"set_draw_hook", set_draw_hook, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool init_draws(PyObject* module) { return PyModule_AddFunctions(module, functions) >= 0; }

}  // namespace fl::py
