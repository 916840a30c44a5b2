// Tensors whose values are in others, for classes with a `__torch_dispatch__`.
//
// Note [Hollow tensors]
// PyTorch's `Tensor._make_wrapper_subclass(cls, size, ...)` makes a tensor without memory. What it stands for is in its attributes: a quantized
// weight in integers and scales, say. To the core it is a tensor of its device whose bytes are pending for ever (Note [Pending bytes]); who asks
// for them is told so. Calls with such a tensor among the arguments are taken below autograd and go to the class's `__torch_dispatch__`
// (Note [Calls that are taken below autograd]), so that autograd, checks and shapes are the core's.
//
// Its storage owns a Hollow, which has the class and the attributes. So they live where autograd keeps the tensor and Python has no object
// of it any more: the next object is made of the class and shares them.
//
//     object --dict--> attributes <-- Hollow <-- storage <-- TensorImpl <-- object, and what is saved for backward
#pragma once

#include "bindings/objects.h"
#include "bindings/tensor_object.h"
#include "storage/pending.h"

namespace fl::py {

class Hollow final : public Recording {
 public:
  Hollow(PyTypeObject* type, PyObject* attributes);
  ~Hollow() override;
  void settle() override;  // throws

  PyTypeObject* type() const { return type_; }
  PyObject* attributes() const { return attributes_; }
  // A dict of what is in the slots of the class, for the next object.
  void keep_slots(PyObject* slots) { drop_from_anywhere(std::exchange(slots_, Py_NewRef(slots))); }

  int traverse(visitproc visit, void* arg) const;
  void clear();
  // A new object for a tensor over its storage.
  PyObject* wrap(Tensor tensor) const;

  // Of a hollow tensor.
  static Hollow& of(const Tensor& x) { return const_cast<Hollow&>(static_cast<const Hollow&>(x.storage().instead())); }
  // Whether there are any in the process.
  static bool any();

  bool visited = false;  // Note [Two passes of the collector]

 private:
  PyTypeObject* type_;
  PyObject* attributes_;
  PyObject* slots_ = nullptr;
};

inline bool is_hollow(const Tensor& x) { return x.defined() && x.storage().is_hollow(); }

}  // namespace fl::py
