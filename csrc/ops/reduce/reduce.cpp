#include "ops/reduce/reduce.h"

#include <cmath>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "dispatch/axes.h"
#include "dispatch/each.h"
#include "dispatch/walks.h"

// How memory is walked
// --------------------
// Axes are ordered by x's strides and merged, so the last one is the one to run along (axes that x is repeated over come first):
//
//   last axis reduced   one accumulator per output; the runs along the last axis are folded one after another
//   last axis kept      a tile of accumulators for a piece of the last axis; rows are folded onto it
//
// Work is cut by size alone, never by the number of threads: where outputs are few and long, each is the
// merge, in order, of the folds of fixed pieces.

namespace fl::kernels {
namespace {

constexpr int64_t kPiece = 65536;  // elements per piece of a long reduction
constexpr int64_t kTile = 2048;    // elements gathered or converted at a time
constexpr int64_t kCols = 512;     // accumulators per tile
constexpr int64_t kBlock = 128;    // columns gathered or converted at a time
constexpr int64_t kGrain = 32768;
constexpr int64_t kShortAxis = 64; // elements that are folded in their own type
constexpr int64_t kWide = 1024;    // columns of such at a time

struct Axis {
  int64_t size, x, out;  // strides in elements
};
struct Nest {
  const Reduction* how;
  DType compute;
  const char* x;
  DType x_type;
  int64_t x_item;
  std::vector<Axis> kept, folded;  // outermost first, without the last axis
  Axis last;
  char* out;
  DType out_type;
  int64_t out_item;
  const double* center;
  int64_t n_kept = 1, n_folded = 1;  // products of the sizes above

  // The type that elements are folded in where they lie, or none.
  std::optional<DType> direct() const {
    if (last.x != 1) return {};
    const bool half = compute == DType::Float32 && x_item == 2 && is_float(x_type) && how->fold == Fold::Sum;
    const bool small = compute == DType::Int64 && keeps_type(how->fold) &&
                       (x_type == DType::Bool || x_type == DType::UInt8 || x_type == DType::Int8 || x_type == DType::Int16 || x_type == DType::Int32);
    return x_type == compute || half || small ? std::optional(x_type) : std::nullopt;
  }
  DType acc_type() const { return compute == DType::Int64 ? DType::Int64 : DType::Float64; }
};

// Offsets of position `index` in a list of axes.
struct At {
  int64_t x = 0, out = 0;
};
At locate(const std::vector<Axis>& axes, int64_t index) {
  At at;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t k = index % axes[i].size;
    index /= axes[i].size;
    at.x += k * axes[i].x;
    at.out += k * axes[i].out;
  }
  return at;
}

// m elements from x + offset by `stride`, contiguous in the compute type.
const void* load(const Nest& nest, int64_t offset, int64_t stride, int64_t m, void* tile, void* raw) {
  const char* src = nest.x + offset * nest.x_item;
  const bool same = nest.x_type == nest.compute;
  if (stride != 1) {
    void* to = same ? tile : raw;
    by_size(static_cast<size_t>(nest.x_item), [&](auto unit) {
      using U = decltype(unit);
      gather_row(static_cast<U*>(to), reinterpret_cast<const U*>(src), m, stride);
    });
    if (same) return tile;
    src = static_cast<const char*>(to);
  } else if (same) {
    return src;
  }
  convert_elements(tile, nest.compute, src, nest.x_type, m);
  return tile;
}

// Finishes m accumulators and writes them to out + offset by `stride`.
void store(const Nest& nest, void* acc, int64_t m, int64_t offset, int64_t stride) {
  if (nest.acc_type() == DType::Float64) {
    double* a = static_cast<double*>(acc);
    const double p = nest.how->p, q = nest.how->q;
    (void)p;
    switch (nest.how->finish) {
      case Finish::None: break;
      case Finish::Divide:
        for (int64_t i = 0; i < m; ++i) a[i] /= q;
        break;
      case Finish::SqrtDivide:
        for (int64_t i = 0; i < m; ++i) a[i] = std::sqrt(a[i] / q);
        break;
      case Finish::Sqrt:
        for (int64_t i = 0; i < m; ++i) a[i] = std::sqrt(a[i]);
        break;
      case Finish::Root:
        for (int64_t i = 0; i < m; ++i) a[i] = std::pow(a[i], 1 / q);
        break;
      case Finish::LogPlusCenter:
        for (int64_t i = 0; i < m; ++i) a[i] = std::log(a[i]) + nest.center[offset + i * stride];
        break;
    }
  }
  if (stride == 1 || m == 1) {
    convert_elements(nest.out + offset * nest.out_item, nest.out_type, acc, nest.acc_type(), m);
    return;
  }
  char raw[kCols * 8];
  convert_elements(raw, nest.out_type, acc, nest.acc_type(), m);
  by_size(static_cast<size_t>(nest.out_item), [&](auto unit) {
    using U = decltype(unit);
    U* d = reinterpret_cast<U*>(nest.out) + offset;
    const U* s = reinterpret_cast<const U*>(raw);
    for (int64_t i = 0; i < m; ++i) d[i * stride] = s[i];
  });
}

// Centers of m outputs in the compute type.
const void* centers(const Nest& nest, int64_t offset, int64_t stride, int64_t m, void* tile) {
  if (!nest.center) return nullptr;
  for (int64_t i = 0; i < m; ++i) {
    const double c = nest.center[offset + i * stride];
    if (nest.compute == DType::Float32) static_cast<float*>(tile)[i] = static_cast<float>(c);
    else static_cast<double*>(tile)[i] = c;
  }
  return tile;
}

// ---- last axis reduced ------------------------------------------------------------------------------------

// Folds elements [begin, end) of the last axis, at x + offset, into *acc.
void fold_piece(const Nest& nest, int64_t offset, int64_t begin, int64_t end, const void* center, void* acc) {
  const Reduction& how = *nest.how;
  if (const std::optional<DType> direct = nest.direct()) {
    fold_run(how.fold, *direct, nest.x + (offset + begin) * nest.x_item, end - begin, center, how.p, acc);
    return;
  }
  alignas(64) char tile[kTile * 8], raw[kTile * 8];
  for (int64_t i = begin; i < end; i += kTile) {
    const int64_t m = std::min(kTile, end - i);
    const void* values = load(nest, offset + i * nest.last.x, nest.last.x, m, tile, raw);
    fold_run(how.fold, nest.compute, values, m, center, how.p, acc);
  }
}

// Folds m rows of at most kTile elements, the first at x + offset, that must be converted: as many at once as fill a tile.
void fold_converted(const Nest& nest, int64_t offset, int64_t m, const void* center, int64_t* acc) {
  const int64_t n = nest.last.size, stride = nest.kept[0].x, batch = kTile / n;
  const int64_t item = static_cast<int64_t>(item_size(nest.compute));
  alignas(64) char tile[kTile * 8];
  for (int64_t g = 0; g < m; g += batch) {
    const int64_t rows = std::min(batch, m - g), whole = stride == n ? rows : 1;  // rows that lie one after another
    for (int64_t r = 0; r < rows; r += whole)
      convert_elements(tile + r * n * item, nest.compute, nest.x + (offset + (g + r) * stride) * nest.x_item, nest.x_type, whole * n);
    fold_runs(nest.how->fold, nest.compute, tile, n, rows, n, center ? static_cast<const char*>(center) + g * item : nullptr, nest.how->p, acc + g);
  }
}

void along_runs(const Nest& nest) {
  const Reduction& how = *nest.how;
  const int64_t n = nest.last.size, per_output = nest.n_folded * n;
  if (per_output >= 2 * kPiece && nest.n_kept < 64) {
    // Pieces: `runs` whole runs, or a part of one.
    const int64_t parts = (n + kPiece - 1) / kPiece, runs = parts > 1 ? 1 : std::max<int64_t>(1, kPiece / n);
    const int64_t pieces = parts * ((nest.n_folded + runs - 1) / runs);
    std::vector<int64_t> partial(static_cast<size_t>(pieces));
    for (int64_t k = 0; k < nest.n_kept; ++k) {
      const At base = locate(nest.kept, k);
      int64_t center_tile;
      const void* center = centers(nest, base.out, 1, 1, &center_tile);
      parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          void* acc = &partial[static_cast<size_t>(i)];
          fold_init(how.fold, nest.compute, acc, 1);
          const int64_t part = i % parts, first = i / parts * runs;
          for (int64_t r = first; r < std::min(nest.n_folded, first + runs); ++r)
            fold_piece(nest, base.x + locate(nest.folded, r).x, part * kPiece, std::min(n, (part + 1) * kPiece), center, acc);
        }
      });
      int64_t acc;
      fold_init(how.fold, nest.compute, &acc, 1);
      for (int64_t& p : partial) fold_merge(how.fold, nest.compute, &p, &acc, 1);
      store(nest, &acc, 1, base.out, 1);
    }
    return;
  }
  parallel_work(nest.n_kept, per_output, kGrain, [&](int64_t begin, int64_t end) {
    // Accumulators are written in groups while they are neighbours in the output.
    int64_t acc[64];
    const bool flat = nest.kept.size() <= 1;
    const int64_t step = nest.kept.empty() ? 1 : nest.kept.back().out;
    const int64_t group = flat ? 64 : 1;
    const std::optional<DType> direct = nest.direct();
    for (int64_t k = begin; k < end; k += group) {
      const int64_t m = std::min(group, end - k);
      const At first = locate(nest.kept, k);
      fold_init(how.fold, nest.compute, acc, m);
      if (flat && nest.n_folded == 1 && nest.last.x == 1 && !nest.kept.empty() && (direct || n <= kTile)) {
        int64_t center_tile[64];
        const void* center = centers(nest, first.out, step, m, center_tile);
        if (direct) {
          fold_runs(how.fold, *direct, nest.x + first.x * nest.x_item, nest.kept[0].x, m, n, center, how.p, acc);
        } else {
          fold_converted(nest, first.x, m, center, acc);
        }
        store(nest, acc, m, first.out, step);
        continue;
      }
      for (int64_t g = 0; g < m; ++g) {
        const At base = flat && g > 0 ? At{first.x + g * nest.kept[0].x, first.out + g * step} : first;
        int64_t center_tile;
        const void* center = centers(nest, base.out, 1, 1, &center_tile);
        if (nest.n_folded == 1) fold_piece(nest, base.x, 0, n, center, acc + g);
        else
          for (int64_t r = 0; r < nest.n_folded; ++r)
            fold_piece(nest, base.x + locate(nest.folded, r).x, 0, n, center, acc + g);
      }
      store(nest, acc, m, first.out, step);
    }
  });
}

// ---- last axis kept ---------------------------------------------------------------------------------------

// Folds rows [begin, end) of the reduced axes onto acc, for m columns at x + offset.
void fold_columns(const Nest& nest, int64_t offset, int64_t m, int64_t begin, int64_t end, const void* center, void* acc) {
  const Reduction& how = *nest.how;
  const std::optional<DType> direct = nest.direct();
  const Axis inner = nest.folded.back();
  alignas(64) char tile[kTile * 8], raw[kTile * 8];
  for (int64_t r = begin; r < end;) {
    const int64_t at = offset + locate(nest.folded, r).x;
    const int64_t count = std::min(end - r, inner.size - r % inner.size);  // rows with one stride
    if (direct) {
      fold_rows(how.fold, *direct, nest.x + at * nest.x_item, inner.x, count, m, center, how.p, acc);
    } else {
      // Blocks of whole cache lines that stay in the first-level cache.
      const int64_t width = std::min(m, kBlock), item = static_cast<int64_t>(item_size(nest.compute)), batch = kTile * 8 / (width * item);
      for (int64_t c = 0; c < m; c += width) {
        const int64_t cols = std::min(width, m - c);
        const char* from = static_cast<const char*>(center);
        for (int64_t i = 0; i < count; i += batch) {
          const int64_t rows = std::min(batch, count - i);
          for (int64_t b = 0; b < rows; ++b) load(nest, at + (i + b) * inner.x + c * nest.last.x, nest.last.x, cols, tile + b * cols * item, raw);
          fold_rows(how.fold, nest.compute, tile, cols, rows, cols, from ? from + c * item : nullptr, how.p, static_cast<int64_t*>(acc) + c);
        }
      }
    }
    r += count;
  }
}

// A short kept axis under a reduced one that continues it in memory: several rows are taken as one wide row.
bool fold_wide(const Nest& nest, int64_t offset, int64_t begin, int64_t end, const void* center, void* acc) {
  const Reduction& how = *nest.how;
  const int64_t n = nest.last.size;
  const std::optional<DType> direct = nest.direct();
  if (n > 64 || !direct || nest.folded.size() != 1 || nest.folded[0].x != n) return false;
  const int64_t rows = end - begin, times = std::min(256 / n, rows / 8), whole = times < 2 ? 0 : rows / times;
  if (whole == 0) return false;
  int64_t wide[256], wide_center[256];
  fold_init(how.fold, nest.compute, wide, times * n);
  if (center) {
    const size_t bytes = static_cast<size_t>(n) * item_size(nest.compute);
    for (int64_t t = 0; t < times; ++t) std::memcpy(reinterpret_cast<char*>(wide_center) + static_cast<size_t>(t) * bytes, center, bytes);
    center = wide_center;
  }
  const char* x = nest.x + (offset + begin * n) * nest.x_item;
  fold_rows(how.fold, *direct, x, times * n, whole, times * n, center, how.p, wide);
  if (const int64_t rest = rows - whole * times)
    fold_rows(how.fold, *direct, x + whole * times * n * nest.x_item, 0, 1, rest * n, center, how.p, wide);
  for (int64_t left = times; left > 1; left -= left / 2) fold_merge(how.fold, nest.compute, wide + (left - left / 2) * n, wide, left / 2 * n);
  fold_merge(how.fold, nest.compute, wide, acc, n);
  return true;
}

// Sums of rows of pairs, as complex numbers are.
bool sum_pairs(const Nest& nest) {
  if (nest.last.size != 2 || nest.last.out != 1 || nest.how->fold != Fold::Sum || nest.direct() != nest.compute || nest.compute == DType::Int64) return false;
  const Axis inner = nest.folded.back();
  if (inner.size < 4) return false;
  const bool flat = nest.kept.size() == 1 && nest.kept[0].out == 2;
  parallel_work(nest.n_kept, 2 * nest.n_folded, kGrain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kGroup = 64;
    double acc[2 * kGroup];
    for (int64_t k = begin; k < end; k += flat ? kGroup : 1) {
      const int64_t m = flat ? std::min(kGroup, end - k) : 1;
      const At first = locate(nest.kept, k);
      fold_init(Fold::Sum, nest.compute, acc, 2 * m);
      for (int64_t g = 0; g < m; ++g)
        for (int64_t r = 0; r < nest.n_folded; r += inner.size) {
          const int64_t at = first.x + (flat ? g * nest.kept[0].x : 0) + locate(nest.folded, r).x;
          fold_pairs(nest.compute, nest.x + at * nest.x_item, inner.x, inner.size, acc + 2 * g);
        }
      store(nest, acc, 2 * m, first.out, 1);
    }
  });
  return true;
}

// A short axis under columns that are neighbours, in memory and in the output: nothing is widened, and planes of few elements cost no more than their elements.
bool fold_short_axis(const Nest& nest) {
  const Reduction& how = *nest.how;
  const int64_t n = nest.last.size, rows = nest.n_folded;
  const std::optional<DType> direct = nest.direct();
  if (!in_planes(how.fold) || n < 8 || rows > kShortAxis || nest.folded.size() != 1 || nest.last.out != 1 || direct != nest.out_type || (is_float(*direct) && nest.x_item == 2)) return false;
  if (nest.kept.size() > 1 || (nest.kept.size() == 1 && nest.kept[0].out != n)) return false;
  double divisor = 0;
  if (how.finish == Finish::Divide && *direct == nest.compute && static_cast<double>(static_cast<float>(how.q)) == how.q) divisor = how.q;
  else if (how.finish != Finish::None) return false;
  const int64_t plane = nest.kept.empty() ? 0 : nest.kept[0].x, stride = nest.folded[0].x, tiles = (n + kWide - 1) / kWide;
  const auto fold = [&](int64_t u, int64_t planes, int64_t column, int64_t columns) {
    fold_planes(how.fold, *direct, nest.x + (u * plane + column) * nest.x_item, plane, planes, stride, rows, columns, divisor,
                nest.out + (u * n + column) * nest.out_item);
  };
  if (tiles == 1) {
    parallel_work(nest.n_kept, rows * n, kGrain, [&](int64_t begin, int64_t end) { fold(begin, end - begin, 0, n); });
    return true;
  }
  parallel_work(nest.n_kept * tiles, rows * kWide, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fold(i / tiles, 1, i % tiles * kWide, std::min(kWide, n - i % tiles * kWide));
  });
  return true;
}

void down_columns(const Nest& nest) {
  const Reduction& how = *nest.how;
  if (fold_short_axis(nest)) return;
  const int64_t n = nest.last.size, tiles = (n + kCols - 1) / kCols, units = nest.n_kept * tiles;
  const int64_t rows = nest.n_folded, width = std::min(n, kCols);
  const int64_t rows_per_piece = std::max<int64_t>(256, kPiece / width);
  const int64_t pieces = units < 64 ? (rows + rows_per_piece - 1) / rows_per_piece : 1;
  const int64_t rows_each = pieces > 1 ? rows_per_piece : rows;
  if (pieces == 1 && sum_pairs(nest)) return;
  std::vector<int64_t> partial(pieces > 1 ? static_cast<size_t>(units * pieces * kCols) : 0);
  const int64_t cost = std::min(rows, rows_each) * width;
  parallel_work(units * pieces, cost, kGrain, [&](int64_t begin, int64_t end) {
    int64_t local[kCols];
    alignas(64) char center_tile[kCols * 8];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = i / pieces, piece = i % pieces, c = unit % tiles * kCols, m = std::min(kCols, n - c);
      const At base = locate(nest.kept, unit / tiles);
      void* acc = pieces > 1 ? &partial[static_cast<size_t>(i * kCols)] : local;
      fold_init(how.fold, nest.compute, acc, m);
      const int64_t first = piece * rows_each, last = std::min(rows, first + rows_each);
      const int64_t out = base.out + c * nest.last.out;
      const void* center = centers(nest, out, nest.last.out, m, center_tile);
      const int64_t offset = base.x + c * nest.last.x;
      if (!fold_wide(nest, offset, first, last, center, acc)) fold_columns(nest, offset, m, first, last, center, acc);
      if (pieces == 1) store(nest, acc, m, out, nest.last.out);
    }
  });
  if (pieces == 1) return;
  for (int64_t unit = 0; unit < units; ++unit) {
    const int64_t c = unit % tiles * kCols, m = std::min(kCols, n - c);
    int64_t* acc = &partial[static_cast<size_t>(unit * pieces * kCols)];
    for (int64_t p = 1; p < pieces; ++p) fold_merge(how.fold, nest.compute, acc + p * kCols, acc, m);
    store(nest, acc, m, locate(nest.kept, unit / tiles).out + c * nest.last.out, nest.last.out);
  }
}

}  // namespace

void reduce_mask(const Reduction& how, DType compute, const Tensor& x, const bool* reduced, const Tensor& out) {
  if (out.numel() == 0) return;
  Nest nest{.how = &how, .compute = compute, .x = static_cast<const char*>(x.data()), .x_type = x.dtype(),
            .x_item = static_cast<int64_t>(x.item_bytes()), .kept = {}, .folded = {}, .last = {1, 1, 1},
            .out = static_cast<char*>(out.data()), .out_type = out.dtype(),
            .out_item = static_cast<int64_t>(out.item_bytes()),
            .center = how.center ? how.center->data<double>() : nullptr};
  if (x.numel() == 0) {
    for (int64_t i = 0; i < out.numel(); i += kCols) {
      int64_t acc[kCols];
      const int64_t m = std::min(kCols, out.numel() - i);
      fold_init(how.fold, compute, acc, m);
      store(nest, acc, m, i, 1);
    }
    return;
  }
  if (x.numel() < 32 && x.is_contiguous() && x.dtype() == compute && out.numel() == 1) {  // the shortest way
    int64_t acc, center_tile;
    fold_init(how.fold, compute, &acc, 1);
    fold_run(how.fold, compute, x.data(), x.numel(), centers(nest, 0, 1, 1, &center_tile), how.p, &acc);
    store(nest, &acc, 1, 0, 1);
    return;
  }
  Dims strides[2] = {x.strides(), Dims(x.ndim())};
  int64_t step = 1;
  for (int i = x.ndim() - 1; i >= 0; --i) {
    strides[1][i] = reduced[i] ? 0 : step;
    if (!reduced[i]) step *= x.size(i);
  }
  const Axes axes = simplify(x.sizes(), strides, 2);
  const int d = axes.sizes.size();
  int repeats = 0;  // axes along which x says the same: the last ones by their strides, and the first ones here, as there is nothing to run along
  while (repeats < d && strides[0][d - 1 - repeats] == 0) ++repeats;
  for (int i = 0; i < d; ++i) {
    const int from = (i + d - repeats) % d;
    const Axis axis{axes.sizes[from], strides[0][from], strides[1][from]};
    if (i == d - 1) {
      nest.last = axis;
      break;
    }
    (axis.out ? nest.kept : nest.folded).push_back(axis);
    (axis.out ? nest.n_kept : nest.n_folded) *= axis.size;
  }
  if (d == 0) nest.last = {1, 1, 0};
  if (nest.last.out == 0) {
    along_runs(nest);
  } else {
    if (nest.folded.empty()) nest.folded.push_back({1, 0, 0});
    down_columns(nest);
  }
}

void reduce(const Reduction& how, DType compute, const Tensor& x, std::optional<IntList> dims, const Tensor& out) {
  bool reduced[kMaxAxes] = {};
  const bool all = !dims || dims->empty();
  for (int i = 0; i < x.ndim(); ++i) reduced[i] = all;
  if (!all)
    for (int64_t d : *dims) reduced[d < 0 ? d + x.ndim() : d] = true;
  reduce_mask(how, compute, x, reduced, out);
}

}  // namespace fl::kernels
