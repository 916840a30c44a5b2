#include "bindings/args.h"

#include <structmember.h>  // PyMemberDef, before Python 3.12

#include <cstring>

#include "autograd/meta.h"
#include "bindings/objects.h"
#include "bindings/types.h"
#include "graph/recorder.h"
#include "op/clone.h"
#include "tensor/raw.h"
#include "wrappers/native.h"
#include "wrappers/warn.h"

namespace fl::py {
namespace {

std::string type_name(PyObject* o) { return o ? Py_TYPE(o)->tp_name : "nothing"; }

std::string describe(PyObject* o) {
  if (!o) return "nothing";
  if (is_tensor(o)) return text("Tensor ", tensor_of(o).dtype(), tensor_of(o).sizes());
  return type_name(o);
}

[[noreturn]] void wrong_type(PyObject* o, const char* op, const char* arg, const char* expected) {
  if (o) maybe_overridden(o);
  raise<TypeMismatch>(op, ": ", arg, " is a ", describe(o), "; expected ", expected);
}

bool is_int(PyObject* o) { return PyLong_Check(o) || (PyIndex_Check(o) && !is_tensor(o)); }
// With one element, of any number of axes: a size among others.
bool is_size_tensor(PyObject* o) { return is_tensor(o) && seen(o).numel() == 1 && !is_inexact(tensor_of(o).dtype()); }
bool is_int_tensor(PyObject* o) { return is_size_tensor(o) && tensor_of(o).ndim() == 0; }

bool fits_dims(PyObject* o) {
  if (PyTuple_Check(o) || PyList_Check(o)) {
    PyObject* first = PySequence_Size(o) ? (PyTuple_Check(o) ? PyTuple_GET_ITEM(o, 0) : PyList_GET_ITEM(o, 0)) : nullptr;
    return !first || is_int(first) || is_size_tensor(first);
  }
  return false;
}

bool is_number(PyObject* o) {
  Scalar ignored;
  return try_scalar(o, ignored);
}

bool fits_list(PyObject* o, bool may_lack) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  const Py_ssize_t n = PySequence_Size(o);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_Check(o) ? PyTuple_GET_ITEM(o, i) : PyList_GET_ITEM(o, i);
    if (!is_tensor(item) && !(may_lack && item == Py_None)) return maybe_overridden(item), false;
  }
  return true;
}

// The element type of Python's numbers: `float` is one of 64 bits, whatever the default type is.
std::optional<DType> type_of_class(PyObject* o) {
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::Complex128;
  return std::nullopt;
}

// Whether the object could be converted: how overloads are told apart.
bool fits(Kind kind, PyObject* o) {
  const bool none = o == Py_None;
  maybe_overridden(o);
  switch (kind) {
    case Kind::Tensor: return is_tensor(o);
    case Kind::OptTensor: return none || is_tensor(o);
    case Kind::TensorList:
    case Kind::OptTensorList: return fits_list(o, kind == Kind::OptTensorList);
    case Kind::Operand: return is_tensor(o) || is_number(o);
    case Kind::Int: return (is_int(o) && !PyBool_Check(o)) || is_int_tensor(o);
    case Kind::OptInt: return none || (is_int(o) && !PyBool_Check(o)) || is_int_tensor(o);
    case Kind::IntList: return fits_dims(o) || (is_int(o) && !PyBool_Check(o)) || is_int_tensor(o);
    case Kind::DimList: return fits_dims(o) || (is_int(o) && !PyBool_Check(o)) || is_int_tensor(o);
    case Kind::OptIntList: return none || fits_dims(o) || (is_int(o) && !PyBool_Check(o)) || is_int_tensor(o);
    case Kind::Float:
    case Kind::Number: return is_number(o) || (is_tensor(o) && tensor_of(o).ndim() == 0 && !requires_grad(tensor_of(o)));
    case Kind::OptFloat:
    case Kind::OptNumber: return none || is_number(o) || (is_tensor(o) && tensor_of(o).ndim() == 0);
    case Kind::Bool: return PyBool_Check(o) || is_number(o);
    case Kind::OptBool: return none || PyBool_Check(o);
    case Kind::Str: return PyUnicode_Check(o);
    case Kind::OptStr: return none || PyUnicode_Check(o);
    case Kind::DType: return is_dtype(o) || type_of_class(o);
    case Kind::OptDType: return none || is_dtype(o) || type_of_class(o);
    case Kind::OptDevice: return true;
    case Kind::OptGenerator: return none || is_generator(o);
  }
  return false;
}

bool same_text(PyObject* a, const char* b) { return b && PyUnicode_CompareWithASCIIString(a, b) == 0; }

// NumPy's spelling of PyTorch's names, and that of torch.dropout.
const char* spelled(PyObject* key) {
  if (same_text(key, "axis")) return "dim";
  if (same_text(key, "keepdims")) return "keepdim";
  if (same_text(key, "train")) return "training";
  return nullptr;
}

// What is made is dense, whatever a program may ask for.
void check_layout(const char* op, PyObject* key, PyObject* value) {
  if (value == Py_None || !same_text(key, "layout")) return;
  PyObject* const name = PyObject_GetAttrString(value, "_name");
  if (!name) return PyErr_Clear();
  const std::string given = PyUnicode_Check(name) ? std::string(utf8(name)) : "strided";
  Py_DECREF(name);
  if (given != "strided")
    raise<ArgumentError>(op, ": layout = ", given, "; expected strided: what is made here is dense (sparse tensors come from sparse_coo_tensor(size=...) and to_sparse())");
}

}  // namespace

bool asks_for_order(PyObject* memory_format) {
  if (memory_format == Py_None) return false;
  const Owned name(PyObject_GetAttrString(memory_format, "_name"));
  if (!name.object) PyErr_Clear();
  return name.object && PyUnicode_Check(name.object) && utf8(name.object) != std::string_view("preserve_format");
}

Tensor in_row_major(Tensor y) {
  if (y.is_contiguous()) return y;
  if (!requires_grad(y) || !is_leaf(y)) return make_contiguous(y);
  const NoGrad no_grad;
  Tensor made = make_contiguous(y);
  set_requires_grad(made, true);
  return made;
}

namespace {

bool is_ignored(PyObject* key, std::string_view ignored) {
  const std::string_view name = name_of(key);
  const size_t at = ignored.find(name);
  if (at == std::string_view::npos) return false;
  const size_t end = at + name.size();
  return (at == 0 || ignored[at - 1] == ' ') && (end == ignored.size() || ignored[end] == ' ');
}

}  // namespace

// The place of what NumPy calls x, a or x1 and PyTorch's `split` calls tensor, which is also `input`, or x2, which is also `other`; else -1.
int Signature::other_place(PyObject* key) const {
  const bool first = same_text(key, "x") || same_text(key, "a") || same_text(key, "x1") || same_text(key, "tensor");
  if (!first && !same_text(key, "x2")) return -1;
  for (int a = 0; a < count_; ++a)
    if (args_[a].also && std::string_view(args_[a].also) == (first ? "input" : "other")) return a;
  return -1;
}

bool Signature::bind_slots(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound, std::string* why) const {
  if (override_flags & kModeOn) [[unlikely]] throw Overridden{};
  int at = 0;
  if (self) slots[at++] = self;
  const Py_ssize_t given = nargs + at;
  int positional = count_;
  while (positional > 0 && (args_[positional - 1].flags & kKeywordOnly)) --positional;
  Py_ssize_t i = 0;
  for (; i < nargs && at < positional; ++i, ++at) {
    if (at == varargs_ && at == positional - 1 && nargs - i > 1 &&
        std::all_of(args + i, args + nargs, [](PyObject* a) { return is_int(a) || is_size_tensor(a); })) {
      PyObject* tuple = make_tuple(nargs - i, [&](Py_ssize_t k) { return Py_NewRef(args[i + k]); });  // f(2, 3) for f((2, 3))
      Py_XDECREF(bound.packed);
      bound.packed = tuple;
      slots[at] = tuple;
      i = nargs - 1;
      continue;
    }
    slots[at] = args[i];
  }
  if (i == nargs - 1 && PyBool_Check(args[i]) && ignored_.starts_with("cudnn_enable")) ++i;  // it stands last in PyTorch
  if (i < nargs) {
    if (why) *why = fl::text("takes at most ", positional, " positional arguments, but ", given, " were given");
    return false;
  }
  for (int k = at; k < count_; ++k) slots[k] = nullptr;
  const Py_ssize_t nkw = kw ? PyTuple_GET_SIZE(kw) : 0;
  for (Py_ssize_t k = 0; k < nkw; ++k) {
    PyObject* key = PyTuple_GET_ITEM(kw, k);
    PyObject* value = args[nargs + k];
    int found = -1;
    for (int a = 0; a < count_ && found < 0; ++a) {
      if (!args_[a].interned) args_[a].interned = PyUnicode_InternFromString(args_[a].name);
      if (args_[a].interned == key) found = a;
    }
    for (int a = 0; a < count_ && found < 0; ++a)
      if (same_text(key, args_[a].name) || same_text(key, args_[a].also)) found = a;
    if (const char* other = found < 0 ? spelled(key) : nullptr)
      for (int a = 0; a < count_ && found < 0; ++a)
        if (std::string_view(args_[a].name) == other) found = a;
    if (found < 0) found = other_place(key);
    if (found < 0) {
      if (same_text(key, "out") && value == Py_None) continue;
      if (is_ignored(key, ignored_)) {
        check_layout(name_, key, value);
        bound.row_major = bound.row_major || (same_text(key, "memory_format") && asks_for_order(value));
        continue;
      }
      if (why) *why = fl::text("got an unexpected keyword argument '", utf8(key), "'");
      return false;
    }
    if (slots[found]) {
      if (why) *why = fl::text("got argument '", args_[found].name, "' twice");
      return false;
    }
    slots[found] = value;
  }
  for (int k = 0; k < count_; ++k)
    if (!slots[k] && !(args_[k].flags & kOptional)) {
      if (why) *why = fl::text("argument '", args_[k].name, "' is missing");
      return false;
    }
  return true;
}

void Signature::bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound) const {
  if (bind_slots(self, args, nargs, kw, slots, bound, nullptr)) return;
  if (bind_numbers_first(self, args, nargs, kw, slots)) return;
  std::string why;
  bind_slots(self, args, nargs, kw, slots, bound, &why);
  raise<TypeMismatch>(name_, ": ", why, "; expected ", text());
}

bool Signature::bind_numbers_first(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots) const {
  int tensors = count_;
  while (tensors > 0 && (args_[tensors - 1].flags & kKeywordOnly)) --tensors;
  const int numbers = count_ - tensors, given = static_cast<int>(nargs) + (self ? 1 : 0), extra = given - tensors;
  if (numbers == 0 || !(args_[tensors].flags & kNumberFirst) || extra < 1 || extra > numbers || (kw && PyTuple_GET_SIZE(kw))) return false;
  // Of two, the first scales the first tensor: addmm(beta, x, alpha, a, b). Methods have that tensor before both.
  const int first = numbers == 2 && !self ? 0 : 1;
  int tensor = 0, number = tensors;
  for (int k = count_; k-- > tensors;) slots[k] = nullptr;
  for (int i = 0; i < given; ++i) {
    PyObject* o = self ? (i ? args[i - 1] : self) : args[i];
    const bool is_scale = i == first || (extra == 2 && i == 2);
    const int at = is_scale ? number++ : tensor++;
    if (!fits(args_[at].kind, o)) return false;
    slots[at] = o;
  }
  std::string names;
  for (int k = tensors; k < count_; ++k) names += fl::text(k > tensors ? ", " : "", args_[k].name, "=...");
  warn(fl::text(name_, ": numbers in front of the tensors are an older form, which PyTorch deprecates; give them behind as ", names).c_str());
  return true;
}

bool Signature::try_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound) const {
  if (!bind_slots(self, args, nargs, kw, slots, bound, nullptr)) return false;
  for (int k = 0; k < count_; ++k)
    if (slots[k] && !fits(args_[k].kind, slots[k])) return false;
  return true;
}

std::string Signature::text() const {
  static constexpr const char* kNames[] = {
#define FL_KIND_NAME(name, text) text,
      FL_KINDS(FL_KIND_NAME)
#undef FL_KIND_NAME
  };
  std::string out = std::string(name_) + "(";
  bool star = false;
  for (int k = 0; k < count_; ++k) {
    if (k) out += ", ";
    if ((args_[k].flags & kKeywordOnly) && !star) {
      out += "*, ";
      star = true;
    }
    out += std::string(kNames[static_cast<int>(args_[k].kind)]) + " " + args_[k].name;
    if (args_[k].flags & kOptional) out += "=...";
  }
  return out + ")";
}

void no_overload(std::initializer_list<const Signature*> signatures, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  std::string got, expected;
  auto add = [&](const std::string& s) { got += (got.empty() ? "" : ", ") + s; };
  if (self) add(describe(self));
  for (Py_ssize_t i = 0; i < nargs; ++i) add(describe(args[i]));
  for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); ++k)
    add(utf8(PyTuple_GET_ITEM(kw, k)) + "=" + describe(args[nargs + k]));
  for (const Signature* s : signatures) expected += "\n  " + s->text();
  const std::string first = (*signatures.begin())->text();
  raise<TypeMismatch>(first.substr(0, first.find('(')), ": no form of it takes (", got, "); expected one of", expected);
}

const Tensor& to_tensor(PyObject* o, const char* op, const char* arg) {
  if (Py_TYPE(o) == tensor_type || is_tensor(o)) return seen(o);
  wrong_type(o, op, arg, "a Tensor");
}

const Tensor& plain_tensor(PyObject* o, const char* op, const char* arg) {
  if (is_tensor(o)) return tensor_of(o);
  wrong_type(o, op, arg, "a Tensor");
}

const Tensor& to_optional_tensor(PyObject* o, const char* op, const char* arg) {
  static const Tensor& none = *new Tensor;
  if (!o || o == Py_None) return none;
  return to_tensor(o, op, arg);
}

std::vector<Tensor> to_tensor_list(PyObject* o, const char* op, const char* arg, bool may_lack) {
  std::vector<Tensor> out;
  const Owned list(PySequence_Check(o) ? PySequence_Fast(o, "") : nullptr);
  PyObject* fast = list.object;
  if (!fast) {
    PyErr_Clear();
    wrong_type(o, op, arg, "a list or tuple of tensors");
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  out.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast, i);
    const bool lacks = may_lack && item == Py_None;
    if (!lacks && !is_tensor(item)) {
      const std::string which = text(arg, "[", i, "]");
      wrong_type(item, op, which.c_str(), may_lack ? "a Tensor or None" : "a Tensor");
    }
    out.push_back(lacks ? Tensor() : seen(item));
  }
  return out;
}

bool try_scalar(PyObject* o, Scalar& out) {
  if (PyFloat_CheckExact(o)) {
    out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyBool_Check(o)) {
    out = Scalar(o == Py_True);
    return true;
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) {
      const double d = PyLong_AsDouble(o);
      if (d == -1 && PyErr_Occurred()) PyErr_Clear();
      raise<ArgumentError>("a Python integer (about ", d, ") does not fit into 64 bits");
    }
    out = Scalar(static_cast<int64_t>(v));
    return true;
  }
  if (PyFloat_Check(o)) {
    out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyComplex_Check(o)) {
    const Py_complex c = PyComplex_AsCComplex(o);
    out = Scalar::complex(c.real, c.imag);
    return true;
  }
  if (is_tensor(o) || PySequence_Check(o)) return false;
  // NumPy's scalars and the like.
  if (PyIndex_Check(o)) {
    const Owned n(PyNumber_Index(o));
    if (n.object) return try_scalar(n.object, out);
    PyErr_Clear();
    return false;
  }
  // numpy.complex64; numpy.complex128 is a Python complex. Real scalars of NumPy have __complex__, too, but in a class of their own.
  if (std::string_view(Py_TYPE(o)->tp_name).find("complex") != std::string_view::npos && PyObject_HasAttrString(o, "__complex__")) {
    const Py_complex c = PyComplex_AsCComplex(o);
    if (c.real == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    out = Scalar::complex(c.real, c.imag);
    return true;
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    const Owned made(PyNumber_Float(o));
    PyObject* f = made.object;
    if (!f) {
      PyErr_Clear();
      return false;
    }
    // numpy.bool_ has no __index__ but is no float either.
    if (std::string_view(Py_TYPE(o)->tp_name).find("bool") != std::string_view::npos) out = Scalar(PyFloat_AS_DOUBLE(f) != 0);
    else out = Scalar(PyFloat_AS_DOUBLE(f));
    return true;
  }
  return false;
}

bool try_operand(PyObject* o, Operand& out) {
  if (Py_TYPE(o) == tensor_type || is_tensor(o)) {
    out = Operand(seen(o));
    return true;
  }
  Scalar s;
  if (!try_scalar(o, s)) return false;
  out = Operand(s);
  return true;
}

Operand to_operand(PyObject* o, const char* op, const char* arg) {
  Operand out{Scalar()};
  if (try_operand(o, out)) return out;
  wrong_type(o, op, arg, "a Tensor or a number");
}

Scalar to_scalar(PyObject* o, const char* op, const char* arg, bool of_value) {
  Scalar s;
  if (try_scalar(o, s)) return s;
  if (is_tensor(o)) {
    if (!of_value && requires_grad(seen(o)))
      raise<TypeMismatch>(op, ": ", arg, " is a Tensor that requires grad, of which there would be no gradient; expected a number, or a tensor without grad (detach())");
    return item_scalar(o);
  }
  wrong_type(o, op, arg, "a number");
}

int64_t to_int(PyObject* o, const char* op, const char* arg) {
  if (is_tensor(o)) {
    if (is_inexact(seen(o).dtype())) wrong_type(o, op, arg, "an int");
    return item_scalar(o).as_int();
  }
  const Owned n(PyNumber_Index(o));
  if (!n.object) {
    PyErr_Clear();
    wrong_type(o, op, arg, "an int");
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(n.object, &overflow);
  if (overflow) raise<ArgumentError>(op, ": ", arg, " does not fit into 64 bits");
  return v;
}

std::optional<int64_t> to_optional_int(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_int(o, op, arg);
}

Dims to_dims(PyObject* o, const char* op, const char* arg, int length, bool may_lack) {
  Dims out;
  if (may_lack && (o == Py_None || (PySequence_Check(o) && !is_tensor(o) && PySequence_Size(o) == 0))) return out;
  if (PyTuple_Check(o) || PyList_Check(o)) {
    const Py_ssize_t n = PySequence_Size(o);
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (PyList_Check(o) && PyList_GET_SIZE(o) != n)  // an item's __index__ may do that
        raise<ArgumentError>(op, ": ", arg, " changed while it was read");
      PyObject* item = PyTuple_Check(o) ? PyTuple_GET_ITEM(o, i) : PyList_GET_ITEM(o, i);
      if (PyLong_CheckExact(item)) {
        out.push_back(to_int(item, op, arg));
        continue;
      }
      Py_INCREF(item);
      const Owned kept(item);
      out.push_back(to_int(item, op, arg));
    }
  } else if (is_int(o) || is_int_tensor(o)) {
    out.push_back(to_int(o, op, arg));
  } else {
    const Owned list(PySequence_Check(o) && !is_tensor(o) ? PySequence_List(o) : nullptr);
    if (!list.object) {
      PyErr_Clear();
      wrong_type(o, op, arg, length ? "an int or a list of ints" : "ints or a list of ints");
    }
    out = to_dims(list.object, op, arg, 0);
  }
  if (length && out.size() == 1)
    while (out.size() < length) out.push_back(out[0]);
  if (length && out.size() != length)
    raise<ArgumentError>(op, ": ", arg, " = ", out, "; expected one int or ", length, " ints");
  return out;
}

std::optional<Dims> to_optional_dims(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_dims(o, op, arg);
}

static Scalar real_number(PyObject* o, const char* op, const char* arg) {
  const Scalar v = to_scalar(o, op, arg);
  if (v.is_complex()) raise<TypeMismatch>(op, ": ", arg, " = ", v, " is complex; expected a real number");
  return v;
}
double to_double(PyObject* o, const char* op, const char* arg) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  return real_number(o, op, arg).as_double();
}
std::optional<double> to_optional_double(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_double(o, op, arg);
}
bool to_bool(PyObject* o, const char* op, const char* arg) {
  if (o == Py_True) return true;
  if (o == Py_False) return false;
  return real_number(o, op, arg).as<bool>();
}
std::optional<bool> to_optional_bool(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_bool(o, op, arg);
}
std::optional<Scalar> to_optional_scalar(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_scalar(o, op, arg);
}
std::string_view to_string_view(PyObject* o, const char* op, const char* arg) {
  if (!PyUnicode_Check(o)) wrong_type(o, op, arg, "a str");
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(o, &n);
  if (!s) throw PythonError{};
  return {s, static_cast<size_t>(n)};
}
std::optional<std::string_view> to_optional_string_view(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_string_view(o, op, arg);
}
std::optional<DType> to_optional_dtype(PyObject* o, const char* op, const char* arg) {
  if (!o || o == Py_None) return std::nullopt;
  return to_dtype(o, op, arg);
}
DType to_dtype(PyObject* o, const char* op, const char* arg) {
  if (is_dtype(o)) return dtype_value(o);
  if (const auto type = type_of_class(o)) return *type;
  wrong_type(o, op, arg, "a flambeau dtype such as flambeau.float32");
}

static Py_ssize_t place_of_out(PyObject* kw) {
  const Py_ssize_t n = kw ? PyTuple_GET_SIZE(kw) : 0;
  Py_ssize_t at = 0;
  while (at < n && !same_text(PyTuple_GET_ITEM(kw, at), "out")) ++at;
  return at < n ? at : -1;
}

bool gives_out(PyObject* const* args, Py_ssize_t nargs, PyObject* kw) {
  const Py_ssize_t at = place_of_out(kw);
  return at >= 0 && args[nargs + at] != Py_None;
}

// Whether `out` may be written while the arguments are read: they are numbers, words and plain tensors in other memory.
static bool reads_elsewhere(PyObject* o, const Tensor& out, bool nested = false) {
  if (Py_TYPE(o) == tensor_type) {
    const Tensor& x = tensor_of(o);
    return !may_share_bytes(x, out) && !(grad_enabled() && requires_grad(x));
  }
  if (!nested && (PyList_CheckExact(o) || PyTuple_CheckExact(o))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (!reads_elsewhere(PySequence_Fast_GET_ITEM(o, i), out, true)) return false;
    return true;
  }
  return o == Py_None || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) || is_dtype(o);
}

static bool holds_tensor(PyObject* o) {
  return is_tensor(o) || ((PyList_Check(o) || PyTuple_Check(o)) && PySequence_Fast_GET_SIZE(o) > 0 && is_tensor(PySequence_Fast_GET_ITEM(o, 0)));
}

// Note [Results in the caller's memory]
static Tensor offered(PyObject* o, const std::vector<PyObject*>& args) {
  if (Py_TYPE(o) != tensor_type || graph::recording()) return {};
  const Tensor& out = tensor_of(o);
  if (out.is_meta() || !out.is_contiguous() || out.numel() == 0 || (grad_enabled() && requires_grad(out))) return {};
  if (!std::all_of(args.begin(), args.end(), [&](PyObject* a) { return reads_elsewhere(a, out); })) return {};
  if (!may_defer(out.sizes())) return out;
  const size_t bytes = static_cast<size_t>(out.numel()) * out.item_bytes();
  Ref<Storage> storage = Storage::borrow(out.data(), bytes, out.device(), nullptr, nullptr, true);
  return Tensor(make_ref<TensorImpl>(std::move(storage), out.sizes(), out.strides(), 0, out.dtype()));
}

PyObject* with_out(const char* op, Function function, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, bool takes_dtype) try {
  const Py_ssize_t at = place_of_out(kw), n = PyTuple_GET_SIZE(kw);
  PyObject* const out = args[nargs + at];
  if (std::any_of(args, args + nargs + n, [](PyObject* o) { return taken_over(o); })) return call_overridden(op, nullptr, args, nargs, kw);
  const WithoutAutocast types_stay;
  std::vector<PyObject*> values(args, args + nargs + n);
  values.erase(values.begin() + nargs + at);
  std::vector<PyObject*> keywords;
  for (Py_ssize_t k = 0; k < n; ++k)
    if (k != at) keywords.push_back(PyTuple_GET_ITEM(kw, k));
  Owned words[2], device;
  const auto add = [&](Owned& word, const char* name, PyObject* value) {
    if (std::any_of(keywords.begin(), keywords.end(), [&](PyObject* k) { return same_text(k, name); })) return;
    word = Owned(PyUnicode_InternFromString(name));
    keywords.push_back(word.object);
    values.push_back(value);
  };
  if (takes_dtype && is_tensor(out) && std::none_of(values.begin(), values.end(), holds_tensor)) {
    const Tensor& like = tensor_of(out);
    add(words[0], "dtype", dtype_object(like.dtype()));
    if (like.is_meta()) add(words[1], "device", (device = Owned(make_device(like.device()))).object);
  }
  const Owned names(make_tuple(static_cast<Py_ssize_t>(keywords.size()), [&](Py_ssize_t k) { return Py_NewRef(keywords[static_cast<size_t>(k)]); }));
  const Tensor offer = offered(out, values);
  if (offer.defined()) check_inplace(op, tensor_of(out));
  const Owned result([&] {
    const OfferOut lent(offer.defined() ? &offer : nullptr);
    return function(nullptr, values.data(), nargs, names.object);
  }());
  if (!result.object) return nullptr;
  PyObject* given = result.object;
  Owned apart(nullptr);
  if (offer.defined() && Py_TYPE(given) == tensor_type && &tensor_of(given).storage() == &offer.storage()) {
    const Tensor& y = tensor_of(given);
    if (y.sizes() == offer.sizes() && y.strides() == offer.strides() && y.offset() == offer.offset() && y.dtype() == offer.dtype()) {
      (void)offer.data();  // in rows, where it lay otherwise
      bump_version(op, tensor_of(out));
      return Py_NewRef(out);
    }
    given = apart.object = wrap(fl::op::clone(y));  // a view of a step on the way
  }
  const Owned module(PyImport_ImportModule("flambeau._out"));
  const Owned deliver(module.object ? PyObject_GetAttrString(module.object, "deliver") : nullptr);
  const Owned name(PyUnicode_FromString(op));
  return deliver.object && name.object ? call_with(deliver.object, name.object, given, out) : nullptr;
} catch (...) {
  return translate_exception();
}

// "flambeau", or "torch" while the library answers for PyTorch.
static std::string library_name() {
  const Owned module(PyImport_ImportModule("flambeau._tensor"));
  const Owned library(module.object ? PyObject_GetAttrString(module.object, "library") : nullptr);
  if (!library.object) throw_python_error();
  return utf8(library.object);
}

// `flambeau.return_types.max(`, then a field on each line.
static PyObject* show_fields(PyObject* self) try {
  const PyTypeObject* type = Py_TYPE(self);
  std::string out = library_name() + std::strchr(type->tp_name, '.') + "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const Owned shown(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
    if (!shown.object) return nullptr;
    out += std::string(i ? ",\n" : "\n") + type->tp_members[i].name + "=" + utf8(shown.object);
  }
  return PyUnicode_FromString((out + ")").c_str());
} catch (...) {
  return translate_exception();
}

ResultType::ResultType(const char* op, std::initializer_list<const char*> fields) {
  // The type lives as long as the process.
  auto* names = new std::vector<PyStructSequence_Field>;
  for (const char* f : fields) names->push_back({f, nullptr});
  names->push_back({nullptr, nullptr});
  auto* name = new std::string(library_name() + ".return_types." + op);
  PyStructSequence_Desc description{name->c_str(), nullptr, names->data(), static_cast<int>(fields.size())};
  type_ = PyStructSequence_NewType(&description);
  type_->tp_repr = show_fields;
}

}  // namespace fl::py
