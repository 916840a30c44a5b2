// Methods of a tensor that are not ops: x.size(), x.item(), x.detach(), x.to(), ... Those that are come from the op table.
#include "autograd/meta.h"
#include "bindings/args.h"
#include "bindings/data.h"
#include "bindings/tensor_object.h"
#include "bindings/tensor_slots.h"
#include "bindings/types.h"
#include "graph/program.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/view.h"

namespace fl::py {
namespace {

PyObject* m_dim(PyObject* self, PyObject*) { return PyLong_FromLong(tensor_of(self).ndim()); }
PyObject* m_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(tensor_of(self).numel()); }
PyObject* m_element_size(PyObject* self, PyObject*) { return PyLong_FromSize_t(tensor_of(self).item_bytes()); }
PyObject* m_item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    const Scalar s = item_of(x);
    if (s.is_complex()) return PyComplex_FromDoubles(s.as_double(), s.imaginary());
    if (s.is_float()) return PyFloat_FromDouble(s.as_double());
    if (s.kind() == Scalar::Kind::Bool) return PyBool_FromLong(s.as_int() != 0);
    return python_int(x.dtype(), s);
  });
}
// The only argument of a method, by position or by its name; null where it is not given.
PyObject* only_argument(const char* op, const char* name, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  const Py_ssize_t nkw = kw ? PyTuple_GET_SIZE(kw) : 0;
  for (Py_ssize_t k = 0; k < nkw; ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, k), name) != 0)
      raise<TypeMismatch>(op, ": got an unexpected keyword argument '", utf8(PyTuple_GET_ITEM(kw, k)), "'; expected ", op, "(", name, "=...)");
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
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    if (t.is_meta() || t.storage().is_hollow()) return PyLong_FromLong(0);
    t.storage().expose();
    graph::note_read("an address was read");
    return PyLong_FromVoidPtr(t.numel() == 0 ? nullptr : t.data());
  });
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
PyObject* m_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(is_complex(tensor_of(self).dtype())); }
PyObject* m_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).storage().birth().inference); }
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
    if (x.requires_grad) {
      graph::note_change(tensor_of(self), "it detaches a tensor that lives on");
      graph::note_object_change(tensor_of(self));
    }
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
    set_requires_grad(tensor_of(self), !value || exact_truth("requires_grad_", value));
    Py_INCREF(self);
    return self;
  });
}
// to(dtype | device | other, ..., copy=False, non_blocking=False)
PyObject* m_to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  if (call_taken_over(nullptr, args, n, kw)) [[unlikely]] return call_overridden("to", self, args, n, kw);
  return guarded([&]() -> PyObject* {
    std::optional<DType> dtype;
    std::optional<Device> device;
    bool copy = false, blocking_given = false, row_major = false;
    auto take = [&](PyObject* o) {
      if (o == Py_None) return;
      if (is_tensor(o)) {
        dtype = tensor_of(o).dtype();
        device = tensor_of(o).device();
      } else if (PyUnicode_Check(o)) {
        device = device_value(o, "to", "device");
      } else if (PyBool_Check(o)) {
        if (blocking_given) copy = o == Py_True;  // the second of to(..., non_blocking, copy)
        blocking_given = true;
      } else if (is_dtype(o) || PyType_Check(o)) {
        dtype = to_dtype(o, "to", "dtype");
      } else {
        device = device_value(o, "to", "device");
      }
    };
    for (Py_ssize_t i = 0; i < n; ++i) take(args[i]);
    for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); ++k) {
      const std::string_view key = name_of(PyTuple_GET_ITEM(kw, k));
      PyObject* value = args[n + k];
      if (key == "copy") copy = truth(value);
      else if (key == "dtype" || key == "device" || key == "other") take(value);
      else if (key == "memory_format") row_major = asks_for_order(value);
      else if (key != "non_blocking")
        raise<TypeMismatch>("to: got an unexpected keyword argument '", utf8(PyTuple_GET_ITEM(kw, k)), "'; expected dtype, device, other, copy or non_blocking");
    }
    const Tensor& x = tensor_of(self);
    return wrap(without_gil(work_of(x), [&] {
      Tensor y = to(x, dtype, device, copy);
      return row_major ? in_row_major(std::move(y)) : y;
    }));
  });
}
PyObject* m_make_subclass(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    if (n < 2 || !PyType_Check(args[0]) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(args[0]), tensor_type) || !is_tensor(args[1]))
      raise<TypeMismatch>("_make_subclass: expected (subclass of Tensor, Tensor, requires_grad=False)");
    Tensor t = alias(tensor_of(args[1]));
    if (n > 2 && truth(args[2])) set_requires_grad(t, true);
    return wrap_as(reinterpret_cast<PyTypeObject*>(args[0]), std::move(t));
  });
}
// An alias with the same history, as an object of the subclass.
PyObject* m_as_subclass(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  return guarded([&]() -> PyObject* {
    PyObject* type = only_argument("as_subclass", "cls", args, n, kw);
    if (!type || !PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type))
      raise<TypeMismatch>("as_subclass: expected a subclass of Tensor");
    const Tensor& x = tensor_of(self);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), op::view(x, x.sizes()));
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
    if (x.storage().is_hollow()) raise<ArgumentError>("resize_: a tensor of class ", Py_TYPE(self)->tp_name, " has no memory to be resized; make another");
    if (requires_grad(x)) raise<AutogradError>("resize_: a tensor that requires grad can not be resized");
    if (size.size() > kMaxAxes) raise<ShapeError>("resize_: size has ", size.size(), " axes; expected at most ", kMaxAxes);
    const int64_t numel = checked_numel("resize_", size);
    if (x.sizes() == size) return Py_NewRef(self);  // its strides stay
    check_inference("resize_", x);
    graph::note_change(x, "it resizes a tensor that lives on");
    graph::note_object_change(x);
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

}  // namespace

PyMethodDef tensor_methods[] = {
#define FL_NONE(name, fn) {name, no_arguments<name, fn>, METH_NOARGS, nullptr}
#define FL_FAST(name, fn) {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(any_arguments<name, fn>)), METH_FASTCALL | METH_KEYWORDS, nullptr}
    FL_NONE("dim", m_dim),
    FL_NONE("ndimension", m_dim),
    FL_NONE("numel", m_numel),
    FL_NONE("nelement", m_numel),
    FL_NONE("element_size", m_element_size),
    FL_NONE("item", m_item),
    FL_FAST("size", m_size),
    FL_FAST("stride", m_stride),
    FL_NONE("storage_offset", m_storage_offset),
    FL_NONE("data_ptr", m_data_ptr),
    FL_NONE("_storage_ptr", m_storage_ptr),
    FL_NONE("_storage_bytes", m_storage_bytes),
    FL_FAST("is_contiguous", m_is_contiguous),
    FL_NONE("is_floating_point", m_is_floating_point),
    FL_NONE("is_complex", m_is_complex),
    FL_NONE("is_inference", m_is_inference),
    FL_FAST("contiguous", m_contiguous),
    FL_NONE("detach", m_detach),
    FL_NONE("detach_", m_detach_),
    FL_FAST("requires_grad_", m_requires_grad_),
    FL_FAST("to", m_to),
    FL_FAST("resize_", m_resize_),
    {"as_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(m_as_subclass)), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"_make_subclass", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(m_make_subclass)), METH_FASTCALL | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace fl::py
