// Pieces of a walk over strided memory, which element-wise loops and copies share: rows, an odometer, and blocks of rows and
// columns. "How a loop nest is walked" in each.cpp says when which is taken.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "dispatch/axes.h"
#include "dispatch/convert.h"
#include "dispatch/each.h"
#include "storage/transpose.h"

namespace fl {

constexpr int64_t kTile = 1024;         // elements per tile
constexpr int64_t kTileBytes = kTile * 8;
constexpr int64_t kStreamBytes = int64_t{1} << 25;  // outputs from here on are streamed
constexpr int64_t kGrain = 32768;       // elements per thread at least
constexpr int kMaxInputs = kMaxOperands - 1;
constexpr int64_t kBlockRows = 32, kBlockCols = 32;
constexpr int64_t kFewCols = 8;         // rows below this are not worth a loop of their own
constexpr int64_t kShortRow = 32;       // ... below this are walked flat, several at a time

template <class U>
void gather_row(U* dst, const U* src, int64_t n, int64_t stride) {
  if (stride == 1) {
    if (n >= 16) std::memcpy(dst, src, n * sizeof(U));
    else
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  } else if (stride == 0) {
    kernels::fill_loop(dst, sizeof(U), src, n);
  } else if (stride == -1) {
    kernels::reverse_loop(dst, src, sizeof(U), n);
  } else if (stride == 2 && n >= 16) {
    kernels::every_second_loop(dst, src, sizeof(U), n);
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * stride];
  }
}
template <class U>
void scatter_row(U* dst, const U* src, int64_t n, int64_t stride) {
  if (stride == 1) {
    std::memcpy(dst, src, n * sizeof(U));
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < n; ++i) dst[i * stride] = src[i];
  }
}

// Calls row(offset in elements, position, count) for the pieces of rows that cover flat elements [begin, begin + n).
template <class F>
void walk_rows(const Axes& axes, const Dims& strides, int64_t begin, int64_t n, F&& row) {
  const int d = axes.sizes.size();
  if (d == 0) {
    row(int64_t{0}, int64_t{0}, n);
    return;
  }
  Dims at(d);
  int64_t rest = begin, offset = 0;
  for (int i = d - 1; i >= 0; --i) {
    at[i] = rest % axes.sizes[i];
    rest /= axes.sizes[i];
    offset += at[i] * strides[i];
  }
  const int64_t* size = axes.sizes.data();
  const int64_t* stride = strides.data();
  int64_t* a = at.data();
  for (int64_t done = 0; done < n;) {
    const int64_t m = std::min(size[d - 1] - a[d - 1], n - done);
    row(offset, done, m);
    done += m;
    a[d - 1] += m;
    offset += m * stride[d - 1];
    for (int i = d - 1; i > 0 && a[i] == size[i]; --i) {
      offset += stride[i - 1] - a[i] * stride[i];
      a[i] = 0;
      ++a[i - 1];
    }
  }
}

// The same where the innermost axis is short: f(offset, row stride, position, rows, cols) for whole rows along the last two axes, and for pieces of one row.
template <class F>
void walk_short_rows(const Axes& axes, const Dims& strides, int64_t begin, int64_t n, F&& f) {
  const int d = axes.sizes.size();
  const int64_t* size = axes.sizes.data();
  const int64_t* stride = strides.data();
  const int64_t cols = size[d - 1];
  Dims at(d);
  int64_t rest = begin, offset = 0;
  for (int i = d - 1; i >= 0; --i) {
    at[i] = rest % size[i];
    rest /= size[i];
    offset += at[i] * stride[i];
  }
  int64_t* a = at.data();
  for (int64_t done = 0; done < n;) {
    int moved = d - 1;  // the axis that what is done goes on along
    if (a[d - 1] != 0 || n - done < cols) {
      const int64_t m = std::min(cols - a[d - 1], n - done);
      f(offset, int64_t{0}, done, int64_t{1}, m);
      done += m;
      a[d - 1] += m;
      offset += m * stride[d - 1];
    } else {
      moved = d - 2;
      const int64_t rows = std::min(size[d - 2] - a[d - 2], (n - done) / cols);
      f(offset, stride[d - 2], done, rows, cols);
      done += rows * cols;
      a[d - 2] += rows;
      offset += rows * stride[d - 2];
    }
    for (int i = moved; i > 0 && a[i] == size[i]; --i) {
      offset += stride[i - 1] - a[i] * stride[i];
      a[i] = 0;
      ++a[i - 1];
    }
  }
}
inline bool has_short_rows(const Axes& axes) { return axes.sizes.size() >= 2 && axes.sizes[axes.sizes.size() - 1] <= kShortRow; }

// A row, most of which are a few vectors: a call for each would take longer than they do.
template <class U>
void copy_row(U* to, const U* from, int64_t n) {
  constexpr int64_t kStep = 16;
  const int64_t bytes = n * static_cast<int64_t>(sizeof(U));
  if (bytes < kStep || bytes > 16 * kStep) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  char* t = reinterpret_cast<char*>(to);
  const char* f = reinterpret_cast<const char*>(from);
  for (int64_t at = 0; at + kStep < bytes; at += kStep) __builtin_memcpy(t + at, f + at, kStep);
  __builtin_memcpy(t + bytes - kStep, f + bytes - kStep, kStep);
}

// to[r cols + c] = from[r down + c across]; or, if `back`, the other way round.
template <bool back, class U>
void move_short_rows(U* to, U* from, int64_t rows, int64_t cols, int64_t down, int64_t across) {
  const auto move = [](U& dense, U& strided) {
    if constexpr (back) strided = dense;
    else dense = strided;
  };
  const auto each = [&](auto width) {  // an int, or one that is known when this is compiled
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < width; ++c) move(to[r * width + c], from[r * down + c * across]);
  };
  if (across == 1 && cols > 4) {
    for (int64_t r = 0; r < rows; ++r) back ? copy_row(from + r * down, to + r * cols, cols) : copy_row(to + r * cols, from + r * down, cols);
    return;
  }
  if (cols == 2) each(std::integral_constant<int64_t, 2>{});
  else if (cols == 3) each(std::integral_constant<int64_t, 3>{});
  else if (cols == 4) each(std::integral_constant<int64_t, 4>{});
  else each(cols);
}

inline void gather_flat(void* dst, const void* src, size_t item_bytes, const Axes& axes, const Dims& strides, int64_t begin,
                 int64_t n) {
  by_size(item_bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t step = strides.empty() ? 0 : strides[strides.size() - 1];
    U* const to = static_cast<U*>(dst);
    const U* const from = static_cast<const U*>(src);
    if (!has_short_rows(axes))
      return walk_rows(axes, strides, begin, n, [&](int64_t offset, int64_t at, int64_t m) { gather_row(to + at, from + offset, m, step); });
    walk_short_rows(axes, strides, begin, n, [&](int64_t offset, int64_t down, int64_t at, int64_t rows, int64_t cols) {
      if (rows == 1 || down != 0) return move_short_rows<false>(to + at, const_cast<U*>(from) + offset, rows, cols, down, step);
      move_short_rows<false>(to + at, const_cast<U*>(from) + offset, 1, cols, down, step);
      for (int64_t made = cols, all = rows * cols; made < all; made *= 2)  // one row again and again
        std::memcpy(to + at + made, to + at, static_cast<size_t>(std::min(made, all - made)) * sizeof(U));
    });
  });
}
inline void scatter_flat(void* dst, const void* src, size_t item_bytes, const Axes& axes, const Dims& strides, int64_t begin,
                  int64_t n) {
  by_size(item_bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t step = strides.empty() ? 0 : strides[strides.size() - 1];
    U* const to = static_cast<U*>(dst);
    const U* const from = static_cast<const U*>(src);
    if (!has_short_rows(axes))
      return walk_rows(axes, strides, begin, n, [&](int64_t offset, int64_t at, int64_t m) { scatter_row(to + offset, from + at, m, step); });
    walk_short_rows(axes, strides, begin, n, [&](int64_t offset, int64_t down, int64_t at, int64_t rows, int64_t cols) {
      move_short_rows<true>(const_cast<U*>(from) + at, to + offset, rows, cols, down, step);
    });
  });
}

inline bool contiguous(const Axes& axes, const Dims& strides) {
  int64_t expected = 1;
  for (int i = axes.sizes.size() - 1; i >= 0; --i) {
    if (strides[i] != expected) return false;
    expected *= axes.sizes[i];
  }
  return true;
}

// How many elements go to dst at once: where it is streamed, first those before the next line of 64 bytes, since
// lines that are written in parts would be read after all.
inline int64_t next_piece(bool stream, const char* dst, int64_t item, int64_t piece) {
  const int64_t ahead = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(dst) & 63) / item;
  return stream && ahead > 0 ? std::min(ahead, piece) : piece;
}

// The axis along which a transposed operand is contiguous, forwards or backwards, or -1 where no operand runs down columns.
inline int column_axis(const Axes& axes, const Dims* const* strides, int n) {
  const int d = axes.sizes.size();
  if (d < 2 || axes.sizes[d - 1] < kFewCols || axes.numel < 4096) return -1;
  for (int k = 0; k < n; ++k) {
    const Dims& st = *strides[k];
    int best = -1;
    for (int i = 0; i < d - 1; ++i)
      if (st[i] != 0 && std::abs(st[i]) < std::abs(st[d - 1]) && axes.sizes[i] >= 4 && (best < 0 || std::abs(st[i]) < std::abs(st[best]))) best = i;
    if (best >= 0) return best;
  }
  return -1;
}

// Calls f(offsets, rows, cols) for blocks of `axis` x the innermost axis; offsets[k] is operand k's first element.
template <class F>
void walk_blocks(const Axes& axes, int axis, const Dims* const* strides, int n, int64_t block_rows, int64_t block_cols,
                 F&& f) {
  const int d = axes.sizes.size();
  const int64_t rows = axes.sizes[axis], cols = axes.sizes[d - 1];
  const int64_t row_blocks = (rows + block_rows - 1) / block_rows, col_blocks = (cols + block_cols - 1) / block_cols;
  const int64_t total = axes.numel / rows / cols * row_blocks * col_blocks;
  parallel_work(total, std::min(block_rows, rows) * std::min(block_cols, cols), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      int64_t rest = b;
      const int64_t c = rest % col_blocks * block_cols;
      rest /= col_blocks;
      const int64_t r = rest % row_blocks * block_rows;
      rest /= row_blocks;
      std::array<int64_t, kMaxInputs + 1> offset;
      for (int k = 0; k < n; ++k) offset[k] = c * (*strides[k])[d - 1] + r * (*strides[k])[axis];
      for (int i = d - 2; i >= 0; --i) {
        if (i == axis) continue;
        const int64_t x = rest % axes.sizes[i];
        rest /= axes.sizes[i];
        for (int k = 0; k < n; ++k) offset[k] += x * (*strides[k])[i];
      }
      f(offset, std::min(block_rows, rows - r), std::min(block_cols, cols - c));
    }
  });
}

inline const char* bytes_at(const void* p, int64_t offset) { return static_cast<const char*>(p) + offset; }
inline char* bytes_at(void* p, int64_t offset) { return static_cast<char*>(p) + offset; }

// to[r * row + c] = from[c * across + r * down]
inline void gather_block(void* to, int64_t row, const void* from, int64_t across, int64_t down, int64_t rows, int64_t cols, int64_t item) {
  const auto bytes = static_cast<size_t>(item);
  if (down == 1) return kernels::transpose_block(from, across, to, row, cols, rows, bytes);
  if (down == -1)  // from the last row to the first
    return kernels::transpose_block(bytes_at(from, (1 - rows) * item), across, bytes_at(to, (rows - 1) * row * item), -row, cols, rows, bytes);
  by_size(bytes, [&](auto unit) {
    using U = decltype(unit);
    U* out = static_cast<U*>(to);
    const U* in = static_cast<const U*>(from);
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = 0; r < rows; ++r) out[r * row + c] = in[c * across + r * down];
  });
}

}  // namespace fl
