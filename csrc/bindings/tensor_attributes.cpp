// Attributes of a tensor: x.shape, x.grad, x.data, x.T, ...
#include "autograd/meta.h"
#include "bindings/args.h"
#include "bindings/autograd.h"
#include "bindings/dispatch.h"
#include "bindings/hollow.h"
#include "bindings/tensor_object.h"
#include "bindings/tensor_slots.h"
#include "bindings/types.h"
#include "graph/program.h"
#include "tensor/sparse.h"
#include "wrappers/native.h"
#include "op/adjoint.h"
#include "op/conj.h"
#include "op/copy_.h"
#include "op/fill_.h"
#include "op/imag.h"
#include "op/permute.h"
#include "op/real.h"
#include "op/transpose.h"

namespace fl::py {

Tensor detached(const Tensor& x) {
  if (is_hollow(x)) [[unlikely]] return detached_hollow(x);
  return alias(x);
}

namespace {

PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] { return make_size(tensor_of(self).sizes()); });
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(tensor_of(self).ndim()); }
PyObject* get_dtype(PyObject* self, void*) {
  PyObject* o = dtype_object(tensor_of(self).dtype());
  Py_INCREF(o);
  return o;
}
PyObject* get_device(PyObject* self, void*) { return make_device(tensor_of(self).device()); }
PyObject* get_requires_grad(PyObject* self, void*) { return PyBool_FromLong(requires_grad(tensor_of(self))); }
int set_requires_grad_attr(PyObject* self, PyObject* value, void*) {
  try {
    set_requires_grad(tensor_of(self), exact_truth("requires_grad", value));
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
PyObject* get_grad(PyObject* self, void*) {
  const Tensor& x = tensor_of(self);
  Tensor grad = gradient_of(x);
  graph::note_gradient(x, grad, true);
  if (!grad.defined() && requires_grad(x) && !is_leaf(x) && !meta_of(x)->retains_grad &&
      PyErr_WarnEx(PyExc_UserWarning, "grad of a tensor that is not a leaf: it is not kept by backward(); call .retain_grad() on the tensor first, or read a leaf's .grad", 1) != 0)
    return nullptr;
  return wrap(std::move(grad));
}
void replace_grad(const Tensor& x, Tensor grad) {
  if (graph::recording()) [[unlikely]] graph::note_gradient(x, gradient_of(x), false);
  (void)replace_gradient(x, std::move(grad));
}
int set_grad_attr(PyObject* self, PyObject* value, void*) {
  try {
    const Tensor& x = tensor_of(self);
    if (!value || value == Py_None) {
      if (meta_of(x)) replace_grad(x, Tensor());
      return 0;
    }
    if (!is_tensor(value)) raise<TypeMismatch>("grad: expected to be a Tensor or None, but got a ", Py_TYPE(value)->tp_name);
    const Tensor& g = tensor_of(value);
    if (g.same(x)) raise<ArgumentError>("grad: can't assign Variable as its own grad");
    if (!(g.sizes() == x.sizes()) || g.dtype() != x.dtype())
      raise<ShapeError>("grad: got ", g.dtype(), " ", g.sizes(), " for a tensor of ", x.dtype(), " ", x.sizes(), "; expected the same shape and type");
    if (place_of(g) != x.device()) raise<DeviceError>("grad: got a gradient on ", place_of(g), " for a tensor on ", x.device(), "; expected one device");
    replace_grad(x, g);
    track(self);  // the gradient may have a graph
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(!requires_grad(tensor_of(self)) || is_leaf(tensor_of(self))); });
}
PyObject* get_grad_fn(PyObject* self, void*) {
  track(self);  // the node may get hooks
  return guarded([&] { return wrap_node(grad_fn(tensor_of(self))); });
}
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] {
    Tensor y = detached(tensor_of(self));
    y.impl()->own_var = make_ref<OwnVar>();
    return wrap(std::move(y));
  });
}
int set_data(PyObject* self, PyObject* value, void*) {
  try {
    if (!value || !is_tensor(value)) raise<TypeMismatch>("data: expected a Tensor");
    TensorImpl& x = *tensor_of(self).impl();
    const TensorImpl& y = *tensor_of(value).impl();
    if (is_sparse(tensor_of(value)) != is_sparse(tensor_of(self)))
      raise<ArgumentError>("data: got a ", is_sparse(tensor_of(value)) ? "sparse" : "dense", " tensor ", y.sizes, " for a ",
                           is_sparse(tensor_of(self)) ? "sparse" : "dense", " one ", x.sizes, "; expected the same layout (to_dense(), to_sparse())");
    if (x.requires_grad && x.dtype != y.dtype && !is_inexact(y.dtype))
      raise<DTypeError>("data: got ", y.dtype, " for a tensor that requires grad; expected a floating point or complex type");
    graph::note_change(tensor_of(self), "it gives a tensor that lives on other memory");
    graph::note_object_change(tensor_of(self));
    expect_gradient(tensor_of(self), y.sizes, y.dtype);
    x.storage = y.storage;
    x.sizes = y.sizes;
    x.strides = y.strides;
    x.offset = y.offset;
    x.dtype = y.dtype;
    x.base = nullptr;
    x.view_tracks_base = x.from_function = false;
    x.refresh();
    if (is_hollow(tensor_of(self))) [[unlikely]] Hollow::of(tensor_of(self)).show(self);
    return PyErr_Occurred() ? -1 : 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
PyObject* get_T(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    Dims reversed;
    for (int i = x.ndim() - 1; i >= 0; --i) reversed.push_back(i);
    if (x.ndim() != 2 && x.ndim() != 0 &&
        PyErr_WarnEx(PyExc_UserWarning, "x.T of a tensor whose number of axes is not 2 reverses them all, which is deprecated; use x.mT for a batch of matrices, or x.permute(...)", 1) != 0)
      throw_python_error();
    return wrap(op::permute(x, reversed));
  });
}
PyObject* get_mT(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    if (x.ndim() < 2) raise<ShapeError>("mT: tensor.mT is only supported on matrices or batches of matrices, but it has shape ", x.sizes());
    return wrap(op::transpose(x, -2, -1));
  });
}
PyObject* get_H(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    if (x.ndim() != 2 && x.ndim() != 0) raise<ShapeError>("H: the tensor has shape ", x.sizes(), "; expected two axes (mH takes more)");
    return wrap(x.ndim() == 0 ? op::conj(x) : op::adjoint(x));
  });
}
PyObject* get_mH(PyObject* self, void*) {
  return guarded([&] { return wrap(op::adjoint(tensor_of(self))); });
}
PyObject* get_real(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    return is_complex(x.dtype()) ? wrap(op::real(x)) : Py_NewRef(self);
  });
}
PyObject* get_imag(PyObject* self, void*) {
  return guarded([&] { return wrap(op::imag(tensor_of(self))); });
}
// x.real = y writes into x.
int write_part(Tensor (*part)(const Tensor&), const char* name, PyObject* self, PyObject* value) {
  try {
    Operand given{Scalar()};
    if (!value || !try_operand(value, given)) raise<TypeMismatch>(name, ": expected a tensor or a number");
    const Tensor to = part(tensor_of(self));
    if (given.is_tensor()) op::copy_(to, given.tensor());
    else op::fill_(to, given);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
int set_real(PyObject* self, PyObject* value, void*) { return write_part(op::real, "real", self, value); }
int set_imag(PyObject* self, PyObject* value, void*) { return write_part(op::imag, "imag", self, value); }
PyObject* get_retains_grad(PyObject* self, void*) {
  AutogradMeta* meta = meta_of(tensor_of(self));
  return PyBool_FromLong(meta && meta->retains_grad);
}
PyObject* get_version(PyObject* self, void*) {
  return guarded([&] {
    if (tensor_of(self).storage().birth().inference)
      raise<AutogradError>("_version: writes are not counted into a tensor made in inference_mode; clone() it outside first");
    return PyLong_FromUnsignedLong(noticed_var(*tensor_of(self).impl()).noticed());
  });
}
PyObject* get_output_nr(PyObject* self, void*) {
  AutogradMeta* meta = meta_of(tensor_of(self));
  return PyLong_FromUnsignedLong(meta ? meta->output_nr : 0);
}
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(tensor_of(self).item_bytes()); }
PyObject* get_nbytes(PyObject* self, void*) {
  const Tensor& x = tensor_of(self);
  return PyLong_FromSize_t(x.item_bytes() * static_cast<size_t>(x.numel()));
}
PyObject* get_is_cuda(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_is_cpu(PyObject* self, void*) { return PyBool_FromLong(tensor_of(self).device().kind == DeviceKind::CPU); }
PyObject* get_is_meta(PyObject* self, void*) { return PyBool_FromLong(tensor_of(self).is_meta()); }
PyObject* get_base(PyObject* self, void*) {
  const TensorImpl& impl = *tensor_of(self).impl();
  return wrap(impl.base && impl.view_tracks_base ? Tensor(impl.base) : Tensor());
}

// Whoever has the dict may put anything into it.
PyObject* get_dict(PyObject* self, void* context) {
  track(self);
  return PyObject_GenericGetDict(self, context);
}
int set_dict(PyObject* self, PyObject* value, void* context) {
  track(self);
  return PyObject_GenericSetDict(self, value, context);
}

PyGetSetDef dict_attribute = {"__dict__", get_dict, set_dict, nullptr, nullptr};

}  // namespace

const PyGetSetDef* const tensor_dict = &dict_attribute;
PyGetSetDef tensor_attributes[] = {
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"device", get_device, nullptr, nullptr, nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad_attr, nullptr, nullptr},
    {"grad", get_grad, set_grad_attr, nullptr, nullptr},
    {"grad_fn", get_grad_fn, nullptr, nullptr, nullptr},
    {"is_leaf", get_is_leaf, nullptr, nullptr, nullptr},
    {"data", get_data, set_data, nullptr, nullptr},
    {"T", get_T, nullptr, nullptr, nullptr},
    {"H", get_H, nullptr, nullptr, nullptr},
    {"mT", get_mT, nullptr, nullptr, nullptr},
    {"real", get_real, set_real, nullptr, nullptr},
    {"imag", get_imag, set_imag, nullptr, nullptr},
    {"mH", get_mH, nullptr, nullptr, nullptr},
    {"retains_grad", get_retains_grad, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, nullptr, nullptr},
    {"_base", get_base, nullptr, nullptr, nullptr},
    {"output_nr", get_output_nr, nullptr, nullptr, nullptr},
    {"itemsize", get_itemsize, nullptr, nullptr, nullptr},
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace fl::py
