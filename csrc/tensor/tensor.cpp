#include "tensor/tensor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/axis_order.h"

namespace fl {
namespace {

// Of sizes, where zeros count as ones: then no product or stride made of some of the sizes overflows either.
constexpr int64_t kMostElements = int64_t{1} << 59;

// Spreads [offset, offset] to what sizes, none of them 0, and strides touch. False where no memory goes so far.
bool spread(const int64_t* size, const int64_t* stride, int n, Reach& reached) {
  int64_t first = reached.first, last = reached.end;
  for (int i = 0; i < n; ++i) {
    int64_t span;
    if (size[i] == 1) continue;  // its stride leads nowhere
    int64_t& end = stride[i] < 0 ? first : last;
    if (size[i] < 0 || __builtin_mul_overflow(size[i] - 1, stride[i], &span) || __builtin_add_overflow(end, span, &end)) return false;
  }
  if (first < -kMostElements || last >= kMostElements) return false;
  reached = {first, last + 1};
  return true;
}

[[noreturn]] void too_many_axes(int n) { raise<ShapeError>("a tensor of ", n, " axes; expected at most ", kMaxAxes); }
[[noreturn]] void outside(const TensorImpl& x) {
  raise<ShapeError>("a tensor of shape ", x.sizes, " and strides ", x.strides, " from element ", x.offset, " on reaches past its memory of ",
                    x.storage->size_bytes(), " bytes");
}

}  // namespace

TensorImpl::TensorImpl(Ref<Storage> s, Dims sz, Dims st, int64_t off, DType t)
    : storage(std::move(s)), sizes(std::move(sz)), strides(std::move(st)), offset(off), dtype(t) {
  refresh();
}

TensorImpl::TensorImpl(Ref<Storage> s, const TensorImpl& x, DType t)
    : storage(std::move(s)), sizes(x.sizes), strides(x.strides), numel(x.numel), dtype(t), contiguous(x.contiguous) {}

TensorImpl::TensorImpl(Ref<Storage> s, IntList sz, int64_t n, DType t)
    : storage(std::move(s)), sizes(sz), strides(row_major(sz)), numel(n), dtype(t) {}

TensorImpl::~TensorImpl() = default;

void Tensor::no_axis(int i) const { raise<ShapeError>("the tensor has shape ", sizes(), "; expected an axis ", i); }

void TensorImpl::refresh() {
  const int n = sizes.size();
  if (n > kMaxAxes) too_many_axes(n);
  const int64_t* size = sizes.data();
  const int64_t* stride = strides.data();
  int64_t expected = 1;
  int64_t signs = 0;
  bool row = true, none = false, wraps = false;
  for (int i = n - 1; i >= 0; --i) {
    if (size[i] != 1 && stride[i] != expected) row = false;
    none |= size[i] == 0;
    signs |= size[i];
    wraps |= __builtin_mul_overflow(expected, std::max<int64_t>(size[i], 1), &expected);
  }
  if (wraps || signs < 0 || expected > kMostElements) checked_numel("a tensor", sizes);
  numel = none ? 0 : expected;
  contiguous = row || none;
  if (none) return;
  Reach reached{offset, offset};
  const bool known = row ? offset <= kMostElements : spread(size, stride, n, reached);
  if (row) reached.end += numel;
  if (!known || reached.first < 0 || static_cast<size_t>(reached.end) * item_size(dtype) > storage->size_bytes()) outside(*this);
}

Dims row_major(IntList sizes) {
  Dims strides(sizes);
  int64_t step = 1;
  for (int i = strides.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step = static_cast<int64_t>(static_cast<uint64_t>(step) * static_cast<uint64_t>(std::max<int64_t>(sizes[static_cast<size_t>(i)], 1)));
  }
  return strides;
}

int64_t checked_numel(const char* op, IntList sizes) {
  int64_t n = 1, signs = 0;
  bool none = false, wraps = false;
  for (int64_t s : sizes) {
    signs |= s;
    none |= s == 0;
    wraps |= __builtin_mul_overflow(n, std::max<int64_t>(s, 1), &n);
  }
  if (signs < 0) raise<ShapeError>(op, ": Trying to create tensor with negative dimension: shape = ", sizes);
  if (wraps || n > kMostElements) raise<ShapeError>(op, ": shape = ", sizes, " has more elements than memory can address");
  return none ? 0 : n;
}

std::optional<Reach> reach(IntList sizes, IntList strides, int64_t offset) {
  for (const int64_t s : sizes)
    if (s == 0) return Reach{0, 0};
  Reach reached{offset, offset};
  if (!spread(sizes.data(), strides.data(), static_cast<int>(sizes.size()), reached)) return std::nullopt;
  return reached;
}

Tensor empty(IntList sizes, DType dtype, Device device, const char* op) {
  if (sizes.size() > kMaxAxes) too_many_axes(static_cast<int>(sizes.size()));
  const int64_t numel = checked_numel(op, sizes);
  auto storage = Storage::allocate(static_cast<size_t>(numel) * item_size(dtype), device);
  return Tensor(make_ref<TensorImpl>(std::move(storage), sizes, numel, dtype));
}

Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  Reach reached{0, 0};
  const bool none = checked_numel("empty", sizes) == 0;
  if (!none && (!spread(sizes.data(), strides.data(), static_cast<int>(sizes.size()), reached) || reached.first < 0)) raise<ShapeError>("empty: shape = ", sizes, ", strides = ", strides, " reach past what memory can address");
  auto storage = Storage::allocate(static_cast<size_t>(reached.end) * item_size(dtype), device);
  return Tensor(make_ref<TensorImpl>(std::move(storage), Dims(sizes), Dims(strides), 0, dtype));
}

Tensor empty_dense_like(const Tensor& x, DType dtype, Device device) {
  auto storage = Storage::allocate(static_cast<size_t>(x.numel()) * item_size(dtype), device);
  return Tensor(make_ref<TensorImpl>(std::move(storage), *x.impl(), dtype));
}

Tensor alias(const Tensor& x, Dims sizes, Dims strides, int64_t offset) {
  return Tensor(make_ref<TensorImpl>(x.impl()->storage, std::move(sizes), std::move(strides), offset, x.dtype()));
}

Tensor over(void* data, Dims sizes, Dims strides, DType dtype) {
  const std::optional<Reach> reached = reach(sizes, strides, 0);
  if (!reached) raise<ShapeError>("shape ", sizes, " and strides ", strides, " reach past what memory can address");
  auto storage = Storage::borrow(data, static_cast<size_t>(reached->end) * item_size(dtype), Device{}, nullptr, nullptr, true);
  return Tensor(make_ref<TensorImpl>(std::move(storage), std::move(sizes), std::move(strides), 0, dtype));
}

bool is_dense(const Tensor& x) {
  if (x.is_contiguous()) return true;
  Dims order(x.ndim());
  for (int i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return x.strides()[static_cast<int>(a)] < x.strides()[static_cast<int>(b)];
  });
  int64_t expected = 1;
  for (int64_t k : order) {
    const int i = static_cast<int>(k);
    if (x.sizes()[i] == 1) continue;
    if (x.strides()[i] != expected) return false;
    expected *= x.sizes()[i];
  }
  return true;
}

bool shares_places(const Tensor& x) {
  const std::optional<Reach> reached = x.numel() > 0 ? reach(x.sizes(), x.strides(), 0) : std::nullopt;
  if (!reached) return false;
  if (x.numel() > reached->end - reached->first) return true;
  Dims order;
  for (int i = 0; i < x.ndim(); ++i)
    if (x.size(i) > 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.stride(static_cast<int>(a)) < x.stride(static_cast<int>(b)); });
  int64_t beyond = 1;  // a step of an axis that is at least this leads past all that the axes before it reach
  bool apart = true;
  for (const int64_t k : order) {
    const int i = static_cast<int>(k);
    apart = apart && x.stride(i) >= beyond;
    beyond += (x.size(i) - 1) * x.stride(i);
  }
  if (apart) return false;
  std::vector<char> taken(static_cast<size_t>(reached->end - reached->first));
  Dims at(x.ndim());
  for (int64_t e = 0; e < x.numel(); ++e) {
    int64_t place = -reached->first, rest = e;
    for (int i = x.ndim() - 1; i >= 0; --i) {
      place += rest % x.size(i) * x.stride(i);
      rest /= x.size(i);
    }
    if (std::exchange(taken[static_cast<size_t>(place)], 1)) return true;
  }
  return false;
}

Dims dense_strides_like(const Tensor& x) {
  if (is_dense(x)) return x.strides();
  return strides_in_order(x.sizes(), [&](int a, int b) {
    const int64_t at = x.stride(a), bt = x.stride(b);
    if (at == 0 || bt == 0) return 0;
    if (at != bt) return at < bt ? -1 : 1;
    return x.size(a) > x.size(b) ? 1 : 0;
  });
}

}  // namespace fl
