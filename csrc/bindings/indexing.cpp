// Python's index, item by item: integers, slices, None and ... make a view; masks and integer tensors are
// gathered afterwards by one `index` op (NumPy's rules for mixing them).
#include "bindings/indexing.h"

#include "bindings/args.h"
#include "bindings/errors.h"
#include "bindings/data.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/cast.h"
#include "op/copy_.h"
#include "op/fill_.h"
#include "op/full.h"
#include "op/index.h"
#include "op/index_put_.h"
#include "op/ne.h"
#include "op/select.h"
#include "op/slice.h"
#include "op/unsqueeze.h"
#include "op/view.h"
#include "op/zeros.h"

namespace fl::py {
namespace {

// Python's rule for slices: what is beyond 64 bits counts as the largest or smallest number.
int64_t clamped_int(PyObject* o, const char* arg) {
  int overflow = 0;
  if (PyLong_Check(o)) {
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN : v;
  }
  return to_int(o, "index", arg);
}

// An open side of a slice is a number, too: programs that look at graphs, and modes, find what PyTorch's indexing says.
constexpr int64_t kBegin = 0, kEnd = INT64_MAX;
int64_t slice_part(PyObject* o, int64_t open) { return o == Py_None ? open : clamped_int(o, "slice bound"); }

// An index past 64 bits is out of range like any other.
int64_t index_of(PyObject* o, const Tensor& x, int64_t dim) {
  int overflow = 0;
  if (PyLong_Check(o)) {
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return v;
    raise<IndexError>("index: an index beyond 64 bits is out of bounds for dimension ", dim, " of shape ", x.sizes());
  }
  return to_int(o, "index", "index");
}

Tensor apply_slice(const Tensor& x, int64_t dim, PyObject* o) {
  auto* s = reinterpret_cast<PySliceObject*>(o);
  if (s->start == Py_None && s->stop == Py_None && s->step == Py_None) return x;
  const int64_t step = s->step == Py_None ? 1 : clamped_int(s->step, "slice step");
  if (step <= 0) raise<ArgumentError>("index: slice step = ", step, "; step must be greater than zero (use flip() for a reversed tensor)");
  return op::slice(x, dim, slice_part(s->start, kBegin), slice_part(s->stop, kEnd), step);
}

bool is_integer(PyObject* o) { return PyLong_Check(o) && !PyBool_Check(o); }

// How many axes of x an item takes.
int consumed(PyObject* o, const Tensor& made) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  const Tensor& t = is_tensor(o) ? tensor_of(o) : made;
  return t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8) ? t.ndim() : 1;
}

// A list or an array as an index tensor; undefined for everything else.
Tensor made_of(PyObject* o) {
  if (is_integer(o) || PySlice_Check(o) || o == Py_Ellipsis || o == Py_None || is_tensor(o) || PyBool_Check(o)) return {};
  if (PyIndex_Check(o) && !PySequence_Check(o)) return {};  // a NumPy integer; an array is a sequence, too
  if (!PySequence_Check(o) && !PyObject_CheckBuffer(o)) return {};
  Tensor t = tensor_from(o, std::nullopt);
  return t.numel() == 0 && is_float(t.dtype()) ? op::cast(t, DType::Int64) : t;
}

struct Parsed {
  Tensor view;                  // after the basic items
  std::vector<Tensor> indices;  // one per axis of view; undefined for a full slice
  bool advanced = false;
};

// A mask of uint8, as comparisons made them before there was bool. Read as positions it would be silently something else.
Tensor mask_of_bytes(const Tensor& index) {
  const char* text = "index: a uint8 tensor is taken as a mask, as before there was bool; use .bool() for a mask, .long() for positions";
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw_python_error();
  return op::ne(index, 0);
}

void add_index(Parsed& out, int64_t& dim, const Tensor& given) {
  const Tensor index = given.dtype() == DType::UInt8 ? mask_of_bytes(given) : given;
  out.advanced = true;
  while (static_cast<int64_t>(out.indices.size()) < dim) out.indices.emplace_back();
  if (index.dtype() == DType::Bool && index.ndim() == 0) {  // a new axis of size 1 or 0
    out.view = op::unsqueeze(out.view, dim);
    out.indices.push_back(op::zeros(Dims{item_of(index).as<bool>() ? 1 : 0}, DType::Int64));
  } else {
    if (index.dtype() != DType::Bool && !is_inexact(index.dtype()) && dim >= out.view.ndim())
      raise<IndexError>("index: too many indices for shape ", out.view.sizes());
    add_positions("index", out.indices, out.view, index);
  }
  dim = static_cast<int64_t>(out.indices.size());
}

Parsed parse(const Tensor& x, PyObject* index) {
  Parsed out{x, {}, false};
  PyObject* single[1] = {index};
  PyObject** items = single;
  Py_ssize_t n = 1;
  if (PyTuple_Check(index)) {
    items = reinterpret_cast<PyTupleObject*>(index)->ob_item;
    n = PyTuple_GET_SIZE(index);
  }
  int taken = 0;
  bool ellipsis = false;
  std::vector<Tensor> made;
  for (Py_ssize_t i = 0; i < n; ++i) {
    made.push_back(made_of(items[i]));
    taken += consumed(items[i], made.back());
    if (items[i] == Py_Ellipsis) {
      if (ellipsis) raise<IndexError>("index: more than one ellipsis");
      ellipsis = true;
    }
  }
  if (taken > x.ndim()) raise<IndexError>("index: too many indices for tensor of dimension ", x.ndim(), ": ", taken, " for a tensor of shape ", x.sizes());
  int64_t dim = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = items[i];
    if (is_integer(o)) {
      const int64_t at = index_of(o, out.view, dim), size = out.view.size(static_cast<int>(dim));
      if (at < -size || at >= size) {
        const int64_t axis = x.ndim() - (out.view.ndim() - dim);
        raise<IndexError>("index: index ", at, " is out of bounds for dimension ", axis, " with size ", size, "; expected ", -size, " <= index < ", size);
      }
      out.view = op::select(out.view, dim, at);
    } else if (PySlice_Check(o)) {
      out.view = apply_slice(out.view, dim, o);
      ++dim;
    } else if (o == Py_Ellipsis) {
      dim += x.ndim() - taken;
    } else if (o == Py_None) {
      out.view = op::unsqueeze(out.view, dim);
      ++dim;
    } else if (is_tensor(o) || made[i].defined()) {
      const Tensor& t = made[i].defined() ? made[i] : tensor_of(o);
      if (t.ndim() == 0 && t.dtype() != DType::Bool && t.dtype() != DType::UInt8 && !is_inexact(t.dtype()))
        out.view = op::select(out.view, dim, item_of(t).as_int());
      else add_index(out, dim, t);
    } else if (PyBool_Check(o)) {
      add_index(out, dim, tensor_from(o, std::nullopt));
    } else if (PyIndex_Check(o)) {
      out.view = op::select(out.view, dim, to_int(o, "index", "index"));
    } else {
      raise<IndexError>("index: got a ", Py_TYPE(o)->tp_name, "; expected integers, slices, None, ..., masks or integer tensors");
    }
  }
  return out;
}

// A mask alone stays one: what is chosen, and what gets one number, is found without positions.
Parsed parsed(const Tensor& x, PyObject* index) {
  return is_tensor(index) && is_leading_mask(tensor_of(index), x) ? Parsed{x, {tensor_of(index)}, true} : parse(x, index);
}

// A list that holds more than numbers is read as the tuple of its items, as it was in NumPy once and is in PyTorch: a sequence of fewer than 32
// items, one of which is a tensor, a sequence, a slice, None or .... Null where the index stays what it is.
Owned as_tuple(PyObject* index) {
  constexpr Py_ssize_t kMost = 32;
  if (PyTuple_Check(index) || PyLong_Check(index) || is_tensor(index) || PyUnicode_Check(index) || !PySequence_Check(index) || PyObject_CheckBuffer(index))
    return Owned(nullptr);
  Owned items(PySequence_Tuple(index));
  if (!items.object) {
    PyErr_Clear();  // no sequence after all
    return Owned(nullptr);
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(items.object);
  if (n >= kMost) return Owned(nullptr);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const o = PyTuple_GET_ITEM(items.object, i);
    if (!(is_tensor(o) || PySlice_Check(o) || o == Py_Ellipsis || o == Py_None || PySequence_Check(o))) continue;
    const char* text = "index: a list that holds more than numbers is read as the tuple of its items; use x[tuple(index)], or x[tensor(index)] for one index";
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw_python_error();
    return items;
  }
  return Owned(nullptr);
}

// An index, or an item of one, may be of a type that takes the call over.
bool index_taken_over(PyObject* index) {
  if (PyLong_Check(index) || PySlice_Check(index)) return false;
  if (PyTuple_Check(index) || PyList_Check(index)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(index);
    for (Py_ssize_t i = 0; i < n; ++i)
      if (taken_over(PySequence_Fast_GET_ITEM(index, i))) return true;
    return false;
  }
  return taken_over(index);
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* index) {
  try {
    const Owned items = as_tuple(index);
    if (items.object) index = items.object;
    if (taken_over(self) || index_taken_over(index)) [[unlikely]] return call_overridden("__getitem__", self, &index, 1, nullptr);
    const Tensor& x = tensor_of(self);
    if (is_integer(index)) return wrap(op::select(x, 0, index_of(index, x, 0)));
    if (PySlice_Check(index)) {
      if (x.ndim() == 0) raise<IndexError>("index: a 0-d tensor can not be sliced");
      Tensor y = apply_slice(x, 0, index);
      return wrap(y.same(x) ? op::slice(x, 0, kBegin, kEnd, 1) : std::move(y));
    }
    Parsed p = parsed(x, index);
    if (p.advanced) return wrap(without_gil(work_of(x), [&] { return op::index(p.view, p.indices); }));
    if (p.view.same(x)) return wrap(x.ndim() ? op::slice(x, 0, kBegin, kEnd, 1) : op::view(x, x.sizes()));
    return wrap(std::move(p.view));
  } catch (...) {
    return translate_exception();
  }
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  try {
    const Owned items = as_tuple(index);
    if (items.object) index = items.object;
    if (value && (taken_over(self) || index_taken_over(index) || taken_over(value))) [[unlikely]] {
      PyObject* const args[] = {index, value};
      return Owned(call_overridden("__setitem__", self, args, 2, nullptr)).object ? 0 : -1;
    }
    const Tensor& x = tensor_of(self);
    if (!value) raise<TypeMismatch>("index: elements of a tensor can not be deleted");
    Parsed p = parsed(x, index);
    Operand v{Scalar()};
    Tensor made;
    if (!try_operand(value, v)) {
      made = tensor_from(value, std::nullopt);
      v = Operand(made);
    }
    if (v.is_tensor() && !p.advanced)  // leading axes of 1 count for nothing
      while (v.tensor().ndim() > p.view.ndim() && v.tensor().size(0) == 1) {
        made = op::select(v.tensor(), 0, 0);
        v = Operand(made);
      }
    if (!p.advanced) {
      if (v.is_tensor()) op::copy_(p.view, v.tensor());
      else op::fill_(p.view, v);
      return 0;
    }
    Tensor source = v.is_tensor() ? v.tensor() : op::full(Dims{}, v.number(), p.view.dtype());
    if (source.dtype() != p.view.dtype()) source = op::cast(source, p.view.dtype());
    op::index_put_(p.view, p.indices, source, false);
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

}  // namespace fl::py
