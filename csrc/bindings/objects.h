// Owners of Python references, and builders of tuples and lists. Nothing else in the bindings counts references of
// containers by hand, so that a failure half-way neither leaks nor leaves an empty slot behind.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "bindings/gil.h"

namespace fl::py {

// Thrown when a Python error is set already.
struct PythonError {};

// Gives its reference back however the scope is left.
struct Owned {
  PyObject* object = nullptr;
  Owned() = default;
  explicit Owned(PyObject* o) : object(o) {}
  Owned(Owned&& other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Owned(const Owned&) = delete;
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  Owned& operator=(const Owned&) = delete;
  ~Owned() { Py_XDECREF(object); }
  PyObject* release() { return std::exchange(object, nullptr); }
};

// What `bool(o)` is. Throws PythonError where that raises.
inline bool truth(PyObject* o) {
  const int answer = PyObject_IsTrue(o);
  if (answer < 0) throw PythonError{};
  return answer;
}
// The same where only bools (NumPy's, too) have a meaning.
inline bool exact_truth(const char* what, PyObject* o) {
  if (!o || std::string_view(Py_TYPE(o)->tp_name).find("bool") == std::string_view::npos)
    raise<TypeMismatch>(what, ": got ", o ? Py_TYPE(o)->tp_name : "nothing", "; expected a bool");
  return truth(o);
}
// The text of a str; lone surrogates, of which names of files are made that are no UTF-8, by backslashes. "?" for anything else.
inline std::string utf8(PyObject* o) {
  Py_ssize_t n = 0;
  if (const char* s = o && PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &n) : nullptr) return {s, static_cast<size_t>(n)};
  PyErr_Clear();
  const Owned bytes(o && PyUnicode_Check(o) ? PyUnicode_AsEncodedString(o, "utf-8", "backslashreplace") : nullptr);
  PyErr_Clear();
  return bytes.object ? std::string(PyBytes_AS_STRING(bytes.object), static_cast<size_t>(PyBytes_GET_SIZE(bytes.object))) : "?";
}
// The same to compare names with, and without a copy: a str with lone surrogates is none.
inline std::string_view name_of(PyObject* o) {
  Py_ssize_t n = 0;
  if (const char* s = PyUnicode_AsUTF8AndSize(o, &n)) return {s, static_cast<size_t>(n)};
  PyErr_Clear();
  return "\xff";
}

// Gives a reference back on any thread, with or without the GIL, once this thread holds no mutex of the core. Where Python
// has ended the object is left alone.
inline void drop_from_anywhere(PyObject* object) {
  if (!object) return;
  locks::when_unlocked(object, [](void* o) {
    if (!Py_IsInitialized()) return;
    GilAcquire gil;
    Py_DECREF(static_cast<PyObject*>(o));
  });
}

namespace detail {
template <class Set, class F>
PyObject* filled(PyObject* container, Py_ssize_t n, Set&& set, F&& item) {
  Owned out(container);
  if (!out.object) throw PythonError{};
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = item(i);
    if (!o) throw PythonError{};
    set(out.object, i, o);
  }
  return out.release();
}
}  // namespace detail

// Fills a new tuple, or a list, of n items with the new references that `item(i)` makes. Throws PythonError, and what
// `item` throws.
template <class F>
PyObject* fill_tuple(PyObject* fresh, Py_ssize_t n, F&& item) {
  return detail::filled(fresh, n, [](PyObject* t, Py_ssize_t i, PyObject* o) { PyTuple_SET_ITEM(t, i, o); }, item);
}
template <class F>
PyObject* make_tuple(Py_ssize_t n, F&& item) {
  return fill_tuple(PyTuple_New(n), n, item);
}
template <class F>
PyObject* make_list(Py_ssize_t n, F&& item) {
  return detail::filled(PyList_New(n), n, [](PyObject* l, Py_ssize_t i, PyObject* o) { PyList_SET_ITEM(l, i, o); }, item);
}

// Counts nested calls as Python does, so that data that contains itself is a RecursionError.
class Nested {
 public:
  explicit Nested(const char* where) {
    if (Py_EnterRecursiveCall(where) != 0) throw PythonError{};
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  ~Nested() { Py_LeaveRecursiveCall(); }
};

}  // namespace fl::py
