#include "bindings/overrides.h"

#include <array>
#include <optional>
#include <vector>

#include "base/error.h"
#include "bindings/dispatch.h"
#include "bindings/errors.h"
#include "bindings/objects.h"

namespace fl::py {

FL_HOT_THREAD_LOCAL constinit uint8_t override_flags = 0;
PyObject* no_dispatch = nullptr;

namespace {

PyObject* no_torch_function = nullptr;
PyObject* attribute_name = nullptr;  // "__torch_function__"

Owned checked(PyObject* o) {
  if (!o) throw PythonError{};
  return Owned(o);
}

// Zero where the type changed since it was last looked at.
unsigned version_of(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return type->tp_version_tag;
}

// Objects that take calls over, one per type, subclasses before what they derive from and else in the order of arguments.
class Takers {
 public:
  void look(PyObject* o) {
    if (add(o)) return;
    if (PyTuple_Check(o))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) add(PyTuple_GET_ITEM(o, i));
    else if (PyList_Check(o))
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) add(PyList_GET_ITEM(o, i));
  }
  const std::vector<Owned>& objects() const { return objects_; }

 private:
  bool add(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    if (type == tensor_type || !overrides(type)) return false;
    auto at = objects_.end();
    for (auto it = objects_.begin(); it != objects_.end(); ++it) {
      if (Py_TYPE(it->object) == type) return true;
      if (at == objects_.end() && PyType_IsSubtype(type, Py_TYPE(it->object))) at = it;
    }
    objects_.insert(at, Owned(Py_NewRef(o)));
    return true;
  }
  std::vector<Owned> objects_;
};

PyObject* call_helper(const char* helper, PyObject* args) {
  const Owned module = checked(PyImport_ImportModule("flambeau.overrides"));
  const Owned function = checked(PyObject_GetAttrString(module.object, helper));
  return call_python(function.object, args);
}

PyObject* dispatch(const Owned& func, const Owned& args, const Owned& kwargs) {
  Takers takers;
  if (!(override_flags & kSubclassesOff)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.object); ++i) takers.look(PyTuple_GET_ITEM(args.object, i));
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs.object, &at, &key, &value);) takers.look(value);
  }
  const auto& found = takers.objects();
  std::optional<TakenRegion> region;
  if (std::any_of(found.begin(), found.end(), [](const Owned& taker) { return dispatches(Py_TYPE(taker.object)); })) region.emplace();
  const Owned types(make_tuple(static_cast<Py_ssize_t>(found.size()), [&](Py_ssize_t i) {
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[static_cast<size_t>(i)].object)));
  }));
  const std::array<PyObject*, 4> parts{func.object, types.object, args.object, kwargs.object};
  const Owned call(make_tuple(4, [&](Py_ssize_t i) { return Py_NewRef(parts[static_cast<size_t>(i)]); }));
  if (override_flags & kModeOn) {
    Owned out = checked(call_helper("_run_mode", call.object));
    if (out.object != Py_NotImplemented) return out.release();
  }
  for (const Owned& taker : found) {
    const Owned handler = checked(PyObject_GetAttr(taker.object, attribute_name));
    Owned out = checked(call_python(handler.object, call.object));
    if (out.object != Py_NotImplemented) return out.release();
  }
  PyErr_Format(PyExc_TypeError, "%S: no __torch_function__ of its arguments takes it; they are %S", func.object, types.object);
  return nullptr;
}

template <class F>
PyObject* python_result(F&& f) {
  try {
    return f();
  } catch (...) {
    return translate_exception();
  }
}

Owned tensor_attribute(const char* name) { return checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name)); }
Owned no_keywords() { return checked(PyDict_New()); }

// no_torch_function(func, types, args=(), kwargs=None): calls func with subclasses taken as plain tensors.
PyObject* call_plainly(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return python_result([&]() -> PyObject* {
    if (n < 2 || n > 4 || (n > 2 && !PyTuple_Check(args[2])) || (n > 3 && args[3] != Py_None && !PyDict_Check(args[3])))
      raise<TypeMismatch>("no_torch_function: expected (func, types, args: tuple = (), kwargs: dict | None = None)");
    const Owned none(make_tuple(0, [](Py_ssize_t) { return nullptr; }));
    const OverrideFlags flags(override_flags | kSubclassesOff);
    return call_python(args[0], n > 2 ? args[2] : none.object, n > 3 && args[3] != Py_None ? args[3] : nullptr);
  });
}
// no_torch_dispatch(func, types, args=(), kwargs=None): calls func.
PyObject* call_func(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return python_result([&]() -> PyObject* {
    if (n < 2 || n > 4 || (n > 2 && !PyTuple_Check(args[2]) && !PyList_Check(args[2])) || (n > 3 && args[3] != Py_None && !PyDict_Check(args[3])))
      raise<TypeMismatch>("no_torch_dispatch: expected (func, types, args: tuple = (), kwargs: dict | None = None)");
    const Owned given(n > 2 ? PySequence_Tuple(args[2]) : make_tuple(0, [](Py_ssize_t) { return nullptr; }));
    return given.object ? call_python(args[0], given.object, n > 3 && args[3] != Py_None ? args[3] : nullptr) : nullptr;
  });
}
// set_override_flags(subclasses_off, mode_on) -> what they were. None leaves one as it is.
PyObject* set_flags(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) {
    PyErr_SetString(PyExc_TypeError, "set_override_flags: expected (subclasses_off, mode_on)");
    return nullptr;
  }
  const uint8_t before = override_flags;
  const auto wanted = [&](PyObject* on, uint8_t flag) { return static_cast<uint8_t>(on == Py_None ? before & flag : on == Py_True ? flag : 0); };
  override_flags = static_cast<uint8_t>(wanted(args[0], kSubclassesOff) | wanted(args[1], kModeOn));
  return Py_BuildValue("(NN)", PyBool_FromLong(before & kSubclassesOff), PyBool_FromLong(before & kModeOn));
}
PyObject* has_override(PyObject*, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    if (taken_over(args[i])) Py_RETURN_TRUE;
  Py_RETURN_FALSE;
}
// call_override(func, args, kwargs): what has_override found takes the call of a function that is written in Python.
PyObject* call_override(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return python_result([&]() -> PyObject* {
    if (n != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2])) raise<TypeMismatch>("call_override: expected (func, args: tuple, kwargs: dict)");
    return dispatch(Owned(Py_NewRef(args[0])), Owned(Py_NewRef(args[1])), Owned(Py_NewRef(args[2])));
  });
}

PyMethodDef functions[] = {
#define FL_FAST(name, fn) {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(fn)), METH_FASTCALL, nullptr}
    FL_FAST("no_torch_function", call_plainly),
    FL_FAST("no_torch_dispatch", call_func),
    FL_FAST("set_override_flags", set_flags),
    FL_FAST("has_override", has_override),
    FL_FAST("call_override", call_override),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool overrides(PyTypeObject* type) {
  if (type == tensor_type || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  // Of the types that take nothing over, Parameter is met in every layer, and dtypes and sizes in many calls.
  struct Known {
    PyTypeObject* type;
    unsigned version;
  };
  static std::array<Known, 32> plain;
  Known& known = plain[(reinterpret_cast<uintptr_t>(type) >> 5) % plain.size()];
  if (known.type == type && known.version && known.version == version_of(type)) return false;
  const Owned handler(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), attribute_name));
  if (!handler.object) PyErr_Clear();
  else if ((handler.object != no_torch_function && handler.object != Py_None) || dispatches(type)) return true;
  known = {type, version_of(type)};
  return false;
}

bool call_taken_over(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  if (override_flags) [[unlikely]] return override_flags & kModeOn;
  const auto is_plain = [](const PyTypeObject* type) { return type == tensor_type || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE); };
  const auto takes = [&](PyObject* o) { return !is_plain(Py_TYPE(o)) && overrides(Py_TYPE(o)); };
  if (self && takes(self)) return true;
  const Py_ssize_t n = nargs + (kw ? PyTuple_GET_SIZE(kw) : 0);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const o = args[i];
    if (takes(o)) return true;
    if (!(Py_TYPE(o)->tp_flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS)) || Py_SIZE(o) == 0) continue;
    if (PyLong_CheckExact(PySequence_Fast_GET_ITEM(o, 0))) continue;  // sizes, axes
    for (Py_ssize_t k = 0; k < Py_SIZE(o); ++k) {  // looking at a type may run code that changes the list
      PyObject* const item = PySequence_Fast_GET_ITEM(o, k);
      if (is_plain(Py_TYPE(item))) continue;
      const Owned kept(Py_NewRef(item));
      if (overrides(Py_TYPE(item))) return true;
    }
  }
  return false;
}

bool taken_over_slowly(PyObject* o) {
  if (override_flags & kModeOn) return true;
  return !(override_flags & kSubclassesOff) && overrides(Py_TYPE(o));
}

void maybe_overridden(PyObject* o) {
  if (!(override_flags & kSubclassesOff) && overrides(Py_TYPE(o))) throw Overridden{};
}

PyObject* call_overridden(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  return python_result([&] {
    const Owned func = self ? tensor_attribute(name) : checked(call_helper("_public", checked(Py_BuildValue("(s)", name)).object));
    const Py_ssize_t first = self ? 1 : 0;
    const Owned all(make_tuple(nargs + first, [&](Py_ssize_t i) { return Py_NewRef(i < first ? self : args[i - first]); }));
    const Owned kwargs = no_keywords();
    for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); ++k)
      if (PyDict_SetItem(kwargs.object, PyTuple_GET_ITEM(kw, k), args[nargs + k]) < 0) throw PythonError{};
    return dispatch(func, all, kwargs);
  });
}

PyObject* overridden_or_error(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  try {
    throw;
  } catch (const Overridden&) {
    return call_overridden(name, self, args, nargs, kw);
  } catch (...) {
    return translate_exception();
  }
}

PyObject* call_overridden_attribute(const char* name, const char* access, PyObject* self, PyObject* value) {
  return python_result([&] {
    const Owned func = checked(PyObject_GetAttrString(tensor_attribute(name).object, access));
    const Owned all = checked(value ? PyTuple_Pack(2, self, value) : PyTuple_Pack(1, self));
    return dispatch(func, all, no_keywords());
  });
}

PyObject* call_overridden_operator(const char* name, const char* reflected, PyObject* a, PyObject* b) {
  const auto operand = [](PyObject* x) { return PyNumber_Check(x) || PyObject_HasAttr(x, attribute_name); };
  const bool fits = !b || (operand(a) && operand(b));
  PyObject* const result = python_result([&] {
    const bool forwards = !b || is_tensor(a);
    const Owned all = checked(!b ? PyTuple_Pack(1, a) : forwards ? PyTuple_Pack(2, a, b) : PyTuple_Pack(2, b, a));
    return dispatch(tensor_attribute(forwards ? name : reflected), all, no_keywords());
  });
  // Of what is no operand, such as None, Python asks further, and compares identities.
  if (result || fits || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  Py_RETURN_NOTIMPLEMENTED;
}

bool init_overrides(PyObject* module) {
  attribute_name = PyUnicode_InternFromString("__torch_function__");
  if (!attribute_name || PyModule_AddFunctions(module, functions) < 0) return false;
  no_torch_function = PyObject_GetAttrString(module, "no_torch_function");
  no_dispatch = PyObject_GetAttrString(module, "no_torch_dispatch");
  return no_torch_function && no_dispatch && PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__torch_dispatch__", no_dispatch) == 0;
}

}  // namespace fl::py
