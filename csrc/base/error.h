// The library's exceptions. The bindings translate each into the Python class of the same name.
//
//   ShapeError, ArgumentError (ValueError)  DTypeError (TypeError, NotImplementedError)  IndexError -> RangeError (IndexError)  TypeMismatch -> TypeError
//   AutogradError, DeviceError, LinAlgError, NoDataError (DeviceError, NotImplementedError); of all but TypeMismatch also RuntimeError, which PyTorch's callers catch
//
// Text: `op: argument = got; expected what`, with a way out where there is one.
#pragma once

#include <array>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

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

// One of the things that a text is joined of, which it refers to. Texts differ in their parts, and each would be a function of its own: with
// what an exception leaves behind these were a twentieth of the library.
class Piece {
 public:
  template <class T>
  Piece(const T& value) : value_(&value), put_(put<T>) {}
  template <size_t N>
  Piece(const char (&value)[N]) : value_(value), put_(put_characters) {}
  void put_into(std::ostream& out) const { put_(out, value_); }

 private:
  template <class T>
  static void put(std::ostream& out, const void* value) {
    const T& v = *static_cast<const T*>(value);
    if constexpr (std::is_convertible_v<const T&, IntList>) out << to_string(IntList(v));
    else if constexpr (std::is_same_v<T, bool>) out << (v ? "True" : "False");
    else out << v;
  }
  static void put_characters(std::ostream& out, const void* value);

  const void* value_;
  void (*put_)(std::ostream&, const void*);
};
std::string joined(std::span<const Piece> pieces);

// Joins its arguments to one text: text(op, ": dim = ", dim).
template <class... Args>
std::string text(const Args&... args) {
  const std::array<Piece, sizeof...(Args)> pieces{args...};
  return joined(pieces);
}

template <class E>
[[noreturn]] __attribute__((noinline, cold)) void raise_joined(std::span<const Piece> pieces) {
  throw E(joined(pieces));
}
template <class E, class... Args>
[[noreturn]] __attribute__((noinline, cold)) void raise(const Args&... args) {
  const std::array<Piece, sizeof...(Args)> pieces{args...};
  raise_joined<E>(pieces);
}

}  // namespace fl
