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
  Py_VISIT(attributes_);
  Py_VISIT(slots_);
  return 0;
}

void Hollow::clear() {
  Py_CLEAR(attributes_);
  Py_CLEAR(slots_);
}

PyObject* Hollow::wrap(Tensor tensor) const {
  Owned made(wrap_as(type_, std::move(tensor)));
  if (!made.object) return nullptr;
  reinterpret_cast<TensorObject*>(made.object)->dict = Py_XNewRef(attributes_);
  track(made.object);
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; slots_ && PyDict_Next(slots_, &at, &name, &value);)
    if (PyObject_GenericSetAttr(made.object, name, value) < 0) return nullptr;
  return made.release();
}

}  // namespace fl::py
