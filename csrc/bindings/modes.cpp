// A `with` enters and leaves these by a single step of the interpreter each, so that Ctrl-C comes before or after it: one that came between
// the steps of a method in Python left the mode as it was inside, for good.
#include "bindings/modes.h"

#include <structmember.h>

#include "autograd/meta.h"
#include "bindings/objects.h"

namespace fl::py {
namespace {

struct Switch {
  PyObject_HEAD
  char mode;  // what it switches to: of gradients, or of inference, which is without them
  char saved_grad, saved_inference;
};

Switch* as_switch(PyObject* o) { return reinterpret_cast<Switch*>(o); }

PyObject* enter_grad(PyObject* self, PyObject*) {
  Switch* s = as_switch(self);
  s->saved_grad = set_grad_mode(s->mode != 0);
  Py_RETURN_NONE;
}
PyObject* leave_grad(PyObject* self, PyObject*) {
  set_grad_mode(as_switch(self)->saved_grad != 0);
  Py_RETURN_NONE;
}
PyObject* enter_inference(PyObject* self, PyObject*) {
  Switch* s = as_switch(self);
  s->saved_inference = set_inference_mode(s->mode != 0);
  s->saved_grad = set_grad_mode(s->mode == 0);
  Py_RETURN_NONE;
}
PyObject* leave_inference(PyObject* self, PyObject*) {
  set_inference_mode(as_switch(self)->saved_inference != 0);
  set_grad_mode(as_switch(self)->saved_grad != 0);
  Py_RETURN_NONE;
}

// Arguments are those of Python's __init__.
PyObject* new_switch(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
void drop_switch(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool add_switch(PyObject* module, const char* name, PyCFunction enter, PyCFunction leave, PyMethodDef* methods) {
  methods[0] = {"__enter__", enter, METH_NOARGS, nullptr};
  methods[1] = {"__exit__", leave, METH_VARARGS, nullptr};
  static PyMemberDef members[] = {{"mode", T_BOOL, offsetof(Switch, mode), 0, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(&new_switch)}, {Py_tp_dealloc, reinterpret_cast<void*>(&drop_switch)},
                         {Py_tp_methods, methods}, {Py_tp_members, members}, {0, nullptr}};
  PyType_Spec spec{name, sizeof(Switch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  const Owned type(PyType_FromSpec(&spec));
  return type.object && PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type.object) == 0;
}

PyMethodDef grad_methods[3], inference_methods[3];

}  // namespace

bool init_modes(PyObject* module) {
  return add_switch(module, "flambeau._C.GradSwitch", &enter_grad, &leave_grad, grad_methods) &&
         add_switch(module, "flambeau._C.InferenceSwitch", &enter_inference, &leave_inference, inference_methods);
}

}  // namespace fl::py
