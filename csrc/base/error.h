// The library's exceptions. The bindings translate each into the Python class of the same name.
//
//   ShapeError, ArgumentError (ValueError)  DTypeError (TypeError, NotImplementedError)  IndexError -> RangeError (IndexError)  TypeMismatch -> TypeError
//   AutogradError, DeviceError, LinAlgError, NoDataError (DeviceError, NotImplementedError); of all but TypeMismatch also RuntimeError, which PyTorch's callers catch
//
// Text: `op: argument = got; expected what`, with a way out where there is one.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "base/dims.h"

namespace fl {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ShapeError : Error {
  using Error::Error;
};
struct DTypeError : Error {
  using Error::Error;
};
struct IndexError : Error {
  using Error::Error;
};
struct DeviceError : Error {
  using Error::Error;
};
// Elements are wanted of a meta tensor, which has none.
struct NoDataError : DeviceError {
  using DeviceError::DeviceError;
};
struct AutogradError : Error {
  using Error::Error;
};
struct LinAlgError : Error {
  using Error::Error;
};
struct ArgumentError : Error {
  using Error::Error;
};
struct TypeMismatch : Error {
  using Error::Error;
};
struct OutOfMemory : Error {
  using Error::Error;
};

namespace detail {
inline void put(std::ostream& out, IntList v) { out << to_string(v); }
inline void put(std::ostream& out, const Dims& v) { out << to_string(IntList(v)); }
inline void put(std::ostream& out, bool v) { out << (v ? "True" : "False"); }
template <class T>
void put(std::ostream& out, const T& v) {
  out << v;
}
}  // namespace detail

// Joins its arguments to one text: text(op, ": dim = ", dim).
template <class... Args>
std::string text(const Args&... args) {
  std::ostringstream out;
  (detail::put(out, args), ...);
  return out.str();
}

template <class E, class... Args>
[[noreturn]] __attribute__((noinline, cold)) void raise(const Args&... args) {
  throw E(text(args...));
}

}  // namespace fl
