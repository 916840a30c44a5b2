// What tells one call of a compiled function from another: everything but the tensors' bytes and geometry, as bytes.
#include "bindings/call_key.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "bindings/args.h"
#include "bindings/hooks.h"
#include "bindings/objects.h"
#include "bindings/overrides.h"
#include "bindings/tensor_object.h"
#include "bindings/types.h"
#include "wrappers/autocast.h"

namespace nb = nanobind;

namespace fl::py {
namespace {

constexpr const char* kWhere = " in the arguments of a compiled function";

class Key {
 public:
  Key(nb::handle describe, nb::list tensors) : describe_(describe), tensors_(std::move(tensors)) {
    const ThreadModes& modes = thread_modes();
    put('m');
    put(modes.grad);
    put(modes.asked_grad);
    put(inference_mode());
    put(modes.autocast);
    if (modes.autocast) put(autocast_settings().dtype);
    put(default_dtype());
    put(override_flags);
  }
  void add(PyObject* v) {
    if (is_tensor(v) && !taken_over(v)) {
      put('T');
      put(first_place(v));
      put(requires_grad(tensor_of(v)));
      for (const uint64_t id : hooks_of_leaf(tensor_of(v))) put(id);
      tensors_.append(nb::handle(v));
      return;
    }
    if (v == Py_None) return put('N');
    if (PyTuple_Check(v) || PyList_Check(v)) {
      const Nested nested(kWhere);  // a list may hold itself
      type('(', v);
      // Nobody else runs meanwhile but `describe`, which could change a list.
      const bool tuple = PyTuple_Check(v);
      for (Py_ssize_t i = 0; i < (tuple ? PyTuple_GET_SIZE(v) : PyList_GET_SIZE(v)); ++i)
        add(nb::borrow(tuple ? PyTuple_GET_ITEM(v, i) : PyList_GET_ITEM(v, i)).ptr());
      return put(')');
    }
    if (PyDict_Check(v)) {
      const Nested nested(kWhere);
      type('{', v);
      const nb::list items = nb::steal<nb::list>(PyDict_Items(v));
      if (!items.is_valid()) throw PythonError{};
      for (nb::handle item : items) {
        add(PyTuple_GET_ITEM(item.ptr(), 0));
        add(PyTuple_GET_ITEM(item.ptr(), 1));
      }
      return put('}');
    }
    if (PyFloat_Check(v)) {
      type('f', v);
      return put(PyFloat_AS_DOUBLE(v));
    }
    if (PyLong_Check(v)) {  // a bool, too
      type('i', v);
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(v, &overflow);
      if (overflow == 0) return put(value);
      return text(v);
    }
    if (PyComplex_Check(v)) {
      type('c', v);
      const Py_complex z = PyComplex_AsCComplex(v);
      return put(z);
    }
    if (PyUnicode_Check(v)) {
      type('s', v);
      put(PyUnicode_KIND(v));
      return raw(PyUnicode_DATA(v), static_cast<size_t>(PyUnicode_GET_LENGTH(v)) * static_cast<size_t>(PyUnicode_KIND(v)));
    }
    if (PyBytes_Check(v)) {
      type('y', v);
      return raw(PyBytes_AS_STRING(v), static_cast<size_t>(PyBytes_GET_SIZE(v)));
    }
    if (is_dtype(v)) {
      put('d');
      return put(to_dtype(v, "compile", "an argument"));
    }
    const nb::object plain = nb::steal(call_with(describe_.ptr(), v));
    if (!plain.is_valid()) throw PythonError{};
    put('o');
    add(plain.ptr());
  }
  const std::string& bytes() const { return out_; }

 private:
  // Where among the tensors this one stands for the first time.
  uint32_t first_place(PyObject* v) {
    const auto n = static_cast<uint32_t>(places_.size());
    if (n < kFew) {  // as most calls have
      const auto at = std::find_if(places_.begin(), places_.end(), [&](const auto& place) { return place.first == v; });
      if (at != places_.end()) return at->second;
      places_.emplace_back(v, count_);
    } else {
      if (many_.empty()) many_.insert(places_.begin(), places_.end());
      if (const auto [at, fresh] = many_.emplace(v, count_); !fresh) return at->second;
    }
    return count_++;
  }
  template <class T>
  void put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  void raw(const void* data, size_t n) {
    put(n);
    out_.append(static_cast<const char*>(data), n);
  }
  // Types that were seen stay, so that an address means one of them.
  void type(char what, PyObject* v) {
    put(what);
    PyTypeObject* t = Py_TYPE(v);
    if (seen_types.insert(t).second) Py_INCREF(t);
    put(t);
  }
  void text(PyObject* v) {
    const nb::object s = nb::steal(PyObject_Str(v));
    Py_ssize_t n = 0;
    const char* utf8 = s.is_valid() ? PyUnicode_AsUTF8AndSize(s.ptr(), &n) : nullptr;
    if (!utf8) throw PythonError{};
    raw(utf8, static_cast<size_t>(n));
  }

  static inline auto& seen_types = *new std::unordered_set<PyTypeObject*>;
  std::string out_;
  nb::handle describe_;
  nb::list tensors_;
  static constexpr uint32_t kFew = 32;
  uint32_t count_ = 0;  // of different tensors
  std::vector<std::pair<PyObject*, uint32_t>> places_;
  std::unordered_map<PyObject*, uint32_t> many_;
};

}  // namespace

nb::tuple call_key(nb::handle args, nb::handle kwargs, nb::handle describe) {
  nb::list tensors;
  if (override_flags & kModeOn) return nb::make_tuple(nb::none(), tensors);
  Key key(describe, tensors);
  key.add(args.ptr());
  key.add(kwargs.ptr());
  return nb::make_tuple(nb::bytes(key.bytes().data(), key.bytes().size()), tensors);
}

}  // namespace fl::py
