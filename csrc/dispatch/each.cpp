#include "dispatch/each.h"

#include <array>
#include <limits>

#include "base/parallel.h"
#include "dispatch/walks.h"

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
// A new output that no cache holds is streamed: tiles go past the caches to memory, so that its lines are not
// read before they are written.

namespace fl {
namespace {

constexpr int64_t kStreamTile = 128;    // elements per tile of such an output: few enough that reading goes on while they are written

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
  int single;   // of which operand fn reads one element; 0: of none
  const Scalar* params;
  Axes axes;
  int n;        // operands, the output included
  bool stream;  // the output is new and large
  std::array<Operand, kMaxInputs + 1> op;
  // How many elements of operand k a call for m elements reads.
  int64_t read(int k, int64_t m) const { return k == single && k > 0 ? 1 : m; }
};

// Room for one thread's tiles: values in tile type, and as they are in memory.
struct Scratch {
  alignas(64) char tile[kMaxInputs + 1][kTileBytes];
  alignas(64) char raw[kTileBytes];
};

void fill_tile(const Operand& o, void* tile, const void* value, int64_t n) {
  uint64_t item[2];
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
  if (sources.all && write_direct && !sources.constants) return n;
  if (sources.all && stream && nest.op[0].dtype == nest.op[0].tile_type) return kStreamTile;
  int64_t item = 1;
  for (int k = 0; k < nest.n; ++k) item = std::max({item, nest.op[k].item, nest.op[k].tile_item});
  return sources.all ? kTileBytes / item : std::min(kTile, kTileBytes / item);
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
      nest.fn(m, out.data + i * out.item, in, nest.params, 1, kNoSteps);
      continue;
    }
    nest.fn(m, s.tile[0], in, nest.params, 1, kNoSteps);
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

// Whether operands that lie flat can go from memory into registers, where 16-bit floats are floats, and back: without tiles between.
bool takes_registers(const Nest& nest, const TileLoops& loops) {
  if (!loops.registers || nest.axes.numel < kTile) return false;
  bool narrow = false;
  for (int k = 0; k < nest.n; ++k) {
    if (!RegisterEnds::takes(nest.op[k].dtype) || !(nest.op[k].flat || nest.op[k].constant)) return false;
    narrow = narrow || nest.op[k].item == 2;
  }
  return narrow;
}

void run_registers(const Nest& nest, const RegisterRuns& registers, int64_t begin, int64_t end) {
  Scratch s;
  const RegisterEnds ends = kernels::register_ends();
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  int held = 1;  // a load widens it
  while (held < nest.n && (nest.op[held].constant || nest.op[held].item != 2)) ++held;
  if (held == nest.n) held = 1;
  RegisterStep program[4];
  auto& [load, run, store, stop] = program;
  int type = -1;  // of what the step reads; where that differs it reads floats, and what has 16 bits is widened into tiles
  for (int k = 1; k < nest.n; ++k) {
    if (k == held) continue;
    const int here = nest.op[k].constant ? 0 : register_type(nest.op[k].dtype);
    type = type < 0 || type == here ? here : 0;
  }
  if (type < 0 || !registers.of(type, held - 1)) type = 0;
  const auto widened = [type](const Operand& o) { return o.item == 2 && type == 0; };
  bool tiles = false;
  for (int k = 1; k < nest.n; ++k) {
    const Operand& o = nest.op[k];
    RegisterStep& reads = k == held ? load : run;
    const int at = k == held ? 0 : k - 1;
    if (!o.constant) reads.keep[at] = -1;
    if (!o.constant && (k == held || !widened(o))) continue;  // in its place
    reads.in[at] = s.tile[k];
    if (o.constant) fill_tile(o, s.tile[k], o.data, ends.block / kFloat);
    else tiles = true;
  }
  load.run = ends.of(nest.op[held].constant ? DType::Float32 : nest.op[held].dtype).load;
  run.run = registers.of(type, held - 1);
  for (int k = 0; k < registers.numbers; ++k) run.numbers[k] = nest.params[k].as<float>();
  if (held == 1 && registers.single && nest.single == nest.n - 1) {
    float last;
    std::memcpy(&last, run.in[nest.single - 1], sizeof(last));
    if (const float number = registers.number(last); number != 0) run.run = registers.single(), run.numbers[0] = number;
  }
  const Operand& out = nest.op[0];
  const int64_t vector = ends.vector / kFloat * out.item;
  const bool stream = nest.stream && reinterpret_cast<uintptr_t>(out.data + begin * out.item) % static_cast<uintptr_t>(vector) == 0;
  store.run = stream ? ends.of(out.dtype).stream : ends.of(out.dtype).store;
  stop.run = ends.end;
  const int64_t whole = (end - begin) / kTile * kTile, piece = tiles ? kTile : whole;
  for (int64_t i = begin; i < begin + whole; i += piece) {
    for (int k = 1; k < nest.n; ++k) {
      const Operand& o = nest.op[k];
      if (o.constant) continue;
      char* const from = o.data + i * o.item;
      if (k == held) load.in[0] = from;
      else if (!widened(o)) run.in[k - 1] = from;
      else convert_elements(s.tile[k], DType::Float32, from, o.dtype, piece);
    }
    store.out = out.data + i * out.item;
    kernels::run_registers(program, piece * kFloat, nullptr, 0);
  }
  if (stream) kernels::stream_end();
  if (begin + whole < end) run_flat(nest, begin + whole, end);
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
    if (write_direct) return nest.fn(m, dst, in, nest.params, 1, kNoSteps);
    nest.fn(m, s.tile[0], in, nest.params, 1, kNoSteps);
    store(out, dst, out.inner(), m, s.tile[0], s.raw, stream);
  };
  // What a call of the loop needs for many rows at once: the bytes from row to row. An operand that has one element per row is
  // filled into a tile of whole rows.
  std::array<int64_t, kMaxInputs + 1> down_bytes{};
  std::array<bool, kMaxInputs + 1> filled{};
  bool by_rows = write_direct && d > 1, fills = false;
  for (int k = 0; k < nest.n && by_rows; ++k) {
    const Operand& o = nest.op[k];
    down_bytes[k] = o.constant ? 0 : o.strides[d - 2] * o.item;
    if (k == 0 || sources.direct[k] || o.constant) continue;
    filled[k] = fills = o.inner() == 0 && o.dtype == o.tile_type;
    by_rows = filled[k];
  }
  const int64_t at_once = fills ? piece / row : std::numeric_limits<int64_t>::max();
  by_rows = by_rows && at_once > 1;
  auto compute_rows = [&](int64_t rows) {
    for (int64_t r = 0, m; r < rows; r += m) {
      m = std::min(at_once, rows - r);
      std::array<int64_t, kMaxInputs + 1> steps = down_bytes;
      for (int k = 1; k < nest.n; ++k) {
        const Operand& o = nest.op[k];
        const char* src = o.data + offset[k] * o.item + r * down_bytes[k];
        if (sources.direct[k]) in[k - 1] = src;
        if (!filled[k]) continue;
        kernels::fill_rows(s.tile[k], static_cast<size_t>(o.item), src, down_bytes[k], m, row);
        in[k - 1] = s.tile[k];
        steps[k] = row * o.tile_item;
      }
      nest.fn(row, out.data + offset[0] * out.item + r * down_bytes[0], in, nest.params, m, steps.data());
    }
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
      if (by_rows) {
        compute_rows(rows);
        for (int k = 0; k < nest.n; ++k) offset[k] += rows * down[k];
      } else {
        for (int64_t r = 0; r < rows; ++r) {
          compute(row);
          for (int k = 0; k < nest.n; ++k) offset[k] += down[k];
        }
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

void run_blocks(const Nest& nest, int axis) {
  const Dims* strides[kMaxInputs + 1];
  for (int k = 0; k < nest.n; ++k) strides[k] = &nest.op[k].strides;
  static_assert(kBlockRows * kBlockCols <= kTile);
  bool wide = false;  // elements of 16 bytes, of which a tile holds half as many
  for (int k = 0; k < nest.n; ++k) wide = wide || nest.op[k].item == 16 || nest.op[k].tile_item == 16;
  walk_blocks(nest.axes, axis, strides, nest.n, wide ? kBlockRows / 2 : kBlockRows, kBlockCols,
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
        nest.fn(cols, dst, in, nest.params, 1, kNoSteps);
      } else {
        nest.fn(cols, s.tile[0], in, nest.params, 1, kNoSteps);
        store(out, dst, out.inner(), cols, s.tile[0], s.raw);
      }
    }
  });
}

}  // namespace

void run_tiles(const TileLoops& loops, DType compute, const Scalar* params, const Tensor& out,
               const EachInput* inputs, int n_inputs) {
  if (out.numel() == 0) return;
  const bool bool_out = loops.bool_out;
  Nest nest;  // whose operands are filled as far as there are some: clearing all of them costs more than a short op
  nest.fn = loops.all;
  nest.single = 0;
  nest.params = params;
  nest.n = n_inputs + 1;
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
    o.dtype = k == 0 ? written_as(out.dtype(), o.tile_type) : read_as(inputs[k - 1].dtype, o.tile_type);
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
  const auto choose = [&](auto repeated) {  // whether an operand is one element per row
    nest.single = loops.single && repeated(nest.op[n_inputs]) ? n_inputs : loops.first && repeated(nest.op[1]) ? 1 : 0;
    nest.fn = nest.single == 0 ? loops.all : nest.single == n_inputs ? loops.single : loops.first;
  };
  if (!in_place) {
    choose([](const Operand& o) { return o.inner() == 0; });
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
  choose([](const Operand& o) { return o.constant; });
  if (takes_registers(nest, loops)) {
    parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) { run_registers(nest, *loops.registers, begin, end); });
    return;
  }
  parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) { run_flat(nest, begin, end); });
}

}  // namespace fl
