// What the generated wrappers are made of: the steps of a call between its checks and its kernel.
#pragma once

#include "autograd/recorded.h"
#include "autograd/saved_tensor.h"
#include "base/error.h"
#include "dispatch/each.h"
#include "dispatch/op_types.h"
#include "graph/recorder.h"

namespace fl {

DType default_dtype();
void set_default_dtype(DType dtype);

// ---- dims

int64_t wrap_dim(const char* op, const char* arg, int64_t dim, const Tensor& x);
inline int64_t wrap_dims(const char* op, const char* arg, int64_t dim, const Tensor& x) { return wrap_dim(op, arg, dim, x); }
inline std::optional<int64_t> wrap_dims(const char* op, const char* arg, std::optional<int64_t> dim, const Tensor& x) {
  return dim ? std::optional<int64_t>(wrap_dim(op, arg, *dim, x)) : dim;
}
struct WrappedDims {
  Dims values;
  IntList list;
  WrappedDims(const char* op, const char* arg, IntList dims, const Tensor& x);
};
struct WrappedOptionalDims {
  Dims values;
  std::optional<IntList> list;
  WrappedOptionalDims(const char* op, const char* arg, std::optional<IntList> dims, const Tensor& x);
};
inline WrappedDims wrap_dims(const char* op, const char* arg, IntList dims, const Tensor& x) { return {op, arg, dims, x}; }
inline WrappedOptionalDims wrap_dims(const char* op, const char* arg, std::optional<IntList> dims, const Tensor& x) {
  return {op, arg, dims, x};
}
inline const Tensor& first_of(TensorList list) {
  if (list.empty()) raise<ArgumentError>("expected a non-empty list of tensors");
  return list[0];
}

// ---- dtypes

namespace dt {
inline DType same(const Tensor& x) { return x.dtype(); }
inline DType same(const Operand& x) { return x.is_tensor() ? x.tensor().dtype() : default_dtype(); }
inline DType same_list(TensorList xs) { return first_of(xs).dtype(); }
DType promote_operands(const Operand* const* operands, int n);
template <class... Args>
DType promote(const Args&... args) {
  const Operand operands[] = {Operand(args)...};
  const Operand* pointers[sizeof...(args)];
  for (size_t i = 0; i < sizeof...(args); ++i) pointers[i] = &operands[i];
  return promote_operands(pointers, sizeof...(args));
}
inline DType as_float(DType t) { return is_inexact(t) ? t : default_dtype(); }
template <class... Args>
DType promote_float(const Args&... args) {
  return as_float(promote(args...));
}
inline DType float_of(const Operand& x) { return promote_float(x); }
inline DType given(std::optional<DType> dtype, const Tensor& x) { return dtype.value_or(x.dtype()); }
inline DType given(DType dtype, const Tensor&) { return dtype; }
inline DType given_or_float(std::optional<DType> dtype, const Tensor& x) { return dtype.value_or(as_float(x.dtype())); }
inline DType number_of(const Tensor& x) { return x.dtype() == DType::Bool ? DType::Int64 : x.dtype(); }
// Truth values, which were bytes before there was bool.
inline DType truth_of(const Tensor& x) { return x.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool; }
// Sums of integers and bools are int64.
inline DType sum_of(const Tensor& x) { return is_inexact(x.dtype()) ? x.dtype() : DType::Int64; }
inline DType given_or_sum(std::optional<DType> dtype, const Tensor& x) { return dtype.value_or(sum_of(x)); }
inline DType real_of(const Tensor& x) { return to_real(x.dtype()); }
inline DType complex_of(const Tensor& x) { return to_complex(x.dtype()); }
// Of a weight's gradient, where there may be none.
inline DType weight_of(const Tensor& weight, const Tensor& x) { return weight.defined() ? weight.dtype() : x.dtype(); }
// Statistics kept for backward: double for double, else float.
inline DType aux_of(const Tensor& y) { return y.dtype() == DType::Float64 ? DType::Float64 : DType::Float32; }
inline DType aux_of(const std::vector<Tensor>& ys) { return aux_of(ys.at(0)); }
}  // namespace dt

// ---- complex numbers

// Note [Ops that take no complex numbers]
// An op works for complex tensors, numbers and `dtype=` only if its entry says how (`complex`). The generator begins the wrapper of every other one
// with refuse_complex() where any argument is_complex_argument(), so that a new op refuses them before anything is computed. Kernels
// that are reached all the same raise in visit().
inline bool is_complex_argument(const Tensor& x) { return x.defined() && is_complex(x.dtype()); }
inline bool is_complex_argument(Scalar v) { return v.is_complex(); }
inline bool is_complex_argument(const Operand& x) { return x.is_tensor() ? is_complex_argument(x.tensor()) : x.number().is_complex(); }
inline bool is_complex_argument(DType t) { return is_complex(t); }
inline bool is_complex_argument(TensorList xs) {
  for (const Tensor& x : xs)
    if (is_complex_argument(x)) return true;
  return false;
}
template <class T>
bool is_complex_argument(const std::optional<T>& v) {
  return v && is_complex_argument(*v);
}
template <class... Args>
bool any_complex(const Args&... args) {
  return (is_complex_argument(args) || ...);
}
inline DType complex_type(const Tensor& x) { return x.dtype(); }
inline DType complex_type(Scalar) { return DType::Complex128; }
inline DType complex_type(const Operand& x) { return x.is_tensor() ? x.tensor().dtype() : DType::Complex128; }
inline DType complex_type(DType t) { return t; }
inline DType complex_type(TensorList xs) {
  for (const Tensor& x : xs)
    if (is_complex_argument(x) || (x.defined() && is_rare(x.dtype()))) return x.dtype();
  return DType::Complex64;
}
template <class T>
DType complex_type(const std::optional<T>& v) {
  return complex_type(*v);
}
[[noreturn]] void refuse_complex(const char* op, DType type);
template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void refuse_complex_arguments(const char* op, const Args&... args) {
  DType type{};
  ((is_complex_argument(args) && (type = complex_type(args), true)) || ...);
  refuse_complex(op, type);
}
// Note [Types without kernels]: what the wrapper of every kernel begins with whose entry does not say `any_type`.
inline bool is_rare_argument(const Tensor& x) { return x.defined() && is_rare(x.dtype()); }
inline bool is_rare_argument(const Operand& x) { return x.is_tensor() && is_rare_argument(x.tensor()); }
inline bool is_rare_argument(DType t) { return is_rare(t); }
inline bool is_rare_argument(Scalar) { return false; }
inline bool is_rare_argument(TensorList xs) {
  for (const Tensor& x : xs)
    if (is_rare_argument(x)) return true;
  return false;
}
template <class T>
bool is_rare_argument(const std::optional<T>& v) {
  return v && is_rare_argument(*v);
}
template <class... Args>
bool any_rare(const Args&... args) {
  return (is_rare_argument(args) || ...);
}
[[noreturn]] void refuse_rare(const char* op, DType type);
template <class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void refuse_rare_arguments(const char* op, const Args&... args) {
  DType type{};
  ((is_rare_argument(args) && (type = complex_type(args), true)) || ...);
  refuse_rare(op, type);
}
// A complex result is not stored in a real tensor: PyTorch's rule, too.
void check_stored(const char* op, const Tensor& x, const Tensor& value);

// Note [Gradients of complex functions]
// The gradient of a real loss L by z = x + i y is dL/dx + i dL/dy, PyTorch's convention. For a function f that has a complex derivative it is
// dz = dy conj(f'(z)), so a formula of the table is right as it stands once what it saved is conjugate: every formula is made of functions that
// are real for real numbers, for which f'(conj z) = conj f'(z). The generator wraps what a node unpacks in Conjugate, which does so where dy is
// complex: functions with real results (abs, angle, norms) have formulas that hold for complex z as they are. Others (sgn) say `conjugate: false`.
// A real input gets the real part (Fit), since it has no imaginary part to change.

// A factor that goes to both parts.
void check_real(const char* op, const char* arg, Scalar value);

// An argument's real or imaginary part, for ops that treat both alike (`complex: parts`): zeros for the imaginary part of what is real.
struct Part {
  bool imaginary;
  Tensor of(const Tensor& x) const;
  // Integers and bools beside what is complex say where, and stay as they are.
  Tensor operator()(const Tensor& x) const { return x.defined() && !is_inexact(x.dtype()) ? x : of(x); }
  std::optional<DType> operator()(std::optional<DType> t) const { return t ? to_real(*t) : t; }
};
// Saved tensors and numbers of a formula: conjugate where the gradient is complex, so that a formula by the derivative f' becomes PyTorch's,
// dx = dy conj(f'(x)): f'(conj x) is conj f'(x) for what is real for real numbers. See Note [Gradients of complex functions].
struct Conjugate {
  bool on;
  explicit Conjugate(const Tensor& dy) : on(is_complex_argument(dy)) {}
  explicit Conjugate(const std::vector<Tensor>& dys) : on(is_complex_argument(TensorList(dys))) {}
  Tensor operator()(Tensor x) const { return on && is_complex_argument(x) ? conjugated(x) : x; }
  Operand operator()(const Operand& x, Tensor& keep) const {
    if (!on || !is_complex_argument(x)) return x;
    if (!x.is_tensor()) return Operand(x.number().conj());
    keep = conjugated(x.tensor());
    return Operand(keep);
  }
  std::vector<Tensor> operator()(std::vector<Tensor> xs) const {
    for (Tensor& x : xs) x = (*this)(std::move(x));
    return xs;
  }
  Scalar operator()(Scalar v) const { return on ? v.conj() : v; }
  std::optional<Scalar> operator()(const std::optional<Scalar>& v) const { return on && v ? std::optional<Scalar>(v->conj()) : v; }
  template <class T>
  const T& operator()(const T& v) const { return v; }

 private:
  static Tensor conjugated(const Tensor& x);
};

// ---- outputs and operands

Tensor new_output(const char* op, IntList sizes, DType dtype, Device device);
// The memory of the call's `out=` for a result of that form, once; else undefined: Note [Results in the caller's memory]
Tensor offered_output(IntList sizes, DType dtype, Device device);
// Whether the op gets x from its node to write a result of that form there: Note [Gradients that are given up]
bool takes_given(const Tensor& x, IntList sizes, DType dtype, std::initializer_list<const Tensor*> others);

// Note [Kernels that write over what they read]
// `x.index_add_(..)` of a kernel that is written so (`inplace: over: true` in the table) works in x's memory: it takes time for what it changes, however
// large x is. Another argument that lies in that memory is copied first. Where x does not lie in rows, which some kernels allow (`over: any_strides`), or the
// node would keep what was there before, the result is made apart and copied.
bool may_write_over(const Tensor& x, bool any_strides = false);
// `other`, or its copy where it lies in x's memory.
Tensor apart_for_kernel(const Tensor& x, const Tensor& other);
// work(x), or work over a copy of x in rows, which is then copied back: what was recorded may be run over a tensor that lies otherwise.
template <class F>
void over_rows_of(const Tensor& x, const F& work) {
  if (x.is_contiguous()) return work(x);
  const Tensor rows = empty(x.sizes(), x.dtype());
  copy_elements(rows, x);
  work(rows);
  copy_elements(x, rows);
}

inline bool on_meta(const Tensor& x) { return x.defined() && x.is_meta(); }
inline bool on_meta(const Operand& x) { return x.is_tensor() && on_meta(x.tensor()); }
inline bool on_meta(TensorList xs) {
  for (const Tensor& x : xs)
    if (on_meta(x)) return true;
  return false;
}
template <class... Args>
bool any_meta(const Args&... args) {
  return (on_meta(args) || ...);
}

// Tensors on meta and on the CPU in one call. The wrapper of every op that takes several tensors asks before it does
// anything: a result is on meta as soon as one argument is, and
//   One      all tensors with axes are on one device (a 0-d tensor goes with any), and what is written on the CPU is not
//            computed from meta tensors, which have no elements;
//   Copies   as One, but a meta tensor may be written from any;
//   ByValue  no argument is on meta, since the result's size depends on elements.
enum class DeviceRule { One, Copies, ByValue };
struct DeviceArg {
  const char* name;
  TensorList tensors;
  bool written;
  DeviceArg(const char* n, const Tensor& x, bool w) : name(n), tensors(&x, 1), written(w) {}
  DeviceArg(const char* n, TensorList xs, bool w) : name(n), tensors(xs), written(w) {}
  DeviceArg(const char* n, const Operand& x, bool w) : name(n), written(w) {
    if (x.is_tensor()) tensors = TensorList(&x.tensor(), 1);
  }
};
void check_devices(const char* op, DeviceRule rule, std::initializer_list<DeviceArg> args);

// The device of the results: meta, or the first tensor's.
inline void note_device(std::optional<Device>& device, const Tensor& x) {
  if (x.defined() && (!device || x.is_meta())) device = x.device();
}
inline void note_device(std::optional<Device>& device, const Operand& x) {
  if (x.is_tensor()) note_device(device, x.tensor());
}
inline void note_device(std::optional<Device>& device, TensorList xs) {
  for (const Tensor& x : xs) note_device(device, x);
}
template <class... Args>
Device device_of(const Args&... args) {
  std::optional<Device> device;
  (note_device(device, args), ...);
  return device.value_or(Device{});
}

Tensor contiguous(const Tensor& x);  // row-major, no history
// Whether a kernel has anything to write.
template <class... Ts>
bool any_elements(const Ts&... outs) {
  return ((outs.defined() && outs.numel() > 0) || ...);
}
inline Tensor contiguous_for_kernel(const Tensor& x) { return !x.defined() || x.is_contiguous() ? x : contiguous(x); }
std::vector<Tensor> contiguous_for_kernel(TensorList xs);
// x in another type, without history.
Tensor cast_for_kernel(const Tensor& x, DType dtype);
inline const Tensor& target_of(const char* op, const Operand& x) {
  if (!x.is_tensor()) raise<TypeMismatch>(op, ": only a tensor can be written in place, not a number");
  return x.tensor();
}

// A number as a 0-d tensor, for formulas that take a tensor's function of it.
Tensor as_tensor(const Operand& x);

inline Scalar scalar_of(Scalar s) { return s; }
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
Scalar scalar_of(T v) {
  return Scalar(v);
}
template <class T>
Scalar scalar_of(const std::optional<T>& v) {
  return v ? Scalar(*v) : Scalar();
}

// ---- element-wise ops

Dims broadcast_shape(const char* op, const Operand* in, int n);
Tensor run_each(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n,
                const Scalar* params);
void run_each_into(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n,
                   const Scalar* params, const Tensor& out);

// Runs a recorded element-wise op, whose loop and operands `each` finds: over its first argument, or into its output.
void run_recorded_each(const graph::Frame& frame, void (*each)(const graph::Frame&, graph::OpInfo::EachCall, void*), const char* op, bool inplace);

// ---- autograd

inline bool requires_grad(const Operand& x) { return x.is_tensor() && requires_grad(x.tensor()); }
inline bool requires_grad(TensorList xs) {
  for (const Tensor& x : xs)
    if (requires_grad(x)) return true;
  return false;
}
inline Edge edge_of(const Tensor& x) { return requires_grad(x) ? gradient_edge(x) : Edge{}; }
inline Edge edge_of(const Operand& x) { return x.is_tensor() ? edge_of(x.tensor()) : Edge{}; }

// Shape and type of one of several outputs, for the zero gradient of an unused one.
struct OutMeta {
  Dims sizes;
  DType dtype{};
  Device device;
  bool defined = false;
  OutMeta() = default;
  explicit OutMeta(const Tensor& y) : defined(y.defined()) {
    if (!defined) return;
    sizes = y.sizes();
    dtype = y.dtype();
    device = y.device();
  }
  // `any`: also where the type has no gradients.
  Tensor materialize(const Tensor& grad, bool any = false) const;
};
std::vector<Tensor> materialize(const std::vector<Tensor>& grads, const std::vector<OutMeta>& metas);

// The history of a tensor that was overwritten without looking at it, or null when none is kept.
Ref<Node> overwrite_node(const char* op, const Tensor& x);

namespace meta {
// Of an argument that was not given: nothing, which no formula will look at.
inline Dims sizes(const Tensor& x) { return x.defined() ? x.sizes() : Dims(); }
inline Dims sizes(const Operand& x) { return x.is_tensor() ? x.tensor().sizes() : Dims(); }
inline DType dtype(const Tensor& x) { return x.defined() ? x.dtype() : default_dtype(); }
inline DType dtype(const Operand& x) { return dt::same(x); }
inline int64_t ndim(const Tensor& x) { return x.defined() ? x.ndim() : 0; }
inline int64_t numel(const Tensor& x) { return x.defined() ? x.numel() : 0; }
inline const Dims& strides_of(const Tensor& x) { return x.strides(); }
inline int64_t offset_of(const Tensor& x) { return x.offset(); }
}  // namespace meta

// Sizes of several tensors along one axis.
Dims sizes_along(TensorList xs, int64_t dim);
// x[from:to] of a shape, by Python's rules.
IntList slice_of(IntList sizes, int64_t from, int64_t to);

// x * k; x itself where k is 1.
Tensor times(const Tensor& x, Scalar k);
inline double number(Scalar s) { return s.as_double(); }
inline double number(double v) { return v; }
inline int64_t number(int64_t v) { return v; }
// Arithmetic of numbers in formulas, in which an argument may be any integer.
[[noreturn]] void raise_too_large(int64_t a, int64_t b);
inline int64_t plus(int64_t a, int64_t b) {
  int64_t y;
  if (__builtin_add_overflow(a, b, &y)) [[unlikely]] raise_too_large(a, b);
  return y;
}
inline int64_t minus(int64_t a, int64_t b) {
  int64_t y;
  if (__builtin_sub_overflow(a, b, &y)) [[unlikely]] raise_too_large(a, b);
  return y;
}
inline int64_t product(int64_t a, int64_t b) {
  int64_t y;
  if (__builtin_mul_overflow(a, b, &y)) [[unlikely]] raise_too_large(a, b);
  return y;
}
template <class A, class B>
double plus(A a, B b) { return static_cast<double>(a) + static_cast<double>(b); }
template <class A, class B>
double minus(A a, B b) { return static_cast<double>(a) - static_cast<double>(b); }
template <class A, class B>
double product(A a, B b) { return static_cast<double>(a) * static_cast<double>(b); }

}  // namespace fl
