// The reductions of ops/reduce.yaml over the fold engine. Shapes, dtypes and axes are checked already.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "dispatch/unsigned.h"
#include "base/parallel.h"
#include "dispatch/each.h"
#include "dispatch/geometry.h"
#include "ops/reduce/factors.h"
#include "ops/reduce/reduce.h"
#include "ops/scan/products.h"
#include "storage/transpose.h"

namespace fl::kernels {
namespace {

using Dimensions = std::optional<IntList>;

// float for the 16-bit floats, int64 for every integer and bool.
DType fold_type(DType t) {
  if (t == DType::Float64) return DType::Float64;
  return is_float(t) ? DType::Float32 : DType::Int64;
}
DType float_type(DType t) { return t == DType::Float64 || t == DType::Int64 ? DType::Float64 : DType::Float32; }

// Elements folded into each output.
double count_of(const Tensor& x, const Tensor& y) {
  return y.numel() ? static_cast<double>(x.numel()) / static_cast<double>(y.numel()) : 0;
}

Tensor scratch(const Tensor& y) { return empty(y.sizes(), DType::Float64); }

// Whether a deviation that is not 0 (its square, without `root`) is at most `near` times the mean; or is 0 or infinite because its square can be
// nothing else in float32.
bool any_small(const Tensor& y, bool root, double near, const Tensor& mean) {
  constexpr double kTiny = 1e-15, kHuge = 1e18;
  const double* const m = mean.data<double>();
  bool any = false;
  visit(y.dtype(), [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) {
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const T* const d = y.data<T>();
      for (int64_t i = 0; i < y.numel(); ++i) {
        const double deviation = static_cast<Wide>(d[i]), of = near * std::abs(m[i]);
        any |= deviation != 0 && deviation <= (root ? of : of * of);
        any |= (deviation == 0 && m[i] != 0 && std::abs(m[i]) < kTiny) || (std::isinf(deviation) && std::abs(m[i]) > kHuge);
      }
    }
  });
  return any;
}

// Of equal numbers the mean may be off by a rounding, which is then their deviation; programs look for one of 0: extremes tell.
void settle_equal(const Tensor& x, Dimensions dims, DType type, const Tensor& mean, const Tensor& y) {
  const Tensor top = scratch(y), bottom = scratch(y);
  reduce({.fold = Fold::Max}, type, x, dims, top);
  reduce({.fold = Fold::Min}, type, x, dims, bottom);
  double* const m = mean.data<double>();
  const double *high = top.data<double>(), *low = bottom.data<double>();
  visit(y.dtype(), [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) {
      T* const d = y.data<T>();
      for (int64_t i = 0; i < y.numel(); ++i)
        if (high[i] == low[i]) m[i] = high[i], d[i] = T{};
    }
  });
}

// Deviations are from a mean of the elements' own precision, and so off by its rounding: that matters where they are small beside it.
void mean_and_deviation(const Tensor& x, Dimensions dims, double correction, bool root, const Tensor& mean, const Tensor& y) {
  const double n = count_of(x, y);
  const auto compute = [&](DType type) {
    reduce({.fold = Fold::Sum, .finish = Finish::Divide, .q = n}, type, x, dims, mean);
    reduce({.fold = Fold::Deviation, .finish = root ? Finish::SqrtDivide : Finish::Divide, .q = n == 0 ? 0.0 : std::max(0.0, n - correction),
            .center = &mean},
           type, x, dims, y);
  };
  DType type = float_type(x.dtype());
  compute(type);
  if (n < 2) return;
  if (type == DType::Float32) {
    if (!any_small(y, root, 0x1p-14, mean)) return;
    compute(type = DType::Float64);
  }
  if (any_small(y, root, 0x1p-40, mean)) settle_equal(x, dims, type, mean, y);
}

}  // namespace

// To bool: every element is cast first, and 0.5 is true.
void sum(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  if (y.dtype() == DType::Bool) return reduce({.fold = Fold::Any}, fold_type(x.dtype()), x, dim, y);
  reduce({.fold = Fold::Sum}, fold_type(y.dtype()), x, dim, y);
}
void nansum(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  if (y.dtype() == DType::Bool) return reduce({.fold = Fold::Any}, fold_type(x.dtype()), x, dim, y);
  reduce({.fold = Fold::NanSum}, fold_type(y.dtype()), x, dim, y);
}
void prod(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  if (y.dtype() == DType::Bool) return reduce({.fold = Fold::All}, fold_type(x.dtype()), x, dim, y);
  reduce({.fold = Fold::Prod}, fold_type(y.dtype()), x, dim, y);
}
void mean(const Tensor& x, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  reduce({.fold = Fold::Sum, .finish = Finish::Divide, .q = count_of(x, y)}, float_type(y.dtype()), x, dim, y);
}
static void bound(Fold fold, const Tensor& x, Dimensions dim, const Tensor& y) {
  with_order(x, y, [&](const Tensor& a, const Tensor& b) { reduce({.fold = fold}, fold_type(a.dtype()), a, dim, b); });
}
void amax(const Tensor& x, Dimensions dim, bool, const Tensor& y) { bound(Fold::Max, x, dim, y); }
void amin(const Tensor& x, Dimensions dim, bool, const Tensor& y) { bound(Fold::Min, x, dim, y); }
void max_all(const Tensor& x, const Tensor& y) { amax(x, {}, false, y); }
void min_all(const Tensor& x, const Tensor& y) { amin(x, {}, false, y); }
// An empty list of axes folds none: each element alone.
static void truth(Fold fold, const Tensor& x, Dimensions dim, const Tensor& y) {
  if (!dim || !dim->empty()) return reduce({.fold = fold}, fold_type(x.dtype()), x, dim, y);
  Tensor line = x;
  if (!x.is_contiguous()) {
    line = empty(x.sizes(), x.dtype());
    copy_elements(line, x);
  }
  const int64_t last = 1;
  reduce({.fold = fold}, fold_type(x.dtype()), alias(line, Dims{x.numel(), 1}, Dims{1, 1}, line.offset()), IntList(&last, 1),
         alias(y, Dims{x.numel()}, Dims{1}, y.offset()));
}
void any(const Tensor& x, Dimensions dim, bool, const Tensor& y) { truth(Fold::Any, x, dim, y); }
void all(const Tensor& x, Dimensions dim, bool, const Tensor& y) { truth(Fold::All, x, dim, y); }
void count_nonzero(const Tensor& x, Dimensions dim, const Tensor& y) {
  reduce({.fold = Fold::NonZero}, fold_type(x.dtype()), x, dim, y);
}

void var(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y) {
  mean_and_deviation(x, dim, correction, false, scratch(y), y);
}
void std_dev(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y) {
  mean_and_deviation(x, dim, correction, true, scratch(y), y);
}
void var_mean(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y, const Tensor& mean) {
  const Tensor exact = scratch(y);
  mean_and_deviation(x, dim, correction, false, exact, y);
  copy_elements(mean, exact);
}
void std_mean(const Tensor& x, Dimensions dim, double correction, bool, const Tensor& y, const Tensor& mean) {
  const Tensor exact = scratch(y);
  mean_and_deviation(x, dim, correction, true, exact, y);
  copy_elements(mean, exact);
}

void vector_norm(const Tensor& x, double ord, Dimensions dim, bool, std::optional<DType>, const Tensor& y) {
  const DType type = float_type(y.dtype());
  if (ord == 0) return reduce({.fold = Fold::NonZero}, type, x, dim, y);
  if (ord == 1) return reduce({.fold = Fold::Abs}, type, x, dim, y);
  if (ord == 2) return reduce({.fold = Fold::Square, .finish = Finish::Sqrt}, type, x, dim, y);
  if (std::isinf(ord)) return reduce({.fold = ord > 0 ? Fold::AbsMax : Fold::AbsMin}, type, x, dim, y);
  reduce({.fold = Fold::Power, .finish = Finish::Root, .p = ord, .q = ord}, type, x, dim, y);
}

void logsumexp(const Tensor& x, IntList dim, bool, const Tensor& y) {
  const DType type = float_type(y.dtype());
  const Tensor top = scratch(y);
  reduce({.fold = Fold::Max}, type, x, dim, top);
  double* t = top.data<double>();
  for (int64_t i = 0; i < top.numel(); ++i)
    if (!std::isfinite(t[i])) t[i] = 0;
  reduce({.fold = Fold::Exp, .finish = Finish::LogPlusCenter, .center = &top}, type, x, dim, y);
}

// x summed over the axes along which `shape` was broadcast to give x's shape.
void sum_to(const Tensor& x, IntList shape, const Tensor& y) {
  bool reduced[kMaxAxes] = {};
  const int lead = x.ndim() - static_cast<int>(shape.size());
  for (int i = 0; i < x.ndim(); ++i) reduced[i] = i < lead || shape[static_cast<size_t>(i - lead)] != x.size(i);
  reduce_mask({.fold = Fold::Sum}, fold_type(y.dtype()), x, reduced, y);
}

// The view of g that repeats it along the reduced axes.
Tensor expand_reduced(const Tensor& g, IntList shape, Dimensions dims, bool keepdim) {
  const int n = static_cast<int>(shape.size());
  Dims strides(n);
  const bool all = !dims || dims->empty();
  int at = 0;
  for (int i = 0; i < n; ++i) {
    bool gone = all;
    if (!all)
      for (int64_t d : *dims) gone |= (d < 0 ? d + n : d) == i;
    strides[i] = gone ? 0 : g.strides()[at];
    if (!gone || (keepdim && g.ndim() == n)) ++at;
  }
  return alias(g, Dims(shape), std::move(strides), g.offset());
}

namespace {

// Rows of few factors, turned, so that many are computed at once.
void short_rows_gradient(const double* dy, DType type, const char* x, char* dx, int64_t rows, int64_t n) {
  constexpr int64_t kTogether = 64;
  const auto item = static_cast<int64_t>(item_size(type));
  parallel_work((rows + kTogether - 1) / kTogether, kTogether * n, 16384, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> turned(new char[static_cast<size_t>(kTogether * n * item)]);
    for (int64_t r = begin * kTogether; r < std::min(rows, end * kTogether); r += kTogether) {
      const int64_t m = std::min(kTogether, rows - r), at = r * n * item;
      transpose_block(x + at, n, turned.get(), m, m, n, static_cast<size_t>(item));
      other_products(type, dy + r, turned.get(), turned.get(), n, m, m);
      transpose_block(turned.get(), m, dx + at, n, n, m, static_cast<size_t>(item));
    }
  });
}

// Rows of many factors, in blocks that do not depend on the threads.
void long_rows_gradient(const double* dy, DType type, const char* x, char* dx, int64_t rows, int64_t n) {
  constexpr int64_t kBlock = 4096;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  const auto item = static_cast<int64_t>(item_size(type));
  std::vector<Factors> parts(static_cast<size_t>(rows * blocks)), whole(static_cast<size_t>(rows));
  const auto over_blocks = [&](auto&& f) {
    parallel_work(rows * blocks, std::min(n, kBlock), 16384, [&](int64_t begin, int64_t end) {
      double block[kBlock];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / blocks, first = i % blocks * kBlock, m = std::min(kBlock, n - first), at = (row * n + first) * item;
        convert_elements(block, DType::Float64, x + at, type, m);
        f(i, row, block, m, at);
      }
    });
  };
  over_blocks([&](int64_t i, int64_t, double* block, int64_t m, int64_t) { parts[static_cast<size_t>(i)] = factors_of(block, m); });
  for (int64_t i = 0; i < rows * blocks; ++i) whole[static_cast<size_t>(i / blocks)].take(parts[static_cast<size_t>(i)]);
  over_blocks([&](int64_t, int64_t row, double* block, int64_t m, int64_t at) {
    other_factors(block, m, whole[static_cast<size_t>(row)], dy[row]);
    convert_elements(dx + at, type, block, DType::Float64, m);
  });
}

}  // namespace

// d prod / dx times dy: the product of the others, also where some factor is 0.
void prod_gradient(const Tensor& dy, const Tensor& x, Dimensions dim, bool, const Tensor& dx) {
  if (x.numel() == 0) return;
  const std::vector<bool> reduced = axes_named(x, dim);
  const Tensor gradient = empty(dy.sizes(), DType::Float64);
  copy_elements(gradient, dy);
  const double* g = gradient.data<double>();
  int first = 0, last = x.ndim();  // of the reduced axes
  while (first < last && !reduced[static_cast<size_t>(first)]) ++first;
  while (first < last && !reduced[static_cast<size_t>(last - 1)]) --last;
  const bool adjacent = std::all_of(reduced.begin() + first, reduced.begin() + last, [](bool r) { return r; });
  if (adjacent && last < x.ndim() && x.is_contiguous() && dx.is_contiguous()) {  // as columns, where they lie
    int64_t outer = 1, n = 1, inner = 1;
    for (int d = 0; d < x.ndim(); ++d) (d < first ? outer : d < last ? n : inner) *= x.size(d);
    const int64_t tiles = (inner + kProductColumns - 1) / kProductColumns, item = static_cast<int64_t>(x.item_bytes());
    return parallel_work(outer * tiles, n * std::min(inner, kProductColumns), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / tiles, c = i % tiles * kProductColumns, at = (o * n * inner + c) * item;
        other_products(x.dtype(), g + o * inner + c, x.data<char>() + at, dx.data<char>() + at, n, inner, std::min(kProductColumns, inner - c));
      }
    });
  }
  Dims order;  // the reduced axes last
  int64_t n = 1;
  for (const bool turn : {false, true})
    for (int d = 0; d < x.ndim(); ++d)
      if (reduced[static_cast<size_t>(d)] == turn) {
        order.push_back(d);
        if (turn) n *= x.size(d);
      }
  auto turned = [&](const Tensor& t) {  // the same bytes, the reduced axes last
    Dims sizes(x.ndim()), strides(x.ndim());
    for (int k = 0; k < x.ndim(); ++k) {
      sizes[k] = t.size(static_cast<int>(order[k]));
      strides[k] = t.stride(static_cast<int>(order[k]));
    }
    return alias(t, sizes, strides, t.offset());
  };
  const Tensor turned_x = turned(x), turned_dx = turned(dx);
  const bool in_order = turned_x.is_contiguous() && turned_dx.is_contiguous();
  const Tensor from = in_order ? turned_x : empty(turned_x.sizes(), x.dtype()), to = in_order ? turned_dx : empty(turned_x.sizes(), x.dtype());
  if (!in_order) copy_elements(from, turned_x);
  (n < 64 ? short_rows_gradient : long_rows_gradient)(g, x.dtype(), from.data<char>(), to.data<char>(), x.numel() / n, n);
  if (!in_order) copy_elements(turned_dx, to);
}

}  // namespace fl::kernels
