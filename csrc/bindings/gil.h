// The GIL: given up and taken, and left to Python's code. Nothing else in the bindings calls what can take it.
//
// Note [Threads that outlive the interpreter]
// A daemon thread that waits for the GIL when the interpreter ends never gets it: CPython up to 3.13 ends the thread from
// inside of the waiting call with pthread_exit(), which unwinds the stack, so every destructor on it would run without the
// GIL beside an interpreter that is being taken apart: tuples given back while the collector walks over them, tensors whose
// Python object is gone. So the unwinding is caught where it begins and the thread sleeps until the process ends, which
// is soon, as CPython itself does from 3.14 on. The wait can begin in three calls: when the GIL is taken back (`take_gil`),
// when it is taken by a thread without it (`GilAcquire`), and in Python's code that we call (`from_python`), which gives
// it up and takes it at any line. tools/check_layers.py refuses those calls elsewhere.
//
// A thread that is inside of a kernel at that time does not notice: it comes back beside an interpreter that is gone, where
// PyGILState_Check() says yes to everyone (it does so, too, once there was a second interpreter). So `has_gil` asks in
// another way, and who wants the GIL of an interpreter that has ended sleeps as well.
#pragma once

#include <Python.h>
#include <unistd.h>

#include "base/fork_mutex.h"

namespace fl::py {

// Whether this thread holds the GIL: the state that Python keeps for it, none before its first call or when the interpreter
// has ended, is the one that runs.
inline bool has_gil() {
  PyThreadState* own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
  return own && own == PyThreadState_GetUnchecked();
#else
  return own && own == _PyThreadState_UncheckedGet();
#endif
}

[[noreturn]] inline void sleep_for_ever() {
  for (;;) pause();
}

// What `call`, which does nothing but call Python, returns. Only the end of a thread unwinds C code.
template <class F>
auto from_python(F&& call) {
  try {
    return call();
  } catch (...) {
    sleep_for_ever();
  }
}

inline PyThreadState* give_gil() { return PyEval_SaveThread(); }
inline void take_gil(PyThreadState* state) {
  from_python([&] { PyEval_RestoreThread(state); });
}

// Gives the GIL up for a scope.
struct GilRelease {
  PyThreadState* state = give_gil();
  GilRelease() = default;
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() { take_gil(state); }
};

// Waits for the GIL. Not while a mutex of the core is held, since who has the GIL may wait for that: Note [Locks].
struct GilAcquire {
  PyGILState_STATE state = acquire();
  GilAcquire() = default;
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  static PyGILState_STATE acquire() {
    if (!has_gil()) {
      if (locks::any_held()) [[unlikely]] Py_FatalError("flambeau: the GIL is wanted while a mutex of the core is held");
      if (!Py_IsInitialized()) [[unlikely]] sleep_for_ever();
    }
    return from_python([] { return PyGILState_Ensure(); });
  }
  ~GilAcquire() { PyGILState_Release(state); }
};

// Calls of Python's code; new references, or null with an error set.
inline PyObject* call_python(PyObject* f, PyObject* args, PyObject* kwargs = nullptr) {
  return from_python([&] { return PyObject_Call(f, args, kwargs); });
}
template <class... Args>
PyObject* call_with(PyObject* f, Args*... args) {
  PyObject* all[] = {nullptr, args...};  // the first place is the callee's to use
  return from_python([&] { return PyObject_Vectorcall(f, all + 1, sizeof...(args) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr); });
}
template <class... Args>
PyObject* call_method(PyObject* self, const char* name, Args*... args) {
  return from_python([&]() -> PyObject* {
    PyObject* text = PyUnicode_FromString(name);
    PyObject* out = text ? PyObject_CallMethodObjArgs(self, text, args..., nullptr) : nullptr;
    Py_XDECREF(text);
    return out;
  });
}

}  // namespace fl::py
