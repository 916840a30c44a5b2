// Rearrangements: triangles, flips, rolls, repeats; and bitwise_not, which is the only element-wise op that
// must tell bool from integers.
#include <optional>

#include "dispatch/convert.h"
#include "ops/index/lines.h"
#include "ops/reduce/reduce.h"

namespace fl::kernels {
namespace {

// Keeps column j of row i where j - i <= diagonal (lower) or >= diagonal (upper); others become 0.
void triangle(const Tensor& x, int64_t diagonal, bool lower, const Tensor& y) {
  const int64_t cols = x.size(-1), rows = x.size(-2), lines = y.numel() / std::max<int64_t>(1, cols);
  if (y.numel() == 0) return;
  diagonal = std::clamp(diagonal, -rows - 1, cols + 1);
  const int64_t item = static_cast<int64_t>(x.item_bytes());
  const char* s = static_cast<const char*>(x.data());
  char* d = static_cast<char*>(y.data());
  parallel_work(lines, cols, 32768, [&](int64_t b, int64_t e) {
    for (int64_t l = b; l < e; ++l) {
      const int64_t i = l % rows, split = std::clamp<int64_t>(i + diagonal + (lower ? 1 : 0), 0, cols);
      const int64_t first = lower ? 0 : split, last = lower ? split : cols;  // kept
      const char* from = s + l * cols * item;
      char* to = d + l * cols * item;
      if (first > 0) std::memset(to, 0, static_cast<size_t>(first * item));
      if (from != to) std::memcpy(to + first * item, from + first * item, static_cast<size_t>((last - first) * item));
      if (last < cols) std::memset(to + last * item, 0, static_cast<size_t>((cols - last) * item));
    }
  });
}

}  // namespace

void tril(const Tensor& x, int64_t diagonal, const Tensor& y) { triangle(x, diagonal, true, y); }
void triu(const Tensor& x, int64_t diagonal, const Tensor& y) { triangle(x, diagonal, false, y); }

void flip(const Tensor& x, IntList dims, const Tensor& y) {
  Dims strides = x.strides();
  int64_t offset = x.offset();
  if (x.numel() == 0) return;
  if (x.ndim() == 0) return copy_elements(y, x);
  for (int64_t k : dims) {
    const int d = static_cast<int>(k < 0 ? k + x.ndim() : k);
    offset += (x.size(d) - 1) * x.stride(d);
    strides[d] = -x.stride(d);
  }
  copy_elements(y, alias(x, x.sizes(), std::move(strides), offset));
}

// Each rolled axis is two pieces that change places.
void roll(const Tensor& x, IntList shifts, std::optional<IntList> dims, const Tensor& y) {
  if (x.numel() == 0) return;
  if (x.ndim() == 0) return copy_elements(y, x);
  if (!dims || dims->empty()) {
    const Dims flat{x.numel()}, one{1};
    const int64_t axis = 0;
    roll(alias(x, flat, one, x.offset()), shifts, IntList(&axis, 1), alias(y, flat, one, y.offset()));
    return;
  }
  Dims total(x.ndim());
  for (size_t i = 0; i < dims->size(); ++i) {
    const int d = static_cast<int>((*dims)[i] < 0 ? (*dims)[i] + x.ndim() : (*dims)[i]);
    total[d] = ((total[d] + shifts[i] % x.size(d)) % x.size(d) + x.size(d)) % x.size(d);
  }
  auto piece = [&](auto&& self, int d, Dims size, int64_t from, int64_t to) -> void {
    if (d == x.ndim()) {
      copy_elements(alias(y, size, y.strides(), to), alias(x, size, x.strides(), from));
      return;
    }
    const int64_t n = x.size(d), s = total[d];
    if (s == 0) return self(self, d + 1, size, from, to);
    size[d] = n - s;
    self(self, d + 1, size, from, to + s * y.stride(d));
    size[d] = s;
    self(self, d + 1, size, from + (n - s) * x.stride(d), to);
  };
  piece(piece, 0, x.sizes(), x.offset(), y.offset());
}

namespace {

// y [r0*s0, r1*s1, ...] seen as [r0, s0, r1, s1, ...].
Tensor interleaved(const Tensor& y, const Dims& sizes, IntList repeats) {
  Dims shape, strides;
  for (int i = 0; i < sizes.size(); ++i) {
    shape.push_back(repeats[static_cast<size_t>(i)]);
    strides.push_back(sizes[i] * y.stride(i));
    shape.push_back(sizes[i]);
    strides.push_back(y.stride(i));
  }
  return alias(y, shape, strides, y.offset());
}
Dims padded(IntList sizes, int n) {
  Dims out(n, 1);
  for (size_t i = 0; i < sizes.size(); ++i) out[n - static_cast<int>(sizes.size() - i)] = sizes[i];
  return out;
}

}  // namespace

void repeat(const Tensor& x, IntList repeats, const Tensor& y) {
  if (y.numel() == 0) return;
  const int n = static_cast<int>(repeats.size());
  const Tensor to = interleaved(y, padded(x.sizes(), n), repeats);
  Dims strides;
  for (int i = 0; i < n; ++i) {
    strides.push_back(0);
    strides.push_back(i < n - x.ndim() ? 0 : x.stride(i - (n - x.ndim())));
  }
  copy_elements(to, alias(x, to.sizes(), strides, x.offset()));
}
void repeat_backward(const Tensor& dy, IntList shape, IntList repeats, const Tensor& dx) {
  const int n = static_cast<int>(repeats.size());
  bool reduced[2 * kMaxAxes] = {};
  for (int i = 0; i < n; ++i) reduced[2 * i] = true;
  const DType type = dx.dtype() == DType::Float64 ? DType::Float64 : is_float(dx.dtype()) ? DType::Float32 : DType::Int64;
  reduce_mask({.fold = Fold::Sum}, type, interleaved(dy, padded(shape, n), repeats), reduced, dx);
}

void bitwise_not(const Tensor& x, const Tensor& y) {
  const bool logical = x.dtype() == DType::Bool;
  const int64_t bytes = x.numel() * static_cast<int64_t>(x.item_bytes());
  const uint8_t* s = static_cast<const uint8_t*>(x.data());
  uint8_t* d = static_cast<uint8_t*>(y.data());
  parallel_for(0, bytes, 1 << 18, [&](int64_t b, int64_t e) { flip_loop(d + b, s + b, logical, e - b); });
}

// [2, n] row and column numbers of a triangle of a rows x cols matrix.
Tensor triangle_indices(int64_t rows, int64_t cols, int64_t offset, bool lower) {
  auto range = [&](int64_t i, int64_t& first, int64_t& last) {
    first = lower ? 0 : std::clamp<int64_t>(i + offset, 0, cols);
    last = lower ? std::clamp<int64_t>(i + offset + 1, 0, cols) : cols;
  };
  offset = std::clamp(offset, -rows - 1, cols + 1);
  // Rows without elements are left out: every step of the loops writes something.
  const int64_t begin = lower ? std::clamp<int64_t>(-offset, 0, rows) : 0, end = cols == 0 ? begin : lower ? rows : std::clamp<int64_t>(cols - offset, 0, rows);
  // Row i of the lower triangle has min(cols, i + offset + 1) elements: a ramp, then whole rows.
  auto below = [&](int64_t k) {
    const int64_t i0 = std::clamp<int64_t>(-k, 0, rows), count = rows - i0, a = i0 + k + 1, ramp = std::clamp<int64_t>(cols - a, 0, count);
    return static_cast<int64_t>(static_cast<__int128>(ramp) * a + static_cast<__int128>(ramp) * (ramp - 1) / 2 + static_cast<__int128>(count - ramp) * cols);
  };
  const int64_t n = lower ? below(offset) : rows * cols - below(offset - 1);
  int64_t first, last;
  Tensor out = empty(Dims{2, n}, DType::Int64);
  int64_t *row = out.data<int64_t>(), *col = row + n;
  for (int64_t i = begin; i < end; ++i) {
    range(i, first, last);
    for (int64_t j = first; j < last; ++j) *row++ = i, *col++ = j;
  }
  return out;
}
Tensor tril_indices(int64_t row, int64_t col, int64_t offset) { return triangle_indices(row, col, offset, true); }
Tensor triu_indices(int64_t row, int64_t col, int64_t offset) { return triangle_indices(row, col, offset, false); }

}  // namespace fl::kernels
