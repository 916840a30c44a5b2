#include "wrappers/wrap.h"

#include "tensor/raw.h"
#include "op/zeros_like.h"
#include "wrappers/checks.h"

namespace fl {
namespace {

std::atomic<DType> default_float{DType::Float32};

}  // namespace

DType default_dtype() { return default_float.load(std::memory_order_relaxed); }
void set_default_dtype(DType dtype) {
  if (!is_float(dtype)) raise<DTypeError>("set_default_dtype: dtype = ", dtype, "; expected a floating point type");
  graph::settle_here();  // its ops look at the type again
  default_float.store(dtype);
}

int64_t wrap_dim(const char* op, const char* arg, int64_t dim, const Tensor& x) {
  const int64_t n = std::max(x.ndim(), 1);
  if (dim < -n || dim >= n)
    raise<IndexError>(op, ": ", arg, " = ", dim, ", but x has shape ", x.sizes(), "; expected ", -n, " <= ", arg, " <= ", n - 1);
  return dim < 0 ? dim + n : dim;
}

WrappedDims::WrappedDims(const char* op, const char* arg, IntList dims, const Tensor& x) {
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(op, arg, d, x);
    if (std::find(values.begin(), values.end(), w) != values.end())
      raise<ArgumentError>(op, ": ", arg, " = ", dims, " names an axis twice; expected distinct axes");
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
  // Tensors with dims decide within their kind (bool < integer < float); 0-d tensors and then Python
  // numbers only count where they are of a higher kind, as in PyTorch.
  const auto plain = [&](int i) { return operands[i]->is_tensor() && operands[i]->tensor().defined(); };
  if (n == 2 && plain(0) && plain(1) && operands[0]->tensor().dtype() == operands[1]->tensor().dtype()) return operands[0]->tensor().dtype();
  auto kind = [](DType t) { return t == DType::Bool ? 0 : is_float(t) ? 2 : 1; };
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
        default: t = default_dtype();
      }
    }
    by_rank[rank] = by_rank[rank] ? fl::promote(*by_rank[rank], t) : t;
  }
  std::optional<DType> result;
  for (auto& t : by_rank) {
    if (!t) continue;
    if (!result || kind(*t) > kind(*result)) result = t;
  }
  return result.value_or(default_dtype());
}

Tensor new_output(const char* op, IntList sizes, DType dtype, Device device) {
  Tensor y = empty(sizes, dtype, device, op);
  y.impl()->inference = thread_modes().inference;
  return y;
}

void check_devices(const char* op, DeviceRule rule, std::initializer_list<DeviceArg> args) {
  const char *meta = nullptr, *meta_axes = nullptr, *cpu_axes = nullptr, *written = nullptr;
  bool writes_meta = false;
  for (const DeviceArg& a : args)
    for (const Tensor& x : a.tensors) {
      if (!x.defined()) continue;
      if (x.is_meta()) meta = a.name;
      if (x.is_meta() && x.ndim() > 0) meta_axes = a.name;
      if (!x.is_meta() && x.ndim() > 0) cpu_axes = a.name;
      if (a.written && x.is_meta()) writes_meta = true;
      if (a.written && !x.is_meta()) written = a.name;
    }
  if (rule == DeviceRule::ByValue)
    raise<DeviceError>(op, ": ", meta, " is on meta; expected a tensor with elements, which decide the size of the result");
  if (written) raise<DeviceError>(op, ": ", written, " is on cpu and would be written from ", meta, " on meta, which has no elements; expected one device");
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

namespace {

// The broadcast shape of the operands, with an error that names both.
Dims broadcast_shape(const char* op, const Operand* in, int n) {
  Dims out;
  for (int k = 0; k < n; ++k) {
    if (!in[k].is_tensor() || !in[k].tensor().defined()) continue;
    const Dims& s = in[k].tensor().sizes();
    while (out.size() < s.size()) out.insert(0, 1);
    const int shift = out.size() - s.size();
    for (int i = 0; i < s.size(); ++i) {
      if (s[i] == out[i + shift] || s[i] == 1) continue;
      if (out[i + shift] != 1) {
        std::string shapes;
        for (int j = 0; j < n; ++j)
          if (in[j].is_tensor() && in[j].tensor().defined()) shapes += (shapes.empty() ? "" : " and ") + to_string(in[j].tensor().sizes());
        raise<ShapeError>(op, ": shapes ", shapes, " do not broadcast: sizes ", out[i + shift], " and ", s[i], " at axis ", i - s.size(),
                          "; expected equal sizes or 1");
      }
      out[i + shift] = s[i];
    }
  }
  return out;
}

void no_such_type(const char* op, DType type) {
  raise<DTypeError>(op, ": not defined for ", type, "; cast to ", is_float(type) ? "an integer type" : "a floating point type", " first");
}

constexpr int kMaxEach = 8;

// Numbers do not wrap on their way into an integer loop: what the result's type can not hold is refused, but by
// comparisons, which are made in a type that holds both sides. Integer loops have at most one parameter, a factor.
DType loop_type(const EachKernel& kernel, const char* op, DType type, const Operand* in, int n, const Scalar* params) {
  const DType compute = compute_type(type);
  if (is_float(compute)) return compute;
  DType wide = compute;
  bool bytes = item_size(type) == 1 && (kernel.bytes == Bytes::All || (kernel.bytes == Bytes::Ints && type != DType::Bool));
  for (int k = 0; k < n; ++k) {
    if (in[k].is_tensor()) continue;
    const Scalar v = in[k].number();
    if (!kernel.bool_out) check::fits(op, "number", type, v);
    else if (!holds(compute, v)) wide = DType::Int64;
    bytes = bytes && holds(type, v);
  }
  if (!kernel.bool_out) {
    check::fits(op, "factor", compute, *params);
    bytes = bytes && holds(type, *params);
  }
  return bytes ? DType::UInt8 : wide;
}

// Strides of x in a broadcast shape: 0 where its axis is 1 or missing.
void expanded_strides(const Tensor& x, const Dims& shape, Dims& out) {
  out = Dims(shape.size());
  const int shift = shape.size() - x.ndim();
  for (int i = 0; i < x.ndim(); ++i) out[i + shift] = x.sizes()[i] == 1 ? 0 : x.strides()[i];
}

// A 0-d tensor beside tensors with axes does not widen an integer result: it is cast to the result's type first, and
// wraps round there as any other cast does.
bool narrowed(const Tensor& x, const Tensor& out) {
  auto integer = [](DType t) { return t != DType::Bool && !is_float(t); };
  return x.ndim() == 0 && out.ndim() > 0 && x.dtype() != out.dtype() && integer(x.dtype()) && integer(out.dtype()) &&
         item_size(x.dtype()) >= item_size(out.dtype());
}

// Operands as the driver wants them; numbers are put into `boxes` in the compute type.
struct Inputs {
  EachInput inputs[kMaxEach];
  Dims strides[kMaxEach];
  alignas(8) char boxes[kMaxEach][8];

  void box(int k, const Scalar& number, DType compute) {
    visit(compute, [&]<class T>(T) {
      const T v = number.as<std::conditional_t<std::is_class_v<T>, float, T>>();
      std::memcpy(boxes[k], &v, sizeof(v));
    });
    inputs[k] = {boxes[k], compute, nullptr};
  }

  void set(int k, const Operand& x, DType compute, const Tensor& out, bool compares) {
    // 0.5 and -inf are true, whatever integer they would be cut to.
    if (!x.is_tensor() && out.dtype() == DType::Bool && !compares) return box(k, Scalar(x.number().as<double>() != 0), compute);
    if (!x.is_tensor()) return box(k, x.number(), compute);
    if (narrowed(x.tensor(), out)) {
      const int64_t value = visit(x.tensor().dtype(), [&]<class T>(T) { return static_cast<int64_t>(*x.tensor().data<T>()); });
      return box(k, Scalar(visit(out.dtype(), [&]<class T>(T) { return static_cast<int64_t>(static_cast<T>(value)); })), compute);
    }
    expanded_strides(x.tensor(), out.sizes(), strides[k]);
    inputs[k] = {x.tensor().data(), x.tensor().dtype(), x.tensor().numel() == 1 ? nullptr : strides[k].data()};
  }
};

void run_general(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& out) {
  Inputs inputs;
  for (int k = 0; k < n; ++k) inputs.set(k, in[k], compute, out, loops.bool_out);
  run_tiles(loops, compute, params, out, inputs.inputs, n);
}

// Small, contiguous, of the compute type throughout: one call of the loop.
bool run_small(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& out) {
  constexpr int64_t kSmall = 64;
  const int64_t count = out.numel();
  if (count > kSmall || n > 3 || !out.is_contiguous() || (loops.bool_out ? out.dtype() != DType::Bool : seen_as(out.dtype(), compute) != compute)) return false;
  alignas(64) char fills[3][kSmall * 8];
  const void* pointers[3];
  const bool single = loops.single && !in[n - 1].is_tensor();
  const int64_t filled = single ? 1 : count;  // where the last operand is a number, the others are tensors
  for (int k = 0; k < n; ++k) {
    if (in[k].is_tensor()) {
      const Tensor& x = in[k].tensor();
      if (seen_as(x.dtype(), compute) != compute || !x.is_contiguous() || x.numel() != count) return false;
      pointers[k] = x.data();
    } else {
      const Scalar s = in[k].number();
      auto fill = [&]<class T>(T) {
        auto* p = reinterpret_cast<T*>(fills[k]);
        const T v = s.as<T>();
        for (int64_t i = 0; i < filled; ++i) p[i] = v;
      };
      switch (compute) {
        case DType::Float32: fill(float{}); break;
        case DType::Float64: fill(double{}); break;
        case DType::Int32: fill(int32_t{}); break;
        case DType::UInt8: fill(uint8_t{}); break;
        default: fill(int64_t{});
      }
      pointers[k] = fills[k];
    }
  }
  (single ? loops.single : loops.all)(count, out.data(), pointers, params);
  return true;
}

// Operands over their bytes as they lie, so that channels-last ones need no reordering.
struct RawOperands {
  std::vector<RawTensor> raws;
  std::vector<Operand> operands;
  RawOperands(const Operand* in, int n) {
    raws.reserve(static_cast<size_t>(n));
    for (int k = 0; k < n; ++k) {
      if (in[k].is_tensor() && in[k].tensor().defined()) {
        raws.emplace_back(in[k].tensor());
        operands.emplace_back(raws.back().tensor());
      } else {
        operands.push_back(in[k]);
      }
    }
  }
};

// Whether any operand's bytes lie with channels last.
bool any_deferred(const Operand* in, int n) {
  for (int k = 0; k < n; ++k)
    if (in[k].is_tensor() && in[k].tensor().defined() && in[k].tensor().storage().maybe_deferred()) return true;
  return false;
}

// Shares memory in another geometry: the written tensor must not change what is still to be read.
bool overlaps(const Tensor& out, const Tensor& x) {
  if (&out.storage() != &x.storage() || out.numel() == 0 || x.numel() == 0) return false;
  return !(out.offset() == x.offset() && out.sizes() == x.sizes() && out.strides() == x.strides() && out.dtype() == x.dtype());
}

// In the order of the operands that have the whole shape, if they agree on one; else row-major.
Tensor broadcast_output(const Dims& shape, const Operand* in, int n, DType type, Device device) {
  const Tensor* whole = nullptr;
  for (int k = 0; k < n; ++k) {
    if (!in[k].is_tensor() || !in[k].tensor().defined() || !(in[k].tensor().sizes() == shape)) continue;
    const Tensor& x = in[k].tensor();
    if (whole ? !(x.strides() == whole->strides()) : x.is_contiguous() || !is_dense(x)) return empty(shape, type, device);
    whole = &x;
  }
  return whole ? empty_strided(shape, whole->strides(), type, device) : empty(shape, type, device);
}

}  // namespace

// Writes y, which nobody has seen.
static void run_fresh(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& y) {
  if (y.ndim() >= 3 && any_deferred(in, n)) [[unlikely]] {
    const RawOperands raw(in, n);
    bool last = false;
    for (const RawTensor& r : raw.raws) last = last || (r.channels_last() && r.tensor().sizes() == y.sizes());
    if (last && may_defer(y.sizes())) {
      defer(y);
      run_general(loops, compute, raw.operands.data(), n, params, RawTensor(y).tensor());
    } else {
      run_general(loops, compute, raw.operands.data(), n, params, y);
    }
    return;
  }
  if (!run_small(loops, compute, in, n, params, y)) run_general(loops, compute, in, n, params, y);
}

Tensor run_each(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n, const Scalar* params) {
  const DType compute = loop_type(kernel, op, type, in, n, params);
  const TileLoops loops = kernel.get(compute);
  if (!loops.all) no_such_type(op, type);
  // Equal shapes and strides (or numbers) need no broadcasting.
  const Tensor* first = nullptr;
  bool same = true;
  bool meta = false;
  for (int k = 0; k < n; ++k) {
    if (!in[k].is_tensor() || !in[k].tensor().defined()) continue;
    const Tensor& x = in[k].tensor();
    meta = meta || x.is_meta();
    if (!first) first = &x;
    else same = same && x.sizes() == first->sizes() && x.strides() == first->strides();
  }
  if (!first) raise<TypeMismatch>(op, ": expected at least one tensor among the operands");
  Tensor y;
  const Device device = meta ? Device{DeviceKind::Meta} : first->device();
  if (same && is_dense(*first)) y = empty_dense_like(*first, result, device);
  else y = broadcast_output(broadcast_shape(op, in, n), in, n, result, device);
  y.impl()->inference = thread_modes().inference;
  if (!meta && y.numel() != 0 && !graph::recording()) run_fresh(loops, compute, in, n, params, y);
  return y;
}

void run_recorded_each(const graph::Frame& frame, void (*each)(const graph::Frame&, graph::OpInfo::EachCall, void*), const char* op, bool inplace) {
  struct Context {
    const Tensor& out;
    const char* op;
    bool inplace;
  } context{inplace ? frame.tensor(0) : frame.out(0), op, inplace};
  each(frame,
       [](void* to, const EachKernel& kernel, DType result, DType type, const Operand* in, int n, const Scalar* params) {
         const auto& [out, name, over] = *static_cast<Context*>(to);
         if (over) return run_each_into(kernel, name, result, type, in, n, params, out);
         const DType compute = loop_type(kernel, name, type, in, n, params);
         if (out.numel() != 0) run_fresh(kernel.get(compute), compute, in, n, params, out);
       },
       &context);
}

void run_each_into(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n,
                   const Scalar* params, const Tensor& out) {
  const DType compute = loop_type(kernel, op, type, in, n, params);
  const TileLoops loops = kernel.get(compute);
  if (!loops.all) no_such_type(op, type);
  const Dims shape = broadcast_shape(op, in, n);
  if (!(shape == out.sizes()))
    raise<ShapeError>(op, ": the result has shape ", shape, ", which does not fit into x of shape ", out.sizes(), "; write x = ... instead");
  auto kind = [](DType t) { return t == DType::Bool ? 0 : is_float(t) ? 2 : 1; };
  if (kind(result) > kind(out.dtype()))
    raise<DTypeError>(op, ": the result is ", result, ", which can not be stored in x of ", out.dtype(), "; cast x first");
  if (out.is_meta() || out.numel() == 0 || graph::recording()) return;
  std::vector<Tensor> copies;
  std::vector<Operand> safe(in, in + n);
  copies.reserve(static_cast<size_t>(n));
  for (int k = 0; k < n; ++k)
    if (in[k].is_tensor() && overlaps(out, in[k].tensor())) {
      copies.push_back(contiguous(in[k].tensor()));
      safe[static_cast<size_t>(k)] = Operand(copies.back());
    }
  if (out.ndim() >= 3 && (out.storage().maybe_deferred() || any_deferred(safe.data(), n))) [[unlikely]] {
    const RawOperands raw(safe.data(), n);  // first: a writer must not ask for data()
    const RawTensor raw_out(out, RawBytes::Write);
    return run_general(loops, compute, raw.operands.data(), n, params, raw_out.tensor());
  }
  if (!run_small(loops, compute, safe.data(), n, params, out))
    run_general(loops, compute, safe.data(), n, params, out);
}

Tensor OutMeta::materialize(const Tensor& grad) const {
  if (grad.defined() || !is_float(dtype)) return grad;
  Tensor zero = empty(sizes, dtype, device);
  if (!zero.is_meta()) fill_elements(zero, Scalar(0.0));
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
