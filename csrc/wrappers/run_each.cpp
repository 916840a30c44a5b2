// Element-wise ops between wrapper and loop: broadcasting, the type that is computed in, numbers, deferred layouts.
#include "wrappers/run_each.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/parallel.h"
#include "dispatch/walks.h"
#include "tensor/axis_order.h"
#include "tensor/raw.h"
#include "wrappers/checks.h"
#include "wrappers/wrap.h"

namespace fl {

// The broadcast shape of the operands, with an error that names both.
Dims broadcast_shape(const char* op, const Operand* in, int n) {
  Dims out;
  for (int k = 0; k < n; ++k) {
    if (!in[k].is_tensor() || !in[k].tensor().defined()) continue;
    const Dims& s = in[k].tensor().sizes();
    while (out.size() < s.size()) out.insert(0, 1);
    const int shift = out.size() - s.size();
    for (int i = s.size(); i-- > 0;) {  // errors name the last axis
      if (s[i] == out[i + shift] || s[i] == 1) continue;
      if (out[i + shift] != 1) {
        std::string shapes;
        for (int j = 0; j < n; ++j)
          if (in[j].is_tensor() && in[j].tensor().defined()) shapes += (shapes.empty() ? "" : " and ") + to_string(in[j].tensor().sizes());
        raise<ShapeError>(op, ": shapes ", shapes, " do not broadcast: The size of tensor a (", out[i + shift], ") must match the size of tensor b (", s[i],
                          ") at non-singleton dimension ", i + shift);
      }
      out[i + shift] = s[i];
    }
  }
  return out;
}

namespace {

void no_such_type(const char* op, DType type) {
  if (is_complex(type)) refuse_complex(op, type);
  raise<DTypeError>(op, ": not defined for ", type, "; cast to ", is_float(type) ? "an integer type" : "a floating point type", " first");
}

constexpr int kMaxEach = 8;

}  // namespace

// A whole number that the result's type can not hold wraps round where the result depends on its lowest bits alone (sums, products,
// bits), as a 0-d tensor does (`narrowed`). Elsewhere another number would be meant, so that it is refused; but the negative
// of one that is selected for unsigned elements (`where`), as fill_() takes it, and what is compared, in a type that holds both sides.
// Integer loops have at most one parameter, a factor.
DType each::loop_type(const EachKernel& kernel, const char* op, DType type, const Operand* in, int n, const Scalar* params) {
  const DType compute = compute_type(type);
  if (is_inexact(compute)) return compute;
  if (type == DType::UInt64 && (kernel.bytes == Bytes::None || kernel.bytes == Bytes::Order)) raise<DTypeError>(op, ": not defined for uint64; cast to int64 (numbers below 2**63) or float64 first");
  DType wide = compute;
  const bool modular = kernel.bytes == Bytes::Ints || kernel.bytes == Bytes::All, order = kernel.bytes == Bytes::Order;
  // Whether there is a loop over the type itself, or over bytes.
  bool narrow = type == DType::Bool    ? kernel.bytes == Bytes::All || order
                : type == DType::UInt8 || type == DType::Int8 || type == DType::Int16 ? modular || order
                                       : false;
  for (int k = 0; k < n; ++k) {
    if (in[k].is_tensor()) continue;
    const Scalar v = in[k].number();
    if (modular && !kernel.bool_out && type != DType::UInt64 && !v.is_float() && !v.is_complex()) continue;
    if (kernel.bytes == Bytes::Bits && !kernel.bool_out && type != DType::UInt64) check::fits(op, "number", type, v);
    else if (!kernel.bool_out || type == DType::UInt64) check::holds_exactly(op, "number", type, v);
    else if (!holds(compute, v)) wide = DType::Int64;
    narrow = narrow && holds(type, v);
  }
  if (!kernel.bool_out) {
    check::fits(op, "factor", compute, *params);
    narrow = narrow && holds(type, *params);
  }
  return !narrow ? wide : type == DType::Int16 || type == DType::Bool || (order && type == DType::Int8) ? type : DType::UInt8;
}

// Strides of x in a broadcast shape: 0 where its axis is 1 or missing.
void each::expanded_strides(const Tensor& x, const Dims& shape, Dims& out) {
  out = Dims(shape.size());
  const int shift = shape.size() - x.ndim();
  for (int i = 0; i < x.ndim(); ++i) out[i + shift] = x.sizes()[i] == 1 ? 0 : x.strides()[i];
}

// A 0-d tensor beside tensors with axes does not widen an integer result: it is cast to the result's type first, and
// wraps round there as any other cast does.
bool each::narrowed(const Tensor& x, const Tensor& out) {
  auto integer = [](DType t) { return kind_of(t) == 1; };
  return x.ndim() == 0 && out.ndim() > 0 && x.dtype() != out.dtype() && integer(x.dtype()) && integer(out.dtype()) &&
         item_size(x.dtype()) >= item_size(out.dtype());
}

void each::box(char* to, Scalar number, DType compute, const Tensor& out, bool compares) {
  // 0.5 and -inf are true, whatever integer they would be cut to.
  if (out.dtype() == DType::Bool && !compares) number = Scalar(number.as<bool>());
  else if (!compares && !number.is_float() && !number.is_complex()) number = wrapped(out.dtype(), number);
  visit_any(compute, [&]<class T>(T) {
    const T v = number.as<std::conditional_t<is_half_type<T>, float, T>>();
    std::memcpy(to, &v, sizeof(v));
  });
}

namespace {

using namespace each;

[[maybe_unused]] const bool hooked = (graph::run_linked = each::run_linked, graph::count_linked = each::count_linked, graph::keep_linked = each::keep_linked, true);

// Operands as the driver wants them; numbers are put into `boxes` in the compute type.
struct Inputs {
  EachInput inputs[kMaxEach];
  Dims strides[kMaxEach];
  alignas(16) char boxes[kMaxEach][16];

  void boxed(int k, Scalar number, DType compute, const Tensor& out, bool compares) {
    box(boxes[k], number, compute, out, compares);
    inputs[k] = {boxes[k], compute, nullptr};
  }

  void set(int k, const Operand& x, DType compute, const Tensor& out, bool compares) {
    if (!x.is_tensor()) return boxed(k, x.number(), compute, out, compares);
    if (narrowed(x.tensor(), out)) {
      int64_t value = 0, wrapped = 0;
      convert_elements(&value, DType::Int64, x.tensor().data(), x.tensor().dtype(), 1);
      convert_elements(&wrapped, out.dtype(), &value, DType::Int64, 1);
      convert_elements(&value, DType::Int64, &wrapped, out.dtype(), 1);
      return boxed(k, Scalar(value), compute, out, true);
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

// Contiguous, of the compute type throughout and not so large that it is streamed: the loop runs over the operands' own memory. A
// number is read by the loops that read one element of their last operand, else filled into memory where there is little of it.
bool run_direct(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& out) {
  constexpr int64_t kSmall = 64;
  const int64_t count = out.numel();
  const int64_t item = static_cast<int64_t>(item_size(compute)), out_item = static_cast<int64_t>(out.item_bytes());
  if (n > 3 || count * out_item >= kStreamBytes || !out.is_contiguous()) return false;
  if (loops.half_bits && (out.dtype() == DType::BFloat16 || out.dtype() == DType::Float16)) {
    const Tensor& x = in[0].tensor();
    if (x.dtype() != out.dtype() || x.numel() != count || !x.is_contiguous()) return false;
    const auto* from = static_cast<const char*>(x.data());
    auto* to = static_cast<char*>(out.data());
    parallel_for(0, count, 2 * kGrain, [&](int64_t begin, int64_t end) {
      const void* at = from + begin * out_item;
      loops.half_bits(end - begin, to + begin * out_item, &at, params, 1, kNoSteps);
    });
    return true;
  }
  if (loops.bool_out ? out.dtype() != DType::Bool : written_as(out.dtype(), compute) != compute) return false;
  const auto is_one = [&](int k) { return !in[k].is_tensor() || (in[k].tensor().numel() == 1 && count != 1); };
  const int single = loops.single && is_one(n - 1) ? n - 1 : loops.first && is_one(0) ? 0 : -1;
  alignas(64) char fills[3][kSmall * 16];
  std::array<const char*, 3> from;
  std::array<int64_t, 3> step;
  for (int k = 0; k < n; ++k) {
    const bool one = k == single;
    step[k] = one ? 0 : item;
    if (in[k].is_tensor()) {
      const Tensor& x = in[k].tensor();
      if (read_as(x.dtype(), compute) != compute || !(one || (x.numel() == count && x.is_contiguous()))) return false;
      from[k] = static_cast<const char*>(x.data());
    } else {
      if (!one && count > kSmall) return false;
      const Scalar number = in[k].number();
      visit_any(compute, [&]<class T>(T) {
        if constexpr (!is_half_type<T>) std::fill_n(reinterpret_cast<T*>(fills[k]), one ? 1 : count, number.as<T>());
      });
      from[k] = fills[k];
    }
  }
  const TileFn fn = single < 0 ? loops.all : single == 0 ? loops.first : loops.single;
  char* const to = static_cast<char*>(out.data());  // may be promised memory, which is given here once
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    const void* at[3];
    for (int k = 0; k < n; ++k) at[k] = from[k] + begin * step[k];
    fn(end - begin, to + begin * out_item, at, params, 1, kNoSteps);
  });
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

// Row-major where all operands are. Else axes lie in the order that the first operand has them in that says which of two is the
// outer one, as in PyTorch: an operand says nothing about an axis over which it is repeated.
Tensor broadcast_output(const char* op, const Dims& shape, const Operand* in, int n, DType type, Device device) {
  const int axes = static_cast<int>(shape.size());
  bool row_major = true;
  for (int k = 0; k < n; ++k) row_major = row_major && (!in[k].is_tensor() || !in[k].tensor().defined() || in[k].tensor().is_contiguous());
  if (row_major || axes < 2) return empty(shape, type, device);
  checked_numel(op, shape);
  const Dims strides = strides_in_order(shape, [&](int a, int b) {
    for (int k = 0; k < n; ++k) {
      if (!in[k].is_tensor() || !in[k].tensor().defined()) continue;
      const Tensor& x = in[k].tensor();
      const int lead = axes - x.ndim();
      auto step = [&](int axis) { return axis < lead || (x.size(axis - lead) == 1 && shape[axis] != 1) ? 0 : x.strides()[axis - lead]; };
      const int64_t at = step(a), bt = step(b);
      if (at == 0 || bt == 0) continue;
      if (at != bt) return at < bt ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  });
  return empty_strided(shape, strides, type, device);
}

}  // namespace

// Writes y, which nobody has seen.
static void run_fresh(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& y) {
  if (y.ndim() >= 3 && any_deferred(in, n)) [[unlikely]] {
    const RawOperands raw(in, n);
    bool last = false;
    for (const RawTensor& r : raw.raws) last = last || (r.channels_last() && r.tensor().sizes() == y.sizes());
    if (last && y.is_contiguous() && may_defer(y.sizes())) {
      defer(y);
      run_general(loops, compute, raw.operands.data(), n, params, RawTensor(y).tensor());
    } else {
      run_general(loops, compute, raw.operands.data(), n, params, y);
    }
    return;
  }
  if (!run_direct(loops, compute, in, n, params, y)) run_general(loops, compute, in, n, params, y);
}

// Over its operands, of which y may be one in the same geometry.
static void run_over(const TileLoops& loops, DType compute, const Operand* in, int n, const Scalar* params, const Tensor& y) {
  if (y.ndim() >= 3 && (y.storage().maybe_deferred() || any_deferred(in, n))) [[unlikely]] {
    const RawOperands raw(in, n);  // first: a writer must not ask for data()
    const RawTensor raw_out(y, RawBytes::Write);
    return run_general(loops, compute, raw.operands.data(), n, params, raw_out.tensor());
  }
  if (!run_direct(loops, compute, in, n, params, y)) run_general(loops, compute, in, n, params, y);
}

// The operand that the node gives up, if the result can lie there as it would elsewhere: Note [Gradients that are given up]
static const Tensor* given_among(const Operand* in, int n, DType result) {
  const TensorImpl* const given = std::exchange(thread_modes().given, nullptr);
  for (int k = 0; k < n; ++k) {
    if (!in[k].is_tensor() || in[k].tensor().impl() != given) continue;
    const Tensor& x = in[k].tensor();
    if (x.dtype() != result || x.numel() == 0 || graph::recording()) return nullptr;
    const bool plain = x.ndim() < 3 || is_deferred(x) || !any_deferred(in, n);
    return plain ? &x : nullptr;
  }
  thread_modes().given = given;
  return nullptr;
}

// `add(7, 2)` is a tensor without axes for the ops of arithmetic, as in PyTorch; others want a tensor.
static Tensor run_each_of_numbers(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n, const Scalar* params) {
  constexpr std::string_view kArithmetic[] = {"add", "sub", "mul", "div", "floor_divide", "trunc_divide"};
  if (n != 2 || std::find(std::begin(kArithmetic), std::end(kArithmetic), op) == std::end(kArithmetic))
    raise<TypeMismatch>(op, ": expected at least one tensor among the operands");
  const Tensor first = empty(IntList(), type);
  fill_elements(first, in[0].number());
  const Operand operands[] = {Operand(first), in[1]};
  return run_each(kernel, op, result, type, operands, n, params);
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
  if (!first) return run_each_of_numbers(kernel, op, result, type, in, n, params);
  Tensor y;
  const Device device = meta ? Device{DeviceKind::Meta} : first->device();
  if (thread_modes().given && same && !meta && is_dense(*first)) [[unlikely]] {
    if (const Tensor* over = given_among(in, n, result)) {
      y = *over;
      run_over(loops, compute, in, n, params, y);
      return y;
    }
  }
  if (thread_modes().out) [[unlikely]] y = offered_output(same ? first->sizes() : broadcast_shape(op, in, n), result, device);
  if (!y.defined())
    y = same && is_dense(*first) ? empty_dense_like(*first, result, device) : broadcast_output(op, broadcast_shape(op, in, n), in, n, result, device);
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
       [](void* to, const EachKernel& kernel, DType result, DType type, const Operand* in, int n, const Scalar* params, int) {
         const auto& [out, name, over] = *static_cast<Context*>(to);
         if (over) return run_each_into(kernel, name, result, type, in, n, params, out);
         const DType compute = loop_type(kernel, name, type, in, n, params);
         if (out.numel() == 0) return;
         bool shared = false;  // written over an argument
         for (int k = 0; k < n; ++k) shared |= in[k].is_tensor() && in[k].tensor().defined() && &in[k].tensor().storage() == &out.storage();
         if (shared) run_over(kernel.get(compute), compute, in, n, params, out);
         else run_fresh(kernel.get(compute), compute, in, n, params, out);
       },
       &context);
}

static void check_fits_into(const char* op, const Operand* in, int n, const Tensor& out) {
  bool same = true;  // a tensor of the shape, or nothing that could be another
  for (int k = 0; k < n; ++k) same = same && (!in[k].is_tensor() || (in[k].tensor().defined() && in[k].tensor().sizes() == out.sizes()));
  if (same) return;
  const Dims shape = broadcast_shape(op, in, n);
  if (!(shape == out.sizes()))
    raise<ShapeError>(op, ": the result has shape ", shape, ", which does not fit into x of shape ", out.sizes(), "; write x = ... instead");
}

void run_each_into(const EachKernel& kernel, const char* op, DType result, DType type, const Operand* in, int n,
                   const Scalar* params, const Tensor& out) {
  const DType compute = loop_type(kernel, op, type, in, n, params);
  const TileLoops loops = kernel.get(compute);
  if (!loops.all) no_such_type(op, type);
  check_fits_into(op, in, n, out);
  if (!out.is_contiguous() && shares_places(out))
    raise<ArgumentError>(op, ": more than one element of the written-to tensor refers to a single memory location (shape ", out.sizes(), ", strides ", out.strides(),
                         ", from as_strided or unfold?), which would be written more than once; clone() it first");
  if (kind_of(result) > kind_of(out.dtype()))
    raise<DTypeError>(op, ": result type ", result, " can't be cast to the desired output type ", out.dtype(), " of x; cast x first");
  if (out.is_meta() || out.numel() == 0 || graph::recording()) return;
  std::vector<Tensor> copies;
  std::vector<Operand> safe;
  for (int k = 0; k < n; ++k)
    if (in[k].is_tensor() && overlaps(out, in[k].tensor())) {
      if (safe.empty()) safe.assign(in, in + n);
      copies.reserve(static_cast<size_t>(n));
      copies.push_back(contiguous(in[k].tensor()));
      safe[static_cast<size_t>(k)] = Operand(copies.back());
    }
  if (!safe.empty()) in = safe.data();
  run_over(loops, compute, in, n, params, out);
}

}  // namespace fl
