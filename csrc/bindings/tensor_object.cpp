// How a tensor's object comes and goes, and what its type, and that of Size, are put together from.
#include "bindings/tensor_object.h"

#include <structmember.h>

#include "bindings/args.h"
#include "bindings/autograd.h"
#include "bindings/collector.h"
#include "bindings/data.h"
#include "bindings/errors.h"
#include "bindings/hollow.h"
#include "bindings/indexing.h"
#include "bindings/tensor_slots.h"

namespace fl::py {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* size_type = nullptr;
FreeObjects free_objects;

namespace {

void tensor_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  if (TensorImpl* impl = o->tensor.impl(); impl && impl->pyobj == self) impl->pyobj = nullptr;
  o->tensor.~Tensor();
  if (type != tensor_type || !free_objects.keep(o)) type->tp_free(self);
  Py_DECREF(type);
}

// Of objects of subclasses, before anything of them goes.
void tensor_finalize(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (!is_hollow(x)) return;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Hollow::of(x).leave(self, x.ref()->use_count() > 1 || x.storage().use_count() > 1);
  PyErr_Restore(type, value, trace);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->dict);
  if (o->tensor.defined()) return traverse_owned(o->tensor, self, visit, arg);
  return 0;
}

int tensor_clear(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  Py_CLEAR(o->dict);
  if (o->tensor.defined()) clear_owned(o->tensor);
  return 0;
}

int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  if (result == 0 && reinterpret_cast<TensorObject*>(self)->dict) track(self);
  return result;
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  // Tensor(data) and Tensor(2, 3) are spelled out in Python.
  return guarded([&]() -> PyObject* {
    const Owned module(PyImport_ImportModule("flambeau._tensor"));
    const Owned make(module.object ? PyObject_GetAttrString(module.object, "_construct") : nullptr);
    if (!make.object) return nullptr;
    const Owned with_type(make_tuple(PyTuple_GET_SIZE(args) + 1, [&](Py_ssize_t i) {
      return Py_NewRef(i == 0 ? reinterpret_cast<PyObject*>(type) : PyTuple_GET_ITEM(args, i - 1));
    }));
    return call_python(make.object, with_type.object, kwargs);
  });
}

Py_hash_t tensor_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self)); }  // id(self), as in PyTorch

Py_ssize_t tensor_length(PyObject* self) {
  if (taken_over(self)) [[unlikely]] {
    const Owned n(call_overridden("__len__", self, nullptr, 0, nullptr));
    return n.object ? PyLong_AsSsize_t(n.object) : -1;
  }
  const Tensor& x = tensor_of(self);
  if (x.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return static_cast<Py_ssize_t>(x.sizes()[0]);
}

// Attributes go through these two, whose context is the entry of `tensor_attributes`.
PyObject* read_attribute(PyObject* self, void* context) {
  const auto& a = *static_cast<const PyGetSetDef*>(context);
  if (taken_over(self)) [[unlikely]] return call_overridden_attribute(a.name, "__get__", self);
  return a.get(self, a.closure);
}
int write_attribute(PyObject* self, PyObject* value, void* context) {
  const auto& a = *static_cast<const PyGetSetDef*>(context);
  if (taken_over(self)) [[unlikely]]
    return Owned(call_overridden_attribute(a.name, value ? "__set__" : "__delete__", self, value)).object ? 0 : -1;
  return a.set(self, value, a.closure);
}

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// ---- Size

PyObject* size_repr(PyObject* self) {
  const Owned list(PySequence_List(self));
  return list.object ? PyUnicode_FromFormat("flambeau.Size(%R)", list.object) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
  Owned n(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; n.object && i < PyTuple_GET_SIZE(self); ++i) {
    const Owned size(PyNumber_Index(PyTuple_GET_ITEM(self, i)));
    n = Owned(size.object ? PyNumber_Multiply(n.object, size.object) : nullptr);
  }
  return n.release();
}
// A tuple that an operator of tuples has made of a Size, as a Size where it holds nothing but ints. Takes the reference over.
PyObject* sized(PyObject* made) {
  if (!made || !PyTuple_CheckExact(made)) return made;
  const Owned tuple(made);
  const Py_ssize_t n = PyTuple_GET_SIZE(made);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!PyLong_Check(PyTuple_GET_ITEM(made, i))) return Py_NewRef(made);
  return guarded([&] { return fill_tuple(size_type->tp_alloc(size_type, n), n, [&](Py_ssize_t i) { return Py_NewRef(PyTuple_GET_ITEM(made, i)); }); });
}
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* options) {
  const Owned tuple(PyTuple_Type.tp_new(&PyTuple_Type, args, options));
  if (!tuple.object) return nullptr;
  const Py_ssize_t n = PyTuple_GET_SIZE(tuple.object);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.object, i);
    if (!PyIndex_Check(item)) return PyErr_Format(PyExc_TypeError, "Size: item %zd is a %s; expected an int", i, Py_TYPE(item)->tp_name);
  }
  return guarded([&] { return fill_tuple(type->tp_alloc(type, n), n, [&](Py_ssize_t i) { return PyNumber_Index(PyTuple_GET_ITEM(tuple.object, i)); }); });
}
PyObject* size_subscript(PyObject* self, PyObject* index) { return sized(PyTuple_Type.tp_as_mapping->mp_subscript(self, index)); }
PyObject* size_concat(PyObject* self, PyObject* other) { return sized(PyTuple_Type.tp_as_sequence->sq_concat(self, other)); }
// Also of a tuple and a Size.
PyObject* size_add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) return Py_NewRef(Py_NotImplemented);
  return size_concat(a, b);
}
PyObject* size_repeat(PyObject* self, Py_ssize_t times) { return sized(PyTuple_Type.tp_as_sequence->sq_repeat(self, times)); }
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void track(PyObject* o) {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

PyObject* wrap_hollow(Tensor tensor) {
  const Ref<Storage> storage = tensor.impl()->storage;
  return Hollow::of(tensor).wrap(std::move(tensor));
}

PyObject* wrap(Tensor tensor) { return wrap_here(std::move(tensor)); }

PyObject* wrap_as(PyTypeObject* type, Tensor tensor) {
  if (type == tensor_type) return wrap(std::move(tensor));
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  auto* o = reinterpret_cast<TensorObject*>(self);
  tensor.impl()->pyobj = self;
  new (&o->tensor) Tensor(std::move(tensor));
  return self;
}

PyObject* wrap_list(std::vector<Tensor>&& tensors) {
  return make_tuple(static_cast<Py_ssize_t>(tensors.size()), [&](Py_ssize_t i) { return wrap(std::move(tensors[static_cast<size_t>(i)])); });
}

PyObject* make_size(IntList sizes) {
  const auto n = static_cast<Py_ssize_t>(sizes.size());
  return fill_tuple(size_type->tp_alloc(size_type, n), n, [&](Py_ssize_t i) { return PyLong_FromLongLong(sizes[static_cast<size_t>(i)]); });
}

extern PyMethodDef* const op_method_tables[];

bool init_tensor_type(PyObject* module) {
  static std::vector<PyMethodDef> all;
  for (PyMethodDef* m = tensor_methods; m->ml_name; ++m) all.push_back(*m);
  for (PyMethodDef* const* table = op_method_tables; *table; ++table)
    for (PyMethodDef* m = *table; m->ml_name; ++m) all.push_back(*m);
  all.push_back({nullptr, nullptr, 0, nullptr});
  static std::vector<PyGetSetDef> attributes;
  for (PyGetSetDef* a = tensor_attributes; a->name; ++a)
    attributes.push_back({a->name, read_attribute, a->set ? write_attribute : nullptr, a->doc, a});
  attributes.push_back(*tensor_dict);
  attributes.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  std::vector<PyType_Slot> slots{
      slot(Py_tp_dealloc, tensor_dealloc), slot(Py_tp_finalize, tensor_finalize), slot(Py_tp_traverse, tensor_traverse), slot(Py_tp_clear, tensor_clear),
      slot(Py_tp_setattro, tensor_setattro), slot(Py_tp_new, tensor_new), slot(Py_tp_hash, tensor_hash),
      {Py_tp_methods, all.data()}, {Py_tp_getset, attributes.data()}, {Py_tp_members, members},
      slot(Py_mp_length, tensor_length), slot(Py_mp_subscript, get_item), slot(Py_mp_ass_subscript, set_item),
      slot(Py_bf_getbuffer, get_buffer), slot(Py_bf_releasebuffer, release_buffer)};
  for (const PyType_Slot* s = tensor_number_slots; s->slot; ++s) slots.push_back(*s);
  slots.push_back({0, nullptr});
  PyType_Spec spec{"flambeau.Tensor", sizeof(TensorObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type || PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) < 0 || !init_overrides(module)) return false;
  PyType_Slot size_slots[] = {slot(Py_tp_new, size_new), slot(Py_tp_repr, size_repr), slot(Py_mp_subscript, size_subscript), slot(Py_sq_concat, size_concat), slot(Py_nb_add, size_add),
                              slot(Py_sq_repeat, size_repeat), {Py_tp_methods, size_methods}, {0, nullptr}};
  PyType_Spec size_spec{"flambeau.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots};
  size_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&size_spec, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  return size_type && PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) == 0;
}

}  // namespace fl::py
