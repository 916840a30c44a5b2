#include "tensor/raw.h"

#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "tensor/scratch.h"

namespace fl {

bool may_defer(IntList sizes) {
  if (sizes.size() < 3 || sizes.size() > 5 || sizes[1] < 2) return false;
  int64_t positions = 1;
  for (size_t i = 2; i < sizes.size(); ++i) positions *= sizes[i];
  return positions > 1 && sizes[0] > 0;
}

ChannelsLast channels_last_layout(IntList sizes, size_t item) {
  ChannelsLast l{sizes[0], sizes[1], 1, item};
  for (size_t i = 2; i < sizes.size(); ++i) l.s *= sizes[i];
  return l;
}

namespace {

int64_t positions_of(const Tensor& x) {
  int64_t s = 1;
  for (int i = 2; i < x.ndim(); ++i) s *= x.size(i);
  return s;
}

// Where x is channels [result, result + C) of the whole, all images and positions: the first channel; else -1.
int64_t first_channel(const Tensor& x, const ChannelsLast& l) {
  if (x.ndim() < 3 || x.item_bytes() != l.item || x.numel() == 0 || x.size(0) != l.n || positions_of(x) != l.s) return -1;
  int64_t step = 1;
  for (int i = x.ndim() - 1; i >= 2; step *= x.size(i), --i)
    if (x.size(i) != 1 && x.stride(i) != step) return -1;
  if ((x.size(1) != 1 && x.stride(1) != l.s) || (l.n != 1 && x.stride(0) != l.c * l.s)) return -1;
  if (x.offset() % l.s != 0 || x.offset() / l.s + x.size(1) > l.c) return -1;
  return x.offset() / l.s;
}

Tensor stand_in(void* data, const Tensor& x, const Dims& sizes, const Dims& strides, int64_t offset) {
  Ref<Storage> storage = Storage::borrow(data, x.storage().size_bytes(), x.device(), nullptr, nullptr, true);
  return Tensor(make_ref<TensorImpl>(std::move(storage), sizes, strides, offset, x.dtype()));
}

// A row-major copy of a matrix whose rows lie apart.
Tensor contiguous_rows(const Tensor& m) {
  const Tensor y = empty(m.sizes(), m.dtype(), m.device());
  const size_t row = static_cast<size_t>(m.size(1)) * m.item_bytes(), step = static_cast<size_t>(m.stride(0)) * m.item_bytes();
  const char* from = m.data<char>();
  char* to = y.data<char>();
  parallel_work(m.size(0), static_cast<int64_t>(row + 1), 65536, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) std::memcpy(to + static_cast<size_t>(r) * row, from + static_cast<size_t>(r) * step, row);
  });
  return y;
}

// A row-major copy of a tensor of any strides.
Tensor row_major_copy(const Tensor& x) {
  const Tensor y = empty(x.sizes(), x.dtype(), x.device());
  const size_t item = x.item_bytes();
  const int last = x.ndim() - 1;
  const int64_t n = last < 0 ? 1 : x.size(last), step = last < 0 ? 0 : x.stride(last) * static_cast<int64_t>(item);
  const char* const from = x.data<char>();
  char* const to = y.data<char>();
  parallel_work(n ? x.numel() / n : 0, n, 16384, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      int64_t at = 0, rest = r;
      for (int i = last; i-- > 0; rest /= x.size(i)) at += rest % x.size(i) * x.stride(i);
      const char* row = from + at * static_cast<int64_t>(item);
      for (int64_t j = 0; j < n; ++j) std::memcpy(to + static_cast<size_t>(r * n + j) * item, row + j * step, item);
    }
  });
  return y;
}

// [N, C] and [N, 1, ...] are the same bytes in either order.
bool same_either_way(const Tensor& x) { return x.size(1) == 1 || positions_of(x) == 1; }

}  // namespace

RawTensor::RawTensor(const Tensor& x, RawBytes::Use use) : bytes_(x.storage(), use), tensor_(x) {
  if (!bytes_.channels_last()) return;
  const int64_t first = first_channel(x, bytes_.layout());
  if (first < 0) {
    bytes_ = RawBytes();
    (void)x.data();
    return;
  }
  Dims strides(x.ndim());
  strides[1] = 1;
  int64_t step = bytes_.layout().c;
  for (int i = x.ndim() - 1; i >= 2; step *= x.size(i), --i) strides[i] = step;
  strides[0] = step;
  tensor_ = stand_in(bytes_.data(), x, x.sizes(), strides, first);
}

ChannelRows::ChannelRows(const Tensor& x, RawBytes::Use use) : bytes_(x.storage(), use) {
  const ChannelsLast l = channels_last_layout(x.sizes(), x.item_bytes());
  const Dims sizes{l.n * l.s, l.c};
  if (bytes_.channels_last()) {
    if (const int64_t first = first_channel(x, bytes_.layout()); first >= 0) {
      const Tensor rows = stand_in(bytes_.data(), x, sizes, Dims{bytes_.layout().c, 1}, first);
      matrix_ = rows.is_contiguous() ? rows : contiguous_rows(rows);
      return;
    }
  }
  bytes_ = RawBytes();
  if (x.is_contiguous() && same_either_way(x)) {
    matrix_ = alias(x, sizes, row_major(sizes), x.offset());
    return;
  }
  matrix_ = alias(scratch_memory(x.numel(), x.dtype()), sizes, row_major(sizes), 0);
  const Tensor plain = x.is_contiguous() ? x : row_major_copy(x);
  transpose_bytes(plain.data(), matrix_.data(), l.n, l.c, l.s, l.item);
  count_reorder();
}

ChannelRows ChannelRows::fresh(const Tensor& y) {
  ChannelRows rows;
  const ChannelsLast l = channels_last_layout(y.sizes(), y.item_bytes());
  const Dims sizes{l.n * l.s, l.c};
  if (same_either_way(y)) {
    rows.matrix_ = alias(y, sizes, row_major(sizes), y.offset());
    return rows;
  }
  defer(y);
  rows.bytes_ = RawBytes(y.storage());
  rows.matrix_ = stand_in(rows.bytes_.data(), y, sizes, row_major(sizes), 0);
  return rows;
}

Tensor channel_slice_copy(const Tensor& x) {
  const RawBytes bytes(x.storage());
  if (!bytes.channels_last() || first_channel(x, bytes.layout()) < 0 || !may_defer(x.sizes())) return {};
  const ChannelRows from(x);
  const Tensor y = empty(x.sizes(), x.dtype(), x.device());
  std::memcpy(ChannelRows::fresh(y).data(), from.data(), static_cast<size_t>(x.numel()) * x.item_bytes());
  return y;
}

Tensor channel_rows(const Tensor& x) {
  if (!is_deferred(x)) return {};
  const ChannelRows from(x);
  const Tensor y = empty(from.matrix().sizes(), x.dtype(), x.device());
  std::memcpy(y.data(), from.data(), static_cast<size_t>(x.numel()) * x.item_bytes());
  return y;
}
Tensor from_channel_rows(const Tensor& rows, IntList sizes) {
  const Tensor y = empty(sizes, rows.dtype(), rows.device());
  if (!may_defer(sizes) || y.numel() != rows.numel() || !rows.is_contiguous())
    raise<ShapeError>("from_channel_rows: rows have shape ", rows.sizes(), ", which are no channels of a tensor of shape ", y.sizes());
  std::memcpy(ChannelRows::fresh(y).data(), rows.data(), static_cast<size_t>(y.numel()) * y.item_bytes());
  return y;
}

bool is_deferred(const Tensor& x) {
  const RawBytes bytes(x.storage());
  return bytes.channels_last() && first_channel(x, bytes.layout()) >= 0;
}

void defer(const Tensor& fresh) { fresh.storage().defer(channels_last_layout(fresh.sizes(), fresh.item_bytes())); }

}  // namespace fl
