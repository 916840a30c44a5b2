// Copies, conversions and fills of strided tensors, by the walks of element-wise loops.
//
// Copies within a type that have an innermost axis of fewer than 8 elements loop over the next one instead, in pieces that
// the first cache holds.
#include "base/float8.h"
#include "dispatch/walks.h"

namespace fl {

namespace {

constexpr int64_t kParts = 512;  // complex numbers whose parts are converted at a time

// Their parts are converted, through a tile where an imaginary part comes or goes.
template <class R>
void from_complex(void* dst, DType to, const Complex<R>* src, int64_t n) {
  if (is_complex(to)) return kernels::convert_loop(dst, to_real(to), src, dtype_of<R>, 2 * n);
  if (to == DType::Bool) {
    auto* y = static_cast<uint8_t*>(dst);
    for (int64_t i = 0; i < n; ++i) y[i] = src[i].re != 0 || src[i].im != 0;
    return;
  }
  R tile[kParts];
  for (int64_t i = 0; i < n; i += kParts) {
    const int64_t m = std::min(kParts, n - i);
    for (int64_t j = 0; j < m; ++j) tile[j] = src[i + j].re;
    convert_elements(bytes_at(dst, i * static_cast<int64_t>(item_size(to))), to, tile, dtype_of<R>, m);
  }
}

template <class R>
void to_complex_type(Complex<R>* dst, const void* src, DType from, int64_t n) {
  R tile[kParts];
  for (int64_t i = 0; i < n; i += kParts) {
    const int64_t m = std::min(kParts, n - i);
    convert_elements(tile, dtype_of<R>, bytes_at(src, i * static_cast<int64_t>(item_size(from))), from, m);
    for (int64_t j = 0; j < m; ++j) dst[i + j] = Complex<R>(tile[j]);
  }
}

// f(where, m) for pieces of a tile: where they begin, and how many.
template <class F>
void by_parts(int64_t n, F&& f) {
  for (int64_t i = 0; i < n; i += kParts) f(i, std::min(kParts, n - i));
}

// Types without loops go through a tile of a type that holds them: Note [Types without kernels] in base/dtype.h.
template <class Wide, class S>
void from_unsigned(void* dst, DType to, const S* src, int64_t n) {
  Wide tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    for (int64_t j = 0; j < m; ++j) tile[j] = static_cast<Wide>(src[i + j]);
    convert_elements(bytes_at(dst, i * static_cast<int64_t>(item_size(to))), to, tile, dtype_of<Wide>, m);
  });
}

void from_uint64(void* dst, DType to, const uint64_t* src, int64_t n) {
  if (!is_inexact(to)) return convert_elements(dst, to, src, DType::Int64, n);  // the same bits
  if (to_real(to) == DType::Float64) from_unsigned<double>(dst, to, src, n);
  else from_unsigned<float>(dst, to, src, n);
}

void to_unsigned(void* dst, DType to, const void* src, DType from, int64_t n) {
  if (!is_float(from) || to == DType::UInt16) return convert_elements(dst, with_sign(to), src, from, n);
  const auto source = [&](int64_t i) { return bytes_at(src, i * static_cast<int64_t>(item_size(from))); };
  if (to == DType::UInt32) {
    int64_t tile[kParts];
    return by_parts(n, [&](int64_t i, int64_t m) {
      convert_elements(tile, DType::Int64, source(i), from, m);
      convert_elements(static_cast<uint32_t*>(dst) + i, DType::Int32, tile, DType::Int64, m);
    });
  }
  double tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    convert_elements(tile, DType::Float64, source(i), from, m);
    auto* y = static_cast<uint64_t*>(dst) + i;
    for (int64_t j = 0; j < m; ++j) y[j] = tile[j] >= 0x1p63 ? static_cast<uint64_t>(static_cast<int64_t>(tile[j] - 0x1p63)) + (uint64_t{1} << 63) : static_cast<uint64_t>(static_cast<int64_t>(tile[j]));
  });
}

void from_complex32(void* dst, DType to, const void* src, int64_t n) {
  if (is_complex(to)) return kernels::convert_loop(dst, to_real(to), src, DType::Float16, 2 * n);
  Complex<float> tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    kernels::convert_loop(tile, DType::Float32, bytes_at(src, 4 * i), DType::Float16, 2 * m);
    from_complex(bytes_at(dst, i * static_cast<int64_t>(item_size(to))), to, tile, m);
  });
}

void to_complex32(void* dst, const void* src, DType from, int64_t n) {
  Complex<float> tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    to_complex_type(tile, bytes_at(src, i * static_cast<int64_t>(item_size(from))), from, m);
    kernels::convert_loop(bytes_at(dst, 4 * i), DType::Float16, tile, DType::Float32, 2 * m);
  });
}

void from_float8_type(void* dst, DType to, const uint8_t* src, DType from, int64_t n) {
  float tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    from_float8(from, src + i, tile, m);
    convert_elements(bytes_at(dst, i * static_cast<int64_t>(item_size(to))), to, tile, DType::Float32, m);
  });
}

void to_float8_type(uint8_t* dst, DType to, const void* src, DType from, int64_t n) {
  float tile[kParts];
  by_parts(n, [&](int64_t i, int64_t m) {
    convert_elements(tile, DType::Float32, bytes_at(src, i * static_cast<int64_t>(item_size(from))), from, m);
    to_float8(to, tile, dst + i, m);
  });
}

constexpr int64_t kShortRowBytes = 128;

// Rows of `bytes` bytes, at least kHalf and at most twice that, as two pieces each, which may overlap.
template <size_t kHalf>
void copy_pieces(char* out, int64_t d_down, const char* in, int64_t s_down, int64_t rows, int64_t bytes) {
  const int64_t rest = bytes - static_cast<int64_t>(kHalf);
  for (; rows > 0; --rows, out += d_down, in += s_down) {
    std::memcpy(out, in, kHalf);
    std::memcpy(out + rest, in + rest, kHalf);
  }
}
void copy_short_rows(void* dst, int64_t d_down, const void* src, int64_t s_down, int64_t rows, int64_t bytes) {
  auto* const out = static_cast<char*>(dst);
  const auto* const in = static_cast<const char*>(src);
  if (bytes < 16) {
    if (bytes >= 8) return copy_pieces<8>(out, d_down, in, s_down, rows, bytes);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(out + r * d_down, in + r * s_down, static_cast<size_t>(bytes));
  } else if (bytes < 32) {
    copy_pieces<16>(out, d_down, in, s_down, rows, bytes);
  } else if (bytes < 64) {
    copy_pieces<32>(out, d_down, in, s_down, rows, bytes);
  } else {
    copy_pieces<64>(out, d_down, in, s_down, rows, bytes);
  }
}

// Short rows whose elements lie in reverse order, or two apart: calling a loop for each would take longer than it does.
template <class U, int64_t kStep>
void copy_spread_rows(U* out, int64_t d_down, const U* in, int64_t s_down, int64_t rows, int64_t n) {
  for (; rows > 0; --rows, out += d_down, in += s_down)
    for (int64_t j = 0; j < n; ++j) out[j] = in[j * kStep];
}

}  // namespace

void convert_elements(void* dst, DType to, const void* src, DType from, int64_t n) {
  if (n == 0) return;  // of nothing there may be no address
  if (to == from) {
    std::memcpy(dst, src, static_cast<size_t>(n) * item_size(to));
    return;
  }
  if (is_float8(from)) return from_float8_type(dst, to, static_cast<const uint8_t*>(src), from, n);
  if (is_float8(to)) return to_float8_type(static_cast<uint8_t*>(dst), to, src, from, n);
  if (from == DType::Complex32) return from_complex32(dst, to, src, n);
  if (from == DType::Complex64) return from_complex(dst, to, static_cast<const Complex<float>*>(src), n);
  if (from == DType::Complex128) return from_complex(dst, to, static_cast<const Complex<double>*>(src), n);
  if (to == DType::Complex32) return to_complex32(dst, src, from, n);
  if (to == DType::Complex64) return to_complex_type(static_cast<Complex<float>*>(dst), src, from, n);
  if (to == DType::Complex128) return to_complex_type(static_cast<Complex<double>*>(dst), src, from, n);
  if (from == DType::UInt16) return from_unsigned<int32_t>(dst, to, static_cast<const uint16_t*>(src), n);
  if (from == DType::UInt32) return from_unsigned<int64_t>(dst, to, static_cast<const uint32_t*>(src), n);
  if (from == DType::UInt64) return from_uint64(dst, to, static_cast<const uint64_t*>(src), n);
  if (is_wide_unsigned(to)) return to_unsigned(dst, to, src, from, n);
  kernels::convert_loop(dst, to, src, from, n);
}

void copy_flat(void* dst, DType to, const void* src, DType from, int64_t n) {
  const int64_t to_item = static_cast<int64_t>(item_size(to)), from_item = static_cast<int64_t>(item_size(from));
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  const bool stream = n * to_item >= kStreamBytes;
  parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
    if (!stream) return convert_elements(d + begin * to_item, to, s + begin * from_item, from, end - begin);
    if (to == from) {
      kernels::stream_loop(d + begin * to_item, s + begin * from_item, static_cast<size_t>((end - begin) * to_item));
    } else {
      alignas(64) char tile[kTileBytes];
      int64_t m;
      for (int64_t i = begin; i < end; i += m) {
        m = std::min(next_piece(true, d + i * to_item, to_item, std::min(kTile, kTileBytes / to_item)), end - i);
        convert_elements(tile, to, s + i * from_item, from, m);
        kernels::stream_loop(d + i * to_item, tile, static_cast<size_t>(m * to_item));
      }
    }
    kernels::stream_end();
  });
}

bool may_share_bytes(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.is_meta() || b.is_meta() || a.numel() == 0 || b.numel() == 0) return false;
  if (&a.storage() == &b.storage()) return true;
  const auto begin = [](const Tensor& t) { return static_cast<const char*>(t.storage().data()); };
  const auto end = [&](const Tensor& t) { return begin(t) + t.storage().size_bytes(); };
  return begin(a) < end(b) && begin(b) < end(a);
}

void copy_elements(const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0) return;
  Dims strides[2] = {dst.strides(), src.strides()};
  const Axes axes = simplify(dst.sizes(), strides, 2);
  const bool dst_flat = contiguous(axes, strides[0]), src_flat = contiguous(axes, strides[1]);
  char* to = static_cast<char*>(dst.data());
  const char* from = static_cast<const char*>(src.data());
  const int64_t to_item = static_cast<int64_t>(dst.item_bytes()), from_item = static_cast<int64_t>(src.item_bytes());
  const int64_t n = axes.numel;

  if (dst_flat && src_flat) return copy_flat(to, dst.dtype(), from, src.dtype(), n);
  if (dst.dtype() != src.dtype()) {
    parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
      alignas(64) char gathered[kTileBytes], converted[kTileBytes];
      const int64_t piece = std::min(kTile, kTileBytes / std::max(to_item, from_item));
      for (int64_t i = begin; i < end; i += piece) {
        const int64_t m = std::min(piece, end - i);
        const void* values = from + i * from_item;
        if (!src_flat) {
          gather_flat(gathered, from, src.item_bytes(), axes, strides[1], i, m);
          values = gathered;
        }
        if (dst_flat) {
          convert_elements(to + i * to_item, dst.dtype(), values, src.dtype(), m);
        } else {
          convert_elements(converted, dst.dtype(), values, src.dtype(), m);
          scatter_flat(to, converted, dst.item_bytes(), axes, strides[0], i, m);
        }
      }
    });
    return;
  }
  const Dims* view[2] = {&strides[0], &strides[1]};
  const int axis = column_axis(axes, view + 1, 1);
  by_size(dst.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = reinterpret_cast<U*>(to);
    const U* s = reinterpret_cast<const U*>(from);
    const int last = axes.sizes.size() - 1;
    const int64_t d_across = strides[0][last], s_across = strides[1][last];
    if (axis >= 0) {
      const int64_t d_down = strides[0][axis], s_down = strides[1][axis];
      walk_blocks(axes, axis, view, 2, kBlockRows, kBlockCols, [&](const auto& offset, int64_t rows, int64_t cols) {
        U* out = d + offset[0];
        if (d_across == 1) return gather_block(out, d_down, s + offset[1], s_across, s_down, rows, cols, to_item);
        U block[kBlockRows * kBlockCols];
        gather_block(block, kBlockCols, s + offset[1], s_across, s_down, rows, cols, to_item);
        for (int64_t r = 0; r < rows; ++r) scatter_row(out + r * d_down, block + r * kBlockCols, cols, d_across);
      });
      return;
    }
    if (last > 0 && axes.sizes[last] < kFewCols && axes.sizes[last - 1] > axes.sizes[last]) {  // loops run down the few columns
      const int64_t d_down = strides[0][last - 1], s_down = strides[1][last - 1];
      walk_blocks(axes, last - 1, view, 2, kTile / axes.sizes[last], axes.sizes[last], [&](const auto& offset, int64_t rows, int64_t cols) {
        U* out = d + offset[0];
        const U* in = s + offset[1];
        if (d_across == 1 && s_down == 1) return gather_block(out, d_down, in, s_across, s_down, rows, cols, to_item);
        for (int64_t c = 0; c < cols; ++c)
          for (int64_t r = 0; r < rows; ++r) out[r * d_down + c * d_across] = in[r * s_down + c * s_across];
      });
      return;
    }
    // Rows of one operand, with the other's offset kept by a second odometer. Short rows that lie together on both sides go many at a time.
    const bool spread = to_item >= 4 && (s_across == -1 || s_across == 2);  // bytes are shuffled by instructions that not every processor has
    const bool short_rows = last > 0 && d_across == 1 && (s_across == 1 || spread) && axes.sizes[last] * to_item <= kShortRowBytes;
    parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
      const int64_t row = axes.inner();
      const int d_axes = axes.sizes.size();
      Dims at(d_axes);
      int64_t rest = begin, d_offset = 0, s_offset = 0;
      for (int i = d_axes - 1; i >= 0; --i) {
        at[i] = rest % axes.sizes[i];
        rest /= axes.sizes[i];
        d_offset += at[i] * strides[0][i];
        s_offset += at[i] * strides[1][i];
      }
      const auto carry = [&](int j) {
        for (; j > 0 && at[j] == axes.sizes[j]; --j) {
          d_offset += strides[0][j - 1] - at[j] * strides[0][j];
          s_offset += strides[1][j - 1] - at[j] * strides[1][j];
          at[j] = 0;
          ++at[j - 1];
        }
      };
      for (int64_t i = begin; i < end;) {
        const int64_t m = std::min(row - at[last], end - i);
        U* out = d + d_offset;
        const U* in = s + s_offset;
        if (short_rows && m == row) {
          const int64_t rows = std::min(axes.sizes[last - 1] - at[last - 1], (end - i) / row);
          const int64_t d_down = strides[0][last - 1], s_down = strides[1][last - 1];
          if (s_across == 1) copy_short_rows(out, d_down * to_item, in, s_down * to_item, rows, row * to_item);
          else if (s_across == 2) copy_spread_rows<U, 2>(out, d_down, in, s_down, rows, row);
          else copy_spread_rows<U, -1>(out, d_down, in, s_down, rows, row);
          i += rows * row;
          at[last - 1] += rows;
          d_offset += rows * d_down;
          s_offset += rows * s_down;
          carry(last - 1);
          continue;
        }
        if (d_across == 1) gather_row(out, in, m, s_across);
        else if (s_across == 1) scatter_row(out, in, m, d_across);
        else
          for (int64_t j = 0; j < m; ++j) out[j * d_across] = in[j * s_across];
        i += m;
        at[last] += m;
        d_offset += m * d_across;
        s_offset += m * s_across;
        carry(last);
      }
    });
  });
}

void fill_elements(const Tensor& dst, const Scalar& value) {
  if (dst.numel() == 0) return;
  Dims strides[1] = {dst.strides()};
  const Axes axes = simplify(dst.sizes(), strides, 1);
  uint64_t item[2] = {};
  if (value.is_complex()) {
    const auto v = value.as<Complex<double>>();
    convert_elements(&item, dst.dtype(), &v, DType::Complex128, 1);
  } else if (value.is_float()) {
    const double v = value.as_double();
    convert_elements(&item, dst.dtype(), &v, DType::Float64, 1);
  } else {
    const int64_t v = value.as_int();
    convert_elements(&item, dst.dtype(), &v, DType::Int64, 1);
  }
  by_size(dst.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    U* d = static_cast<U*>(dst.data());
    U v;
    std::memcpy(&v, &item, sizeof(U));
    const int64_t step = strides[0].empty() ? 1 : strides[0].back();
    parallel_for(0, axes.numel, kGrain * 4, [&](int64_t begin, int64_t end) {
      walk_rows(axes, strides[0], begin, end - begin, [&](int64_t offset, int64_t, int64_t m) {
        if (step == 1) kernels::fill_loop(d + offset, sizeof(U), &v, m);
        else
          for (int64_t i = 0; i < m; ++i) d[offset + i * step] = v;
      });
    });
  });
}

}  // namespace fl
