// Calls that a subclass of Tensor, an object of another library, or a mode takes over, by PyTorch's protocol.
//
// Note [Calls that are taken over]
// A type with a `__torch_function__(func, types, args, kwargs)` is called in place of a native function, method, operator, index
// or attribute that gets an object of it. A generated entry point looks at the types of its arguments first (`call_taken_over`): a
// comparison each, and for classes that Python made a small table of those known to take nothing over. What has one operand or two
// (`x.shape`, `x + y`, `x[i]`) asks `taken_over`. Conversions throw `Overridden` where they meet an object that was not looked for,
// deep inside of an argument; what caught it starts over with the call as it was given. Nothing has happened by then, since
// conversion comes before everything else.
// A mode (`overrides.TorchFunctionMode`) takes over every call of its thread; a bound signature asks for it.
// Parameter is a subclass that takes nothing over: it says so by `__torch_function__ = _C.no_torch_function`.
#pragma once

#include <Python.h>

#include <algorithm>
#include <exception>

#include "base/refcount.h"
#include "bindings/tensor_object.h"

namespace fl::py {

// Of the running thread. Zero while there is nothing to look at but types.
constexpr uint8_t kSubclassesOff = 1, kModeOn = 2;
extern FL_HOT_THREAD_LOCAL constinit uint8_t override_flags;

// While it lives.
struct OverrideFlags {
  uint8_t saved;
  explicit OverrideFlags(uint8_t flags) : saved(std::exchange(override_flags, flags)) {}
  OverrideFlags(const OverrideFlags&) = delete;
  OverrideFlags& operator=(const OverrideFlags&) = delete;
  ~OverrideFlags() { override_flags = saved; }
};

struct Overridden final : std::exception {
  const char* what() const noexcept override { return "a tensor whose type has a __torch_function__ can not be used here"; }
};

// `Tensor.__torch_dispatch__`: computes as if there were none.
extern PyObject* no_dispatch;
// Whether the type has a `__torch_function__` of its own, or the one of Tensor, which keeps the subclass; or a `__torch_dispatch__`, for
// which calls are taken below autograd (bindings/dispatch.h).
bool overrides(PyTypeObject* type);
bool taken_over_slowly(PyObject* o);
inline bool taken_over(PyObject* o) {
  const PyTypeObject* type = Py_TYPE(o);
  if (override_flags == 0 && (type == tensor_type || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE))) [[likely]] return false;
  return taken_over_slowly(o);
}
// Whether a mode, or one of the arguments of a call (also in a list or tuple), takes it over.
bool call_taken_over(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
// The tensor of an argument.
inline const Tensor& seen(PyObject* o) {
  if (Py_TYPE(o) != tensor_type && taken_over_slowly(o)) throw Overridden{};
  return tensor_of(o);
}
// For an object that is no tensor, where an error is all that is left.
void maybe_overridden(PyObject* o);

// The result of `__torch_function__` for the method `name` of a tensor, or, without one, for the public function of that name.
PyObject* call_overridden(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
// What a catch of everything returns: the above for Overridden, else null with Python's error set.
PyObject* overridden_or_error(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kw);
// An attribute read (no value), written or deleted (null).
PyObject* call_overridden_attribute(const char* name, const char* access, PyObject* self, PyObject* value = nullptr);
// An operator of one or two operands, of which one may be no tensor.
PyObject* call_overridden_operator(const char* name, const char* reflected, PyObject* a, PyObject* b);

// Entry points of methods that are written by hand.
template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) { std::copy_n(s, N, text); }
};
template <Name name, PyObject* (*f)(PyObject*, PyObject*)>
PyObject* no_arguments(PyObject* self, PyObject*) {
  if (taken_over(self)) [[unlikely]] return call_overridden(name.text, self, nullptr, 0, nullptr);
  return f(self, nullptr);
}
template <Name name, PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>
PyObject* any_arguments(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kw) {
  if (taken_over(self)) [[unlikely]] return call_overridden(name.text, self, args, n, kw);
  return f(self, args, n, kw);
}

bool init_overrides(PyObject* module);

}  // namespace fl::py
