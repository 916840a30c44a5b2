#include "wrappers/wrap.h"

#include <algorithm>

#include "tensor/raw.h"
#include "op/conj_physical.h"
#include "op/imag.h"
#include "op/mul.h"
#include "op/real.h"
#include "op/zeros_like.h"
#include "wrappers/checks.h"

namespace fl {
namespace {

std::atomic<DType> default_float{DType::Float32};

}  // namespace

DType default_dtype() { return default_float.load(std::memory_order_relaxed); }
void set_default_dtype(DType dtype) {
  if (!is_float(dtype)) raise<DTypeError>("set_default_dtype: only floating-point types are supported as the default type, but dtype = ", dtype);
  graph::settle_here();  // its ops look at the type again
  default_float.store(dtype);
}

int64_t wrap_dim(const char* op, const char* arg, int64_t dim, const Tensor& x) {
  const int64_t n = std::max(x.ndim(), 1);
  if (dim < -n || dim >= n)
    raise<IndexError>(op, ": Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", arg, " = ", dim, "): x has shape ", x.sizes());
  return dim < 0 ? dim + n : dim;
}

WrappedDims::WrappedDims(const char* op, const char* arg, IntList dims, const Tensor& x) {
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(op, arg, d, x);
    if (std::find(values.begin(), values.end(), w) != values.end())
      raise<ArgumentError>(op, ": ", arg, " = ", dims, ", but dim ", d, " appears multiple times in the list of dims");
    values.push_back(w);
  }
  list = values;
}

WrappedOptionalDims::WrappedOptionalDims(const char* op, const char* arg, std::optional<IntList> dims, const Tensor& x) {
  if (!dims) return;
  values = WrappedDims(op, arg, *dims, x).values;
  list = IntList(values);
}

DType dt::promote_operands(const Operand* const* operands, int n) {
  // Tensors with dims decide within their kind (bool < integer < float < complex); 0-d tensors and then Python
  // numbers only count where they are of a higher kind, as in PyTorch. A complex one keeps the precision of floats.
  const auto plain = [&](int i) { return operands[i]->is_tensor() && operands[i]->tensor().defined(); };
  if (n == 2 && plain(0) && plain(1) && operands[0]->tensor().dtype() == operands[1]->tensor().dtype()) return operands[0]->tensor().dtype();
  std::optional<DType> by_rank[3];  // tensors, 0-d tensors, numbers
  for (int i = 0; i < n; ++i) {
    const Operand& x = *operands[i];
    int rank;
    DType t;
    if (x.is_tensor()) {
      if (!x.tensor().defined()) continue;
      rank = x.tensor().ndim() > 0 ? 0 : 1;
      t = x.tensor().dtype();
    } else {
      rank = 2;
      switch (x.number().kind()) {
        case Scalar::Kind::Bool: t = DType::Bool; break;
        case Scalar::Kind::Int: t = DType::Int64; break;
        case Scalar::Kind::Complex: t = to_complex(default_dtype()); break;
        default: t = default_dtype();
      }
    }
    by_rank[rank] = by_rank[rank] ? fl::promote(*by_rank[rank], t) : t;
  }
  std::optional<DType> result;
  for (auto& t : by_rank) {
    if (!t) continue;
    if (!result || kind_of(*t) > kind_of(*result)) result = result && is_complex(*t) && is_float(*result) ? to_complex(*result) : *t;
  }
  return result.value_or(default_dtype());
}

void refuse_rare(const char* op, DType type) {
  raise<DTypeError>(op, ": not defined for ", type, ", which is stored, cast and moved; cast to ", type == DType::UInt64 ? DType::Float64 : compute_type(type), " first");
}

void refuse_complex(const char* op, DType type) {
  raise<DTypeError>(op, ": not defined for ", type, "; expected real numbers, such as x.real, x.imag, x.abs() or view_as_real(x)");
}

void check_stored(const char* op, const Tensor& x, const Tensor& value) {
  auto kind = [](DType t) { return t == DType::Bool ? 0 : !is_inexact(t) ? 1 : is_float(t) ? 2 : 3; };
  if (kind(value.dtype()) > kind(x.dtype()))
    raise<DTypeError>(op, ": result type ", value.dtype(), " can't be cast to the desired output type ", x.dtype(), " of x; cast x first");
}

void check_real(const char* op, const char* arg, Scalar value) {
  if (value.is_complex()) raise<DTypeError>(op, ": ", arg, " = ", value, " is complex; expected a real number (multiply the tensor instead)");
}

Tensor Part::of(const Tensor& x) const {
  if (!x.defined()) return x;
  if (is_complex(x.dtype())) return imaginary ? op::imag(x) : op::real(x);
  return imaginary ? op::zeros_like(x) : x;
}

Tensor Conjugate::conjugated(const Tensor& x) { return op::conj_physical(x); }

Tensor offered_output(IntList sizes, DType dtype, Device device) {
  const Tensor& out = *thread_modes().out;
  if (out.dtype() != dtype || !(out.device() == device) || out.sizes() != Dims(sizes)) return {};
  thread_modes().out = nullptr;
  return alias(out, out.sizes(), out.strides(), out.offset());
}

Tensor new_output(const char* op, IntList sizes, DType dtype, Device device) {
  if (thread_modes().out) [[unlikely]]
    if (Tensor y = offered_output(sizes, dtype, device); y.defined()) return y;
  return empty(sizes, dtype, device, op);
}

namespace {
// Places in a tensor on meta may lie where their numbers are.
bool is_places(std::string_view name) { return name == "index" || name == "indices"; }
}  // namespace

void check_devices(const char* op, DeviceRule rule, std::initializer_list<DeviceArg> args) {
  const char *meta = nullptr, *meta_axes = nullptr, *cpu_axes = nullptr, *written = nullptr;
  bool writes_meta = false;
  for (const DeviceArg& a : args)
    for (const Tensor& x : a.tensors) {
      if (!x.defined()) continue;
      if (x.is_meta()) meta = a.name;
      if (x.is_meta() && x.ndim() > 0) meta_axes = a.name;
      if (!x.is_meta() && x.ndim() > 0 && !is_places(a.name)) cpu_axes = a.name;
      if (a.written && x.is_meta()) writes_meta = true;
      if (a.written && !x.is_meta()) written = a.name;
    }
  if (rule == DeviceRule::ByValue)
    raise<DeviceError>(op, ": ", meta, " is on meta; expected a tensor with elements, which decide the size of the result");
  if (written) raise<NoDataError>(op, ": ", written, " is on cpu and would be written from ", meta, " on meta, which has no elements; expected one device");
  if (meta_axes && cpu_axes && !(rule == DeviceRule::Copies && writes_meta))
    raise<DeviceError>(op, ": ", meta_axes, " is on meta, ", meta_axes == cpu_axes ? "others of it" : cpu_axes, " on cpu; expected all tensors on one device");
}

Tensor contiguous(const Tensor& x) {
  if (x.ndim() >= 3 && x.storage().maybe_deferred())
    if (Tensor y = channel_slice_copy(x); y.defined()) return y;
  Tensor y = empty(x.sizes(), x.dtype(), x.device());
  if (!x.is_meta()) copy_elements(y, x);
  return y;
}

std::vector<Tensor> contiguous_for_kernel(TensorList xs) {
  std::vector<Tensor> out;
  for (const Tensor& x : xs) out.push_back(contiguous_for_kernel(x));
  return out;
}

Tensor cast_for_kernel(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = empty(x.sizes(), dtype, x.device());
  if (!x.is_meta()) copy_elements(y, x);
  return y;
}

Tensor as_tensor(const Operand& x) {
  if (x.is_tensor()) return x.tensor();
  Tensor y = empty(Dims{}, dt::promote(x));
  fill_elements(y, x.number());
  return y;
}

bool takes_given(const Tensor& x, IntList sizes, DType dtype, std::initializer_list<const Tensor*> others) {
  if (!thread_modes().given || x.impl() != thread_modes().given) return false;
  thread_modes().given = nullptr;
  if (x.dtype() != dtype || !std::ranges::equal(x.sizes(), sizes) || !x.is_contiguous() || x.numel() == 0 || x.is_meta() || graph::recording()) return false;
  if (x.ndim() < 3 || is_deferred(x)) return true;
  return std::none_of(others.begin(), others.end(), [](const Tensor* o) { return o->defined() && o->storage().maybe_deferred(); });
}

bool may_write_over(const Tensor& x, bool any_strides) {
  return !x.is_meta() && (any_strides || x.is_contiguous()) && x.numel() > 0 && !x.storage().is_hollow();
}

Tensor apart_for_kernel(const Tensor& x, const Tensor& other) {
  if (!may_share_bytes(x, other)) return other;
  const Tensor copy = empty(other.sizes(), other.dtype());
  copy_elements(copy, other);
  return copy;
}

void raise_too_large(int64_t a, int64_t b) {
  raise<ArgumentError>("arithmetic with the arguments ", a, " and ", b, " leaves the integers of 64 bits; expected smaller ones");
}

Tensor times(const Tensor& x, Scalar k) { return k.kind() != Scalar::Kind::Complex && k.as_double() == 1 ? x : op::mul(x, k); }

Tensor OutMeta::materialize(const Tensor& grad, bool any) const {
  if (grad.defined() || !defined || !(any || is_inexact(dtype))) return grad;
  Tensor zero = empty(sizes, dtype, device);
  if (!zero.is_meta()) fill_elements(zero, Scalar(0));
  return zero;
}

std::vector<Tensor> materialize(const std::vector<Tensor>& grads, const std::vector<OutMeta>& metas) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < metas.size(); ++i) out.push_back(metas[i].materialize(i < grads.size() ? grads[i] : Tensor()));
  return out;
}

namespace {

// What was overwritten had no part in the result: its history gets zeros, so that a leaf's gradient is there.
struct OverwriteBackward final : Node {
  explicit OverwriteBackward(const char* op) : op_(op) {}
  const char* name() const override { return op_; }
  void apply(BackwardCall& call) override {
    if (call.needs(0) && edges[0].fn) call.set(0, op::zeros_like(call.in[0]));
  }
  const char* op_;
};

}  // namespace

Ref<Node> overwrite_node(const char* op, const Tensor& x) {
  if (!grad_enabled() || !requires_grad(x)) return {};
  auto node = make_ref<OverwriteBackward>(op);
  node->edges.push_back(gradient_edge(x));
  return node;
}

Dims sizes_along(TensorList xs, int64_t dim) {
  Dims out;
  for (const Tensor& x : xs) out.push_back(x.size(static_cast<int>(dim)));
  return out;
}

IntList slice_of(IntList sizes, int64_t from, int64_t to) {
  const int64_t n = static_cast<int64_t>(sizes.size());
  from = std::clamp(from < 0 ? from + n : from, int64_t{0}, n);
  to = std::clamp(to < 0 ? to + n : to, from, n);
  return sizes.subspan(static_cast<size_t>(from), static_cast<size_t>(to - from));
}

}  // namespace fl
