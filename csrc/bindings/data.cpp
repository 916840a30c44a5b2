#include "bindings/data.h"

#include "bindings/errors.h"

#include "autograd/sparse.h"
#include "bindings/args.h"
#include "bindings/types.h"
#include "graph/program.h"
#include "wrappers/checks.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/cast.h"
#include "op/clone.h"
#include "op/stack.h"

namespace fl::py {

PyObject* python_number(const Scalar& s) {
  if (s.is_complex()) return PyComplex_FromDoubles(s.as_double(), s.imaginary());
  if (s.is_float()) return PyFloat_FromDouble(s.as_double());
  if (s.kind() == Scalar::Kind::Bool) return PyBool_FromLong(s.as_int() != 0);
  return PyLong_FromLongLong(s.as_int());
}
namespace {

// ---- the buffer protocol

constexpr bool kLong64 = sizeof(long) == 8;  // NumPy's int64 is C's long where that has 64 bits
constexpr const char* kFormats[kDTypes] = {"?", "B", "b", "h", "i", kLong64 ? "l" : "q", "H", "I", kLong64 ? "L" : "Q", nullptr, nullptr, nullptr, nullptr, nullptr, "e", nullptr, "f", "d", nullptr, "Zf", "Zd"};

std::optional<DType> type_of_format(const char* format, Py_ssize_t itemsize) {
  std::string_view f = format ? format : "B";
  if (!f.empty() && (f[0] == '<' || f[0] == '=' || f[0] == '@' || f[0] == '|')) f.remove_prefix(1);
  if (f == "Zf" || f == "F") return DType::Complex64;
  if (f == "Zd" || f == "D") return DType::Complex128;
  if (f.size() != 1) return std::nullopt;
  switch (f[0]) {
    case '?': return DType::Bool;
    case 'B': return DType::UInt8;
    case 'b': return DType::Int8;
    case 'h': return DType::Int16;
    case 'H': return DType::UInt16;
    case 'I': return DType::UInt32;
    case 'L':
    case 'Q': return itemsize == 8 ? DType::UInt64 : DType::UInt32;
    case 'i': return DType::Int32;
    case 'l':
    case 'q': return itemsize == 8 ? DType::Int64 : DType::Int32;
    case 'e': return DType::Float16;
    case 'f': return DType::Float32;
    case 'd': return DType::Float64;
    default: return std::nullopt;
  }
}

// What an export holds: the memory itself. The exporting tensor may get other memory (resize_, .data = ...).
class Lent {
 public:
  explicit Lent(const Tensor& x) : storage_(x.impl()->storage) { storage_->lend(); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { storage_->take_back(); }

 private:
  Ref<Storage> storage_;
};

struct ExportedBuffer {
  explicit ExportedBuffer(const Tensor& x) : lent(x), dims(static_cast<size_t>(2 * x.ndim() + 1)) {}
  Lent lent;
  std::vector<Py_ssize_t> dims;  // sizes, then strides in bytes
};

// Elements, of complex types their parts, lie at multiples of their size: kernels read them as what they are, and compilers rely on it.
bool is_aligned(const void* data, DType dtype) { return reinterpret_cast<uintptr_t>(data) % item_size(to_real(dtype)) == 0; }

// How much of somebody's memory a geometry is the proof of: from its first element to its last.
size_t lent_bytes(const char* op, const void* data, IntList sizes, IntList strides, DType dtype) {
  const std::optional<Reach> reached = reach(sizes, strides, 0);
  if (reached && reached->end > 0 && !is_aligned(data, dtype))
    raise<ArgumentError>(op, ": the memory begins at an address that is no multiple of the size of ", dtype, " (", item_size(dtype), " bytes); copy it first (array.copy())");
  if (!reached) raise<ShapeError>(op, ": shape ", sizes, " and strides ", strides, " reach past what memory can address");
  return static_cast<size_t>(reached->end) * item_size(dtype);
}

void drop_buffer(void* owner) {
  auto* view = static_cast<Py_buffer*>(owner);
  if (Py_IsInitialized()) {
    GilAcquire gil;
    PyBuffer_Release(view);
  }
  delete view;
}

// ---- Python numbers and lists

struct Found {
  Dims at;  // of the element that is looked at
  Dims shape;
  bool asked;                 // what type they have together
  std::optional<DType> type;  // of all elements so far, then
  bool any = false;           // an element: lists are no deeper than it

  void meet(DType t) {
    if (asked) type = type ? promote(*type, t) : t;
  }
};

DType type_of_number(const Scalar& s) {
  if (s.is_complex()) return to_complex(default_dtype());
  return s.is_float() ? default_dtype() : s.kind() == Scalar::Kind::Bool ? DType::Bool : DType::Int64;
}

// The type of a sequence of Python's (array.array, bytearray): that of a list of the numbers that it gives.
DType type_of_numbers(DType t) { return is_complex(t) ? to_complex(default_dtype()) : is_float(t) ? default_dtype() : t == DType::Bool ? t : DType::Int64; }

// The type that a scalar of NumPy's brings along, float64 and complex128 included, which are Python's float and complex as well.
std::optional<DType> type_of_numpy_scalar(PyObject* o) {
  if (PyFloat_CheckExact(o) || PyComplex_CheckExact(o) || PyLong_Check(o)) return std::nullopt;
  PyTypeObject* type = Py_TYPE(o);
  if (!std::string_view(type->tp_name).starts_with("numpy.") || !PyObject_CheckBuffer(o) || PySequence_Check(o)) return std::nullopt;  // arrays are sequences
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto found = type_of_format(view.format, view.itemsize);
  PyBuffer_Release(&view);
  return found;
}

bool is_list(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }
Py_ssize_t list_size(PyObject* o) { return PyList_Check(o) ? PyList_GET_SIZE(o) : PyTuple_GET_SIZE(o); }

[[noreturn]] void changed_while_read() { raise<ArgumentError>("tensor: data changed while it was read"); }

// An element, kept alive: looking at one may run Python code (__index__, __float__), which may change the list.
Owned item_at(PyObject* o, Py_ssize_t i) {
  if (i >= list_size(o)) changed_while_read();
  PyObject* item = PyList_Check(o) ? PyList_GET_ITEM(o, i) : PyTuple_GET_ITEM(o, i);
  Py_INCREF(item);
  return Owned{item};
}

// An array, or a tensor that has axes.
bool is_array(PyObject* data) {
  if (is_tensor(data)) return tensor_of(data).ndim() > 0;
  Scalar probe;
  return PyObject_CheckBuffer(data) && !PyBytes_Check(data) && !type_of_numpy_scalar(data) && !try_scalar(data, probe);
}

// Thrown where lists hold an array behind something else.
struct HoldsArray {};

// Tensors of one element are numbers beside others, whatever their axes, as in PyTorch.
bool is_one_number(PyObject* data) { return is_tensor(data) && tensor_of(data).numel() == 1; }

// Whether the first of a list, or of lists in it, is an array.
bool leads_to_array(PyObject* data) {
  Owned first;
  for (int depth = 0; depth <= 64 && is_list(data) && list_size(data) > 0; ++depth) {
    Owned next = item_at(data, 0);
    first = std::move(next);
    data = first.object;
  }
  return first.object && !is_list(data) && is_array(data) && !is_one_number(data);
}

void survey(PyObject* o, int depth, Found& found) {
  if (depth > 64) raise<ArgumentError>("tensor: data is nested more than 64 deep");
  if (is_list(o)) {
    const Py_ssize_t n = list_size(o);
    if (depth == found.shape.size()) {
      if (found.any) raise<ArgumentError>("tensor: a list at depth ", depth, " beside numbers; expected a regular nesting");
      found.shape.push_back(n);
    } else if (found.shape[depth] != n)
      raise<ArgumentError>("tensor: expected sequence of length ", found.shape[depth], " at dim ", depth, " (got ", n, "), as the first one has");
    found.at.push_back(0);
    for (Py_ssize_t i = 0; i < n; ++i) {
      found.at[depth] = i;
      survey(item_at(o, i).object, depth + 1, found);
    }
    found.at.erase(depth);
    return;
  }
  if (depth != found.shape.size() && is_array(o)) throw HoldsArray();
  if (depth != found.shape.size())
    raise<ArgumentError>("tensor: a number at depth ", depth, " beside lists of depth ", found.shape.size(), "; expected a regular nesting");
  found.any = true;
  if (PyLong_CheckExact(o)) {  // it may be one of uint64
    found.meet(DType::Int64);
    return;
  }
  if (is_tensor(o)) {
    item_of(tensor_of(o));
    found.meet(tensor_of(o).dtype());
    return;
  }
  if (const auto type = type_of_numpy_scalar(o)) {
    found.meet(*type);
    return;
  }
  Scalar s;
  if (!try_scalar(o, s)) {
    raise<DTypeError>("tensor: Could not infer dtype of ", Py_TYPE(o)->tp_name, found.at.size() ? text(" at ", found.at) : std::string(), "; expected numbers, lists of numbers, arrays or tensors");
  }
  found.meet(type_of_number(s));
}

template <class T>
void write_numbers(PyObject* o, int depth, const Dims& shape, T*& out) {
  if (is_list(o)) {
    if (depth >= shape.size() || list_size(o) != shape[depth]) changed_while_read();
    for (Py_ssize_t i = 0; i < shape[depth]; ++i) write_numbers(item_at(o, i).object, depth + 1, shape, out);
    return;
  }
  Scalar s;
  if (depth != shape.size()) changed_while_read();
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (!is_tensor(o) && PyIndex_Check(o)) {
      const Owned whole(PyNumber_Index(o));
      if (!whole.object) throw_python_error();
      *out = PyLong_AsUnsignedLongLong(whole.object);
      if (*out == ~uint64_t{0} && PyErr_Occurred()) {
        PyErr_Clear();
        const Owned text(PyObject_Str(o));
        raise<ArgumentError>("tensor: element = ", text.object ? utf8(text.object) : "a number", " does not fit into uint64; expected 0 to 18446744073709551615");
      }
      ++out;
      return;
    }
  }
  if (is_tensor(o)) s = item_of(tensor_of(o));
  else if (!try_scalar(o, s)) changed_while_read();
  if (s.is_complex() && !is_complex_type<T>) raise<DTypeError>("tensor: element ", s, " is complex; expected a complex dtype, not ", dtype_of<T>);
  check::fits("tensor", "element", dtype_of<T>, s);
  if constexpr (is_half_type<T>) *out++ = T(static_cast<float>(s.as_double()));
  else *out++ = s.as<T>();
}

PyObject* list_of(const Tensor& x, int dim, int64_t at) {
  if (dim == x.ndim())
    return visit_any(x.dtype(), [&]<class T>(T) {
      graph::note_read("a value was read");
      const T* data = static_cast<T*>(x.storage().data());
      if constexpr (std::is_same_v<T, Truth>) return PyBool_FromLong(data[at]);
      else if constexpr (is_half_type<T>) return python_number(Scalar(static_cast<float>(data[at])));
      else if constexpr (is_complex_type<T>) return PyComplex_FromDoubles(data[at].re, data[at].im);
      else if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(data[at]);
      else return python_number(Scalar(data[at]));
    });
  const int64_t step = x.strides()[dim];
  return make_list(x.sizes()[dim], [&](Py_ssize_t i) { return list_of(x, dim + 1, at + i * step); });
}

// ---- DLPack (https://dmlc.github.io/dlpack): the structures of its C interface

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr int32_t kDLCPU = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2;

DLDataType dl_type(DType t) {
  const uint8_t bits = static_cast<uint8_t>(8 * item_size(t));
  if (is_float8(t)) {  // kDLFloat8_e4m3fn and its kin
    constexpr uint8_t kCodes[] = {10, 12, 11, 13, 14};
    return {kCodes[static_cast<int>(t) - static_cast<int>(DType::Float8E4M3)], bits, 1};
  }
  const uint8_t code = t == DType::Bool ? 6 : t == DType::BFloat16 ? 4 : is_complex(t) ? 5 : is_float(t) ? 2 : t == DType::UInt8 || is_wide_unsigned(t) ? 1 : 0;
  return {code, bits, 1};
}

std::optional<DType> from_dl_type(DLDataType t) {
  if (t.lanes != 1) return std::nullopt;
  for (int i = 0; i < kDTypes; ++i) {
    const DLDataType mine = dl_type(static_cast<DType>(i));
    if (mine.code == t.code && mine.bits == t.bits) return static_cast<DType>(i);
  }
  return std::nullopt;
}

struct Exported {
  explicit Exported(const Tensor& x) : lent(x), data((graph::note_read("bytes were handed to another library"), x.data())), dtype(x.dtype()), shape(x.sizes()), strides(x.strides()) {}
  Lent lent;
  void* data;
  DType dtype;
  Dims shape, strides;
  DLManaged managed{};
  DLManagedVersioned versioned{};
};

DLTensor describe(Exported& e) {
  return {e.data, {kDLCPU, 0}, e.shape.size(), dl_type(e.dtype), e.shape.data(), e.strides.data(), 0};
}

template <class Managed>
void capsule_gone(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // consumed
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (m->deleter) m->deleter(m);
}

template <class Managed>
void drop_imported(void* owner) {
  auto* m = static_cast<Managed*>(owner);
  if (!m->deleter || !Py_IsInitialized()) return;
  GilAcquire gil;  // the exporter may be Python
  m->deleter(m);
}

template <class Managed>
Tensor import(Managed* m, bool writable) {
  const DLTensor& t = m->tensor;
  if (t.device.type != kDLCPU) raise<DeviceError>("from_dlpack: the data is on device type ", t.device.type, "; expected the CPU");
  const auto dtype = from_dl_type(t.dtype);
  if (!dtype) raise<DTypeError>("from_dlpack: element type (code ", int{t.dtype.code}, ", ", int{t.dtype.bits}, " bits) has no counterpart");
  Dims sizes(IntList(t.shape, static_cast<size_t>(t.ndim)));
  checked_numel("from_dlpack", sizes);
  Dims strides = t.strides ? Dims(IntList(t.strides, static_cast<size_t>(t.ndim))) : row_major(sizes);
  for (int i = 0; i < sizes.size(); ++i)
    if (strides[i] < 0 && sizes[i] > 1) raise<ArgumentError>("from_dlpack: strides ", strides, "; negative strides are not supported, copy the array first");
  char* data = static_cast<char*>(t.data) + t.byte_offset;
  const size_t bytes = lent_bytes("from_dlpack", data, sizes, strides, *dtype);
  auto storage = Storage::borrow(data, bytes, Device{}, m, drop_imported<Managed>, writable);
  return Tensor(make_ref<TensorImpl>(std::move(storage), std::move(sizes), std::move(strides), 0, *dtype));
}

// Whether elements lie with the first axis the fastest, without gaps.
bool is_fortran(const Tensor& x) {
  if (x.numel() == 0) return true;
  int64_t step = 1;
  for (int i = 0; i < x.ndim(); step *= x.size(i), ++i)
    if (x.size(i) != 1 && x.stride(i) != step) return false;
  return true;
}

// Why a buffer request can not be granted by the order in which x lies; null where it can.
const char* wrong_order(const Tensor& x, int flags) {
  const auto asks = [flags](int what) { return (flags & what) == what; };
  if (asks(PyBUF_ANY_CONTIGUOUS))
    return x.is_contiguous() || is_fortran(x) ? nullptr : "the tensor is not contiguous, as the consumer wants it; call .contiguous() first";
  if (asks(PyBUF_C_CONTIGUOUS)) return x.is_contiguous() ? nullptr : "the tensor is not C-contiguous, as the consumer wants it; call .contiguous() first";
  if (asks(PyBUF_F_CONTIGUOUS)) return is_fortran(x) ? nullptr : "the tensor is not Fortran-contiguous, as the consumer wants it";
  if (!asks(PyBUF_STRIDES) && !x.is_contiguous()) return "the tensor is not contiguous, and the consumer takes no strides";
  return nullptr;
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const Tensor& x = tensor_of(self);
    const char* format = kFormats[static_cast<int>(x.dtype())];
    if (x.is_meta() || !format || requires_grad(x)) {
      PyErr_Format(PyExc_BufferError, x.is_meta()  ? "a meta tensor has no memory to share"
                                      : !format ? "a tensor of %s has no buffer format; convert it with .float() first"
                                                : "a tensor of %s that requires grad can not share its memory; call .detach() first",
                   name(x.dtype()));
      view->obj = nullptr;
      return -1;
    }
    if ((flags & PyBUF_WRITABLE) && !x.storage().writable()) {
      PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
      view->obj = nullptr;
      return -1;
    }
    if (const char* refused = wrong_order(x, flags)) {
      PyErr_SetString(PyExc_BufferError, refused);
      view->obj = nullptr;
      return -1;
    }
    auto held = std::make_unique<ExportedBuffer>(x);
    Py_ssize_t* dims = held->dims.data();
    for (int i = 0; i < x.ndim(); ++i) {
      dims[i] = static_cast<Py_ssize_t>(x.sizes()[i]);
      dims[x.ndim() + i] = static_cast<Py_ssize_t>(x.strides()[i] * static_cast<int64_t>(x.item_bytes()));
    }
    alignas(16) static char empty_data[16];
    graph::note_read("bytes were handed to another library");
    view->buf = x.data() ? x.data() : empty_data;
    Py_INCREF(self);
    view->obj = self;
    view->len = static_cast<Py_ssize_t>(x.numel() * static_cast<int64_t>(x.item_bytes()));
    view->readonly = !x.storage().writable();
    view->itemsize = static_cast<Py_ssize_t>(x.item_bytes());
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    view->ndim = x.ndim();
    view->shape = (flags & PyBUF_ND) ? dims : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims + x.ndim() : nullptr;
    view->suboffsets = nullptr;
    view->internal = held.release();
    // Whoever holds the buffer may write to it whenever it likes.
    return 0;
  } catch (...) {
    translate_exception();
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<ExportedBuffer*>(view->internal); }

Tensor tensor_from_buffer(PyObject* exporter, bool or_copy) {
  auto view = std::make_unique<Py_buffer>();
  bool writable = true;
  if (PyObject_GetBuffer(exporter, view.get(), PyBUF_STRIDED | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    writable = false;
    if (PyObject_GetBuffer(exporter, view.get(), PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0) throw_python_error();
  }
  struct Guard {
    Py_buffer* v;
    ~Guard() {
      if (v) PyBuffer_Release(v);
    }
  } guard{view.get()};
  writable = writable && !view->readonly;
  if (view->ndim > 0 && !view->strides)  // asked for, and left out: NumPy's scalars of dates do
    raise<ArgumentError>("from_numpy: a ", Py_TYPE(exporter)->tp_name, " does not say how its bytes lie; expected an array of numbers");
  const auto dtype = type_of_format(view->format, view->itemsize);
  if (!dtype && view->format && *view->format == '>' && type_of_format(view->format + 1, view->itemsize))
    raise<ArgumentError>("from_numpy: elements of format '", view->format, "' are not in native byte order; convert them first (array.astype(array.dtype.newbyteorder('=')))");
  if (!dtype)
    raise<DTypeError>("from_numpy: elements of format '", view->format ? view->format : "", "' have no flambeau type; expected bool, (u)int8, int16, int32, int64, float16, float32, float64, complex64 or complex128 in native byte order");
  Dims sizes, strides;
  bool can_lie = view->len == 0 || is_aligned(view->buf, *dtype);
  for (int i = 0; i < view->ndim; ++i) can_lie = can_lie && (view->shape[i] < 2 || (view->strides[i] >= 0 && view->strides[i] % view->itemsize == 0));
  if (or_copy && !can_lie) {
    for (int i = 0; i < view->ndim; ++i) sizes.push_back(view->shape[i]);
    checked_numel("tensor", sizes);
    Tensor y = empty(sizes, *dtype);
    if (view->len > 0 && PyBuffer_ToContiguous(y.data(), view.get(), view->len, 'C') != 0) throw_python_error();
    return y;
  }
  for (int i = 0; i < view->ndim; ++i) {
    const int64_t n = view->shape[i], s = view->strides[i];
    sizes.push_back(n);
    if (s < 0 && n > 1)
      raise<ArgumentError>("from_numpy: the array has a negative stride at axis ", i, "; copy it first (array.copy())");
    if (s % view->itemsize != 0 && n > 1)
      raise<ArgumentError>("from_numpy: stride ", s, " bytes at axis ", i, " is no multiple of the element size ", view->itemsize, "; copy the array first");
    strides.push_back(n > 1 ? s / view->itemsize : 1);
  }
  checked_numel("from_numpy", sizes);
  const size_t bytes = lent_bytes("from_numpy", view->buf, sizes, strides, *dtype);
  Py_buffer* held = view.release();
  guard.v = nullptr;
  auto storage = Storage::borrow(held->buf, bytes, Device{}, held, drop_buffer, writable);
  return Tensor(make_ref<TensorImpl>(std::move(storage), std::move(sizes), std::move(strides), 0, *dtype));
}

void move_to_buffer(const Tensor& x, PyObject* exporter) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(exporter, view.get(), PyBUF_WRITABLE) != 0) throw_python_error();
  try {
    if (x.is_meta() || static_cast<size_t>(view->len) < x.storage().size_bytes())
      raise<ArgumentError>("share_memory_: a storage of ", x.storage().size_bytes(), " bytes on ", x.device(), " for ", view->len, " bytes of memory; expected room for them, and the CPU");
    graph::note_change(x, "it moves a tensor that lives on to shared memory");
    graph::note_object_change(x);
    x.storage().move_to(view->buf, view.get(), drop_buffer);
  } catch (...) {
    PyBuffer_Release(view.get());
    throw;
  }
  view.release();
}

PyObject* buffer_of(const Tensor& x) {
  const void* owner = x.storage().owner_by(drop_buffer);
  return owner ? static_cast<const Py_buffer*>(owner)->obj : nullptr;
}

Tensor tensor_from(PyObject* data, std::optional<DType> dtype) {
  const Nested call(" while data is made a tensor");
  if (is_tensor(data)) {
    NoGrad off;
    const Tensor& x = tensor_of(data);
    if (is_sparse(x)) [[unlikely]] return with_type(owned_sparse(x), dtype.value_or(x.dtype()));
    return dtype && *dtype != x.dtype() ? op::cast(x, *dtype) : op::clone(x);
  }
  if (!is_list(data) && PyObject_CheckBuffer(data) && !PyBytes_Check(data)) {  // bytes are a text, as far as numbers go
    NoGrad off;
    const Tensor shared = tensor_from_buffer(data, true);
    const DType type = dtype.value_or(PyObject_HasAttrString(data, "__array_interface__") ? shared.dtype() : type_of_numbers(shared.dtype()));
    Tensor y = empty(shared.sizes(), type);
    copy_elements(y, shared);
    return y;
  }
  if (!is_list(data) && PyObject_HasAttrString(data, "__array__")) {
    Scalar s;
    if (!try_scalar(data, s)) {
      const Owned array{call_method(data, "__array__")};
      if (!array.object) throw_python_error();
      if (!PyObject_CheckBuffer(array.object))
        raise<TypeMismatch>("tensor: __array__ of a ", Py_TYPE(data)->tp_name, " returned a ", Py_TYPE(array.object)->tp_name, "; expected an array");
      return tensor_from(array.object, dtype);
    }
  }
  Owned copy;
  if (!is_list(data) && PySequence_Check(data) && !PyUnicode_Check(data) && !PyBytes_Check(data)) {
    copy.object = data = PySequence_List(data);
    if (!data) throw_python_error();
  }
  const auto stacked = [&] {  // those of one shape stack
    NoGrad off;
    std::vector<Tensor> parts;
    for (Py_ssize_t i = 0; i < list_size(data); ++i) parts.push_back(tensor_from(item_at(data, i).object, dtype));
    return op::stack(parts, 0);
  };
  if (leads_to_array(data)) return stacked();
  Found found{{}, {}, !dtype, {}};
  try {
    survey(data, 0, found);
  } catch (HoldsArray) {
    if (!is_list(data)) throw;
    return stacked();
  }
  const DType type = dtype.value_or(found.type.value_or(default_dtype()));
  checked_numel("tensor", found.shape);
  if (type == DType::Complex32 || is_float8(type)) return cast_for_kernel(tensor_from(data, compute_type(type)), type);
  Tensor y = empty(found.shape, type);
  visit_any(type, [&]<class T>(T) {
    T* out = y.data<T>();
    write_numbers(data, 0, found.shape, out);
  });
  return y;
}

PyObject* to_list(const Tensor& x) {
  if (x.is_meta()) raise<NoDataError>("tolist: a meta tensor has no data");
  if (x.dtype() == DType::Complex32 || is_float8(x.dtype())) return to_list(cast_for_kernel(x, compute_type(x.dtype())));
  return list_of(x, 0, x.offset());
}

PyObject* to_dlpack(PyObject* self, bool versioned, bool copy) {
  Tensor x = tensor_of(self);
  if (requires_grad(x)) raise<AutogradError>("__dlpack__: a tensor that requires grad can not be exported; call .detach() first");
  if (x.is_meta()) raise<DeviceError>("__dlpack__: a meta tensor has no data");
  if (copy) x = op::clone(x);
  auto* e = new Exported(x);
  if (versioned) {
    e->versioned = {1, 0, e, [](DLManagedVersioned* m) { delete static_cast<Exported*>(m->context); },
                    (x.storage().writable() ? 0 : kReadOnly) | (copy ? kCopied : 0), describe(*e)};
    return PyCapsule_New(&e->versioned, "dltensor_versioned", [](PyObject* c) { capsule_gone<DLManagedVersioned>(c, "dltensor_versioned"); });
  }
  if (!x.storage().writable()) {
    delete e;
    raise<ArgumentError>("__dlpack__: the memory is read-only, which only DLPack 1.0 can say; ask with max_version=(1, 0) or copy first");
  }
  e->managed = {describe(*e), e, [](DLManaged* m) { delete static_cast<Exported*>(m->context); }};
  return PyCapsule_New(&e->managed, "dltensor", [](PyObject* c) { capsule_gone<DLManaged>(c, "dltensor"); });
}

Tensor from_dlpack(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* m = static_cast<DLManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (m->major != 1) raise<ArgumentError>("from_dlpack: the capsule has version ", m->major, ".", m->minor, "; expected 1.x or the unversioned form");
    Tensor y = import(m, !(m->flags & kReadOnly));
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    return y;
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* m = static_cast<DLManaged*>(PyCapsule_GetPointer(capsule, "dltensor"));
    Tensor y = import(m, true);
    PyCapsule_SetName(capsule, "used_dltensor");
    return y;
  }
  raise<TypeMismatch>("from_dlpack: expected an object with __dlpack__, or an unused DLPack capsule");
}

}  // namespace fl::py
