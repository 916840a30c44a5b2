#include "bindings/tensor_object.h"

#include <structmember.h>

#include "autograd/meta.h"
#include "base/sanitized.h"
#include "bindings/args.h"
#include "bindings/autograd.h"
#include "bindings/data.h"
#include "bindings/indexing.h"
#include "bindings/types.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/abs.h"
#include "op/add.h"
#include "op/bitwise_and.h"
#include "op/bitwise_left_shift.h"
#include "op/bitwise_not.h"
#include "op/bitwise_or.h"
#include "op/bitwise_right_shift.h"
#include "op/bitwise_xor.h"
#include "op/div.h"
#include "op/eq.h"
#include "op/floor_divide.h"
#include "op/ge.h"
#include "op/gt.h"
#include "op/le.h"
#include "op/lt.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/ne.h"
#include "op/neg.h"
#include "op/permute.h"
#include "op/pow.h"
#include "op/remainder.h"
#include "op/rsub.h"
#include "op/sub.h"
#include "op/transpose.h"

namespace fl::py {

PyTypeObject* tensor_type = nullptr;
PyTypeObject* size_type = nullptr;

namespace {

constexpr int kFreeObjects = 256;
TensorObject* free_objects[kFreeObjects];
int free_count = 0;

TensorObject* new_object() {
  if (free_count > 0) {
    TensorObject* o = free_objects[--free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(o), tensor_type);
    return o;
  }
  return PyObject_GC_New(TensorObject, tensor_type);
}

void tensor_dealloc(PyObject* self) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  if (TensorImpl* impl = o->tensor.impl(); impl && impl->pyobj == self) impl->pyobj = nullptr;
  o->tensor.~Tensor();
  if (type == tensor_type && free_count < kFreeObjects && !kAddressSanitizer) free_objects[free_count++] = o;
  else type->tp_free(self);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* o = reinterpret_cast<TensorObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(o->dict);
  if (o->tensor.defined()) return traverse_owned(o->tensor, visit, arg);
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

template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    return translate_exception();
  }
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
    return PyObject_Call(make.object, with_type.object, kwargs);
  });
}

// ---- operators

using BinaryFn = Tensor (*)(const Operand&, const Operand&);

// An operand that may also be a NumPy array, whose memory is then read in place through `keep`.
bool array_operand(PyObject* o, Operand& out, Tensor& keep) {
  if (try_operand(o, out)) return true;
  if (!PyObject_CheckBuffer(o) || PyBytes_Check(o) || !PyObject_HasAttrString(o, "__array_interface__")) return false;
  keep = tensor_from_buffer(o);
  out = Operand(keep);
  return true;
}

template <class F>
PyObject* binary(PyObject* a, PyObject* b, F&& f) {
  return guarded([&]() -> PyObject* {
    Operand x{Scalar()}, y{Scalar()};
    Tensor keep_x, keep_y;
    if (!array_operand(a, x, keep_x) || !array_operand(b, y, keep_y)) Py_RETURN_NOTIMPLEMENTED;
    return wrap(without_gil(work_of(x) + work_of(y), [&] { return f(x, y); }));
  });
}

template <class F>
PyObject* inplace(PyObject* a, PyObject* b, F&& f) {
  return guarded([&]() -> PyObject* {
    Operand y{Scalar()};
    if (!is_tensor(a) || !try_operand(b, y)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor& x = tensor_of(a);
    without_gil(work_of(x), [&] { return f(x, y); });
    Py_INCREF(a);
    return a;
  });
}

#define FL_BINARY(slot, fn) \
  PyObject* slot(PyObject* a, PyObject* b) { return binary(a, b, [](const Operand& x, const Operand& y) { return fn(x, y); }); }
#define FL_INPLACE(slot, fn) \
  PyObject* slot(PyObject* a, PyObject* b) { return inplace(a, b, [](const Tensor& x, const Operand& y) { return fn(x, y); }); }

FL_BINARY(nb_add, op::add)
PyObject* nb_sub(PyObject* a, PyObject* b) {
  return binary(a, b, [](const Operand& x, const Operand& y) { return x.is_tensor() ? op::sub(x, y) : op::rsub(y.tensor(), x); });
}
FL_BINARY(nb_mul, op::mul)
FL_BINARY(nb_div, op::div)
FL_BINARY(nb_floordiv, op::floor_divide)
FL_BINARY(nb_mod, op::remainder)
FL_BINARY(nb_and, op::bitwise_and)
FL_BINARY(nb_or, op::bitwise_or)
FL_BINARY(nb_xor, op::bitwise_xor)
FL_BINARY(nb_lshift, op::bitwise_left_shift)
FL_BINARY(nb_rshift, op::bitwise_right_shift)
FL_INPLACE(nb_iadd, op::add_)
FL_INPLACE(nb_isub, op::sub_)
FL_INPLACE(nb_imul, op::mul_)
FL_INPLACE(nb_idiv, op::div_)
FL_INPLACE(nb_ifloordiv, op::floor_divide_)
FL_INPLACE(nb_imod, op::remainder_)
FL_INPLACE(nb_iand, op::bitwise_and_)
FL_INPLACE(nb_ior, op::bitwise_or_)
FL_INPLACE(nb_ixor, op::bitwise_xor_)
FL_INPLACE(nb_ilshift, op::bitwise_left_shift_)
FL_INPLACE(nb_irshift, op::bitwise_right_shift_)

PyObject* nb_pow(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow: a tensor takes no third argument");
    return nullptr;
  }
  return binary(a, b, op::pow);
}
PyObject* nb_ipow(PyObject* a, PyObject* b, PyObject*) {
  return inplace(a, b, [](const Tensor& x, const Operand& y) { return op::pow_(x, y); });
}

PyObject* nb_matmul(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor &x = tensor_of(a), &y = tensor_of(b);
    return wrap(without_gil(16 * (work_of(x) + work_of(y)), [&] { return op::matmul(x, y); }));
  });
}

template <class F>
PyObject* unary(PyObject* a, F&& f) {
  return guarded([&] {
    const Tensor& x = tensor_of(a);
    return wrap(without_gil(work_of(x), [&] { return f(x); }));
  });
}
PyObject* nb_neg(PyObject* a) { return unary(a, [](const Tensor& x) { return op::neg(x); }); }
PyObject* nb_abs(PyObject* a) { return unary(a, [](const Tensor& x) { return op::abs(x); }); }
PyObject* nb_pos(PyObject* a) {
  Py_INCREF(a);
  return a;
}
PyObject* nb_invert(PyObject* a) { return unary(a, [](const Tensor& x) { return op::bitwise_not(x); }); }

int nb_bool(PyObject* self) {
  try {
    const Tensor& x = tensor_of(self);
    if (x.numel() != 1)
      raise<ArgumentError>("bool: a tensor of shape ", x.sizes(), " has no single truth value; use .any() or .all()");
    const Scalar s = item_of(x);
    return s.is_float() ? s.as_double() != 0 : s.as_int() != 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

PyObject* nb_float(PyObject* self) {
  return guarded([&] { return PyFloat_FromDouble(item_of(tensor_of(self)).as_double()); });
}
PyObject* nb_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar s = item_of(tensor_of(self));
    return s.is_float() ? PyLong_FromDouble(s.as_double()) : PyLong_FromLongLong(s.as_int());
  });
}
PyObject* nb_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (is_float(x.dtype()) || x.numel() != 1)
      raise<TypeMismatch>("a tensor of ", x.dtype(), " and shape ", x.sizes(), " can not be used as an index; expected one integer");
    return PyLong_FromLongLong(item_of(x).as_int());
  });
}

PyObject* richcompare(PyObject* a, PyObject* b, int how) {
  return binary(a, b, [how](const Operand& x, const Operand& y) {
    switch (how) {
      case Py_EQ: return op::eq(x, y);
      case Py_NE: return op::ne(x, y);
      case Py_LT: return op::lt(x, y);
      case Py_LE: return op::le(x, y);
      case Py_GT: return op::gt(x, y);
      default: return op::ge(x, y);
    }
  });
}

Py_hash_t tensor_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

Py_ssize_t tensor_length(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (x.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len: a 0-d tensor has no length");
    return -1;
  }
  return static_cast<Py_ssize_t>(x.sizes()[0]);
}

// ---- attributes

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
    const int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0) return -1;
    set_requires_grad(tensor_of(self), on);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}
PyObject* get_grad(PyObject* self, void*) {
  AutogradMeta* meta = meta_of(tensor_of(self));
  if (!meta) return wrap(Tensor());
  Tensor grad;
  {
    const std::lock_guard lock(meta->mutex());
    grad = meta->grad;
  }
  return wrap(std::move(grad));
}
void replace_grad(AutogradMeta& meta, Tensor grad) {
  const std::lock_guard lock(meta.mutex());
  std::swap(meta.grad, grad);  // the old one goes with the argument, after the lock
}
int set_grad_attr(PyObject* self, PyObject* value, void*) {
  try {
    const Tensor& x = tensor_of(self);
    if (!value || value == Py_None) {
      if (AutogradMeta* meta = meta_of(x)) replace_grad(*meta, Tensor());
      return 0;
    }
    if (!is_tensor(value)) raise<TypeMismatch>("grad: got a ", Py_TYPE(value)->tp_name, "; expected a Tensor or None");
    const Tensor& g = tensor_of(value);
    if (g.same(x)) raise<ArgumentError>("grad: a tensor can not be its own gradient");
    if (!(g.sizes() == x.sizes()) || g.dtype() != x.dtype())
      raise<ShapeError>("grad: got ", g.dtype(), " ", g.sizes(), " for a tensor of ", x.dtype(), " ", x.sizes(), "; expected the same shape and type");
    if (g.device() != x.device()) raise<DeviceError>("grad: got a gradient on ", g.device(), " for a tensor on ", x.device(), "; expected one device");
    replace_grad(ensure_meta(x), g);
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
Tensor detached(const Tensor& x) {
  Tensor y = alias(x);
  y.impl()->inference = x.impl()->inference;
  return y;
}
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] { return wrap(detached(tensor_of(self))); });
}
int set_data(PyObject* self, PyObject* value, void*) {
  try {
    if (!value || !is_tensor(value)) raise<TypeMismatch>("data: expected a Tensor");
    TensorImpl& x = *tensor_of(self).impl();
    const TensorImpl& y = *tensor_of(value).impl();
    if (x.requires_grad && x.dtype != y.dtype && !is_float(y.dtype))
      raise<DTypeError>("data: got ", y.dtype, " for a tensor that requires grad; expected a floating point type");
    x.storage = y.storage;
    x.sizes = y.sizes;
    x.strides = y.strides;
    x.offset = y.offset;
    x.dtype = y.dtype;
    x.base = nullptr;
    x.view_tracks_base = false;
    x.refresh();
    return 0;
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
    return wrap(op::permute(x, reversed));
  });
}
PyObject* get_mT(PyObject* self, void*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    if (x.ndim() < 2) raise<ShapeError>("mT: the tensor has shape ", x.sizes(), "; expected at least two axes");
    return wrap(op::transpose(x, -2, -1));
  });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  AutogradMeta* meta = meta_of(tensor_of(self));
  return PyBool_FromLong(meta && meta->retains_grad);
}
PyObject* get_version(PyObject* self, void*) { return PyLong_FromUnsignedLong(tensor_of(self).storage().var().version()); }
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

PyGetSetDef getset[] = {
    {"__dict__", get_dict, set_dict, nullptr, nullptr},
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
    {"H", get_mT, nullptr, nullptr, nullptr},
    {"mT", get_mT, nullptr, nullptr, nullptr},
    {"mH", get_mT, nullptr, nullptr, nullptr},
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

// ---- methods that are not ops

PyObject* m_dim(PyObject* self, PyObject*) { return get_ndim(self, nullptr); }
PyObject* m_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).numel()); }
PyObject* m_element_size(PyObject* self, PyObject*) { return get_itemsize(self, nullptr); }
PyObject* m_item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    const Scalar s = item_of(x);
    if (s.is_float()) return PyFloat_FromDouble(s.as_double());
    if (s.kind() == Scalar::Kind::Bool) return PyBool_FromLong(s.as_int() != 0);
    return PyLong_FromLongLong(s.as_int());
  });
}
// The only argument of a method, by position or by its name; null where it is not given.
PyObject* only_argument(const char* op, const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  const Py_ssize_t nkw = kw ? PyTuple_GET_SIZE(kw) : 0;
  for (Py_ssize_t k = 0; k < nkw; ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, k), name) != 0)
      raise<TypeMismatch>(op, ": got an unexpected keyword argument '", PyUnicode_AsUTF8(PyTuple_GET_ITEM(kw, k)), "'; expected ", op, "(", name, "=...)");
  if (n + nkw > 1) raise<TypeMismatch>(op, ": got ", n + nkw, " arguments; expected ", op, "(", name, "=...)");
  return n + nkw ? args[0] : nullptr;
}
PyObject* size_or_stride(const Dims& dims, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw, const char* what, bool as_size) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    PyObject* axis = only_argument(what, "dim", args, n, kw);
    if (!axis || axis == Py_None) {
      if (as_size) return make_size(dims);
      return make_tuple(dims.size(), [&](Py_ssize_t i) { return PyLong_FromLongLong(dims[static_cast<int>(i)]); });
    }
    const int64_t d = wrap_dim(what, "dim", to_int(axis, what, "dim"), x);
    if (x.ndim() == 0) raise<IndexError>(what, ": a 0-d tensor has no axes");
    return PyLong_FromLongLong(dims[static_cast<int>(d)]);
  });
}
PyObject* m_size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return size_or_stride(tensor_of(self).sizes(), self, args, n, kw, "size", true);
}
PyObject* m_stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return size_or_stride(tensor_of(self).strides(), self, args, n, kw, "stride", false);
}
PyObject* m_storage_offset(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).offset()); }
PyObject* m_data_ptr(PyObject* self, PyObject*) {
  const Tensor& t = tensor_of(self);
  if (!t.is_meta()) t.storage().expose();
  return PyLong_FromVoidPtr(t.data());
}
PyObject* m_storage_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(&tensor_of(self).storage()); }
PyObject* m_storage_bytes(PyObject* self, PyObject*) { return PyLong_FromSize_t(tensor_of(self).storage().size_bytes()); }
// There is one memory format, so that the argument is taken and not looked at.
PyObject* m_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&] {
    only_argument("is_contiguous", "memory_format", args, n, kw);
    return PyBool_FromLong(tensor_of(self).is_contiguous());
  });
}
PyObject* m_is_floating_point(PyObject* self, PyObject*) { return PyBool_FromLong(is_float(tensor_of(self).dtype())); }
PyObject* m_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).impl()->inference); }
PyObject* m_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&] {
    only_argument("contiguous", "memory_format", args, n, kw);
    return wrap(without_gil(work_of(tensor_of(self)), [&] { return make_contiguous(tensor_of(self)); }));
  });
}
PyObject* m_detach(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(detached(tensor_of(self))); });
}
PyObject* m_detach_(PyObject* self, PyObject*) {
  return guarded([&] {
    TensorImpl& x = *tensor_of(self).impl();
    if (x.base && x.view_tracks_base && x.base->requires_grad)
      raise<AutogradError>("detach_: a view can not be detached in place; use detach()");
    if (AutogradMeta* meta = static_cast<AutogradMeta*>(x.meta.get())) {
      meta->grad_fn = nullptr;
      meta->output_nr = 0;
    }
    x.requires_grad = false;
    Py_INCREF(self);
    return self;
  });
}
PyObject* m_requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&] {
    PyObject* value = only_argument("requires_grad_", "requires_grad", args, n, kw);
    const int on = value ? PyObject_IsTrue(value) : 1;
    if (on < 0) throw PythonError{};
    set_requires_grad(tensor_of(self), on);
    Py_INCREF(self);
    return self;
  });
}
// to(dtype | device | other, ..., copy=False, non_blocking=False)
PyObject* m_to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&]() -> PyObject* {
    std::optional<DType> dtype;
    std::optional<Device> device;
    bool copy = false;
    auto take = [&](PyObject* o) {
      if (o == Py_None) return;
      if (is_tensor(o)) {
        dtype = tensor_of(o).dtype();
        device = tensor_of(o).device();
      } else if (PyUnicode_Check(o)) {
        device = device_value(o, "to", "device");
      } else if (PyBool_Check(o)) {
        return;  // non_blocking
      } else if (is_dtype(o) || PyType_Check(o)) {
        dtype = to_dtype(o, "to", "dtype");
      } else {
        device = device_value(o, "to", "device");
      }
    };
    for (Py_ssize_t i = 0; i < n; ++i) take(args[i]);
    for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); ++k) {
      const std::string_view key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kw, k));
      PyObject* value = args[n + k];
      if (key == "copy") copy = PyObject_IsTrue(value) == 1;
      else if (key == "dtype" || key == "device" || key == "other") take(value);
      else if (key != "non_blocking" && key != "memory_format")
        raise<TypeMismatch>("to: got an unexpected keyword argument '", key, "'; expected dtype, device, other, copy or non_blocking");
    }
    const Tensor& x = tensor_of(self);
    return wrap(without_gil(work_of(x), [&] { return to(x, dtype, device, copy); }));
  });
}
PyObject* m_make_subclass(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n < 2 || !PyType_Check(args[0]) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), tensor_type) || !is_tensor(args[1]))
      raise<TypeMismatch>("_make_subclass: expected (subclass of Tensor, Tensor, requires_grad=False)");
    Tensor t = alias(tensor_of(args[1]));
    if (n > 2 && PyObject_IsTrue(args[2]) == 1) set_requires_grad(t, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(args[0]), std::move(t));
  });
}
PyObject* m_resize_(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&] {
    Dims size;
    const bool named = kw && PyTuple_GET_SIZE(kw) > 0;
    if (named || n == 0) {
      PyObject* given = only_argument("resize_", "size", args, n, kw);
      if (!given) raise<TypeMismatch>("resize_: argument 'size' is missing; expected resize_(size)");
      size = to_dims(given, "resize_", "size");
    } else if (n == 1) size = to_dims(args[0], "resize_", "size");
    else
      for (Py_ssize_t i = 0; i < n; ++i) size.push_back(to_int(args[i], "resize_", "size"));
    const Tensor& x = tensor_of(self);
    if (requires_grad(x)) raise<AutogradError>("resize_: a tensor that requires grad can not be resized");
    if (size.size() > kMaxAxes) raise<ShapeError>("resize_: size has ", size.size(), " axes; expected at most ", kMaxAxes);
    const int64_t numel = checked_numel("resize_", size);
    x.storage().grow(static_cast<size_t>(numel + x.offset()) * x.item_bytes());
    TensorImpl& impl = *x.impl();
    impl.strides = row_major(size);
    impl.sizes = size;
    impl.refresh();
    bump_version("resize_", x);
    Py_INCREF(self);
    return self;
  });
}

PyMethodDef methods[] = {
#define FL_FAST(name, fn) {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(fn)), METH_FASTCALL | METH_KEYWORDS, nullptr}
    {"dim", m_dim, METH_NOARGS, nullptr},
    {"ndimension", m_dim, METH_NOARGS, nullptr},
    {"numel", m_numel, METH_NOARGS, nullptr},
    {"nelement", m_numel, METH_NOARGS, nullptr},
    {"element_size", m_element_size, METH_NOARGS, nullptr},
    {"item", m_item, METH_NOARGS, nullptr},
    FL_FAST("size", m_size),
    FL_FAST("stride", m_stride),
    {"storage_offset", m_storage_offset, METH_NOARGS, nullptr},
    {"data_ptr", m_data_ptr, METH_NOARGS, nullptr},
    {"_storage_ptr", m_storage_ptr, METH_NOARGS, nullptr},
    {"_storage_bytes", m_storage_bytes, METH_NOARGS, nullptr},
    FL_FAST("is_contiguous", m_is_contiguous),
    {"is_floating_point", m_is_floating_point, METH_NOARGS, nullptr},
    {"is_inference", m_is_inference, METH_NOARGS, nullptr},
    FL_FAST("contiguous", m_contiguous),
    {"detach", m_detach, METH_NOARGS, nullptr},
    {"detach_", m_detach_, METH_NOARGS, nullptr},
    FL_FAST("requires_grad_", m_requires_grad_),
    FL_FAST("to", m_to),
    FL_FAST("resize_", m_resize_),
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(m_make_subclass)), METH_FASTCALL | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

template <class F>
PyType_Slot slot(int id, F* f) {
  return {id, reinterpret_cast<void*>(f)};
}

// ---- Size

PyObject* size_repr(PyObject* self) {
  const Owned list(PySequence_List(self));
  return list.object ? PyUnicode_FromFormat("flambeau.Size(%R)", list.object) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
  return PyErr_Occurred() ? nullptr : PyLong_FromLongLong(n);
}
PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void track(PyObject* o) {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  if (PyObject* o = tensor.impl()->pyobj) {
    Py_INCREF(o);
    return o;
  }
  TensorObject* o = new_object();
  if (!o) return nullptr;
  tensor.impl()->pyobj = reinterpret_cast<PyObject*>(o);
  new (&o->tensor) Tensor(std::move(tensor));
  o->dict = nullptr;
  o->weakrefs = nullptr;
  if (o->tensor.impl()->meta && owns_python(o->tensor)) [[unlikely]] track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

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
  for (PyMethodDef* m = methods; m->ml_name; ++m) all.push_back(*m);
  for (PyMethodDef* const* table = op_method_tables; *table; ++table)
    for (PyMethodDef* m = *table; m->ml_name; ++m) all.push_back(*m);
  all.push_back({nullptr, nullptr, 0, nullptr});
  PyType_Slot slots[] = {
      slot(Py_tp_dealloc, tensor_dealloc), slot(Py_tp_traverse, tensor_traverse), slot(Py_tp_clear, tensor_clear),
      slot(Py_tp_setattro, tensor_setattro), slot(Py_tp_new, tensor_new), slot(Py_tp_hash, tensor_hash),
      slot(Py_tp_richcompare, richcompare), {Py_tp_methods, all.data()}, {Py_tp_getset, getset}, {Py_tp_members, members},
      slot(Py_nb_add, nb_add), slot(Py_nb_subtract, nb_sub), slot(Py_nb_multiply, nb_mul), slot(Py_nb_true_divide, nb_div),
      slot(Py_nb_floor_divide, nb_floordiv), slot(Py_nb_remainder, nb_mod), slot(Py_nb_power, nb_pow), slot(Py_nb_and, nb_and),
      slot(Py_nb_or, nb_or), slot(Py_nb_xor, nb_xor), slot(Py_nb_lshift, nb_lshift), slot(Py_nb_rshift, nb_rshift),
      slot(Py_nb_inplace_add, nb_iadd), slot(Py_nb_inplace_subtract, nb_isub), slot(Py_nb_inplace_multiply, nb_imul),
      slot(Py_nb_inplace_true_divide, nb_idiv), slot(Py_nb_inplace_floor_divide, nb_ifloordiv), slot(Py_nb_inplace_remainder, nb_imod),
      slot(Py_nb_inplace_power, nb_ipow), slot(Py_nb_inplace_and, nb_iand), slot(Py_nb_inplace_or, nb_ior),
      slot(Py_nb_inplace_xor, nb_ixor), slot(Py_nb_inplace_lshift, nb_ilshift), slot(Py_nb_inplace_rshift, nb_irshift),
      slot(Py_nb_matrix_multiply, nb_matmul), slot(Py_nb_negative, nb_neg), slot(Py_nb_positive, nb_pos),
      slot(Py_nb_absolute, nb_abs), slot(Py_nb_invert, nb_invert), slot(Py_nb_bool, nb_bool), slot(Py_nb_float, nb_float),
      slot(Py_nb_int, nb_int), slot(Py_nb_index, nb_index), slot(Py_mp_length, tensor_length),
      slot(Py_mp_subscript, get_item), slot(Py_mp_ass_subscript, set_item), slot(Py_bf_getbuffer, get_buffer),
      slot(Py_bf_releasebuffer, release_buffer), {0, nullptr}};
  PyType_Spec spec{"flambeau.Tensor", sizeof(TensorObject), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type || PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) < 0) return false;
  PyType_Slot size_slots[] = {slot(Py_tp_repr, size_repr), {Py_tp_methods, size_methods}, {0, nullptr}};
  PyType_Spec size_spec{"flambeau.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, size_slots};
  size_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&size_spec, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  return size_type && PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(size_type)) == 0;
}

}  // namespace fl::py
