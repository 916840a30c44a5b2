#include "ops/norm/group_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "ops/norm/norm.h"
#include "tensor/raw.h"

namespace fl::kernels {
namespace {

// Each sample is a matrix [plane, c], cut into bands of rows and strips of columns, whatever the number of threads.
struct Samples {
  static constexpr int64_t kRows = 256, kCols = 64;
  int64_t n, plane, c, groups, per_group, bands, strips;
  Samples(const Tensor& x, int64_t asked)
      : n(x.size(0)), plane(x.numel() / (x.size(0) * x.size(1))), c(x.size(1)), groups(asked ? asked : c), per_group(c / groups),
        bands((plane + kRows - 1) / kRows), strips((c + kCols - 1) / kCols) {}
  int64_t rows(int64_t band) const { return std::min(kRows, plane - band * kRows); }
  int64_t at(int64_t sample, int64_t band) const { return (sample * plane + band * kRows) * c; }  // its first element
  // f(sample, band, first column, columns)
  template <class F>
  void each_strip(const F& f) const {
    parallel_for(0, n * bands * strips, 2, [&](int64_t j0, int64_t j1) {
      for (int64_t j = j0; j < j1; ++j) {
        const int64_t col = j % strips * kCols;
        f(j / strips / bands, j / strips % bands, col, std::min(kCols, c - col));
      }
    });
  }
  // f(sample, band)
  template <class F>
  void each_band(const F& f) const {
    parallel_for(0, n * bands, std::max<int64_t>(1, 16384 / (std::min(plane, kRows) * c + 1)), [&](int64_t j0, int64_t j1) {
      for (int64_t j = j0; j < j1; ++j) f(j / bands, j % bands);
    });
  }
  // f(sample, group)
  template <class F>
  void each_group(const F& f) const {
    parallel_for(0, n * groups, std::max<int64_t>(1, 4096 / (bands * per_group + 1)), [&](int64_t j0, int64_t j1) {
      for (int64_t j = j0; j < j1; ++j) f(j / groups, j % groups);
    });
  }
};

template <class T>
const T* pointer(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

template <class T>
ColumnLimits<T> no_limits(const T* scale, const T* shift) {
  constexpr T kNone = std::numeric_limits<T>::quiet_NaN();
  return {scale, shift, kNone, kNone};
}

}  // namespace

void group_columns(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  const ChannelRows from(x), to = ChannelRows::fresh(y);
  const DType type = compute_float(x);
  const Tensor ww = converted(weight, type), wb = converted(bias, type);
  const Samples s(x, groups);
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const S* px = from.matrix().data<S>();
    S* py = to.matrix().data<S>();
    const T *pw = pointer<T>(ww), *pb = pointer<T>(wb);
    T *pm = mean.data<T>(), *pr = rstd.data<T>();
    std::vector<double> means(s.n * s.bands * s.c), squares(s.n * s.bands * s.c);
    s.each_strip([&](int64_t i, int64_t band, int64_t col, int64_t width) {
      const int64_t part = (i * s.bands + band) * s.c + col;
      FL_PICK_MEMORY(norm_col_stats)(px + s.at(i, band) + col, s.rows(band), s.c, width, means.data() + part, squares.data() + part);
    });
    std::vector<T> scale(s.n * s.c), shift(s.n * s.c);
    s.each_group([&](int64_t i, int64_t g) {  // the parts merge as in Chan, Golub, LeVeque 1979
      const double count = static_cast<double>(s.plane * s.per_group);
      double sum = 0;
      for (int64_t band = 0; band < s.bands; ++band) {
        const double* m = means.data() + (i * s.bands + band) * s.c + g * s.per_group;
        double of_band = 0;
        for (int64_t k = 0; k < s.per_group; ++k) of_band += m[k];
        sum += of_band * static_cast<double>(s.rows(band));
      }
      const double middle = sum / count;
      double all = 0;
      for (int64_t band = 0; band < s.bands; ++band) {
        const int64_t part = (i * s.bands + band) * s.c + g * s.per_group;
        const double rows = static_cast<double>(s.rows(band));
        for (int64_t k = 0; k < s.per_group; ++k) {
          const double off = means[part + k] - middle;
          all += squares[part + k] + rows * off * off;
        }
      }
      const double r = 1 / std::sqrt(all / count + eps);
      const T m = static_cast<T>(middle);
      pm[i * s.groups + g] = m;
      pr[i * s.groups + g] = static_cast<T>(r);
      for (int64_t k = g * s.per_group; k < (g + 1) * s.per_group; ++k) {
        const T f = static_cast<T>(r * (pw ? pw[k] : T(1)));
        scale[i * s.c + k] = f;
        shift[i * s.c + k] = (pb ? pb[k] : T(0)) - m * f;
      }
    });
    s.each_band([&](int64_t i, int64_t band) {
      const int64_t at = s.at(i, band);
      FL_PICK_MEMORY(norm_col_affine)(px + at, py + at, s.rows(band), s.c, s.c, no_limits(scale.data() + i * s.c, shift.data() + i * s.c));
    });
  });
}

void group_columns_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, int64_t groups, bool needs_x,
                            bool needs_w, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const ChannelRows rows_x(x), rows_g(dy);
  const WideOutput out_w(dw), out_b(db);
  const Tensor ww = converted(weight, compute_float(x));
  const Samples s(x, groups);
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const S *px = rows_x.matrix().data<S>(), *pg = rows_g.matrix().data<S>();
    const T *pw = pointer<T>(ww), *pm = mean.data<T>(), *pr = rstd.data<T>();
    std::vector<T> middle(s.n * s.c);  // of its group, for each channel
    const std::vector<T> none(s.c, T(0));
    for (int64_t i = 0; i < s.n; ++i)
      for (int64_t k = 0; k < s.c; ++k) middle[i * s.c + k] = pm[i * s.groups + k / s.per_group];
    std::vector<double> sums(s.n * s.bands * s.c), dots(s.n * s.bands * s.c);
    s.each_strip([&](int64_t i, int64_t band, int64_t col, int64_t width) {
      const int64_t part = (i * s.bands + band) * s.c + col, at = s.at(i, band) + col;
      FL_PICK_MEMORY(norm_col_dots)(pg + at, px + at, s.rows(band), s.c, width, middle.data() + i * s.c + col, no_limits(none.data(), none.data()), sums.data() + part,
                                    dots.data() + part);
    });
    std::vector<T> a(s.n * s.c), b(s.n * s.c), c(s.n * s.c);
    s.each_group([&](int64_t i, int64_t g) {
      const double count = static_cast<double>(s.plane * s.per_group), r = pr[i * s.groups + g];
      double total_sum = 0, total_dot = 0;
      const int64_t first = i * s.bands * s.c;
      for (int64_t k = g * s.per_group; k < (g + 1) * s.per_group; ++k) {
        for (int64_t band = 1; band < s.bands; ++band) sums[first + k] += sums[first + band * s.c + k], dots[first + k] += dots[first + band * s.c + k];
        const double f = pw ? pw[k] : T(1);
        total_sum += f * sums[first + k], total_dot += f * dots[first + k];
      }
      for (int64_t k = g * s.per_group; k < (g + 1) * s.per_group; ++k) {
        a[i * s.c + k] = static_cast<T>(r * (pw ? pw[k] : T(1)));
        b[i * s.c + k] = static_cast<T>(-total_dot / count * r * r * r);
        c[i * s.c + k] = static_cast<T>(-r * total_sum / count);
      }
    });
    if (needs_w) {
      T* tw = out_w.wide.defined() ? out_w.wide.data<T>() : nullptr;
      T* tb = out_b.wide.defined() ? out_b.wide.data<T>() : nullptr;
      for (int64_t k = 0; k < s.c; ++k) {
        double to_w = 0, to_b = 0;
        for (int64_t i = 0; i < s.n; ++i) {
          to_w += dots[i * s.bands * s.c + k] * static_cast<double>(pr[i * s.groups + k / s.per_group]);
          to_b += sums[i * s.bands * s.c + k];
        }
        if (tw) tw[k] = static_cast<T>(to_w);
        if (tb) tb[k] = static_cast<T>(to_b);
      }
    }
    if (!needs_x) return;
    const ChannelRows to = &dx.storage() == &dy.storage() ? ChannelRows(dx, RawBytes::Write) : ChannelRows::fresh(dx);
    S* pd = to.matrix().data<S>();
    s.each_band([&](int64_t i, int64_t band) {
      const int64_t at = s.at(i, band), k = i * s.c;
      FL_PICK_MEMORY(norm_col_combine)(pg + at, px + at, pd + at, s.rows(band), s.c, s.c, middle.data() + k, a.data() + k, b.data() + k, c.data() + k,
                                       no_limits(none.data(), none.data()));
    });
  });
}

}  // namespace fl::kernels
