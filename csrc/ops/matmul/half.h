// 16-bit floats through float32: for kernels that are native in float32 and float64 only.
#pragma once

#include <type_traits>
#include <utility>

#include "base/element.h"
#include "dispatch/each.h"
#include "tensor/tensor.h"

namespace fl {

inline bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

// x itself, or a float32 copy where x is 16-bit. Undefined stays undefined.
inline Tensor widened(const Tensor& x) {
  if (!x.defined() || !is_half(x.dtype())) return x;
  const Tensor wide = empty(x.sizes(), DType::Float32);
  copy_elements(wide, x);
  return wide;
}

// x as `t`, row-major.
inline Tensor converted(const Tensor& x, DType t) {
  if (!x.defined() || (x.dtype() == t && x.is_contiguous())) return x;
  const Tensor y = empty(x.sizes(), t);
  copy_elements(y, x);
  return y;
}

// An output to compute in float32: `wide` is the output itself, or a copy that is written back at the end.
class WideOutput {
 public:
  explicit WideOutput(const Tensor& out, bool keep_old = false) : out_(out), wide(out) {
    if (!out.defined() || !is_half(out.dtype())) return;
    wide = empty(out.sizes(), DType::Float32);
    if (keep_old) copy_elements(wide, out);
  }
  // In that type: what is computed may be kept in another than its operands have (a float32 weight of 16-bit rows).
  WideOutput(const Tensor& out, DType type) : out_(out), wide(!out.defined() || out.dtype() == type ? out : empty(out.sizes(), type)) {}
  WideOutput(const WideOutput&) = delete;
  ~WideOutput() {
    if (out_.defined() && !wide.same(out_)) copy_elements(out_, wide);
  }

 private:
  const Tensor& out_;

 public:
  Tensor wide;
};

// A tensor's elements in the compute type, a piece at a time: the memory itself, or 16-bit floats through a buffer
// that stays in the cache.
template <class T>
class Pieces {
 public:
  Pieces(const Tensor& x) : data_(x.defined() ? static_cast<char*>(x.data()) : nullptr), type_(x.defined() ? x.dtype() : dtype_of<T>) {}
  bool direct() const { return type_ == dtype_of<T>; }
  // Memory for pieces of n elements (a tensor's, so that it is not zeroed and comes from the caching allocator), or
  // nothing where none is needed.
  Tensor buffer(int64_t n) const { return direct() ? Tensor() : empty(Dims{n}, dtype_of<T>); }
  const T* read(int64_t at, int64_t n, const Tensor& buffer) const {
    if (direct()) return reinterpret_cast<const T*>(data_) + at;
    T* to = buffer.data<T>();
    convert_elements(to, dtype_of<T>, data_ + at * 2, type_, n);
    return to;
  }
  // Where to put a piece that write() then brings home.
  T* place(int64_t at, const Tensor& buffer) const { return direct() ? reinterpret_cast<T*>(data_) + at : buffer.data<T>(); }
  void write(int64_t at, int64_t n, const Tensor& buffer) const {
    if (!direct()) convert_elements(data_ + at * 2, type_, buffer.data<T>(), dtype_of<T>, n);
  }

 private:
  char* data_;
  DType type_;
};

inline DType compute_float(const Tensor& x) { return is_half(x.dtype()) ? DType::Float32 : x.dtype(); }

// Calls f with a value of the compute type: float or double.
template <class F>
void visit_float(DType t, F&& f) {
  if (t == DType::Float64) f(double{});
  else f(float{});
}

// Calls f with a value of the type that the elements have in memory: one of the four floats.
template <class F>
void visit_memory(DType t, F&& f) {
  switch (t) {
    case DType::Float64: return f(double{});
    case DType::BFloat16: return f(BFloat16{});
    case DType::Float16: return f(Float16{});
    default: return f(float{});
  }
}

}  // namespace fl

// The kernel of a family for the type S in memory.
#define FL_PICK_MEMORY(name)                                            \
  ([] {                                                                 \
    if constexpr (std::is_same_v<S, float>) return name##_f32;          \
    else if constexpr (std::is_same_v<S, double>) return name##_f64;    \
    else if constexpr (std::is_same_v<S, ::fl::BFloat16>) return name##_bf16; \
    else return name##_f16;                                             \
  }())
