#include "ops/optim/steps.h"

#include <cmath>

#include "base/lanes.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

using namespace fl::optim;

// The gradient with weight decay. Without it the parameter is not looked at: 0 times an infinite one would be NaN.
template <bool kDecay, class T>
FL_VM T decayed(T grad, T wd, T p) {
  if constexpr (kDecay) return grad + wd * p;
  else return grad;
}

template <class T, bool kDecay>
void sgd(int64_t n, T* __restrict p, const T* __restrict g, T* __restrict buf, bool first, const SgdStep& s) {
  const T sign = s.maximize ? T(-1) : T(1), wd = static_cast<T>(s.weight_decay), lr = static_cast<T>(s.lr);
  const T mu = static_cast<T>(s.momentum), keep = static_cast<T>(1 - s.dampening);
  if (!buf) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) p[i] -= lr * decayed<kDecay>(sign * g[i], wd, p[i]);
    return;
  }
  if (first) {  // buf holds nothing: it must not be read, it might be NaN
    const T whole = s.nesterov ? T(1) + mu : T(1);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T d = decayed<kDecay>(sign * g[i], wd, p[i]);
      buf[i] = d;
      p[i] -= lr * (whole * d);
    }
  } else if (s.nesterov) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T d = decayed<kDecay>(sign * g[i], wd, p[i]);
      const T b = mu * buf[i] + keep * d;
      buf[i] = b;
      p[i] -= lr * (d + mu * b);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T b = mu * buf[i] + keep * decayed<kDecay>(sign * g[i], wd, p[i]);
      buf[i] = b;
      p[i] -= lr * b;
    }
  }
}

template <class T, bool kMax, bool kDecay>
void adam(int64_t n, T* __restrict p, const T* __restrict g, T* __restrict m, T* __restrict v, T* __restrict v_max, double bias1, double bias2,
          const AdamStep& s) {
  const T sign = s.maximize ? T(-1) : T(1);
  const T shrink = s.decoupled ? static_cast<T>(1 - s.lr * s.weight_decay) : T(1), wd = s.decoupled ? T(0) : static_cast<T>(s.weight_decay);
  const T in1 = static_cast<T>(1 - s.beta1), beta2 = static_cast<T>(s.beta2), in2 = static_cast<T>(1 - s.beta2);
  const T step = static_cast<T>(s.lr / bias1), scale = static_cast<T>(1 / std::sqrt(bias2)), eps = static_cast<T>(s.eps);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T q = p[i] * shrink;
    const T d = decayed<kDecay>(sign * g[i], wd, q);
    const T a = m[i] + in1 * (d - m[i]);
    const T b = beta2 * v[i] + in2 * d * d;
    m[i] = a;
    v[i] = b;
    T top = b;
    if constexpr (kMax) {
      top = v_max[i] > b ? v_max[i] : b;
      v_max[i] = top;
    }
    p[i] = q - step * (a / (std::sqrt(top) * scale + eps));
  }
}

template <class T, bool kDecay>
void rmsprop(int64_t n, T* __restrict p, const T* __restrict g, T* __restrict sq, T* __restrict mean, T* __restrict buf, const RmspropStep& s) {
  const T sign = s.maximize ? T(-1) : T(1), wd = static_cast<T>(s.weight_decay), lr = static_cast<T>(s.lr), eps = static_cast<T>(s.eps);
  const T alpha = static_cast<T>(s.alpha), in = static_cast<T>(1 - s.alpha), mu = static_cast<T>(s.momentum);
  constexpr int64_t kBlock = 512;
  T update[kBlock];
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    const int64_t len = n - i0 < kBlock ? n - i0 : kBlock;
    T *pp = p + i0, *ps = sq + i0;
    const T* pg = g + i0;
    if (mean) {
      T* pm = mean + i0;
#pragma omp simd
      for (int64_t i = 0; i < len; ++i) {
        const T d = decayed<kDecay>(sign * pg[i], wd, pp[i]);
        ps[i] = alpha * ps[i] + in * d * d;
        pm[i] = pm[i] + in * (d - pm[i]);
        update[i] = d / (std::sqrt(ps[i] - pm[i] * pm[i]) + eps);
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < len; ++i) {
        const T d = decayed<kDecay>(sign * pg[i], wd, pp[i]);
        ps[i] = alpha * ps[i] + in * d * d;
        update[i] = d / (std::sqrt(ps[i]) + eps);
      }
    }
    if (buf) {
      T* pb = buf + i0;
#pragma omp simd
      for (int64_t i = 0; i < len; ++i) {
        pb[i] = mu * pb[i] + update[i];
        pp[i] -= lr * pb[i];
      }
    } else {
#pragma omp simd
      for (int64_t i = 0; i < len; ++i) pp[i] -= lr * update[i];
    }
  }
}

template <class T, bool kDecay>
void adagrad(int64_t n, T* __restrict p, const T* __restrict g, T* __restrict sum, double lr, const AdagradStep& s) {
  const T sign = s.maximize ? T(-1) : T(1), wd = static_cast<T>(s.weight_decay), eps = static_cast<T>(s.eps), step = static_cast<T>(lr);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T d = decayed<kDecay>(sign * g[i], wd, p[i]);
    sum[i] += d * d;
    p[i] -= step * d / (std::sqrt(sum[i]) + eps);
  }
}

template <class T>
double norm(int64_t n, const T* x, int kind, double p) {
  double s = 0;
  switch (kind) {
    case 0:
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < n; ++i) s += static_cast<double>(x[i] < 0 ? -x[i] : x[i]);
      return s;
    case 1:
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < n; ++i) s += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      return s;
    case 2:
      return static_cast<double>(vm::fold_row(x, n, T(0), [](T m, T v) { return vm::maximum(m, vm::abs(v)); }));
    case 3:
      for (int64_t i = 0; i < n; ++i) s += std::pow(std::fabs(static_cast<double>(x[i])), p);
      return s;
    default:
      for (int64_t i = 0; i < n; ++i) s += x[i] != 0 ? 1 : 0;
      return s;
  }
}

template <class T>
void scale(int64_t n, T* x, double factor) {
  const T f = static_cast<T>(factor);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= f;
}

}  // namespace

#define FL_DEFINE(T, suffix)                                                                                                      \
  void sgd_step_##suffix(int64_t n, T* p, const T* g, T* buf, bool first, const SgdStep& s) {                                       \
    if (s.weight_decay != 0) sgd<T, true>(n, p, g, buf, first, s);                                                                 \
    else sgd<T, false>(n, p, g, buf, first, s);                                                                                    \
  }                                                                                                                               \
  void adam_step_##suffix(int64_t n, T* p, const T* g, T* m, T* v, T* v_max, double b1, double b2, const AdamStep& s) {            \
    const bool decays = !s.decoupled && s.weight_decay != 0;                                                                       \
    if (v_max && decays) adam<T, true, true>(n, p, g, m, v, v_max, b1, b2, s);                                                      \
    else if (v_max) adam<T, true, false>(n, p, g, m, v, v_max, b1, b2, s);                                                          \
    else if (decays) adam<T, false, true>(n, p, g, m, v, v_max, b1, b2, s);                                                         \
    else adam<T, false, false>(n, p, g, m, v, v_max, b1, b2, s);                                                                    \
  }                                                                                                                               \
  void rmsprop_step_##suffix(int64_t n, T* p, const T* g, T* sq, T* mean, T* buf, const RmspropStep& s) {                          \
    if (s.weight_decay != 0) rmsprop<T, true>(n, p, g, sq, mean, buf, s);                                                          \
    else rmsprop<T, false>(n, p, g, sq, mean, buf, s);                                                                             \
  }                                                                                                                               \
  void adagrad_step_##suffix(int64_t n, T* p, const T* g, T* sum, double lr, const AdagradStep& s) {                                 \
    if (s.weight_decay != 0) adagrad<T, true>(n, p, g, sum, lr, s);                                                                \
    else adagrad<T, false>(n, p, g, sum, lr, s);                                                                                   \
  }                                                                                                                               \
  double norm_part_##suffix(int64_t n, const T* x, int kind, double p) { return norm(n, x, kind, p); }                             \
  void scale_part_##suffix(int64_t n, T* x, double factor) { scale(n, x, factor); }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)

}  // namespace fl::kernels::FL_ISA
