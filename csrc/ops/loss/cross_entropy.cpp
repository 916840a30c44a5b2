// cross_entropy and nll_loss over class indices: x seen as [N, C, inner], target as [N, inner].
//
// Of the probabilities only the row's log-sum-exp is kept. With s = label_smoothing, w the class weights,
// t the target and W = sum(w), one element is
//   loss = -(1 - s) w[t] log p[t] - s / C * sum_c w[c] log p[c]
//   d loss / d x[c] = p[c] a - (1 - s) w[t] [c == t] - s / C * w[c],   a = (1 - s) w[t] + s / C * W
// and the mean divides by the sum of w[t] over the targets that count.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "ops/softmax/softmax.h"

namespace fl::kernels {
namespace {

struct Axes {
  int64_t n = 1, classes = 1, inner = 1;
  int64_t elements() const { return n * inner; }
};
Axes axes_of(IntList shape) {
  if (shape.size() == 1) return {1, shape[0], 1};
  Axes a{shape[0], shape[1], 1};
  for (size_t d = 2; d < shape.size(); ++d) a.inner *= shape[d];
  return a;
}

class Targets {
 public:
  explicit Targets(const Tensor& t) : data_(t.data()), type_(t.dtype()) {}
  int64_t operator[](int64_t i) const {
    switch (type_) {
      case DType::Int64: return static_cast<const int64_t*>(data_)[i];
      case DType::Int32: return static_cast<const int32_t*>(data_)[i];
      default: return static_cast<const uint8_t*>(data_)[i];
    }
  }

 private:
  const void* data_;
  DType type_;
};

inline float lse_of(const float* x, int64_t n, int64_t step) { return logsumexp_row_f32(x, n, step); }
inline double lse_of(const double* x, int64_t n, int64_t step) { return logsumexp_row_f64(x, n, step); }
inline void scaled(const float* x, float lse, float scale, float* dx, int64_t n, int64_t step) { scaled_softmax_row_f32(x, lse, scale, dx, n, step); }
inline void scaled(const double* x, double lse, double scale, double* dx, int64_t n, int64_t step) { scaled_softmax_row_f64(x, lse, scale, dx, n, step); }

template <class T>
struct Weights {
  const T* w;
  double sum;
  Weights(const Tensor& weight, int64_t classes) : w(weight.defined() ? weight.data<T>() : nullptr), sum(static_cast<double>(classes)) {
    if (!w) return;
    sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += w[c];
  }
  T operator[](int64_t c) const { return w ? w[c] : T(1); }
};

// Sums losses and target weights over fixed chunks, in order; writes y and returns the weight.
template <class T, class F>
double reduce(const Axes& a, int64_t reduction, T* y, const F& element) {
  const int64_t chunk = std::clamp<int64_t>(16384 / (a.classes + 1), 1, 1024);
  const int64_t n = a.elements(), chunks = (n + chunk - 1) / chunk;
  std::vector<double> loss(chunks), weight(chunks);
  const int64_t grain = std::max<int64_t>(1, 16384 / (a.classes * chunk + 1));
  const auto run = [&](int64_t c, int64_t i0, int64_t i1) {
    double l = 0, w = 0;
    for (int64_t i = i0; i < i1; ++i) {
      const auto [value, target_weight] = element(i);
      if (reduction == 0) y[i] = static_cast<T>(value);
      l += value, w += target_weight;
    }
    loss[c] = l, weight[c] = w;
  };
  parallel_for(0, chunks, grain, [&](int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c) run(c, c * chunk, std::min(n, (c + 1) * chunk));
  });
  double l = 0, w = 0;
  for (int64_t c = 0; c < chunks; ++c) l += loss[c], w += weight[c];
  if (reduction == 1) *y = static_cast<T>(l / w);
  if (reduction == 2) *y = static_cast<T>(l);
  return w;
}

template <class F>
void for_elements(const Axes& a, const F& f) {
  parallel_for(0, a.elements(), std::max<int64_t>(1, 8192 / (a.classes + 1)), [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) f(i, i / a.inner * a.classes * a.inner + i % a.inner);
  });
}

}  // namespace

void cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
                   double label_smoothing, const Tensor& lse, const Tensor& total, const Tensor& y) {
  const WideOutput out(y);
  const Tensor wx = widened(x), ww = widened(weight);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_float(wx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* px = wx.data<T>();
    T* pl = lse.data<T>();
    const Weights<T> w(ww, a.classes);
    const double smooth = label_smoothing / static_cast<double>(a.classes);
    const double sum = reduce<T>(a, reduction, out.wide.data<T>(), [&](int64_t i) -> std::pair<double, double> {
      const T* row = px + i / a.inner * a.classes * a.inner + i % a.inner;
      const T l = lse_of(row, a.classes, a.inner);
      pl[i] = l;
      const int64_t t = targets[i];
      if (t == ignore_index) return {0.0, 0.0};
      const double wt = w[t];
      double value = wt * (static_cast<double>(l) - row[t * a.inner]);
      if (label_smoothing != 0) {
        double all = 0;
        for (int64_t c = 0; c < a.classes; ++c) all += w[c] * (static_cast<double>(l) - row[c * a.inner]);
        value = (1 - label_smoothing) * value + smooth * all;
      }
      return {value, wt};
    });
    *total.data<T>() = static_cast<T>(reduction == 1 ? sum : 1);
  });
}

void cross_entropy_backward(const Tensor& dy, const Tensor& x, const Tensor& lse, const Tensor& total, const Tensor& target,
                            const Tensor& weight, int64_t reduction, int64_t ignore_index, double label_smoothing, const Tensor& dx) {
  const WideOutput out(dx);
  const Tensor wx = widened(x), ww = widened(weight), wdy = widened(dy);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_float(wx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *px = wx.data<T>(), *pl = lse.data<T>(), *pd = wdy.data<T>();
    T* po = out.wide.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>(), s = static_cast<T>(label_smoothing), smooth = s / static_cast<T>(a.classes);
    for_elements(a, [&](int64_t i, int64_t at) {
      const int64_t t = targets[i];
      T* row = po + at;
      if (t == ignore_index) {
        for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] = 0;
        return;
      }
      const T g = (reduction == 0 ? pd[i] : *pd) * scale;
      const T hit = (1 - s) * w[t];
      scaled(px + at, pl[i], g * (hit + smooth * static_cast<T>(w.sum)), row, a.classes, a.inner);
      row[t * a.inner] -= g * hit;
      if (s != 0)
        for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] -= g * smooth * w[c];
    });
  });
}

// For v in the place of a gradient of dx: ddy = <v, d loss / d x>, gx = d <v, dx> / d x.
void cross_entropy_double_backward(const Tensor& v, const Tensor& dy, const Tensor& x, const Tensor& lse, const Tensor& total,
                                   const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
                                   double label_smoothing, const Tensor& ddy, const Tensor& gx) {
  const WideOutput out(gx), out_dy(ddy);
  const Tensor wx = widened(x), ww = widened(weight), wdy = widened(dy), wv = widened(v);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_float(wx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *px = wx.data<T>(), *pl = lse.data<T>(), *pd = wdy.data<T>(), *pv = wv.data<T>();
    T* po = out.wide.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>(), s = static_cast<T>(label_smoothing), smooth = s / static_cast<T>(a.classes);
    std::vector<double> along(a.elements());
    for_elements(a, [&](int64_t i, int64_t at) {
      const int64_t t = targets[i];
      T* row = po + at;
      const T* vr = pv + at;
      if (t == ignore_index) {
        for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] = 0;
        return;
      }
      const T g = (reduction == 0 ? pd[i] : *pd) * scale, hit = (1 - s) * w[t], all = hit + smooth * static_cast<T>(w.sum);
      scaled(px + at, pl[i], T(1), row, a.classes, a.inner);
      double mean = 0, direct = hit * vr[t * a.inner];
      for (int64_t c = 0; c < a.classes; ++c) {
        mean += row[c * a.inner] * vr[c * a.inner];
        if (s != 0) direct += smooth * w[c] * vr[c * a.inner];
      }
      for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] *= g * all * (vr[c * a.inner] - static_cast<T>(mean));
      along[i] = (all * mean - direct) * scale;
    });
    T* pdd = out_dy.wide.data<T>();
    double sum = 0;
    for (int64_t i = 0; i < a.elements(); ++i) {
      if (reduction == 0) pdd[i] = static_cast<T>(along[i]);
      sum += along[i];
    }
    if (reduction != 0) *pdd = static_cast<T>(sum);
  });
}

void nll_loss(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index, const Tensor& total,
              const Tensor& y) {
  const WideOutput out(y);
  const Tensor wx = widened(x), ww = widened(weight);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_float(wx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* px = wx.data<T>();
    const Weights<T> w(ww, a.classes);
    const double sum = reduce<T>(a, reduction, out.wide.data<T>(), [&](int64_t i) -> std::pair<double, double> {
      const int64_t t = targets[i];
      if (t == ignore_index) return {0.0, 0.0};
      const double wt = w[t];
      return {-wt * px[i / a.inner * a.classes * a.inner + t * a.inner + i % a.inner], wt};
    });
    *total.data<T>() = static_cast<T>(reduction == 1 ? sum : 1);
  });
}

void nll_loss_backward(const Tensor& dy, const Tensor& target, const Tensor& weight, const Tensor& total, IntList shape, int64_t reduction,
                       int64_t ignore_index, const Tensor& dx) {
  const WideOutput out(dx);
  const Tensor ww = widened(weight), wdy = widened(dy);
  const Axes a = axes_of(shape);
  const Targets targets(target);
  visit_float(out.wide.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* pd = wdy.data<T>();
    T* po = out.wide.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>();
    for_elements(a, [&](int64_t i, int64_t at) {
      const int64_t t = targets[i];
      for (int64_t c = 0; c < a.classes; ++c) po[at + c * a.inner] = 0;
      if (t != ignore_index) po[at + t * a.inner] = -(reduction == 0 ? pd[i] : *pd) * scale * w[t];
    });
  });
}

}  // namespace fl::kernels
