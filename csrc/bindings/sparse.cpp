#include "bindings/sparse.h"

#include "autograd/sparse.h"
#include "bindings/args.h"
#include "bindings/tensor_object.h"
#include "bindings/tensor_slots.h"
#include "graph/recorder.h"
#include "tensor/sparse.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

PyTypeObject* sparse_class = nullptr;  // for the life of the process

Tensor sparse_of(nb::handle x) {
  const Tensor& t = plain_tensor(x.ptr(), "sparse", "x");
  if (!is_sparse(t)) raise<TypeMismatch>("sparse: the tensor ", t.dtype(), " ", t.sizes(), " is dense; expected a sparse one");
  return t;
}

nb::object made(nb::handle cls, nb::handle indices, nb::handle values, nb::handle size, bool coalesced) {
  const Tensor at = plain_tensor(indices.ptr(), "sparse", "indices"), held = plain_tensor(values.ptr(), "sparse", "values");
  const Dims sizes = to_dims(size.ptr(), "sparse", "size", 0);
  // Callers have checked more; this is what the core relies on.
  const int64_t axes = at.ndim() == 2 ? at.size(0) : -1;
  if (at.dtype() != DType::Int64 || axes < 0 || held.ndim() < 1 || held.size(0) != at.size(1) || axes + held.ndim() - 1 != sizes.size())
    raise<ShapeError>("sparse: indices ", at.dtype(), " ", at.sizes(), " and values ", held.sizes(), " for a tensor of shape ", sizes,
                      "; expected int64 [axes, places] and [places, ...]");
  graph::note_read("it makes a sparse tensor");
  return nb::steal(wrap_as(reinterpret_cast<PyTypeObject*>(cls.ptr()), make_sparse(at, held, sizes, coalesced)));
}

}  // namespace

PyObject* wrap_sparse(Tensor tensor) {
  if (!sparse_class) {
    const Owned module(PyImport_ImportModule("flambeau.sparse"));  // which says what it is
    if (!module.object) return nullptr;
    if (PyObject* o = tensor.impl()->pyobj) return Py_NewRef(o);
  }
  return wrap_as(sparse_class, std::move(tensor));
}

void init_sparse(nb::module_& m) {
  m.def("set_sparse_class", [](nb::handle cls) { sparse_class = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr()); });
  m.def("make_sparse", &made, nb::arg("cls"), nb::arg("indices"), nb::arg("values"), nb::arg("size"), nb::arg("coalesced"));
  m.def("sparse_indices", [](nb::handle x) { return nb::steal(wrap(sparse_parts(sparse_of(x))->indices)); }, nb::arg("x"));
  m.def("sparse_values", [](nb::handle x) { return nb::steal(wrap(sparse_parts(sparse_of(x))->values)); }, nb::arg("x"));
  m.def("sparse_is_coalesced", [](nb::handle x) { return sparse_parts(sparse_of(x))->coalesced; }, nb::arg("x"));
  // What is written to a sparse tensor in place.
  m.def("set_sparse_parts", [](nb::handle x, nb::handle indices, nb::handle values, bool coalesced) {
    const Tensor t = sparse_of(x);
    graph::note_read("it writes a sparse tensor");
    write_sparse("sparse", t, plain_tensor(indices.ptr(), "sparse", "indices"), plain_tensor(values.ptr(), "sparse", "values"), coalesced);
  }, nb::arg("x"), nb::arg("indices"), nb::arg("values"), nb::arg("coalesced"));
  // The position of the first sparse tensor of a list of tensors, or -1.
  m.def("first_sparse", [](nb::list tensors) -> int64_t {
    int64_t i = 0;
    for (nb::handle o : tensors) {
      if (is_tensor(o.ptr()) && is_sparse(tensor_of(o.ptr()))) return i;
      ++i;
    }
    return -1;
  }, nb::arg("tensors"));
}

}  // namespace fl::py
