#include "bindings/hollow.h"

#include <atomic>

#include "base/error.h"

namespace fl::py {
namespace {

std::atomic<int64_t> alive{0};

}  // namespace

Hollow::Hollow(PyTypeObject* type, PyObject* attributes)
    : type_(reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(type)))), attributes_(Py_NewRef(attributes)) {
  alive.fetch_add(1, std::memory_order_relaxed);
}

Hollow::~Hollow() {
  alive.fetch_sub(1, std::memory_order_relaxed);
  drop_from_anywhere(slots_);
  drop_from_anywhere(attributes_);
  drop_from_anywhere(reinterpret_cast<PyObject*>(type_));
}

bool Hollow::any() { return alive.load(std::memory_order_relaxed) > 0; }

void Hollow::settle() {
  raise<ArgumentError>("a tensor of class ", type_->tp_name, " has no memory: what it stands for is in its attributes, and this call is none that its "
                       "__torch_dispatch__ is asked for");
}

int Hollow::traverse(visitproc visit, void* arg) const {
  Py_VISIT(type_);
  Py_VISIT(attributes_);
  Py_VISIT(slots_);
  return 0;
}

void Hollow::clear() {
  Py_CLEAR(attributes_);
  Py_CLEAR(slots_);
}

PyObject* Hollow::wrap(Tensor tensor) {
  Owned made(wrap_as(type_, std::move(tensor)));
  if (!made.object) return nullptr;
  show(made.object);
  return PyErr_Occurred() ? nullptr : made.release();
}

void Hollow::show(PyObject* object) {
  if (Py_TYPE(object) != type_) return;
  if (const Owned other(Py_XNewRef(object_)); other.object && other.object != object) keep(other.object);
  object_ = object;
  Py_XSETREF(reinterpret_cast<TensorObject*>(object)->dict, Py_XNewRef(attributes_));
  track(object);
  const Owned slots(Py_XNewRef(slots_));  // a descriptor may run programs
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; slots.object && PyDict_Next(slots.object, &at, &name, &value);)
    if (PyObject_GenericSetAttr(object, name, value) < 0) return;
}

void Hollow::leave(PyObject* object, bool before) {
  if (object_ == object) object_ = nullptr;
  if (before) keep(object);
}

void Hollow::keep(PyObject* object) {
  if (Py_TYPE(object) != type_) return;
  PyObject* const now = reinterpret_cast<TensorObject*>(object)->dict;
  if (now && now != attributes_) Py_XSETREF(attributes_, Py_NewRef(now));
  const Owned module(PyImport_ImportModule("flambeau._hollow"));
  const Owned ask(module.object ? PyObject_GetAttrString(module.object, "slots") : nullptr);
  const Owned args(ask.object ? PyTuple_Pack(1, object) : nullptr);
  Owned slots(args.object ? call_python(ask.object, args.object) : nullptr);
  if (slots.object) Py_XSETREF(slots_, slots.release());
  else PyErr_WriteUnraisable(object);
}

}  // namespace fl::py
