// Tensors whose values are in others, for classes with a `__torch_dispatch__`.
//
// Note [Hollow tensors]
// PyTorch's `Tensor._make_wrapper_subclass(cls, size, ...)` makes a tensor without memory. What it stands for is in its attributes: a quantized
// weight in integers and scales, say. To the core it is a tensor of its device whose bytes are pending for ever (Note [Pending bytes]); who asks
// for them is told so. Calls with such a tensor among the arguments are taken below autograd and go to the class's `__torch_dispatch__`
// (Note [Calls that are taken below autograd]), so that autograd, checks and shapes are the core's.
//
// Its storage owns a Hollow, which has the class and the attributes. So they live where autograd keeps the tensor and Python has no object
// of it any more: the next object is made of the class and shares them. An object that goes before its tensor leaves its slots as well.
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
  // An object goes, before the tensor does or with it.
  void leave(PyObject* object, bool before);
  // Makes an object show the attributes, where it is of the class.
  void show(PyObject* object);

  int traverse(visitproc visit, void* arg) const;
  void clear();
  // A new object for a tensor over its storage.
  PyObject* wrap(Tensor tensor);

  // Of a hollow tensor.
  static Hollow& of(const Tensor& x) { return const_cast<Hollow&>(static_cast<const Hollow&>(x.storage().instead())); }
  // Whether there are any in the process.
  static bool any();

  bool visited = false;  // Note [Two passes of the collector]

 private:
  // What is in an object's __dict__ and in the slots of its class, for the next one.
  void keep(PyObject* object);

  PyTypeObject* type_;
  PyObject* attributes_;
  PyObject* object_ = nullptr;  // the last one that shows them, while it lives; borrowed
  PyObject* slots_ = nullptr;
};

inline bool is_hollow(const Tensor& x) { return x.defined() && x.storage().is_hollow(); }

}  // namespace fl::py
