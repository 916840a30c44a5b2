// cross_entropy and nll_loss over class indices: x seen as [N, C, inner], target as [N, inner].
//
// Of the probabilities only the row's log-sum-exp is kept. With s = label_smoothing, w the class weights,
// t the target and W = sum(w), one element is
//   loss = -(1 - s) w[t] log p[t] - s / C * sum_c w[c] log p[c]
//   d loss / d x[c] = p[c] a - (1 - s) w[t] [c == t] - s / C * w[c],   a = (1 - s) w[t] + s / C * W
// and the mean divides by the sum of w[t] over the targets that count.
#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/index/bounds.h"
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

// Where x has the first class of element i. Most losses have an inner of 1, and a division takes longer than the rest.
int64_t first_class(const Axes& a, int64_t i) { return a.inner == 1 ? i * a.classes : i / a.inner * a.classes * a.inner + i % a.inner; }

// The same for elements one after another from `first` on: a division for each image and none for each element.
class FirstClasses {
 public:
  FirstClasses(const Axes& a, int64_t first)
      : a_(a), at_(first_class(a, first)), left_(a.inner - first % a.inner), step_(1) {
    if (a.inner == 1) left_ = INT64_MAX, step_ = a.classes;
  }
  int64_t next() {
    const int64_t at = at_;
    at_ += step_;
    if (--left_ == 0) at_ += (a_.classes - 1) * a_.inner, left_ = a_.inner;
    return at;
  }

 private:
  const Axes& a_;
  int64_t at_, left_, step_;
};

class Targets {
 public:
  explicit Targets(const Tensor& t) : data_(t.data()), type_(t.dtype()) {}
  // The first of n that is no class and not ignored; n where there is none.
  int64_t first_outside(int64_t n, int64_t classes, int64_t ignored) const {
    return kernels::first_outside(data_, type_, n, classes, ignored);
  }
  // f(targets as they lie)
  template <class F>
  void visit(const F& f) const {
    if (type_ == DType::Int64) f(static_cast<const int64_t*>(data_));
    else if (type_ == DType::Int32) f(static_cast<const int32_t*>(data_));
    else f(static_cast<const uint8_t*>(data_));
  }
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

// Before a gradient: a NumPy array that shares the memory may have written other targets since they were checked.
void require_classes(const char* op, const Targets& targets, const Axes& a, int64_t ignore_index) {
  if (const int64_t i = targets.first_outside(a.elements(), a.classes, ignore_index); i < a.elements())
    raise<IndexError>(op, ": target became ", targets[i], " at element ", i, " after the forward pass; expected 0 <= target < ", a.classes,
                      " or ignore_index = ", ignore_index);
}

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

// The classes of elements [.., end) in ascending order, `step` apart from at(i): the memory itself, or 16-bit floats in a
// buffer that takes some neighbours at a time. What is written there goes home when the next ones are wanted, or at the end.
template <class T>
class Classes {
 public:
  enum class Use { Read, Write };
  Classes(const Tensor& x, const Axes& a, Use use, int64_t end)
      : data_(static_cast<char*>(x.data())), type_(x.dtype()), a_(a), use_(use), end_(end), step_(a.inner) {
    if (type_ == dtype_of<T>) return;
    step_ = a.inner == 1 ? 1 : std::clamp<int64_t>(16384 / std::max<int64_t>(a.classes, 1), 8, 64);
    buffer_ = empty(Dims{a.classes, step_}, dtype_of<T>);
  }
  Classes(const Classes&) = delete;
  ~Classes() { leave(); }
  int64_t step() const { return step_; }
  T* at(int64_t i) {
    const int64_t from = first_class(a_, i);
    if (type_ == dtype_of<T>) return reinterpret_cast<T*>(data_) + from;
    if (i < first_ || i >= last_) {
      leave();
      first_ = i, last_ = std::min({i + step_, (i / a_.inner + 1) * a_.inner, end_}), from_ = from;
      if (use_ == Use::Read) each_run([](char* memory, DType type, T* piece, int64_t n) { convert_elements(piece, dtype_of<T>, memory, type, n); });
    }
    return buffer_.data<T>() + (i - first_);
  }
  // How many elements, of which at(i) was asked for the first, lie beside one another, at most 64.
  int64_t run(int64_t i) const {
    const int64_t last = type_ == dtype_of<T> ? std::min(end_, (i / a_.inner + 1) * a_.inner) : last_;
    return std::min<int64_t>(last - i, 64);
  }

 private:
  void leave() {
    if (use_ == Use::Write && last_ > first_)
      each_run([](char* memory, DType type, const T* piece, int64_t n) { convert_elements(memory, type, piece, dtype_of<T>, n); });
  }
  template <class F>
  void each_run(const F& f) {
    if (a_.inner == 1) return f(data_ + from_ * 2, type_, buffer_.data<T>(), a_.classes);
    for (int64_t c = 0; c < a_.classes; ++c) f(data_ + (from_ + c * a_.inner) * 2, type_, buffer_.data<T>() + c * step_, last_ - first_);
  }

  char* data_;
  DType type_;
  Axes a_;
  Use use_;
  int64_t end_, step_, first_ = 0, last_ = 0, from_ = 0;
  Tensor buffer_;
};

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

// Sums losses and target weights over fixed chunks, in order and in four lanes each; writes y and returns the weight.
// `elements(begin, end)` gives the function of these elements, called in order; one takes as long as reading `cost` numbers.
template <class T, class F>
double reduce(const Axes& a, int64_t cost, int64_t reduction, T* y, const F& elements) {
  const int64_t chunk = std::clamp<int64_t>(16384 / (cost + 1), 1, 1024);
  const int64_t n = a.elements(), chunks = (n + chunk - 1) / chunk;
  std::vector<double> loss(chunks), weight(chunks);
  const int64_t grain = std::max<int64_t>(1, 16384 / (cost * chunk + 1));
  const auto run = [&](int64_t c, int64_t i0, int64_t i1) {
    double l[4] = {}, w[4] = {};
    auto element = elements(i0, i1);
    const auto add = [&](int64_t i, int lane) {
      const auto [value, target_weight] = element(i);
      if (reduction == 0) y[i] = static_cast<T>(value);
      l[lane] += value, w[lane] += target_weight;
    };
    int64_t i = i0;
    for (; i + 4 <= i1; i += 4) add(i, 0), add(i + 1, 1), add(i + 2, 2), add(i + 3, 3);
    for (; i < i1; ++i) add(i, 0);
    loss[c] = (l[0] + l[2]) + (l[1] + l[3]), weight[c] = (w[0] + w[2]) + (w[1] + w[3]);
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

// f(first element, end)
template <class F>
void over_elements(const Axes& a, const F& f) {
  parallel_work(a.elements(), a.classes, 8192, [&](int64_t i0, int64_t i1) { f(i0, i1); });
}

}  // namespace

void cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
                   double label_smoothing, std::optional<DType>, const Tensor& lse, const Tensor& total, const Tensor& y) {
  const WideOutput out(y);
  const Tensor ww = widened(weight);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_float(compute_float(x), [&](auto zero) {
    using T = decltype(zero);
    T* pl = lse.data<T>();
    const Weights<T> w(ww, a.classes);
    const double smooth = label_smoothing / static_cast<double>(a.classes);
    const double sum = reduce<T>(a, a.classes, reduction, out.wide.data<T>(), [&](int64_t, int64_t end) {
      return [&, rows = std::make_unique<Classes<T>>(x, a, Classes<T>::Use::Read, end), known = int64_t{0}](int64_t i) mutable -> std::pair<double, double> {
        const T* row = rows->at(i);
        const int64_t step = rows->step();
        if (step == 1) {
          pl[i] = FL_PICK(logsumexp_row)(row, a.classes, step);
        } else if (i >= known) {  // of all elements beside this one, too
          const int64_t width = rows->run(i);
          FL_PICK(logsumexp_cols)(row, a.classes, step, width, pl + i);
          known = i + width;
        }
        const T l = pl[i];
        const int64_t t = targets[i];
        if (t == ignore_index) return {0.0, 0.0};
        const double wt = w[t];
        double value = wt * (static_cast<double>(l) - row[t * step]);
        if (label_smoothing != 0) value = (1 - label_smoothing) * value + smooth * FL_PICK(smoothed_row)(row, l, w.w, a.classes, step);
        return {value, wt};
      };
    });
    *total.data<T>() = static_cast<T>(reduction == 1 ? sum : 1);
  });
}

void cross_entropy_backward(const Tensor& dy, const Tensor& x, const Tensor& lse, const Tensor& total, const Tensor& target,
                            const Tensor& weight, int64_t reduction, int64_t ignore_index, double label_smoothing, const Tensor& dx) {
  const Tensor ww = widened(weight), wdy = widened(dy);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  require_classes("cross_entropy", targets, a, ignore_index);
  visit_float(compute_float(x), [&](auto zero) {
    using T = decltype(zero);
    const T *pl = lse.data<T>(), *pd = wdy.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>(), s = static_cast<T>(label_smoothing), smooth = s / static_cast<T>(a.classes);
    over_elements(a, [&](int64_t i0, int64_t i1) {
      Classes<T> rows(x, a, Classes<T>::Use::Read, i1), grads(dx, a, Classes<T>::Use::Write, i1);
      const int64_t step = rows.step();
      const auto gradient_of = [&](int64_t i) { return (reduction == 0 ? pd[i] : *pd) * scale; };
      const auto factor_of = [&](int64_t i, int64_t t) { return gradient_of(i) * ((1 - s) * w[t] + smooth * static_cast<T>(w.sum)); };
      for (int64_t i = i0; i < i1;) {
        const T* in = rows.at(i);
        T* out = grads.at(i);
        int64_t width = 1;
        if (step == 1) {
          if (const int64_t t = targets[i]; t != ignore_index) FL_PICK(scaled_softmax_row)(in, pl[i], factor_of(i, t), out, a.classes, step);
        } else {
          T factors[64];
          width = std::min(rows.run(i), grads.run(i));
          for (int64_t j = 0; j < width; ++j) factors[j] = targets[i + j] == ignore_index ? T(0) : factor_of(i + j, targets[i + j]);
          FL_PICK(scaled_softmax_cols)(in, pl + i, factors, out, a.classes, step, width);
        }
        for (int64_t j = 0; j < width; ++j, ++out) {
          const int64_t t = targets[i + j];
          if (t == ignore_index) {
            for (int64_t c = 0; c < a.classes; ++c) out[c * step] = 0;
            continue;
          }
          const T g = gradient_of(i + j);
          out[t * step] -= g * ((1 - s) * w[t]);
          if (s != 0) FL_PICK(smoothed_row_backward)(w.w, g * smooth, out, a.classes, step);
        }
        i += width;
      }
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
  require_classes("cross_entropy", targets, a, ignore_index);
  visit_float(wx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *px = wx.data<T>(), *pl = lse.data<T>(), *pd = wdy.data<T>(), *pv = wv.data<T>();
    T* po = out.wide.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>(), s = static_cast<T>(label_smoothing), smooth = s / static_cast<T>(a.classes);
    std::vector<double> along(a.elements());
    const auto element = [&](int64_t i, int64_t at) {
      const int64_t t = targets[i];
      T* row = po + at;
      const T* vr = pv + at;
      if (t == ignore_index) {
        for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] = 0;
        return;
      }
      const T g = (reduction == 0 ? pd[i] : *pd) * scale, hit = (1 - s) * w[t], all = hit + smooth * static_cast<T>(w.sum);
      FL_PICK(scaled_softmax_row)(px + at, pl[i], T(1), row, a.classes, a.inner);
      double mean = 0, direct = hit * vr[t * a.inner];
      for (int64_t c = 0; c < a.classes; ++c) {
        mean += row[c * a.inner] * vr[c * a.inner];
        if (s != 0) direct += smooth * w[c] * vr[c * a.inner];
      }
      for (int64_t c = 0; c < a.classes; ++c) row[c * a.inner] *= g * all * (vr[c * a.inner] - static_cast<T>(mean));
      along[i] = (all * mean - direct) * scale;
    };
    over_elements(a, [&](int64_t i0, int64_t i1) {
      for (int64_t i = i0; i < i1; ++i) element(i, first_class(a, i));
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
  const Tensor ww = widened(weight);
  const Axes a = axes_of(x.sizes());
  const Targets targets(target);
  visit_memory(x.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const S* px = x.data<S>();
    const Weights<T> w(ww, a.classes);
    const T one = 1;
    const S none{};
    targets.visit([&](const auto* of) {
      const double sum = reduce<T>(a, 8, reduction, out.wide.data<T>(), [&](int64_t begin, int64_t) {
        // What does not count is read as well, elsewhere: which elements do is not to be foreseen.
        return [&, at = FirstClasses(a, begin)](int64_t i) mutable -> std::pair<double, double> {
          const int64_t t = of[i], first = at.next();
          const bool counts = t != ignore_index;
          const double wt = *(counts && w.w ? w.w + t : &one), loss = -wt * static_cast<T>(*(counts ? px + first + t * a.inner : &none));
          return {counts ? loss : 0.0, counts ? wt : 0.0};
        };
      });
      *total.data<T>() = static_cast<T>(reduction == 1 ? sum : 1);
    });
  });
}

void nll_loss_backward(const Tensor& dy, const Tensor& target, const Tensor& weight, const Tensor& total, IntList shape, int64_t reduction,
                       int64_t ignore_index, const Tensor& dx) {
  const Tensor ww = widened(weight), wdy = widened(dy);
  const Axes a = axes_of(shape);
  const Targets targets(target);
  require_classes("nll_loss", targets, a, ignore_index);
  visit_memory(dx.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const T* pd = wdy.data<T>();
    const Weights<T> w(ww, a.classes);
    const T scale = T(1) / *total.data<T>();
    fill_elements(dx, 0.0);
    S* to = dx.data<S>();
    targets.visit([&](const auto* of) {
      parallel_for(0, a.elements(), 8192, [&](int64_t i0, int64_t i1) {
        FirstClasses at(a, i0);
        for (int64_t i = i0; i < i1; ++i) {
          const int64_t t = of[i], first = at.next();
          if (t != ignore_index) to[first + t * a.inner] = S(-(reduction == 0 ? pd[i] : *pd) * scale * w[t]);
        }
      });
    });
  });
}

}  // namespace fl::kernels
