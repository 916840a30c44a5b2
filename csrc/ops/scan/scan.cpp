// Scans along one axis. x is row-major: [outer, n, inner]. Along the last axis each row is one dependent
// chain; along another the chains of neighbouring columns run side by side. 16-bit floats are scanned in
// float and rounded once per element; float sums are carried in double.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ops/index/lines.h"

namespace fl::kernels {
namespace {

constexpr int64_t kCols = 256;

// Calls f(first element, stride along the scan, columns) for pieces of neighbouring columns.
template <class F>
void over_columns(const Lines& l, F&& f) {
  const int64_t tiles = (l.inner + kCols - 1) / kCols, width = std::min(l.inner, kCols);
  parallel_for(0, l.outer * tiles, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, l.n * width)), [&](int64_t b, int64_t e) {
    for (int64_t u = b; u < e; ++u) {
      const int64_t c = u % tiles * kCols;
      f(u / tiles * l.n * l.inner + c, l.inner, std::min(kCols, l.inner - c));
    }
  });
}

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float> || std::is_class_v<T>, double, T>;

template <class T, class A>
T narrowed(A v) {
  if constexpr (std::is_class_v<T>) return T(static_cast<float>(v));
  else return static_cast<T>(v);
}

// Scans along rows: the chains of kRows of them hide each other's latency, and more would share cache sets.
constexpr int64_t kRows = 2;
template <class T, class A, class Step>
void carry_rows(const T* in, T* out, const Lines& l, A start, const Step& step) {
  const int64_t groups = l.outer / kRows;
  parallel_for(0, groups + 1, std::max<int64_t>(1, 16384 / (kRows * l.n + 1)), [&](int64_t g0, int64_t g1) {
    for (int64_t g = g0; g < g1; ++g) {
      const T* a = in + g * kRows * l.n;
      T* o = out + g * kRows * l.n;
      const int64_t rows = g < groups ? kRows : l.outer - groups * kRows;
      if (rows < kRows) {
        for (int64_t r = 0; r < rows; ++r) {
          A carry = start;
          for (int64_t i = 0; i < l.n; ++i) o[r * l.n + i] = narrowed<T>(carry = step(carry, static_cast<A>(a[r * l.n + i])));
        }
        continue;
      }
      A carry[kRows];
      std::fill_n(carry, kRows, start);
      for (int64_t i = 0; i < l.n; ++i)
        for (int64_t r = 0; r < kRows; ++r) o[r * l.n + i] = narrowed<T>(carry[r] = step(carry[r], static_cast<A>(a[r * l.n + i])));
    }
  });
}

// y[i] = step(y[i - 1], x[i]) with the carry in A.
template <class T, class A, class Step>
void carry_scan(const Tensor& x, int64_t dim, A start, const Tensor& y, Step&& step) {
  const T* in = x.data<T>();
  T* out = y.data<T>();
  const Lines l = lines_of(x, dim);
  if (l.inner == 1 && l.outer >= kRows) return carry_rows<T, A>(in, out, l, start, step);
  over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
    A carry[kCols];
    std::fill_n(carry, m, start);
    for (int64_t i = 0; i < l.n; ++i) {
      const T* a = in + first + i * stride;
      T* o = out + first + i * stride;
      for (int64_t j = 0; j < m; ++j) {
        carry[j] = step(carry[j], static_cast<A>(a[j]));
        o[j] = narrowed<T>(carry[j]);
      }
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

template <bool Max>
void extremes(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) {
  const Lines l = lines_of(x, dim);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = std::conditional_t<std::is_class_v<T>, float, T>;
    const T* in = x.data<T>();
    T* out = values.data<T>();
    int64_t* at = indices.data<int64_t>();
    over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
      for (int64_t i = 0; i < l.n; ++i)
        for (int64_t j = 0; j < m; ++j) {
          const int64_t k = first + i * stride + j;
          if (i == 0) {
            out[k] = in[k];
            at[k] = 0;
            continue;
          }
          const W a = static_cast<W>(in[k]), best = static_cast<W>(out[k - stride]);
          const bool wins = a != a || (best == best && (Max ? a >= best : a <= best));  // the last of equals
          out[k] = wins ? in[k] : out[k - stride];
          at[k] = wins ? i : at[k - stride];
        }
    });
  });
}

}  // namespace

void cumsum(const Tensor& x_in, int64_t dim, std::optional<DType>, const Tensor& y) {
  const Tensor x = as_type_of(x_in, y);
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = std::conditional_t<std::is_same_v<T, bool>, int, Wide<T>>;
    carry_scan<T, A>(x, dim, A(0), y, [](A a, A b) { return static_cast<A>(a + b); });
  });
}
void cumprod(const Tensor& x_in, int64_t dim, std::optional<DType>, const Tensor& y) {
  const Tensor x = as_type_of(x_in, y);
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = std::conditional_t<std::is_same_v<T, bool>, int, Wide<T>>;
    carry_scan<T, A>(x, dim, A(1), y, [](A a, A b) { return static_cast<A>(a * b); });
  });
}
void logcumsumexp(const Tensor& x, int64_t dim, const Tensor& y) {
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || std::is_class_v<T>)
      carry_scan<T, double>(x, dim, -std::numeric_limits<double>::infinity(), y, [](double a, double b) {
        const double top = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
        if (std::isinf(top)) return top;
        return top + std::log1p(std::exp(low - top));
      });
  });
}
void cummax(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) { extremes<true>(x, dim, values, indices); }
void cummin(const Tensor& x, int64_t dim, const Tensor& values, const Tensor& indices) { extremes<false>(x, dim, values, indices); }

// Sums of dy from each position to the end: the gradient of cumsum.
void reverse_cumsum(const Tensor& x, int64_t dim, const Tensor& y) {
  const Lines l = lines_of(x, dim);
  visit(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = std::conditional_t<std::is_same_v<T, bool>, int, Wide<T>>;
    const T* in = x.data<T>();
    T* out = y.data<T>();
    over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
      A carry[kCols];
      std::fill_n(carry, m, A(0));
      for (int64_t i = l.n; i-- > 0;)
        for (int64_t j = 0; j < m; ++j) {
          const int64_t k = first + i * stride + j;
          carry[j] = static_cast<A>(carry[j] + static_cast<A>(in[k]));
          if constexpr (std::is_class_v<T>) out[k] = T(static_cast<float>(carry[j]));
          else out[k] = static_cast<T>(carry[j]);
        }
    });
  });
}

// Gradient of cumprod, right where x has zeros: dx[k] = sum over i >= k of dy[i] prod of x[0..i] without x[k].
// With p = prod x[0..k) and s[k] = sum over i >= k of dy[i] prod x(k..i], dx[k] = p s, and s runs backwards:
// s[k] = dy[k] + x[k + 1] s[k + 1].
void cumprod_gradient(const Tensor& dy, const Tensor& x, int64_t dim, const Tensor& dx) {
  const Lines l = lines_of(x, dim);
  std::vector<double> value(static_cast<size_t>(x.numel())), grad(static_cast<size_t>(x.numel()));
  convert_elements(value.data(), DType::Float64, x.data(), x.dtype(), x.numel());
  convert_elements(grad.data(), DType::Float64, dy.data(), dy.dtype(), dy.numel());
  for (int64_t line = 0; line < l.outer * l.inner; ++line) {
    const int64_t first = line / l.inner * l.n * l.inner + line % l.inner;
    double s = 0;
    for (int64_t i = l.n; i-- > 0;) {
      const size_t k = static_cast<size_t>(first + i * l.inner);
      s = grad[k] + (i + 1 < l.n ? value[k + static_cast<size_t>(l.inner)] * s : 0);
      grad[k] = s;
    }
    double p = 1;
    for (int64_t i = 0; i < l.n; ++i) {
      const size_t k = static_cast<size_t>(first + i * l.inner);
      grad[k] *= p;
      p *= value[k];
    }
  }
  convert_elements(dx.data(), dx.dtype(), grad.data(), DType::Float64, x.numel());
}

// y is a running log-sum-exp of x, so it only grows, y[k] >= x[k], and every exponent here is at most 0.
namespace {
void scan_weighted(const Tensor& h, const Tensor& x, const Tensor& y, int64_t dim, bool backward, const Tensor& out) {
  const Lines l = lines_of(x, dim);
  visit(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || std::is_class_v<T>) {
      const T *hs = h.data<T>(), *xs = x.data<T>(), *ys = y.data<T>();
      T* o = out.data<T>();
      auto weight = [](T from, T to) {  // exp(from - to), 1 for equal infinities
        const double a = static_cast<double>(from), b = static_cast<double>(to);
        return a == b ? 1.0 : std::exp(a - b);
      };
      over_columns(l, [&](int64_t first, int64_t stride, int64_t m) {
        double carry[kCols];
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
