#include "base/error.h"
#include "wrappers/checks.h"
#include "base/parallel.h"
#include "dispatch/convert.h"
#include "dispatch/geometry.h"
#include "dispatch/walks.h"
#include "storage/room.h"
#include "wrappers/native.h"
#include "wrappers/warn.h"
#include "wrappers/wrap.h"
#include "native/arange.h"
#include "native/cat.h"
#include "native/split.h"
#include "op/fill_.h"
#include "op/as_strided_view.h"
#include "op/cast.h"
#include "op/cat_same.h"
#include "op/clone.h"
#include "op/contiguous_copy.h"
#include "op/copy_.h"
#include "op/empty_like.h"
#include "op/permute.h"
#include "op/reshape.h"
#include "op/slice.h"
#include "op/split_with_sizes.h"
#include "op/unsqueeze.h"
#include "op/view.h"
#include "op/narrow.h"

namespace fl {

Tensor to(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device, bool copy) {
  const Device where = device.value_or(x.device());
  require_device(where);
  const DType type = dtype.value_or(x.dtype());
  if (where.kind != x.device().kind) {
    if (!where.is_meta())
      raise<NoDataError>("to: a meta tensor has no data to move to '", where, "'; use empty_like(x, device='", where, "'), of a module to_empty(device='", where, "')");
    return op::copy_(op::empty_like(x, type, where), x);  // nothing but x's history
  }
  if (is_complex(x.dtype()) && !is_complex(type) && type != DType::Bool) warn_of_lost_parts();
  if (type != x.dtype()) return op::cast(x, type);
  return copy ? op::clone(x) : x;
}

Tensor make_contiguous(const Tensor& x) { return x.is_contiguous() ? x : op::contiguous_copy(x); }

const graph::OpInfo info_view_dtype{"view", "view_1", "view(Tensor x, dtype dtype) -> Tensor y"};
const graph::OpInfo info_item{"_local_scalar_dense", "_local_scalar_dense", "_local_scalar_dense(Tensor x) -> Tensor y"};

namespace {

Scalar value_of(const Tensor& x) {
  graph::note_read("a value was read");
  if (x.dtype() == DType::Complex32) {
    Complex<float> v;
    convert_elements(&v, DType::Complex64, x.data(), x.dtype(), 1);
    return Scalar::complex(v.re, v.im);
  }
  if (is_float8(x.dtype())) {
    float v;
    convert_elements(&v, DType::Float32, x.data(), x.dtype(), 1);
    return Scalar(static_cast<double>(v));
  }
  return visit_any(x.dtype(), [&]<class T>(T) {
    const T v = *x.data<T>();
    if constexpr (std::is_same_v<T, Truth>) return Scalar(static_cast<bool>(v));
    else if constexpr (is_half_type<T>) return Scalar(static_cast<double>(static_cast<float>(v)));
    else if constexpr (is_complex_type<T>) return Scalar::complex(v.re, v.im);
    else return Scalar(v);
  });
}

}  // namespace

Scalar item_of(const Tensor& x) {
  if (x.numel() != 1) raise<ArgumentError>("item: a Tensor with ", x.numel(), " elements cannot be converted to Scalar; it has shape ", x.sizes());
  if (x.is_meta()) raise<NoDataError>("item: a meta tensor has no data");
  if (Tensor y; graph::recording() && graph::handed_on(info_item, y, x)) [[unlikely]] return value_of(y);
  return value_of(x);
}

namespace native {
namespace {

Tensor made(Tensor y, bool requires_grad) {
  if (requires_grad) set_requires_grad(y, true);
  return y;
}

Tensor fresh(const char* op, IntList size, DType dtype, std::optional<Device> device) {
  const Device where = device.value_or(Device{});
  require_device(where);
  return new_output(op, size, dtype, where);
}

Tensor filled(const char* op, IntList size, Scalar value, DType dtype, std::optional<Device> device, bool grad) {
  Tensor y = fresh(op, size, dtype, device);
  if (!y.is_meta()) fill_elements(y, value);
  return made(std::move(y), grad);
}

// A new tensor whose axes lie in the order of x's, as PyTorch's _like functions make them.
Tensor like(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device) {
  const Device where = device.value_or(x.device());
  require_device(where);
  return fl::empty_strided(x.sizes(), dense_strides_like(x), dtype.value_or(x.dtype()), where);
}

Tensor filled_like(const Tensor& x, Scalar value, std::optional<DType> dtype, std::optional<Device> device, bool grad) {
  Tensor y = like(x, dtype, device);
  if (!y.is_meta()) fill_elements(y, value);
  return made(std::move(y), grad);
}

DType type_of(Scalar value) {
  switch (value.kind()) {
    case Scalar::Kind::Bool: return DType::Bool;
    case Scalar::Kind::Int: return DType::Int64;
    case Scalar::Kind::Complex: return to_complex(default_dtype());
    default: return default_dtype();
  }
}

using OptType = std::optional<DType>;
using OptDevice = std::optional<Device>;

}  // namespace

Tensor empty(IntList size, OptType dtype, OptDevice device, bool grad, std::optional<bool>) {
  return made(fresh("empty", size, dtype.value_or(default_dtype()), device), grad);
}
Tensor zeros(IntList size, OptType dtype, OptDevice device, bool grad) {
  return filled("zeros", size, 0, dtype.value_or(default_dtype()), device, grad);
}
Tensor ones(IntList size, OptType dtype, OptDevice device, bool grad) {
  return filled("ones", size, 1, dtype.value_or(default_dtype()), device, grad);
}
Tensor full(IntList size, Scalar value, OptType dtype, OptDevice device, bool grad) {
  const DType type = dtype.value_or(type_of(value));
  check::fits("full", "fill_value", type, value);
  return filled("full", size, value, type, device, grad);
}
Tensor empty_like(const Tensor& x, OptType dtype, OptDevice device, bool grad) { return made(like(x, dtype, device), grad); }
Tensor zeros_like(const Tensor& x, OptType dtype, OptDevice device, bool grad) { return filled_like(x, 0, dtype, device, grad); }
Tensor ones_like(const Tensor& x, OptType dtype, OptDevice device, bool grad) { return filled_like(x, 1, dtype, device, grad); }
Tensor full_like(const Tensor& x, Scalar value, OptType dtype, OptDevice device, bool grad) {
  check::fits("full_like", "fill_value", dtype.value_or(x.dtype()), value);
  return filled_like(x, value, dtype, device, grad);
}
Tensor new_empty(const Tensor& x, IntList size, OptType dtype, OptDevice device, bool grad) {
  return made(fresh("new_empty", size, dtype.value_or(x.dtype()), device.value_or(x.device())), grad);
}
Tensor new_zeros(const Tensor& x, IntList size, OptType dtype, OptDevice device, bool grad) {
  return filled("new_zeros", size, 0, dtype.value_or(x.dtype()), device.value_or(x.device()), grad);
}
Tensor new_ones(const Tensor& x, IntList size, OptType dtype, OptDevice device, bool grad) {
  return filled("new_ones", size, 1, dtype.value_or(x.dtype()), device.value_or(x.device()), grad);
}
Tensor new_full(const Tensor& x, IntList size, Scalar value, OptType dtype, OptDevice device, bool grad) {
  check::fits("new_full", "fill_value", dtype.value_or(x.dtype()), value);
  return filled("new_full", size, value, dtype.value_or(x.dtype()), device.value_or(x.device()), grad);
}

Tensor empty_strided(IntList size, IntList stride, OptType dtype, OptDevice device, bool grad) {
  if (size.size() != stride.size()) raise<ShapeError>("empty_strided: size = ", size, ", stride = ", stride, "; expected equal lengths");
  checked_numel("empty_strided", size);
  for (const int64_t s : stride)
    if (s < 0) raise<ShapeError>("empty_strided: stride = ", stride, "; expected no negative stride");
  if (!reach(size, stride, 0)) raise<ShapeError>("empty_strided: size = ", size, ", stride = ", stride, " reach past what memory can address");
  const Device where = device.value_or(Device{});
  require_device(where);
  return made(fl::empty_strided(size, stride, dtype.value_or(default_dtype()), where), grad);
}

Tensor eye(int64_t n, std::optional<int64_t> m, OptType dtype, OptDevice device, bool grad) {
  const int64_t columns = m.value_or(n);
  Tensor y = filled("eye", Dims{n, columns}, 0, dtype.value_or(default_dtype()), device, false);
  if (!y.is_meta()) {
    const int64_t k = std::min(n, columns);
    if (k > 0) fill_elements(alias(y, Dims{k}, Dims{columns + 1}, y.offset()), 1);
  }
  return made(std::move(y), grad);
}

Tensor arange(Scalar end, OptType dtype, OptDevice device, bool grad) { return native::arange(Scalar(0), end, Scalar(1), dtype, device, grad); }

namespace {

// Elements begin to end of the vector y become a + (first + i) * step, i counted from `begin`.
template <class V>
void fill_ramp(const Tensor& y, int64_t begin, int64_t end, V a, V step, int64_t first) {
  const DType type = y.dtype();
  const auto item = static_cast<int64_t>(item_size(type));
  char* const out = static_cast<char*>(y.data());
  parallel_for(begin, end, kGrain, [&](int64_t b, int64_t e) {
    alignas(64) char tile[kTileBytes];
    for (int64_t i = b; i < e; i += kTile) {
      const int64_t m = std::min(kTile, e - i);
      char* const to = type == dtype_of<V> ? out + i * item : tile;
      if constexpr (std::is_same_v<V, double>) kernels::ramp_floats(reinterpret_cast<double*>(to), a, step, first + i - begin, m);
      else kernels::ramp_ints(reinterpret_cast<uint64_t*>(to), static_cast<uint64_t>(a), static_cast<uint64_t>(step), static_cast<uint64_t>(first + i - begin), m);
      if (to == tile) convert_elements(out + i * item, type, tile, dtype_of<V>, m);
    }
  });
}

}  // namespace

Tensor arange(Scalar start, Scalar end, Scalar step, OptType dtype, OptDevice device, bool grad) {
  bool whole = !start.is_float() && !end.is_float() && !step.is_float();
  const DType type = dtype.value_or(whole ? DType::Int64 : default_dtype());
  if (!whole && type == DType::Int64) {  // counted in the type of the result
    for (Scalar* v : {&start, &end, &step}) *v = Scalar(v->as_int());
    whole = true;
  }
  if (step.as_double() == 0) raise<ArgumentError>("arange: step = 0; step must be nonzero");
  if ((end.as_double() - start.as_double()) * step.as_double() < 0)
    raise<ArgumentError>("arange: start = ", start, ", end = ", end, ", step = ", step, "; upper bound and lower bound inconsistent with step sign");
  int64_t n = 0;
  if (whole) {
    const __int128 s = step.as_int(), span = static_cast<__int128>(end.as_int()) - start.as_int();
    const __int128 count = span == 0 ? 0 : (span + s - (s > 0 ? 1 : -1)) / s;
    n = static_cast<int64_t>(std::min<__int128>(count, INT64_MAX));  // too many for any memory is refused below
  } else {
    const double count = std::ceil((end.as_double() - start.as_double()) / step.as_double());
    if (!(count < 0x1p59)) raise<ArgumentError>("arange: start = ", start, ", end = ", end, ", step = ", step, " has no finite number of elements");
    n = std::max<int64_t>(0, static_cast<int64_t>(count));
  }
  checked_numel("arange", Dims{n});
  if (n > 0 && is_integral(type)) {
    check::fits("arange", "start", type, start);
    const __int128 last = start.as_int() + static_cast<__int128>(n - 1) * step.as_int();
    if (last != static_cast<int64_t>(last)) raise<ArgumentError>("arange: start = ", start, ", end = ", end, ", step = ", step, " leave the range of ", type);
    check::fits("arange", "last element", type, static_cast<int64_t>(last));
  }
  Tensor y = fresh("arange", Dims{n}, type, device);
  if (!y.is_meta())
    is_inexact(type) ? fill_ramp(y, 0, n, start.as<double>(), step.as<double>(), 0) : fill_ramp(y, 0, n, start.as<int64_t>(), step.as<int64_t>(), 0);
  return made(std::move(y), grad);
}

namespace {

// From both ends, so that the last element is `end`. The ends of whole numbers (`whole`) are cut off first, and ends and step of float32 rounded to it, as PyTorch does.
Tensor spaced(const char* op, Scalar start, Scalar end, int64_t steps, DType type, OptDevice device, bool whole) {
  if (steps < 0) raise<ArgumentError>(op, ": steps = ", steps, "; expected steps >= 0");
  Tensor y = fresh(op, Dims{steps}, type, device);
  if (y.is_meta()) return y;
  double a = whole ? std::trunc(start.as_double()) : start.as_double(), b = whole ? std::trunc(end.as_double()) : end.as_double();
  double step = steps > 1 ? (b - a) / static_cast<double>(steps - 1) : 0;
  if (type == DType::Float32) {
    const auto from = static_cast<float>(a), to = static_cast<float>(b);
    a = from;
    b = to;
    if (steps > 1) step = (to - from) / static_cast<float>(steps - 1);
  }
  const int64_t half = steps == 1 ? 1 : steps / 2;
  fill_ramp(y, 0, half, a, step, 0);
  fill_ramp(y, half, steps, b, step, half - (steps - 1));
  return y;
}

}  // namespace

Tensor linspace(Scalar start, Scalar end, int64_t steps, OptType dtype, OptDevice device, bool grad) {
  const DType type = dtype.value_or(default_dtype());
  return made(spaced("linspace", start, end, steps, type, device, is_integral(type)), grad);
}
Tensor logspace(Scalar start, Scalar end, int64_t steps, double base, OptType dtype, OptDevice device, bool grad) {
  const DType type = dtype.value_or(default_dtype());
  const Tensor exponents = spaced("logspace", start, end, steps, DType::Float64, device, is_integral(type));
  Tensor y = fresh("logspace", Dims{steps}, type, device);
  if (!y.is_meta()) {
    double* const v = exponents.data<double>();
    for (int64_t i = 0; i < steps; ++i) v[i] = std::pow(base, v[i]);
    convert_elements(y.data(), type, v, DType::Float64, steps);
  }
  return made(std::move(y), grad);
}

Tensor view(const Tensor& x, DType dtype) {
  if (dtype == x.dtype()) return op::view(x, x.sizes());
  if (Tensor y; graph::recording() && x.storage().is_hollow() && graph::handed_on(info_view_dtype, y, x, dtype)) [[unlikely]] return y;
  const int64_t from = static_cast<int64_t>(x.item_bytes()), to = static_cast<int64_t>(item_size(dtype));
  Dims sizes = x.sizes(), strides = x.strides();
  int64_t offset = x.offset();
  if (from != to) {
    bool fits = x.ndim() > 0 && (strides.back() == 1 || x.is_contiguous()) && (sizes.back() * from) % to == 0 && (offset * from) % to == 0;
    for (int i = 0; fits && i + 1 < x.ndim(); ++i) fits = (strides[i] * from) % to == 0;
    if (!fits)
      raise<ShapeError>("view: ", x.dtype(), " of shape ", x.sizes(), " and strides ", strides, " can not be seen as ", dtype,
                        "; expected neighbours along the last axis, and whole elements there and between all others");
    for (int i = 0; i < x.ndim(); ++i) strides[i] = i + 1 < x.ndim() ? strides[i] * from / to : 1;
    sizes.back() = sizes.back() * from / to;
    offset = offset * from / to;
  }
  return Tensor(make_ref<TensorImpl>(x.impl()->storage, std::move(sizes), std::move(strides), offset, dtype));
}

Tensor reshape(const Tensor& x, IntList shape) {
  const Dims full = infer_size("reshape", shape, x.numel());
  if (full == x.sizes()) return op::view(x, full);
  if (view_strides(x.sizes(), x.strides(), full)) return op::view(x, full);
  return op::view(op::contiguous_copy(x), full);
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  start_dim = wrap_dim("flatten", "start_dim", start_dim, x);
  end_dim = wrap_dim("flatten", "end_dim", end_dim, x);
  if (start_dim > end_dim)
    raise<ArgumentError>("flatten: start_dim = ", start_dim, ", end_dim = ", end_dim, "; expected start_dim <= end_dim");
  if (x.ndim() == 0) return op::reshape(x, Dims{1});
  if (start_dim == end_dim) return x;
  Dims shape;
  Extent joined = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i >= start_dim && i <= end_dim) joined = joined * x.sizes()[i];
    if (i < start_dim || i > end_dim) shape.push_back(x.sizes()[i]);
    if (i == end_dim) shape.push_back(joined);
  }
  return op::reshape(x, shape);
}

Tensor unflatten(const Tensor& x, int64_t dim, IntList sizes) {
  if (x.ndim() == 0) raise<ShapeError>("unflatten: the tensor has no axes; expected at least one");
  dim = wrap_dim("unflatten", "dim", dim, x);
  const Dims part = infer_size("unflatten", sizes, x.size(static_cast<int>(dim)));
  Dims shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != dim) shape.push_back(x.sizes()[i]);
    else for (int64_t s : part) shape.push_back(s);
  }
  return op::view(x, shape);
}

Tensor permute_backward(const Tensor& g, IntList dims) {
  Dims inverse(static_cast<int>(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) inverse[static_cast<int>(dims[i])] = static_cast<int64_t>(i);
  return op::permute(g, inverse);
}

Tensor as_strided(const Tensor& x, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  return op::as_strided_view(x, size, stride, storage_offset.value_or(x.offset()));
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  dim = wrap_dim("narrow", "dim", dim, x);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 0;
  if (start < -n || start > n) raise<IndexError>("narrow: start = ", start, ", but axis ", dim, " has size ", n, "; expected ", -n, " <= start <= ", n);
  if (start < 0) start += n;
  if (start < 0 || length < 0 || start > n || length > n - start)
    raise<ArgumentError>("narrow: start = ", start, ", length = ", length, ", but axis ", dim, " has size ", n, "; expected start + length <= ", n);
  return op::slice(x, dim, start, start + length, 1);
}

std::vector<Tensor> split(const Tensor& x, int64_t split_size, int64_t dim) {
  dim = wrap_dim("split", "dim", dim, x);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 0;
  if (x.ndim() == 0) raise<ShapeError>("split: a 0-d tensor has no axis to split");
  if (split_size < 0 || (split_size == 0 && n != 0)) raise<ArgumentError>("split: expects split_size be non-negative, and 0 only for an empty axis, but got split_size=", split_size);
  if (n > 0) check_room_for_views("split", n / split_size);
  Dims sizes;
  for (int64_t at = 0; at < n; at += split_size) sizes.push_back(std::min(split_size, n - at));
  if (sizes.empty()) sizes.push_back(0);
  return op::split_with_sizes(x, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  if (chunks < 1) raise<ArgumentError>("chunk: expects `chunks` to be greater than 0, got: ", chunks);
  dim = wrap_dim("chunk", "dim", dim, x);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 0;
  if (n == 0 && x.ndim()) {  // as many parts as were asked for, which is no way to ask for endless work
    if (chunks > 65536) raise<ArgumentError>("chunk: chunks = ", chunks, " of an empty axis; expected at most 65536");
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < chunks; ++i) parts.push_back(op::narrow(x, dim, 0, 0));
    return parts;
  }
  return native::split(x, std::max<int64_t>(1, n / chunks + (n % chunks != 0)), dim);
}

Tensor cat(TensorList tensors, int64_t dim) {
  if (tensors.empty()) raise<ArgumentError>("cat: expected a non-empty list of Tensors");
  std::vector<Tensor> parts;
  DType type = tensors[0].dtype();
  for (const Tensor& t : tensors) {
    type = promote(type, t.dtype());
    if (t.ndim() != 1 || t.numel() != 0) parts.push_back(t);  // [] joins with anything, as ever
  }
  if (parts.empty()) parts.push_back(tensors[0]);
  dim = wrap_dim("cat", "dim", dim, parts[0]);
  for (Tensor& t : parts)
    if (t.dtype() != type) t = op::cast(t, type);
  return op::cat_same(parts, dim);
}

Tensor stack(TensorList tensors, int64_t dim) {
  if (tensors.empty()) raise<ArgumentError>("stack expects a non-empty TensorList");
  std::vector<Tensor> parts;
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (!(tensors[k].sizes() == tensors[0].sizes()))
      raise<ShapeError>("stack expects each tensor to be equal size, but got ", tensors[0].sizes(), " at entry 0 and ", tensors[k].sizes(), " at entry ", k);
    parts.push_back(op::unsqueeze(tensors[k], dim));
  }
  if (dim < 0) dim += parts[0].ndim();
  return native::cat(parts, dim);
}

Tensor copy_(const Tensor& x, Scalar src, bool) { return op::fill_(x, src); }

}  // namespace native
}  // namespace fl
