// A `with` enters and leaves these by a single step of the interpreter each, so that Ctrl-C comes before or after it: one that came between
// the steps of a method in Python left the mode as it was inside, for good.
#include "bindings/modes.h"

#include <structmember.h>

#include <atomic>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "autograd/node.h"
#include "bindings/gil.h"
#include "bindings/objects.h"
#include "bindings/types.h"
#include "wrappers/autocast.h"

namespace fl::py {
namespace {

struct Switch {
  PyObject_HEAD
  char mode;  // what it switches to: of gradients, or of inference, which is without them
  char saved_grad, saved_inference;
  uint64_t saved_derivative;
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

// A function that is differentiated: Note [Where memory was made].
std::atomic<uint64_t> derivatives{0};
PyObject* enter_derivative(PyObject* self, PyObject*) {
  as_switch(self)->saved_derivative = std::exchange(birth_here.derivative, derivatives.fetch_add(1, std::memory_order_relaxed) + 1);
  return enter_inference(self, nullptr);
}
PyObject* leave_derivative(PyObject* self, PyObject*) {
  birth_here.derivative = as_switch(self)->saved_derivative;
  return leave_inference(self, nullptr);
}

// `set_grad_enabled` switches where it is made, by set(); a `with` of it begins after that.
PyObject* enter_set(PyObject* self, PyObject*) {
  set_grad_mode(as_switch(self)->mode != 0);
  Py_RETURN_NONE;
}

// A region may be entered again inside of itself.
struct Autocast {
  PyObject_HEAD
  char on_cpu, enabled, cache;  // the region's; on other devices only `cache` holds
  PyObject* fast_dtype;
  struct Before {
    bool enabled, cache;
    DType dtype;
  };
  std::vector<Before>* before;
};

Autocast* as_autocast(PyObject* o) { return reinterpret_cast<Autocast*>(o); }

bool is_lower(PyObject* dtype) {
  return dtype && is_dtype(dtype) && (dtype_value(dtype) == DType::BFloat16 || dtype_value(dtype) == DType::Float16);
}

PyObject* enter_region(PyObject* self, PyObject*) {
  Autocast* a = as_autocast(self);
  AutocastSettings& settings = autocast_settings();
  ThreadModes& modes = thread_modes();
  if (!a->before) a->before = new std::vector<Autocast::Before>;
  a->before->push_back({modes.autocast, settings.cache, settings.dtype});
  if (a->on_cpu) {
    modes.autocast = a->enabled != 0;
    if (is_lower(a->fast_dtype)) settings.dtype = dtype_value(a->fast_dtype);
  }
  settings.cache = a->cache != 0;
  enter_autocast();
  return Py_NewRef(self);
}

PyObject* leave_region(PyObject* self, PyObject*) {
  Autocast* a = as_autocast(self);
  if (!a->before || a->before->empty()) {
    PyErr_SetString(PyExc_RuntimeError, "autocast.__exit__: this region has not been entered");
    return nullptr;
  }
  const Autocast::Before before = a->before->back();
  a->before->pop_back();
  thread_modes().autocast = before.enabled;
  autocast_settings().cache = before.cache;
  autocast_settings().dtype = before.dtype;
  leave_autocast();
  Py_RETURN_NONE;
}

// Anomaly mode, which holds for the process: what it was is kept with the one who changes it.
struct AnomalyMode {
  PyObject_HEAD
  char on, check_nan, saved_on, saved_check_nan;
};

PyObject* set_anomaly(PyObject* self, PyObject*) {
  auto* a = reinterpret_cast<AnomalyMode*>(self);
  a->saved_on = anomaly.on.exchange(a->on != 0);
  a->saved_check_nan = anomaly.check_nan.exchange(a->check_nan != 0);
  Py_RETURN_NONE;
}
PyObject* leave_anomaly(PyObject* self, PyObject*) {
  auto* a = reinterpret_cast<AnomalyMode*>(self);
  anomaly.on = a->saved_on != 0;
  anomaly.check_nan = a->saved_check_nan != 0;
  Py_RETURN_NONE;
}
PyObject* nothing(PyObject*, PyObject*) { Py_RETURN_NONE; }

// held(setter, *values): setter(*values) when it is entered, and setter(what that had returned) when it is left.
struct Held {
  PyObject_HEAD
  PyObject *setter, *values;
  std::vector<Owned>* before;
};

Held* as_held(PyObject* o) { return reinterpret_cast<Held*>(o); }

PyObject* new_held(PyTypeObject* type, PyObject* args, PyObject*) {
  if (PyTuple_GET_SIZE(args) < 1 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) {
    PyErr_SetString(PyExc_TypeError, "held: expected a function that returns what it replaces, and its arguments");
    return nullptr;
  }
  Owned self(type->tp_alloc(type, 0));
  if (!self.object) return nullptr;
  as_held(self.object)->setter = Py_NewRef(PyTuple_GET_ITEM(args, 0));
  as_held(self.object)->values = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
  as_held(self.object)->before = new std::vector<Owned>;
  return self.release();
}
PyObject* enter_held(PyObject* self, PyObject*) {
  const Held* h = as_held(self);
  Owned before(call_python(h->setter, h->values));
  if (!before.object) return nullptr;
  h->before->push_back(std::move(before));
  Py_RETURN_NONE;
}
PyObject* leave_held(PyObject* self, PyObject*) {
  const Held* h = as_held(self);
  if (h->before->empty()) {
    PyErr_SetString(PyExc_RuntimeError, "held.__exit__: it has not been entered");
    return nullptr;
  }
  const Owned before = std::move(h->before->back());
  h->before->pop_back();
  const Owned args(PyTuple_Check(before.object) ? Py_NewRef(before.object) : make_tuple(1, [&](Py_ssize_t) { return Py_NewRef(before.object); }));
  const Owned replaced(call_python(h->setter, args.object));
  if (!replaced.object) return nullptr;
  Py_RETURN_NONE;
}

// Arguments are those of Python's __init__.
PyObject* new_switch(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }
void drop_switch(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}
void drop_autocast(PyObject* self) {
  delete as_autocast(self)->before;
  Py_CLEAR(as_autocast(self)->fast_dtype);
  drop_switch(self);
}

void drop_held(PyObject* self) {
  delete as_held(self)->before;
  Py_CLEAR(as_held(self)->setter);
  Py_CLEAR(as_held(self)->values);
  drop_switch(self);
}

bool add_type(PyObject* module, const char* name, size_t size, destructor drop, PyMethodDef* methods, PyMemberDef* members, newfunc make = new_switch) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)}, {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
                         {Py_tp_methods, methods}, {Py_tp_members, members}, {0, nullptr}};
  PyType_Spec spec{name, static_cast<int>(size), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  const Owned type(PyType_FromSpec(&spec));
  return type.object && PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type.object) == 0;
}

PyMethodDef grad_methods[] = {{"__enter__", enter_grad, METH_NOARGS, nullptr}, {"__exit__", leave_grad, METH_VARARGS, nullptr}, {}};
PyMethodDef set_methods[] = {{"set", enter_grad, METH_NOARGS, nullptr},
                             {"__enter__", enter_set, METH_NOARGS, nullptr},
                             {"__exit__", leave_grad, METH_VARARGS, nullptr},
                             {}};
PyMethodDef inference_methods[] = {{"__enter__", enter_inference, METH_NOARGS, nullptr}, {"__exit__", leave_inference, METH_VARARGS, nullptr}, {}};
PyMethodDef derivative_methods[] = {{"__enter__", enter_derivative, METH_NOARGS, nullptr}, {"__exit__", leave_derivative, METH_VARARGS, nullptr}, {}};
PyMethodDef autocast_methods[] = {{"__enter__", enter_region, METH_NOARGS, nullptr}, {"__exit__", leave_region, METH_VARARGS, nullptr}, {}};

PyMethodDef anomaly_methods[] = {{"__enter__", set_anomaly, METH_NOARGS, nullptr}, {"__exit__", leave_anomaly, METH_VARARGS, nullptr}, {}};
PyMethodDef set_anomaly_methods[] = {{"set", set_anomaly, METH_NOARGS, nullptr},
                                     {"__enter__", nothing, METH_NOARGS, nullptr},
                                     {"__exit__", leave_anomaly, METH_VARARGS, nullptr},
                                     {}};

PyMethodDef held_methods[] = {{"__enter__", enter_held, METH_NOARGS, nullptr}, {"__exit__", leave_held, METH_VARARGS, nullptr}, {}};

PyMemberDef no_members[] = {{}};
PyMemberDef switch_members[] = {{"mode", T_BOOL, offsetof(Switch, mode), 0, nullptr}, {}};
PyMemberDef anomaly_members[] = {{"_on", T_BOOL, offsetof(AnomalyMode, on), 0, nullptr},
                                 {"_check_nan", T_BOOL, offsetof(AnomalyMode, check_nan), 0, nullptr},
                                 {}};
PyMemberDef autocast_members[] = {{"_on_cpu", T_BOOL, offsetof(Autocast, on_cpu), 0, nullptr},
                                  {"_enabled", T_BOOL, offsetof(Autocast, enabled), 0, nullptr},
                                  {"_cache_enabled", T_BOOL, offsetof(Autocast, cache), 0, nullptr},
                                  {"fast_dtype", T_OBJECT, offsetof(Autocast, fast_dtype), 0, nullptr},
                                  {}};

PyMethodDef functions[] = {{"as_method", [](PyObject*, PyObject* function) { return PyInstanceMethod_New(function); }, METH_O, nullptr}, {}};

}  // namespace

bool init_modes(PyObject* module) {
  const auto grad = [&](const char* name, PyMethodDef* methods) { return add_type(module, name, sizeof(Switch), drop_switch, methods, switch_members); };
  const auto detect = [&](const char* name, PyMethodDef* methods) {
    return add_type(module, name, sizeof(AnomalyMode), drop_switch, methods, anomaly_members);
  };
  return grad("flambeau._C.GradSwitch", grad_methods) && grad("flambeau._C.GradSetting", set_methods) &&
         grad("flambeau._C.InferenceSwitch", inference_methods) && grad("flambeau._C.DerivativeSwitch", derivative_methods) &&
         detect("flambeau._C.AnomalySwitch", anomaly_methods) &&
         detect("flambeau._C.AnomalySetting", set_anomaly_methods) &&
         add_type(module, "flambeau._C.AutocastSwitch", sizeof(Autocast), drop_autocast, autocast_methods, autocast_members) &&
         add_type(module, "flambeau._C.held", sizeof(Held), drop_held, held_methods, no_members, new_held) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace fl::py
