// Arguments of a Python call: binding to a signature, and conversion. Used by generated code.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "bindings/errors.h"
#include "bindings/objects.h"
#include "bindings/overrides.h"
#include "bindings/tensor_object.h"
#include "dispatch/op_types.h"

namespace fl::py {

// Argument types, and what messages call them.
#define FL_KINDS(X) \
  X(Tensor, "Tensor") X(OptTensor, "Tensor?") X(TensorList, "Tensor[]") X(OptTensorList, "Tensor?[]") X(Operand, "Tensor|number") \
  X(Int, "int") X(OptInt, "int?") X(IntList, "int[]") X(DimList, "int[]") X(OptIntList, "int[]?") X(Float, "float") \
  X(OptFloat, "float?") X(Bool, "bool") X(OptBool, "bool?") X(Number, "number") X(OptNumber, "number?") X(Str, "str") \
  X(OptStr, "str?") X(DType, "dtype") X(OptDType, "dtype?") X(OptDevice, "device?") X(OptGenerator, "Generator?")

enum class Kind : uint8_t {
#define FL_KIND(name, text) name,
  FL_KINDS(FL_KIND)
#undef FL_KIND
};

constexpr int kOptional = 1;
constexpr int kKeywordOnly = 2;
constexpr int kNumberFirst = 4;  // a keyword-only number that older programs give in front of the tensors

struct ArgSpec {
  const char* name;
  const char* also;  // PyTorch's name for it, or null
  Kind kind;
  int flags;
  PyObject* interned = nullptr;
};

// What a bound call owns: the tuple made of f(2, 3)'s numbers.
struct Bound {
  PyObject* packed = nullptr;
  bool row_major = false;  // of a result, whose memory format was asked for: there is one
  ~Bound() { Py_XDECREF(packed); }
};

// Whether a memory format asks for an order of the elements, rather than for that of the argument.
bool asks_for_order(PyObject* memory_format);
// The result in that order; it stays the leaf that it is.
Tensor in_row_major(Tensor y);

class Signature {
 public:
  // ignored: keywords, separated by spaces, that are taken and change nothing.
  Signature(const char* name, ArgSpec* args, int count, int varargs, const char* ignored = "")
      : name_(name), args_(args), count_(count), varargs_(varargs), ignored_(ignored) {}
  // Fills slots (null: not given) or throws TypeMismatch.
  void bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound) const;
  // False where the call does not fit, by number, names or types of its arguments.
  bool try_bind(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound) const;
  std::string text() const;

 private:
  // Null when bound, else what is wrong.
  int other_place(PyObject* key) const;
  bool bind_slots(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots, Bound& bound, std::string* why) const;
  // x.add_(2, y) as x.add_(y, alpha=2), with a warning; false where the call is not of that kind.
  bool bind_numbers_first(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, PyObject** slots) const;
  const char* name_;
  ArgSpec* args_;
  int count_;
  int varargs_;
  std::string_view ignored_;
};

[[noreturn]] void no_overload(std::initializer_list<const Signature*> signatures, PyObject* self, PyObject* const* args,
                              Py_ssize_t nargs, PyObject* kw);

// What Python may ask about an entry of the op table; generated, ended by a row without a name.
struct OpTraits {
  const char *name, *signature, *body, *aliases, *linear, *batch;
  bool draws, inplace;
};

// Conversions: (object or null, op, argument). Optional forms take null and None. Subclasses may take the call over
// (Overridden, bindings/overrides.h) but for plain_tensor, which is for what is no op.
const Tensor& to_tensor(PyObject* o, const char* op, const char* arg);
const Tensor& plain_tensor(PyObject* o, const char* op, const char* arg);
const Tensor& to_optional_tensor(PyObject* o, const char* op, const char* arg);
// Where items may lack, an undefined tensor stands for None.
std::vector<Tensor> to_tensor_list(PyObject* o, const char* op, const char* arg, bool may_lack = false);
Operand to_operand(PyObject* o, const char* op, const char* arg);
// False, without an error, where o is neither tensor nor number.
bool try_operand(PyObject* o, Operand& out);
bool try_scalar(PyObject* o, Scalar& out);
int64_t to_int(PyObject* o, const char* op, const char* arg);
std::optional<int64_t> to_optional_int(PyObject* o, const char* op, const char* arg);
// `length` ints, or one for all of them; with `may_lack` also None or an empty list, which the op has a meaning for.
Dims to_dims(PyObject* o, const char* op, const char* arg, int length = 0, bool may_lack = false);
std::optional<Dims> to_optional_dims(PyObject* o, const char* op, const char* arg);
double to_double(PyObject* o, const char* op, const char* arg);
std::optional<double> to_optional_double(PyObject* o, const char* op, const char* arg);
bool to_bool(PyObject* o, const char* op, const char* arg);
std::optional<bool> to_optional_bool(PyObject* o, const char* op, const char* arg);
// Of a tensor that requires grad only its value (`of_value`), if that is asked for: there is no gradient.
Scalar to_scalar(PyObject* o, const char* op, const char* arg, bool of_value = false);
std::optional<Scalar> to_optional_scalar(PyObject* o, const char* op, const char* arg);
std::string_view to_string_view(PyObject* o, const char* op, const char* arg);
std::optional<std::string_view> to_optional_string_view(PyObject* o, const char* op, const char* arg);
DType to_dtype(PyObject* o, const char* op, const char* arg);
std::optional<DType> to_optional_dtype(PyObject* o, const char* op, const char* arg);
std::optional<Device> to_optional_device(PyObject* o, const char* op, const char* arg);
// For what makes a tensor of nothing: the thread's default device where none is given.
std::optional<Device> to_new_device(PyObject* o, const char* op, const char* arg);
Generator* to_generator(PyObject* o, const char* op, const char* arg);
PyObject* dtype_object(DType dtype);  // borrowed

// ---- the GIL: held for small work, released for anything that takes longer than handing it over.
constexpr int64_t kReleaseWork = 32768;
inline int64_t work_of(int64_t elements) { return std::clamp<int64_t>(elements, 0, kReleaseWork); }  // no more: these are added up
inline int64_t work_of(const Tensor& x) { return x.defined() ? work_of(x.numel()) : 0; }
inline int64_t work_of(const Operand& x) { return x.is_tensor() ? work_of(x.tensor()) : 0; }
inline int64_t work_of(const std::vector<Tensor>& xs) {
  int64_t sum = 0;
  for (const Tensor& x : xs) sum += work_of(x);
  return sum;
}
inline int64_t work_of(const Dims& sizes) {  // of a shape that is not checked yet
  int64_t product = 1;
  for (int64_t s : sizes)
    if (s <= 0 || __builtin_mul_overflow(product, s, &product)) return 0;
  return work_of(product);
}
// Remembers the running Python line for writes that are made without the GIL.
void note_source();
template <class F>
auto without_gil(int64_t work, F&& f) {
  if (work < kReleaseWork) return f();
  note_source();
  GilRelease release;
  return f();
}

// ---- results
// A call with `out=` of a function that knows none: computed in its memory, or without it and then written into it (flambeau/_out.py). One
// that takes a dtype makes its result in out's type, where no tensor says more.
using Function = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
bool gives_out(PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
PyObject* with_out(const char* op, Function function, PyObject* const* args, Py_ssize_t nargs, PyObject* kw, bool takes_dtype);

class ResultType {
 public:
  ResultType(const char* op, std::initializer_list<const char*> fields);
  PyTypeObject* type() const { return type_; }

 private:
  PyTypeObject* type_;
};
template <class... Ts>
PyObject* wrap_tuple(const ResultType& type, std::tuple<Ts...>&& values) {
  PyObject* out = PyStructSequence_New(type.type());
  if (!out) return nullptr;
  Py_ssize_t i = 0;
  std::apply([&](auto&... v) { (PyStructSequence_SetItem(out, i++, wrap(std::move(v))), ...); }, values);
  return out;
}
template <class... Ts>
PyObject* wrap_tuple(std::tuple<Ts...>&& values) {
  return std::apply(
      [](auto&... v) {
        PyObject* parts[] = {wrap(std::move(v))...};
        return make_tuple(std::size(parts), [&](Py_ssize_t k) { return parts[k]; });
      },
      values);
}

}  // namespace fl::py
