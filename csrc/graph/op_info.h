// The registry of ops that can be recorded and run: one OpInfo per entry of the op table that has a kernel, generated.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "base/scalar.h"
#include "dispatch/each.h"
#include "dispatch/op_types.h"

namespace fl::graph {

// An argument of a recorded op, whatever its type. Tensors, lists and texts are kept beside it, in a Frame's tables.
struct Box {
  enum class Kind : uint8_t { None, Tensor, Tensors, Bool, Int, Float, Ints, Text, Type, Place, Draw, Complex };
  Kind kind = Kind::None;
  uint32_t count = 0;  // of Tensors, Ints, Text and Complex, which lies with the ints as two doubles
  union {
    int64_t integer;    // Bool and Int; Type and Place as numbers; otherwise where the first one lies
    double real;
  };
  Box() : integer(0) {}
  Box(Kind k, int64_t value, uint32_t n = 0) : kind(k), count(n), integer(value) {}
  explicit Box(double value) : kind(Kind::Float), real(value) {}
  bool operator==(const Box& other) const { return kind == other.kind && count == other.count && integer == other.integer; }
};

extern const Tensor kNotGiven;  // undefined

// What a recorded op reads its arguments from.
struct Frame {
  const Box* args;
  const Tensor* tensors;   // of the whole recording
  const int64_t* ints;
  const char* text;
  const Tensor* outs;
  const Ref<Generator>* generators;

  const Tensor& tensor(int i) const { return args[i].kind == Box::Kind::None ? kNotGiven : tensors[args[i].integer]; }
  TensorList list(int i) const { return {tensors + args[i].integer, args[i].count}; }
  Scalar scalar(int i) const {
    const Box& b = args[i];
    if (b.kind == Box::Kind::Complex) return Scalar::complex(std::bit_cast<double>(ints[b.integer]), std::bit_cast<double>(ints[b.integer + 1]));
    return b.kind == Box::Kind::Float ? Scalar(b.real) : b.kind == Box::Kind::Bool ? Scalar(b.integer != 0) : Scalar(b.integer);
  }
  const Tensor& out(int i) const { return outs[i]; }
};

// Arguments of a recorded op as their C++ types: unbox<T>(frame, i).
template <class T>
struct Unbox;
template <>
struct Unbox<const Tensor&> {
  static const Tensor& get(const Frame& f, int i) { return f.tensor(i); }
};
template <>
struct Unbox<TensorList> {
  static TensorList get(const Frame& f, int i) { return f.list(i); }
};
template <>
struct Unbox<const Operand&> {
  static Operand get(const Frame& f, int i) { return f.args[i].kind == Box::Kind::Tensor ? Operand(f.tensor(i)) : Operand(f.scalar(i)); }
};
template <>
struct Unbox<int64_t> {
  static int64_t get(const Frame& f, int i) { return f.args[i].integer; }
};
template <>
struct Unbox<double> {
  static double get(const Frame& f, int i) { return f.scalar(i).as_double(); }
};
template <>
struct Unbox<bool> {
  static bool get(const Frame& f, int i) { return f.args[i].integer != 0; }
};
template <>
struct Unbox<Scalar> {
  static Scalar get(const Frame& f, int i) { return f.scalar(i); }
};
template <>
struct Unbox<IntList> {
  static IntList get(const Frame& f, int i) { return {f.ints + f.args[i].integer, f.args[i].count}; }
};
template <>
struct Unbox<std::string_view> {
  static std::string_view get(const Frame& f, int i) { return {f.text + f.args[i].integer, f.args[i].count}; }
};
template <>
struct Unbox<DType> {
  static DType get(const Frame& f, int i) { return static_cast<DType>(f.args[i].integer); }
};
template <>
struct Unbox<Device> {
  static Device get(const Frame& f, int i) {
    const int64_t n = f.args[i].integer;
    return {static_cast<DeviceKind>(n >> 32), static_cast<int8_t>(n & 0xff)};
  }
};
template <>
struct Unbox<Generator*> {
  static Generator* get(const Frame& f, int i) { return f.generators[f.args[i].integer].get(); }
};
template <class T>
struct Unbox<std::optional<T>> {
  static std::optional<T> get(const Frame& f, int i) {
    if (f.args[i].kind == Box::Kind::None) return std::nullopt;
    return Unbox<T>::get(f, i);
  }
};

// Puts `made` where a recorded op's output is to be.
void adopt(const Tensor& out, Tensor made);

struct OpInfo {
  const char* name;      // of the function of the library: add, add_
  const char* ident;     // with the overload: max_1
  const char* signature; // as in the op table
  const char* kinds;     // one letter per argument: emit_graph.py
  uint64_t writes;       // bit i: argument i is written in place
  int outs;              // fresh outputs, those kept for backward included
  void (*run)(const Frame&);
  // Of an element-wise op: calls `f` with what its loop is called with; null for the others.
  using EachCall = void (*)(void* context, const EachKernel& kernel, DType result, DType type, const Operand* in, int n, const Scalar* params, int n_params);
  void (*each)(const Frame&, EachCall f, void* context);
  // Makes the checks of a call again that look at values; null: there are none.
  void (*check)(const Frame&);
  // A kernel's output that may lie where that argument does, as `over` says in the op table; -1: none.
  int over_out, over_arg;
  // A part of ops, whose kernel takes for granted that arguments are what these ops call it with. Files may not ask for it.
  bool trusts;
  // The bool argument that says whether it writes what `writes` names; -1: it does.
  int writes_when;
  const OpInfo* next = nullptr;

  // Of a call that is handed on whole, and never recorded: in no list.
  OpInfo(const char* name, const char* ident, const char* signature);
  OpInfo(const char* name, const char* ident, const char* signature, const char* kinds, uint64_t writes, int outs,
         void (*run)(const Frame&), void (*check)(const Frame&), void (*each)(const Frame&, EachCall, void*) = nullptr, int over_out = -1, int over_arg = -1,
         bool trusts = false, int writes_when = -1);
};
// All of them, in no order.
extern const OpInfo* all_ops;
const OpInfo* find_op(std::string_view ident);

}  // namespace fl::graph
