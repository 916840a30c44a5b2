// batch_norm, group_norm (and instance_norm), layer_norm and rms_norm, with first and second derivatives.
//
// All of them scale a set S of M elements: xhat = (x - mean) * r, r = 1 / sqrt(mean((x - mean)^2) + eps),
// y = w * xhat + b, where rms_norm has no mean. With g = w * dy and bars for means over S
//   dx = r (g - gbar - xhat c),  c = mean(g xhat)
// and for gradients u of dx, a of dweight, e of dbias (see double_backward)
//   ddy = w P(u) + a xhat + e,   P(u) = r (u - ubar - xhat d),   d = mean(u xhat),   dw = sum(dy P(u))
//   gx  = -r^2 xhat M Q / M + r (h - hbar - xhat mean(h xhat)),   Q = mean(u g) - ubar gbar - c d,
//   h   = a dy - r (d g + c u)
#include "ops/norm/norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "dispatch/walks.h"
#include "ops/matmul/half.h"
#include "tensor/raw.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

template <class T>
const T* pointer(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// x seen as [n, c, plane]. Without elements it has no samples, however long its axes are.
struct Channels {
  int64_t n, c, plane;
};
Channels channels_of(const Tensor& x) {
  if (x.numel() == 0) return {0, x.size(1), 0};
  return {x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1))};
}

// A matrix [n, c] cut into bands of rows and strips of 64 columns, whatever the number of threads.
struct Bands {
  static constexpr int64_t kRows = 256, kCols = 64;
  int64_t n, c, count, strips;
  explicit Bands(const Channels& s) : n(s.n), c(s.c), count((s.n + kRows - 1) / kRows), strips((s.c + kCols - 1) / kCols) {}
  int64_t rows(int64_t band) const { return std::min(kRows, n - band * kRows); }
  // f(band, first row, rows, first column, columns)
  template <class F>
  void each(const F& f) const {
    parallel_for(0, count * strips, 2, [&](int64_t j0, int64_t j1) {
      for (int64_t j = j0; j < j1; ++j) {
        const int64_t band = j / strips, col = j % strips * kCols;
        f(band, band * kRows, rows(band), col, std::min(kCols, c - col));
      }
    });
  }
};

// Means over a set of channels [c0, c1): sums over n planes, then squares. S is the type in memory.
template <class S, class T = Computed<S>>
void batch_stats(const Tensor& tensor, const Channels& s, double eps, T* mean, T* rstd, double* variance) {
  const double count = static_cast<double>(s.n * s.plane);
  if (s.plane == 1) {
    // Bands of rows that stay in the cache for both passes; their means and squares merge as in Chan, Golub, LeVeque 1979.
    const Bands bands(s);
    std::vector<double> means(bands.count * s.c), squares(bands.count * s.c);
    bands.each([&](int64_t band, int64_t row, int64_t rows, int64_t c, int64_t width) {
      FL_PICK_MEMORY(norm_col_stats)(tensor.data<S>() + row * s.c + c, rows, s.c, width, means.data() + band * s.c + c, squares.data() + band * s.c + c);
    });
    for (int64_t c = 0; c < s.c; ++c) {
      double n = 0, m = 0, m2 = 0;
      for (int64_t band = 0; band < bands.count; ++band) {
        const double k = static_cast<double>(bands.rows(band)), delta = means[band * s.c + c] - m;
        n += k;
        m += delta * k / n;
        m2 += squares[band * s.c + c] + delta * delta * k * (n - k) / n;
      }
      mean[c] = static_cast<T>(m);
      variance[c] = m2 / count;
      rstd[c] = static_cast<T>(1 / std::sqrt(variance[c] + eps));
    }
    return;
  }
  const Pieces<T> x(tensor);
  parallel_work(s.c, s.n * s.plane, 16384, [&](int64_t c0, int64_t c1) {
    const Tensor wide = x.buffer(s.plane);
    for (int64_t c = c0; c < c1; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < s.n; ++n) sum += FL_PICK(norm_sum)(x.read((n * s.c + c) * s.plane, s.plane, wide), s.plane);
      mean[c] = static_cast<T>(sum / count);
      double squares = 0;
      for (int64_t n = 0; n < s.n; ++n) squares += FL_PICK(norm_squares)(x.read((n * s.c + c) * s.plane, s.plane, wide), s.plane, mean[c]);
      variance[c] = squares / count;
      rstd[c] = static_cast<T>(1 / std::sqrt(variance[c] + eps));
    }
  });
}

// Scale and shift of each channel, with what follows: Limits.
template <class T>
struct ChannelLimits {
  std::vector<T> scale, shift;
  T lo, hi;
  ChannelLimits(int64_t c, const T* mean, const T* rstd, const T* weight, const T* bias, double low, double high)
      : scale(c), shift(c), lo(static_cast<T>(low)), hi(static_cast<T>(high)) {
    for (int64_t i = 0; i < c; ++i) {
      scale[i] = rstd[i] * (weight ? weight[i] : T(1));
      shift[i] = (bias ? bias[i] : T(0)) - mean[i] * scale[i];
    }
  }
  Limits<T> of(int64_t c) const { return {scale[c], shift[c], lo, hi}; }
  ColumnLimits<T> from(int64_t c) const { return {scale.data() + c, shift.data() + c, lo, hi}; }
};

// A large result goes past the caches, tile by tile: its lines need not be read first, and who reads it next would not find them there. (Gradients are as
// fast either way: measured.)
template <class S, class T>
void batch_affine(const Tensor& from, const Tensor& to, const Channels& s, const ChannelLimits<T>& limits) {
  if (s.plane == 1) {
    constexpr int64_t kTileElements = 4096, kFew = 256;  // few enough that reading goes on while they are written
    const S* const x = from.data<S>();
    S* const y = to.data<S>();
    const bool streams = s.n * s.c * static_cast<int64_t>(sizeof(S)) >= kStreamBytes && s.c <= kTileElements && x != y;
    parallel_work(s.n, s.c, 16384, [&](int64_t n0, int64_t n1) {
      if (!streams) return FL_PICK_MEMORY(norm_col_affine)(x + n0 * s.c, y + n0 * s.c, n1 - n0, s.c, s.c, limits.from(0));
      alignas(64) S tile[kTileElements];
      const int64_t step = std::max<int64_t>(1, kFew / s.c);
      for (int64_t r = n0; r < n1; r += step) {
        const int64_t rows = std::min(step, n1 - r);
        FL_PICK_MEMORY(norm_col_affine)(x + r * s.c, tile, rows, s.c, s.c, limits.from(0));
        stream_loop(y + r * s.c, tile, static_cast<size_t>(rows * s.c) * sizeof(S));
      }
      stream_end();
    });
    return;
  }
  const Pieces<T> x(from), y(to);
  parallel_work(s.n * s.c, s.plane, 16384, [&](int64_t r0, int64_t r1) {
    const Tensor in = x.buffer(s.plane), out = y.buffer(s.plane);
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t at = r * s.plane;
      FL_PICK(norm_affine)(x.read(at, s.plane, in), y.place(at, out), s.plane, limits.of(r % s.c));
      y.write(at, s.plane, out);
    }
  });
}

template <class S, class T>
void sums_of_gradients(const Tensor& grads, const Tensor& from, const Channels& s, const T* mean, const ChannelLimits<T>& limits, double* sum_dy,
                      double* sum_dot) {
  if (s.plane == 1) {
    const Bands bands(s);
    std::vector<double> parts(2 * bands.count * s.c);
    bands.each([&](int64_t band, int64_t row, int64_t rows, int64_t c, int64_t width) {
      double* to = parts.data() + 2 * band * s.c + c;
      const int64_t at = row * s.c + c;
      FL_PICK_MEMORY(norm_col_dots)(grads.data<S>() + at, from.data<S>() + at, rows, s.c, width, mean + c, limits.from(c), to, to + s.c);
    });
    for (int64_t c = 0; c < s.c; ++c) {
      sum_dy[c] = sum_dot[c] = 0;
      for (int64_t band = 0; band < bands.count; ++band) sum_dy[c] += parts[2 * band * s.c + c], sum_dot[c] += parts[(2 * band + 1) * s.c + c];
    }
    return;
  }
  const Pieces<T> dy(grads), x(from);
  parallel_work(s.c, s.n * s.plane, 16384, [&](int64_t c0, int64_t c1) {
    const Tensor wide_g = dy.buffer(s.plane), wide = x.buffer(s.plane);
    for (int64_t c = c0; c < c1; ++c) {
      sum_dy[c] = sum_dot[c] = 0;
      for (int64_t n = 0; n < s.n; ++n) {
        double part[2];
        const int64_t at = (n * s.c + c) * s.plane;
        FL_PICK(norm_dots)(dy.read(at, s.plane, wide_g), x.read(at, s.plane, wide), s.plane, mean[c], limits.of(c), part);
        sum_dy[c] += part[0];
        sum_dot[c] += part[1];
      }
    }
  });
}

// The sets of layer_norm, group_norm and rms_norm: rows of m elements; element j of row r has weight
// (r % groups) * per_row + j / span.
struct Rows {
  int64_t rows, m, groups, per_row, span;
  int64_t weight(int64_t r, int64_t j) const { return r % groups * per_row + j / span; }
  int64_t weights() const { return groups * per_row; }
};

// Second derivatives for one set, elements addressed by `at(j)` and weights by `weight(j)`.
template <class T, class At, class Weight>
void double_backward_set(int64_t m, const At& at, const Weight& weight, const T* u, const T* a, const T* e, const T* dy, const T* x, const T* w,
                         double mean, double r, bool centered, bool constant, T* ddy, T* gx, double* gw) {
  double sums[6] = {};  // u, g, u g, u xhat, g xhat
  const double n = static_cast<double>(m);
  if (!constant) {
    for (int64_t j = 0; j < m; ++j) {
      const int64_t i = at(j);
      const double xhat = (x[i] - mean) * r, g = (w ? w[weight(j)] : T(1)) * static_cast<double>(dy[i]), v = u ? u[i] : 0;
      sums[0] += v, sums[1] += g, sums[2] += v * g, sums[3] += v * xhat, sums[4] += g * xhat;
    }
    for (double& s : sums) s /= n;
    if (!centered) sums[0] = sums[1] = 0;
  }
  const double ubar = sums[0], d = sums[3], c = sums[4], q = sums[2] - sums[0] * sums[1] - c * d;
  double hbar = 0, hx = 0;
  const auto h_of = [&](int64_t j, int64_t i) {
    const int64_t k = weight(j);
    const double g = (w ? w[k] : T(1)) * static_cast<double>(dy[i]), v = u ? u[i] : 0;
    return (a ? a[k] * static_cast<double>(dy[i]) : 0.0) - (constant ? 0.0 : r * (d * g + c * v));
  };
  if (!constant) {
    for (int64_t j = 0; j < m; ++j) {
      const int64_t i = at(j);
      const double h = h_of(j, i);
      hbar += h, hx += h * (x[i] - mean) * r;
    }
    hbar = centered ? hbar / n : 0;
    hx /= n;
  }
  for (int64_t j = 0; j < m; ++j) {
    const int64_t i = at(j), k = weight(j);
    const double xhat = (x[i] - mean) * r, v = u ? u[i] : 0;
    const double p = constant ? r * v : r * (v - ubar - xhat * d);
    ddy[i] = static_cast<T>((w ? w[k] : T(1)) * p + (a ? a[k] * xhat : 0.0) + (e ? static_cast<double>(e[k]) : 0.0));
    gx[i] = static_cast<T>(r * (h_of(j, i) - hbar - xhat * hx) - r * r * xhat * q);
    gw[k] += dy[i] * p;
  }
}

template <class T>
void store(const std::vector<double>& from, const Tensor& to) {
  for (size_t i = 0; i < from.size(); ++i) to.data<T>()[i] = static_cast<T>(from[i]);
}

void rows_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Rows& s, double eps, bool centered, const Tensor& mean,
                  const Tensor& rstd, const Tensor& y) {
  const DType type = compute_float(x);
  const Tensor ww = converted(weight, type), wb = converted(bias, type);
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    const Pieces<T> rows_in(x), rows_out(y);
    const T *pw = pointer<T>(ww), *pb = pointer<T>(wb);
    T *pm = mean.defined() ? mean.data<T>() : nullptr, *pr = rstd.data<T>();
    const bool simple = s.groups == 1 && s.span == 1;  // weights run along the row
    if constexpr (std::is_same_v<T, float>) {
      if (simple && is_half(x.dtype()) && y.dtype() == x.dtype()) {
        constexpr int64_t kVector = 16;
        return parallel_work(s.rows, s.m, 8192, [&](int64_t r0, int64_t r1) {
          const Tensor row = empty(Dims{s.m + kVector}, DType::Float32);
          for (int64_t r = r0; r < r1; ++r) {
            const int64_t at = r * s.m;
            T* const m = pm ? pm + r : nullptr;
            if (x.dtype() == DType::BFloat16)
              norm_row_bf16(x.data<BFloat16>() + at, pw, pb, y.data<BFloat16>() + at, row.data<float>(), s.m, eps, centered, m, pr + r);
            else
              norm_row_f16(x.data<Float16>() + at, pw, pb, y.data<Float16>() + at, row.data<float>(), s.m, eps, centered, m, pr + r);
          }
        });
      }
    }
    parallel_work(s.rows, s.m, 8192, [&](int64_t r0, int64_t r1) {
      const Tensor wide = rows_in.buffer(s.m), result = rows_out.buffer(s.m);
      for (int64_t r = r0; r < r1; ++r) {
        const T* px = rows_in.read(r * s.m, s.m, wide);
        T* py = rows_out.place(r * s.m, result);
        if (simple) {
          FL_PICK(norm_row)(px, pw, pb, py, s.m, eps, centered, pm ? pm + r : nullptr, pr + r);
          rows_out.write(r * s.m, s.m, result);
          continue;
        }
        const T m = static_cast<T>(FL_PICK(norm_sum)(px, s.m) / static_cast<double>(s.m));
        const double scale = 1 / std::sqrt(FL_PICK(norm_squares)(px, s.m, m) / static_cast<double>(s.m) + eps);
        pm[r] = m;
        pr[r] = static_cast<T>(scale);
        for (int64_t k = 0; k < s.per_row; ++k) {
          const int64_t i = r % s.groups * s.per_row + k, at = k * s.span;
          const T f = static_cast<T>(scale * (pw ? pw[i] : T(1)));
          FL_PICK(norm_affine)(px + at, py + at, s.span, Limits<T>{f, (pb ? pb[i] : T(0)) - m * f});
        }
        rows_out.write(r * s.m, s.m, result);
      }
    });
  });
}

void rows_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Rows& s, bool centered,
                   bool needs_x, bool needs_w, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const DType type = compute_float(x);
  const WideOutput out_w(dw, type), out_b(db, type);
  const Tensor ww = converted(weight, type);
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    const Pieces<T> rows_g(dy), rows_in(x), rows_out(dx);
    const T *pw = pointer<T>(ww), *pm = mean.defined() ? mean.data<T>() : nullptr, *pr = rstd.data<T>();
    const int64_t weights = s.weights();
    const bool simple = s.groups == 1 && s.span == 1;
    // Rows are summed in fixed chunks, then the chunks in order.
    const int64_t chunks = std::max<int64_t>(1, std::min<int64_t>({s.rows, 32, s.rows * s.m / 4096 + 1}));
    std::vector<T> sums(needs_w ? 2 * chunks * weights : 0, T(0));
    parallel_for(0, chunks, 1, [&](int64_t k0, int64_t k1) {
      const Tensor wide_g = rows_g.buffer(s.m), wide = rows_in.buffer(s.m), result = rows_out.buffer(s.m);
      for (int64_t k = k0; k < k1; ++k) {
        T* to_w = needs_w ? sums.data() + 2 * k * weights : nullptr;
        T* to_b = needs_w ? to_w + weights : nullptr;
        for (int64_t r = s.rows * k / chunks; r < s.rows * (k + 1) / chunks; ++r) {
          const T m = pm ? pm[r] : T(0), rs = pr[r];
          const T *pd = rows_g.read(r * s.m, s.m, wide_g), *px = rows_in.read(r * s.m, s.m, wide);
          T* po = rows_out.place(r * s.m, result);
          if (simple) {
            FL_PICK(norm_row_backward)(pd, px, pw, m, rs, s.m, centered, needs_x ? po : nullptr, to_w, to_b);
            if (needs_x) rows_out.write(r * s.m, s.m, result);
            continue;
          }
          double total[2] = {};
          for (int64_t c = 0; c < s.per_row; ++c) {
            double part[2];
            const int64_t i = r % s.groups * s.per_row + c, from = c * s.span;
            FL_PICK(norm_dots)(pd + from, px + from, s.span, m, Limits<T>(), part);
            const double f = pw ? pw[i] : T(1);
            total[0] += f * part[0], total[1] += f * part[1];
            if (needs_w) to_b[i] += static_cast<T>(part[0]), to_w[i] += static_cast<T>(part[1] * rs);
          }
          if (!needs_x) continue;
          const double n = static_cast<double>(s.m), b = -total[1] / n * rs * rs * rs, shift = -rs * total[0] / n;
          for (int64_t c = 0; c < s.per_row; ++c) {
            const int64_t i = r % s.groups * s.per_row + c, from = c * s.span;
            FL_PICK(norm_combine)(pd + from, px + from, po + from, s.span, m, rs * (pw ? pw[i] : T(1)), static_cast<T>(b), static_cast<T>(shift), Limits<T>());
          }
          rows_out.write(r * s.m, s.m, result);
        }
      }
    });
    if (!needs_w) return;
    T* tw = out_w.wide.defined() ? out_w.wide.data<T>() : nullptr;
    T* tb = out_b.wide.defined() ? out_b.wide.data<T>() : nullptr;
    for (int64_t i = 0; i < weights; ++i) {
      double a = 0, b = 0;
      for (int64_t k = 0; k < chunks; ++k) a += sums[2 * k * weights + i], b += sums[(2 * k + 1) * weights + i];
      if (tw) tw[i] = static_cast<T>(a);
      if (tb) tb[i] = static_cast<T>(b);
    }
  });
}

void rows_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x, const Tensor& weight,
                          const Tensor& mean, const Tensor& rstd, const Rows& s, bool centered, const Tensor& ddy, const Tensor& gx,
                          const Tensor& gw) {
  const DType t = compute_float(x);
  const WideOutput o1(ddy, t), o2(gx, t), o3(gw, t);
  const Tensor wu = converted(u, t), wa = converted(a, t), we = converted(e, t), wdy = converted(dy, t), wx = converted(x, t), ww = converted(weight, t);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(s.weights());
    for (int64_t r = 0; r < s.rows; ++r)
      double_backward_set<T>(
          s.m, [&](int64_t j) { return r * s.m + j; }, [&](int64_t j) { return s.weight(r, j); }, pointer<T>(wu), pointer<T>(wa), pointer<T>(we),
          wdy.data<T>(), wx.data<T>(), pointer<T>(ww), mean.defined() ? mean.data<T>()[r] : T(0), rstd.data<T>()[r], centered, false,
          o1.wide.data<T>(), o2.wide.data<T>(), sums.data());
    store<T>(sums, o3.wide);
  });
}

Rows layer_rows(const Tensor& x, IntList shape) {
  int64_t m = 1;
  for (const int64_t n : shape) m *= n;
  return {m ? x.numel() / m : 0, m, 1, m, 1};
}
Rows group_rows(const Tensor& x, int64_t groups) {
  const Channels s = channels_of(x);
  if (groups == 0) groups = s.c;  // instance_norm
  const int64_t each = groups ? s.c / groups : 0;
  return {s.n * groups, each * s.plane, groups, each, s.plane};
}

}  // namespace

void fold_batch_norm(const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& var, const Tensor& norm_weight,
                     const Tensor& norm_bias, double eps, const Tensor& w, const Tensor& b) {
  const WideOutput out_w(w), out_b(b);
  const DType t = out_w.wide.dtype();
  const Tensor from = converted(weight, t), add = converted(bias, t), mu = converted(mean, t), v = converted(var, t), scale = converted(norm_weight, t),
               shift = converted(norm_bias, t);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    const int64_t rows = weight.size(0), each = rows ? weight.numel() / rows : 0;
    const T *pf = from.data<T>(), *pm = mu.data<T>(), *pv = v.data<T>(), *pa = pointer<T>(add), *ps = pointer<T>(scale), *ph = pointer<T>(shift);
    T *pw = out_w.wide.data<T>(), *pb = out_b.wide.data<T>();
    for (int64_t o = 0; o < rows; ++o) {
      const double s = (ps ? ps[o] : 1.0) / std::sqrt(pv[o] + eps);
      for (int64_t i = o * each; i < (o + 1) * each; ++i) pw[i] = static_cast<T>(pf[i] * s);
      pb[o] = static_cast<T>((ph ? ph[o] : 0.0) + ((pa ? pa[o] : 0.0) - pm[o]) * s);
    }
  });
}

void batch_norm_clamp(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight, const Tensor& bias, bool training,
                      double momentum, double eps, double lo, double hi, const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  if (x.storage().maybe_deferred() && is_deferred(x)) {  // [n * s, c] is the same normalisation
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    return batch_norm_clamp(from.matrix(), running_mean, running_var, weight, bias, training, momentum, eps, lo, hi, mean, rstd, to.matrix());
  }
  const DType t = compute_float(x);
  const Tensor ww = converted(weight, t), wb = converted(bias, t);
  const Channels s = channels_of(x);
  if (x.numel() == 0 && training) {  // an empty batch has no statistics, and leaves the running ones alone
    fill_elements(mean, Scalar(0));
    fill_elements(rstd, Scalar(0));
    return;
  }
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    T *pm = mean.data<T>(), *pr = rstd.data<T>();
    std::vector<double> variance(s.c);
    if (training) {
      batch_stats<S>(x, s, eps, pm, pr, variance.data());
      if (running_mean.defined()) {
        const double n = static_cast<double>(s.n * s.plane);
        const Tensor rm = converted(running_mean, DType::Float64), rv = converted(running_var, DType::Float64);
        const Tensor new_m = empty(rm.sizes(), DType::Float64), new_v = empty(rm.sizes(), DType::Float64);
        for (int64_t c = 0; c < s.c; ++c) {
          new_m.data<double>()[c] = (1 - momentum) * rm.data<double>()[c] + momentum * pm[c];
          new_v.data<double>()[c] = (1 - momentum) * rv.data<double>()[c] + momentum * variance[c] * n / (n - 1);
        }
        copy_elements(running_mean, new_m);
        copy_elements(running_var, new_v);
      }
    } else {
      const Tensor rm = converted(running_mean, t), rv = converted(running_var, t);
      for (int64_t c = 0; c < s.c; ++c) {
        pm[c] = rm.data<T>()[c];
        pr[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(rv.data<T>()[c]) + eps));
      }
    }
    batch_affine<S>(x, y, s, ChannelLimits<T>(s.c, pm, pr, pointer<T>(ww), pointer<T>(wb), lo, hi));
  });
}

void batch_norm_again(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias, double lo, double hi, const Tensor& y) {
  if (x.storage().maybe_deferred() && is_deferred(x)) {
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    return batch_norm_again(from.matrix(), mean, rstd, weight, bias, lo, hi, to.matrix());
  }
  const DType t = compute_float(x);
  const Tensor ww = converted(weight, t), wb = converted(bias, t), wm = converted(mean, t), wr = converted(rstd, t);
  const Channels s = channels_of(x);
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    batch_affine<S>(x, y, s, ChannelLimits<T>(s.c, wm.data<T>(), wr.data<T>(), pointer<T>(ww), pointer<T>(wb), lo, hi));
  });
}

void batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight, const Tensor& bias, bool training,
                double momentum, double eps, const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  batch_norm_clamp(x, running_mean, running_var, weight, bias, training, momentum, eps, NAN, NAN, mean, rstd, y);
}

void batch_norm_clamp_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean, const Tensor& rstd,
                               bool training, bool needs_x, double lo, double hi, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  if (x.ndim() > 2 && ((x.storage().maybe_deferred() && is_deferred(x)) || (dy.storage().maybe_deferred() && is_deferred(dy)))) {
    const ChannelRows at(x), from(dy), to = &dx.storage() == &dy.storage() ? ChannelRows(dx, RawBytes::Write) : ChannelRows::fresh(dx);
    return batch_norm_clamp_backward(from.matrix(), at.matrix(), weight, bias, mean, rstd, training, needs_x, lo, hi, to.matrix(), dw, db);
  }
  const WideOutput out_w(dw, compute_float(x)), out_b(db, compute_float(x));
  const Tensor ww = converted(weight, compute_float(x)), wb = converted(bias, compute_float(x));
  const Channels s = channels_of(x);
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const T *pw = pointer<T>(ww), *pm = mean.data<T>(), *pr = rstd.data<T>();
    const ChannelLimits<T> limits(s.c, pm, pr, pw, pointer<T>(wb), lo, hi);
    std::vector<double> sum_dy(s.c), sum_dot(s.c);
    sums_of_gradients<S>(dy, x, s, pm, limits, sum_dy.data(), sum_dot.data());
    std::vector<T> a(s.c), b(s.c), c(s.c);
    const double n = static_cast<double>(s.n * s.plane);
    for (int64_t i = 0; i < s.c; ++i) {
      out_w.wide.data<T>()[i] = static_cast<T>(sum_dot[i] * pr[i]);
      out_b.wide.data<T>()[i] = static_cast<T>(sum_dy[i]);
      const double f = static_cast<double>(pw ? pw[i] : T(1)) * pr[i];
      a[i] = static_cast<T>(f);
      b[i] = training ? static_cast<T>(-f * sum_dot[i] / n * pr[i] * pr[i]) : T(0);
      c[i] = training ? static_cast<T>(-f * sum_dy[i] / n) : T(0);
    }
    if (!needs_x) return;
    // With given statistics nothing depends on x but limits: it is not read, since 0 times infinity is no 0.
    const Tensor& seen = training || !std::isnan(lo) ? x : dy;
    if (s.plane == 1) {
      parallel_work(s.n, s.c, 16384, [&](int64_t n0, int64_t n1) {
        const int64_t from = n0 * s.c;
        FL_PICK_MEMORY(norm_col_combine)(dy.data<S>() + from, seen.data<S>() + from, dx.data<S>() + from, n1 - n0, s.c, s.c, pm, a.data(), b.data(),
                                         c.data(), limits.from(0));
      });
      return;
    }
    const Pieces<T> pd(dy), px(seen), po(dx);
    parallel_work(s.n * s.c, s.plane, 16384, [&](int64_t r0, int64_t r1) {
      const Tensor wide_g = pd.buffer(s.plane), wide = px.buffer(s.plane), result = po.buffer(s.plane);
      for (int64_t r = r0; r < r1; ++r) {
        const int64_t i = r % s.c, at = r * s.plane;
        FL_PICK(norm_combine)(pd.read(at, s.plane, wide_g), px.read(at, s.plane, wide), po.place(at, result), s.plane, pm[i], a[i], b[i], c[i], limits.of(i));
        po.write(at, s.plane, result);
      }
    });
  });
}

void batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, bool training,
                         bool needs_x, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  batch_norm_clamp_backward(dy, x, weight, Tensor(), mean, rstd, training, needs_x, NAN, NAN, dx, dw, db);
}

void batch_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, bool training, const Tensor& ddy, const Tensor& gx, const Tensor& gw) {
  const DType t = compute_float(x);
  const WideOutput o1(ddy, t), o2(gx, t), o3(gw, t);
  const Tensor wu = converted(u, t), wa = converted(a, t), we = converted(e, t), wdy = converted(dy, t), wx = converted(x, t), ww = converted(weight, t);
  const Channels s = channels_of(x);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(s.c);
    parallel_for(0, s.c, 1, [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c)
        double_backward_set<T>(
            s.n * s.plane, [&](int64_t j) { return (j / s.plane * s.c + c) * s.plane + j % s.plane; }, [&](int64_t) { return c; }, pointer<T>(wu),
            pointer<T>(wa), pointer<T>(we), wdy.data<T>(), wx.data<T>(), pointer<T>(ww), mean.data<T>()[c], rstd.data<T>()[c], true, !training,
            o1.wide.data<T>(), o2.wide.data<T>(), sums.data());
    });
    store<T>(sums, o3.wide);
  });
}

void layer_norm(const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias, double eps, const Tensor& mean, const Tensor& rstd,
                const Tensor& y) {
  rows_forward(x, weight, bias, layer_rows(x, shape), eps, true, mean, rstd, y);
}
void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, IntList shape,
                         bool needs_x, bool needs_weight, bool needs_bias, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  rows_backward(dy, x, weight, mean, rstd, layer_rows(x, shape), true, needs_x, needs_weight || needs_bias, dx, dw, db);
}
void layer_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, IntList shape, const Tensor& ddy, const Tensor& gx, const Tensor& gw) {
  rows_double_backward(u, a, e, dy, x, weight, mean, rstd, layer_rows(x, shape), true, ddy, gx, gw);
}

void rms_norm(const Tensor& x, IntList shape, const Tensor& weight, std::optional<double> eps, const Tensor& rstd, const Tensor& y) {
  rows_forward(x, weight, Tensor(), layer_rows(x, shape), eps.value_or(x.dtype() == DType::Float64 ? 0x1p-52 : 0x1p-23), false, Tensor(), rstd, y);
}
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, IntList shape, bool needs_x, bool needs_w,
                       const Tensor& dx, const Tensor& dw) {
  rows_backward(dy, x, weight, Tensor(), rstd, layer_rows(x, shape), false, needs_x, needs_w, dx, dw, Tensor());
}
void rms_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                              IntList shape, const Tensor& ddy, const Tensor& gx, const Tensor& gw) {
  rows_double_backward(u, a, Tensor(), dy, x, weight, Tensor(), rstd, layer_rows(x, shape), false, ddy, gx, gw);
}

void group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, const Tensor& mean, const Tensor& rstd,
                const Tensor& y) {
  rows_forward(x, weight, bias, group_rows(x, groups), eps, true, mean, rstd, y);
}
void group_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, int64_t groups,
                         bool needs_x, bool needs_weight, bool needs_bias, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  rows_backward(dy, x, weight, mean, rstd, group_rows(x, groups), true, needs_x, needs_weight || needs_bias, dx, dw, db);
}
void group_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, int64_t groups, const Tensor& ddy, const Tensor& gx, const Tensor& gw) {
  rows_double_backward(u, a, e, dy, x, weight, mean, rstd, group_rows(x, groups), true, ddy, gx, gw);
}

void instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  group_norm(x, 0, weight, bias, eps, mean, rstd, y);
}

}  // namespace fl::kernels
