#include "tensor/tensor.h"

#include "base/error.h"

namespace fl {
namespace {

// May overflow where a later size is 0; then nobody looks at it.
int64_t times(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }

}  // namespace

TensorImpl::TensorImpl(Ref<Storage> s, Dims sz, Dims st, int64_t off, DType t)
    : storage(std::move(s)), sizes(std::move(sz)), strides(std::move(st)), offset(off), dtype(t) {
  refresh();
}

TensorImpl::~TensorImpl() = default;

void TensorImpl::refresh() {
  const int n = sizes.size();
  if (n > kMaxAxes) raise<ShapeError>("a tensor of ", n, " axes; expected at most ", kMaxAxes);
  const int64_t* size = sizes.data();
  const int64_t* stride = strides.data();
  int64_t expected = 1;
  bool row = true;
  for (int i = n - 1; i >= 0; --i) {
    if (size[i] != 1 && stride[i] != expected) row = false;
    expected = times(expected, size[i]);
  }
  numel = expected;
  contiguous = row || numel == 0;
}

Dims row_major(IntList sizes) {
  Dims strides(sizes);
  int64_t step = 1;
  for (int i = strides.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step = times(step, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

int64_t checked_numel(const char* op, IntList sizes) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t s : sizes) {
    if (s < 0) raise<ShapeError>(op, ": shape = ", sizes, "; expected no negative size");
    if (s == 0) empty = true;
  }
  if (empty) return 0;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n) || n > (int64_t{1} << 59))
      raise<ShapeError>(op, ": shape = ", sizes, " has more elements than memory can address");
  return n;
}

Tensor empty(IntList sizes, DType dtype, Device device) {
  return empty_strided(sizes, row_major(sizes), dtype, device);
}

Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  checked_numel("empty", sizes);
  int64_t extent = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      extent = 0;
      break;
    }
    extent += (sizes[i] - 1) * strides[i];
  }
  auto storage = Storage::allocate(static_cast<size_t>(extent) * item_size(dtype), device);
  return Tensor(make_ref<TensorImpl>(std::move(storage), Dims(sizes), Dims(strides), 0, dtype));
}

Tensor alias(const Tensor& x, Dims sizes, Dims strides, int64_t offset) {
  return Tensor(make_ref<TensorImpl>(x.impl()->storage, std::move(sizes), std::move(strides), offset, x.dtype()));
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

}  // namespace fl
