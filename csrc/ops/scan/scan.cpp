// Scans along one axis. x is row-major: [outer, n, inner]. Each line is one dependent chain; those of neighbouring
// columns run side by side, and rows are transposed for that. Sums and products of floats are carried in double and
// rounded once per element.
#include "ops/scan/scan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "ops/index/lines.h"
#include "ops/scan/products.h"
#include "storage/transpose.h"

namespace fl::kernels {
namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float> || is_half_type<T>, double, T>;

// Calls f(first element, stride along the scan, columns) for pieces of neighbouring columns.
template <class F>
void over_columns(const Lines& l, F&& f) {
  const int64_t tiles = (l.inner + kScanColumns - 1) / kScanColumns, width = std::min(l.inner, kScanColumns);
  parallel_work(l.outer * tiles, l.n * width, 16384, [&](int64_t b, int64_t e) {
    for (int64_t u = b; u < e; ++u) {
      const int64_t c = u % tiles * kScanColumns;
      f(u / tiles * l.n * l.inner + c, l.inner, std::min(kScanColumns, l.inner - c));
    }
  });
}

// y = the scan of x, which has y's dtype; `indices` for Max and Min.
void scan(Scan kind, const Tensor& x, int64_t dim, const Tensor& y, const Tensor* indices = nullptr, bool backward = false) {
  const Lines l = lines_of(x, dim);
  const auto item = static_cast<int64_t>(y.item_bytes());
  const auto* in = static_cast<const char*>(x.data());
  auto* out = static_cast<char*>(y.data());
  int64_t* places = indices ? indices->data<int64_t>() : nullptr;
  auto index_at = [&](int64_t first) { return places ? places + first : nullptr; };
  const bool pairs = kind == Scan::Sum && l.inner == 2 && (y.dtype() == DType::Float32 || y.dtype() == DType::Float64);
  if (l.inner > 1 && !pairs) {
    return over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
      scan_columns(kind, y.dtype(), in + first * item, out + first * item, index_at(first), l.n, stride, m, backward);
    });
  }
  parallel_work((l.outer + kScanRows - 1) / kScanRows, kScanRows * l.n * l.inner, 16384, [&](int64_t g0, int64_t g1) {
    for (int64_t r = g0 * kScanRows; r < std::min(l.outer, g1 * kScanRows); r += kScanRows) {
      const int64_t first = r * l.n * l.inner, rows = std::min(kScanRows, l.outer - r);
      if (pairs) sum_rows_of_pairs(y.dtype(), in + first * item, out + first * item, l.n, rows, backward);
      else scan_rows(kind, y.dtype(), in + first * item, out + first * item, index_at(first), l.n, rows, backward);
    }
  });
}

// x in y's dtype.
Tensor as_type_of(const Tensor& x, const Tensor& y) {
  if (x.dtype() == y.dtype()) return x;
  Tensor out = empty(x.sizes(), y.dtype());
  copy_elements(out, x);
  return out;
}

}  // namespace

void cumsum(const Tensor& x, int64_t dim, std::optional<DType>, const Tensor& y) { scan(Scan::Sum, as_type_of(x, y), dim, y); }
void cumprod(const Tensor& x, int64_t dim, std::optional<DType>, const Tensor& y) { scan(Scan::Product, as_type_of(x, y), dim, y); }
void logcumsumexp(const Tensor& x, int64_t dim, const Tensor& y) { scan(Scan::LogSumExp, x, dim, y); }
void cummax(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) { scan(Scan::Max, x, dim, values, &indices); }
void cummin(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) { scan(Scan::Min, x, dim, values, &indices); }
// Sums of dy from each position to the end: the gradient of cumsum.
void reverse_cumsum(const Tensor& x, int64_t dim, const Tensor& y) { scan(Scan::Sum, x, dim, y, nullptr, true); }

// Gradient of cumprod, right where x has zeros: dx[k] = sum over i >= k of dy[i] prod of x[0..i] without x[k].
void cumprod_gradient(const Tensor& dy, const Tensor& x, int64_t dim, const Tensor& dx) {
  const Lines l = lines_of(x, dim);
  const auto item = static_cast<int64_t>(x.item_bytes());
  const auto *g = static_cast<const char*>(dy.data()), *in = static_cast<const char*>(x.data());
  auto* out = static_cast<char*>(dx.data());
  constexpr int64_t kRoom = 8192;  // of doubles, in the second-level cache, where columns are not too long for that
  if (l.inner > 1) {
    return over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
      const int64_t width = std::min(m, std::max<int64_t>(8, kRoom / l.n));
      const std::unique_ptr<double[]> room(new double[static_cast<size_t>(l.n * width)]);
      for (int64_t c = 0; c < m; c += width) {
        const int64_t at = (first + c) * item;
        running_product_gradient(x.dtype(), g + at, in + at, out + at, l.n, stride, std::min(width, m - c), room.get());
      }
    });
  }
  // Several rows at once, turned, since the steps of one wait for each other.
  const int64_t together = std::clamp<int64_t>(kRoom / std::max<int64_t>(l.n, 1), 8, 64), groups = (l.outer + together - 1) / together;
  parallel_work(groups, l.n * together, 16384, [&](int64_t begin, int64_t end) {
    const int64_t size = l.n * together;
    const std::unique_ptr<double[]> room(new double[static_cast<size_t>(size)]);
    const std::unique_ptr<char[]> turned(new char[static_cast<size_t>(2 * size * item)]);
    char *const values = turned.get(), *const grads = values + size * item;
    for (int64_t r = begin * together; r < std::min(l.outer, end * together); r += together) {
      const int64_t rows = std::min(together, l.outer - r), at = r * l.n * item;
      transpose_block(in + at, l.n, values, rows, rows, l.n, static_cast<size_t>(item));
      transpose_block(g + at, l.n, grads, rows, rows, l.n, static_cast<size_t>(item));
      running_product_gradient(x.dtype(), grads, values, grads, l.n, rows, rows, room.get());
      transpose_block(grads, rows, out + at, l.n, l.n, rows, static_cast<size_t>(item));
    }
  });
}

// y is a running log-sum-exp of x, so it only grows, y[k] >= x[k], and every exponent here is at most 0.
namespace {
void scan_weighted(const Tensor& h, const Tensor& x, const Tensor& y, int64_t dim, bool backward, const Tensor& out) {
  const Lines l = lines_of(x, dim);
  visit(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) {
      const T *hs = h.data<T>(), *xs = x.data<T>(), *ys = y.data<T>();
      T* o = out.data<T>();
      auto weight = [](T from, T to) {  // exp(from - to), 1 for equal infinities
        const double a = static_cast<double>(from), b = static_cast<double>(to);
        return a == b ? 1.0 : std::exp(a - b);
      };
      over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
        double carry[kScanColumns];
        std::fill_n(carry, m, 0.0);
        for (int64_t step = 0; step < l.n; ++step)
          for (int64_t j = 0; j < m; ++j) {
            const int64_t k = first + (backward ? l.n - 1 - step : step) * stride + j, last = k + (backward ? stride : -stride);
            const double kept = step == 0 ? 0 : carry[j] * (backward ? weight(ys[k], ys[last]) : weight(ys[last], ys[k]));
            const double own = weight(xs[k], ys[k]), g = static_cast<double>(hs[k]);
            carry[j] = backward ? kept + g : kept + g * own;
            o[k] = static_cast<T>(static_cast<Wide<T>>(backward ? carry[j] * own : carry[j]));
          }
      });
    }
  });
}
}  // namespace
void logcumsumexp_backward(const Tensor& dy, const Tensor& x, const Tensor& y, int64_t dim, const Tensor& dx) {
  scan_weighted(dy, x, y, dim, true, dx);
}
void logcumsumexp_weights(const Tensor& h, const Tensor& x, const Tensor& y, int64_t dim, const Tensor& w) {
  scan_weighted(h, x, y, dim, false, w);
}

}  // namespace fl::kernels
