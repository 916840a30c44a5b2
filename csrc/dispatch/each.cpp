#include "dispatch/each.h"

#include <array>

#include "base/parallel.h"
#include "dispatch/axes.h"
#include "dispatch/convert.h"
#include "storage/transpose.h"

// How a loop nest is walked
// -------------------------
// Axes of size 1 are dropped, the others ordered by the output's strides (largest first), and neighbours
// merged where every operand steps through both as through one axis. Then one of three walks is taken:
//
//   rows     the innermost axis is long: tiles are pieces of rows; an operand with stride 1 in the compute
//            type is read in place, a stride of 0 is one value repeated, any other stride is gathered
//   blocks   as rows, but some operand runs down columns: 32 rows x 32 columns are gathered at a time, so
//            that each of its cache lines is fetched once; columns may run backwards
//   flat     the innermost axis is short: tiles span rows, and operands that are not contiguous over all
//            axes are gathered by an odometer
//
// Copies within a type that have an innermost axis of fewer than 8 elements loop over the next one instead, in pieces that
// the first cache holds.
//
// A new output that no cache holds is streamed: tiles go past the caches to memory, so that its lines are not
// read before they are written.

namespace fl {
namespace {

constexpr int64_t kTile = 1024;         // elements per tile
constexpr int64_t kTileBytes = kTile * 8;
constexpr int64_t kStreamBytes = int64_t{1} << 25;  // outputs from here on are streamed
constexpr int64_t kStreamTile = 128;    // elements per tile then: few enough that reading goes on while they are written
constexpr int64_t kGrain = 32768;       // elements per thread at least
constexpr int64_t kShortRow = 32;       // rows below this are walked flat
constexpr int kMaxInputs = kMaxOperands - 1;
constexpr int64_t kBlockRows = 32, kBlockCols = 32;
constexpr int64_t kFewCols = 8;         // rows below this are not worth a loop of their own

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

void gather_flat(void* dst, const void* src, size_t item_bytes, const Axes& axes, const Dims& strides, int64_t begin,
                 int64_t n) {
  by_size(item_bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t step = strides.empty() ? 0 : strides[strides.size() - 1];
    walk_rows(axes, strides, begin, n, [&](int64_t offset, int64_t at, int64_t m) {
      gather_row(static_cast<U*>(dst) + at, static_cast<const U*>(src) + offset, m, step);
    });
  });
}
void scatter_flat(void* dst, const void* src, size_t item_bytes, const Axes& axes, const Dims& strides, int64_t begin,
                  int64_t n) {
  by_size(item_bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t step = strides.empty() ? 0 : strides[strides.size() - 1];
    walk_rows(axes, strides, begin, n, [&](int64_t offset, int64_t at, int64_t m) {
      scatter_row(static_cast<U*>(dst) + offset, static_cast<const U*>(src) + at, m, step);
    });
  });
}

bool contiguous(const Axes& axes, const Dims& strides) {
  int64_t expected = 1;
  for (int i = axes.sizes.size() - 1; i >= 0; --i) {
    if (strides[i] != expected) return false;
    expected *= axes.sizes[i];
  }
  return true;
}

// One operand of run_tiles: 0 is the output.
struct Operand {
  char* data;
  DType dtype;      // in memory
  DType tile_type;  // in tiles
  int64_t item;     // bytes in memory
  int64_t tile_item;
  Dims strides;
  bool constant;    // one element for all
  bool flat;        // contiguous over all axes
  int64_t inner() const { return strides.empty() ? 1 : strides[strides.size() - 1]; }
};

struct Nest {
  TileFn fn;
  bool single;  // fn reads one element of the last operand
  const Scalar* params;
  Axes axes;
  int n;        // operands, the output included
  bool stream;  // the output is new and large
  std::array<Operand, kMaxInputs + 1> op;
  // How many elements of operand k a call for m elements reads.
  int64_t read(int k, int64_t m) const { return single && k == n - 1 ? 1 : m; }
};

// Room for one thread's tiles: values in tile type, and as they are in memory.
struct Scratch {
  alignas(64) char tile[kMaxInputs + 1][kTileBytes];
  alignas(64) char raw[kTileBytes];
};

void fill_tile(const Operand& o, void* tile, const void* value, int64_t n) {
  uint64_t item;
  if (o.dtype != o.tile_type) {
    convert_elements(&item, o.tile_type, value, o.dtype, 1);
    value = &item;
  }
  kernels::fill_loop(tile, static_cast<size_t>(o.tile_item), value, n);
}

// m elements at `src` with `stride`, in tile type: in place where possible, else in `tile`.
const void* load(const Operand& o, const char* src, int64_t stride, int64_t m, void* tile, void* raw) {
  if (stride == 1 || m == 1) {
    if (o.dtype == o.tile_type) return src;
    convert_elements(tile, o.tile_type, src, o.dtype, m);
    return tile;
  }
  if (stride == 0) {
    fill_tile(o, tile, src, m);
    return tile;
  }
  void* to = o.dtype == o.tile_type ? tile : raw;
  by_size(static_cast<size_t>(o.item), [&](auto unit) {
    using U = decltype(unit);
    gather_row(static_cast<U*>(to), reinterpret_cast<const U*>(src), m, stride);
  });
  if (to == raw) convert_elements(tile, o.tile_type, raw, o.dtype, m);
  return tile;
}

// A finished tile of m elements to `dst` with `stride`.
void store(const Operand& o, char* dst, int64_t stride, int64_t m, const void* tile, void* raw, bool stream = false) {
  if (stride == 1 && !stream) {
    convert_elements(dst, o.dtype, tile, o.tile_type, m);
    return;
  }
  if (o.dtype != o.tile_type) {
    convert_elements(raw, o.dtype, tile, o.tile_type, m);
    tile = raw;
  }
  if (stride == 1) {
    kernels::stream_loop(dst, tile, static_cast<size_t>(m * o.item));
    return;
  }
  by_size(static_cast<size_t>(o.item), [&](auto unit) {
    using U = decltype(unit);
    scatter_row(reinterpret_cast<U*>(dst), static_cast<const U*>(tile), m, stride);
  });
}

// Which inputs are read in their own memory; constants are filled into tiles here, once for all.
struct Sources {
  bool direct[kMaxInputs + 1];
  bool all = true;        // each of them is read in its own memory or constant
  bool constants = false;
  Sources(const Nest& nest, Scratch& s, const void** in, int64_t n, bool rows) {
    for (int k = 1; k < nest.n; ++k) {
      const Operand& o = nest.op[k];
      const bool single = nest.read(k, 2) == 1;
      direct[k] = !o.constant && o.dtype == o.tile_type && (rows ? o.inner() == 1 || single : o.flat);
      all &= direct[k] || o.constant;
      constants |= o.constant && !single;
      if (!o.constant) continue;
      fill_tile(o, s.tile[k], o.data, nest.read(k, std::min(n, kTileBytes / o.tile_item)));
      in[k - 1] = s.tile[k];
    }
  }
};

// How many elements a call of the loop gets: all where nothing goes through tiles, else what fits into them.
int64_t piece_of(const Nest& nest, const Sources& sources, bool write_direct, bool stream, int64_t n) {
  if (!sources.all) return kTile;
  if (write_direct && !sources.constants) return n;
  if (stream && nest.op[0].dtype == nest.op[0].tile_type) return kStreamTile;
  int64_t item = 1;
  for (int k = 0; k < nest.n; ++k) item = std::max({item, nest.op[k].item, nest.op[k].tile_item});
  return kTileBytes / item;
}

// How many elements go to dst at once: where it is streamed, first those before the next line of 64 bytes, since
// lines that are written in parts would be read after all.
int64_t next_piece(bool stream, const char* dst, int64_t item, int64_t piece) {
  const int64_t ahead = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(dst) & 63) / item;
  return stream && ahead > 0 ? std::min(ahead, piece) : piece;
}

// Flat elements [begin, end): every operand is contiguous, constant, or gathered.
void run_flat(const Nest& nest, int64_t begin, int64_t end) {
  Scratch s;
  const void* in[kMaxInputs];
  const Sources sources(nest, s, in, end - begin, false);
  const Operand& out = nest.op[0];
  const bool write_direct = out.flat && out.dtype == out.tile_type && !nest.stream;
  const int64_t piece = piece_of(nest, sources, write_direct, nest.stream, end - begin);
  int64_t m;
  for (int64_t i = begin; i < end; i += m) {
    m = std::min(next_piece(nest.stream, out.data + i * out.item, out.item, piece), end - i);
    for (int k = 1; k < nest.n; ++k) {
      const Operand& o = nest.op[k];
      if (sources.direct[k]) {
        in[k - 1] = o.data + i * o.item;
      } else if (o.constant) {
        continue;
      } else if (o.flat) {
        in[k - 1] = load(o, o.data + i * o.item, 1, m, s.tile[k], s.raw);
      } else if (o.dtype == o.tile_type) {
        gather_flat(s.tile[k], o.data, static_cast<size_t>(o.item), nest.axes, o.strides, i, m);
        in[k - 1] = s.tile[k];
      } else {
        gather_flat(s.raw, o.data, static_cast<size_t>(o.item), nest.axes, o.strides, i, m);
        convert_elements(s.tile[k], o.tile_type, s.raw, o.dtype, m);
        in[k - 1] = s.tile[k];
      }
    }
    if (write_direct) {
      nest.fn(m, out.data + i * out.item, in, nest.params);
      continue;
    }
    nest.fn(m, s.tile[0], in, nest.params);
    if (out.flat) {
      store(out, out.data + i * out.item, 1, m, s.tile[0], s.raw, nest.stream);
      continue;
    }
    const void* tile = s.tile[0];
    if (out.dtype != out.tile_type) {
      convert_elements(s.raw, out.dtype, tile, out.tile_type, m);
      tile = s.raw;
    }
    scatter_flat(out.data, tile, static_cast<size_t>(out.item), nest.axes, out.strides, i, m);
  }
  if (nest.stream) kernels::stream_end();
}

// Flat elements [begin, end), one piece of a row at a time.
void run_rows(const Nest& nest, int64_t begin, int64_t end) {
  Scratch s;
  const void* in[kMaxInputs];
  const Sources sources(nest, s, in, end - begin, true);
  const Operand& out = nest.op[0];
  const int d = nest.axes.sizes.size();
  const int64_t* size = nest.axes.sizes.data();
  std::array<int64_t, kMaxInputs + 1> offset{};
  const int64_t row = size[d - 1];
  const bool stream = nest.stream && out.inner() == 1 && row * out.item >= kTileBytes / 2;
  const bool write_direct = out.inner() == 1 && out.dtype == out.tile_type && !stream;
  const int64_t piece = piece_of(nest, sources, write_direct, stream, end - begin);
  Dims at(d);
  int64_t rest = begin;
  for (int i = d - 1; i >= 0; --i) {
    at[i] = rest % size[i];
    rest /= size[i];
    for (int k = 0; k < nest.n; ++k) offset[k] += at[i] * nest.op[k].strides[i];
  }
  int64_t* a = at.data();
  auto compute = [&](int64_t m) {
    for (int k = 1; k < nest.n; ++k) {
      const Operand& o = nest.op[k];
      const char* src = o.data + offset[k] * o.item;
      if (sources.direct[k]) in[k - 1] = src;
      else if (!o.constant) in[k - 1] = load(o, src, o.inner(), nest.read(k, m), s.tile[k], s.raw);
    }
    char* dst = out.data + offset[0] * out.item;
    if (write_direct) return nest.fn(m, dst, in, nest.params);
    nest.fn(m, s.tile[0], in, nest.params);
    store(out, dst, out.inner(), m, s.tile[0], s.raw, stream);
  };
  // Goes `steps` further along an axis, and along the outer ones where that ends it.
  auto carry = [&](int j, int64_t steps) {
    for (a[j] += steps; j > 0 && a[j] == size[j]; --j) {
      for (int k = 0; k < nest.n; ++k) offset[k] += nest.op[k].strides[j - 1] - a[j] * nest.op[k].strides[j];
      a[j] = 0;
      ++a[j - 1];
    }
  };
  std::array<int64_t, kMaxInputs + 1> inner, down{};  // steps along a row, and from row to row
  for (int k = 0; k < nest.n; ++k) {
    inner[k] = nest.op[k].inner();
    if (d > 1) down[k] = nest.op[k].strides[d - 2];
  }
  for (int64_t i = begin; i < end;) {
    if (d > 1 && a[d - 1] == 0 && row <= std::min(piece, end - i)) {  // whole rows
      const int64_t rows = std::min((end - i) / row, size[d - 2] - a[d - 2]);
      for (int64_t r = 0; r < rows; ++r) {
        compute(row);
        for (int k = 0; k < nest.n; ++k) offset[k] += down[k];
      }
      i += rows * row;
      carry(d - 2, rows);
    } else {
      const int64_t rest_of_row = std::min(end - i, row - a[d - 1]);
      int64_t m = next_piece(stream, out.data + offset[0] * out.item, out.item, piece);
      for (int64_t done = 0; done < rest_of_row; done += m, m = piece) {
        m = std::min(m, rest_of_row - done);
        compute(m);
        for (int k = 0; k < nest.n; ++k) offset[k] += m * inner[k];
      }
      i += rest_of_row;
      carry(d - 1, rest_of_row);
    }
  }
  if (stream) kernels::stream_end();
}

// The axis along which a transposed operand is contiguous, forwards or backwards, or -1 where no operand runs down columns.
int column_axis(const Axes& axes, const Dims* const* strides, int n) {
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
  parallel_for(0, total, std::max<int64_t>(1, kGrain / (block_rows * block_cols)), [&](int64_t begin, int64_t end) {
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

const char* bytes_at(const void* p, int64_t offset) { return static_cast<const char*>(p) + offset; }
char* bytes_at(void* p, int64_t offset) { return static_cast<char*>(p) + offset; }

// to[r * row + c] = from[c * across + r * down]
void gather_block(void* to, int64_t row, const void* from, int64_t across, int64_t down, int64_t rows, int64_t cols, int64_t item) {
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

void run_blocks(const Nest& nest, int axis) {
  const Dims* strides[kMaxInputs + 1];
  for (int k = 0; k < nest.n; ++k) strides[k] = &nest.op[k].strides;
  static_assert(kBlockRows * kBlockCols <= kTile);
  walk_blocks(nest.axes, axis, strides, nest.n, kBlockRows, kBlockCols,
              [&](const std::array<int64_t, kMaxInputs + 1>& offset, int64_t rows, int64_t cols) {
    Scratch s;
    const void* in[kMaxInputs];
    const Operand& out = nest.op[0];
    bool staged[kMaxInputs + 1] = {};
    for (int k = 1; k < nest.n; ++k) {
      const Operand& o = nest.op[k];
      const int64_t down = o.strides[axis], across = o.inner();
      if (o.constant || (across >= -1 && across <= 1)) continue;
      staged[k] = true;
      const bool same = o.dtype == o.tile_type;
      gather_block(same ? s.tile[k] : s.raw, kBlockCols, o.data + offset[k] * o.item, across, down, rows, cols, o.item);
      if (!same) convert_elements(s.tile[k], o.tile_type, s.raw, o.dtype, (rows - 1) * kBlockCols + cols);
    }
    for (int k = 1; k < nest.n; ++k)
      if (nest.op[k].constant) {
        fill_tile(nest.op[k], s.tile[k], nest.op[k].data, nest.read(k, cols));
        in[k - 1] = s.tile[k];
      }
    for (int64_t r = 0; r < rows; ++r) {
      for (int k = 1; k < nest.n; ++k) {
        const Operand& o = nest.op[k];
        if (o.constant) continue;
        if (staged[k]) in[k - 1] = s.tile[k] + r * kBlockCols * o.tile_item;
        else in[k - 1] = load(o, o.data + (offset[k] + r * o.strides[axis]) * o.item, o.inner(), nest.read(k, cols), s.tile[k], s.raw);
      }
      char* dst = out.data + (offset[0] + r * out.strides[axis]) * out.item;
      if (out.inner() == 1 && out.dtype == out.tile_type) {
        nest.fn(cols, dst, in, nest.params);
      } else {
        nest.fn(cols, s.tile[0], in, nest.params);
        store(out, dst, out.inner(), cols, s.tile[0], s.raw);
      }
    }
  });
}

}  // namespace

void convert_elements(void* dst, DType to, const void* src, DType from, int64_t n) {
  if (to == from) {
    std::memcpy(dst, src, static_cast<size_t>(n) * item_size(to));
    return;
  }
  kernels::convert_loop(dst, to, src, from, n);
}

void run_tiles(const TileLoops& loops, DType compute, const Scalar* params, const Tensor& out,
               const EachInput* inputs, int n_inputs) {
  if (out.numel() == 0) return;
  const bool bool_out = loops.bool_out;
  Nest nest{.fn = loops.all, .single = false, .params = params, .axes = {}, .n = n_inputs + 1, .stream = false, .op = {}};
  std::array<Dims, kMaxInputs + 1> strides;
  strides[0] = out.strides();
  for (int k = 1; k <= n_inputs; ++k) {
    const int64_t* st = inputs[k - 1].strides;
    strides[k] = st ? Dims(IntList(st, static_cast<size_t>(out.ndim()))) : Dims(out.ndim(), 0);
  }
  nest.axes = simplify(out.sizes(), strides.data(), nest.n);
  nest.stream = nest.axes.numel * static_cast<int64_t>(out.item_bytes()) >= kStreamBytes;
  bool in_place = true;  // every operand is contiguous in tile type, or constant
  for (int k = 0; k < nest.n; ++k) {
    Operand& o = nest.op[k];
    o.data = k == 0 ? static_cast<char*>(out.data()) : const_cast<char*>(static_cast<const char*>(inputs[k - 1].data));
    o.tile_type = k == 0 && bool_out ? DType::Bool : compute;
    o.dtype = seen_as(k == 0 ? out.dtype() : inputs[k - 1].dtype, o.tile_type);
    // An 8-bit output of 0s and 1s needs no conversion.
    if (k == 0 && bool_out && (o.dtype == DType::UInt8 || o.dtype == DType::Int8)) o.tile_type = o.dtype;
    o.item = static_cast<int64_t>(item_size(o.dtype));
    o.tile_item = static_cast<int64_t>(item_size(o.tile_type));
    o.strides = std::move(strides[k]);
    o.constant = k > 0 && std::all_of(o.strides.begin(), o.strides.end(), [](int64_t s) { return s == 0; });
    o.flat = contiguous(nest.axes, o.strides);
    in_place &= o.flat || o.constant;
    if (k > 0 && o.data == nest.op[0].data) nest.stream = false;  // its lines were read anyway
  }
  const int64_t n = nest.axes.numel;
  const Operand& last = nest.op[n_inputs];
  auto repeat_last = [&](bool repeated) {
    nest.single = repeated && loops.single;
    nest.fn = nest.single ? loops.single : loops.all;
  };
  if (!in_place) {
    repeat_last(last.inner() == 0);
    const Dims* view[kMaxInputs + 1];
    for (int k = 0; k < nest.n; ++k) view[k] = &nest.op[k].strides;
    const int axis = column_axis(nest.axes, view + 1, n_inputs);
    if (axis >= 0) {
      run_blocks(nest, axis);
      return;
    }
    if (nest.axes.inner() >= kShortRow) {
      parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) { run_rows(nest, begin, end); });
      return;
    }
  }
  repeat_last(last.constant);
  parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) { run_flat(nest, begin, end); });
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
        m = std::min(next_piece(true, d + i * to_item, to_item, kTile), end - i);
        kernels::convert_loop(tile, to, s + i * from_item, from, m);
        kernels::stream_loop(d + i * to_item, tile, static_cast<size_t>(m * to_item));
      }
    }
    kernels::stream_end();
  });
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
      alignas(64) char gathered[kTile * 8], converted[kTile * 8];
      for (int64_t i = begin; i < end; i += kTile) {
        const int64_t m = std::min(kTile, end - i);
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
    // Rows of one operand, with the other's offset kept by a second odometer.
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
      for (int64_t i = begin; i < end;) {
        const int64_t m = std::min(row - at[last], end - i);
        U* out = d + d_offset;
        const U* in = s + s_offset;
        if (d_across == 1) gather_row(out, in, m, s_across);
        else if (s_across == 1) scatter_row(out, in, m, d_across);
        else
          for (int64_t j = 0; j < m; ++j) out[j * d_across] = in[j * s_across];
        i += m;
        at[last] += m;
        d_offset += m * d_across;
        s_offset += m * s_across;
        for (int j = last; j > 0 && at[j] == axes.sizes[j]; --j) {
          d_offset += strides[0][j - 1] - at[j] * strides[0][j];
          s_offset += strides[1][j - 1] - at[j] * strides[1][j];
          at[j] = 0;
          ++at[j - 1];
        }
      }
    });
  });
}

void fill_elements(const Tensor& dst, const Scalar& value) {
  if (dst.numel() == 0) return;
  Dims strides[1] = {dst.strides()};
  const Axes axes = simplify(dst.sizes(), strides, 1);
  uint64_t item = 0;
  if (value.is_float()) {
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
