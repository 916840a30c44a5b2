#include "ops/loss/pointwise.h"

#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

#define FL_INLINE inline __attribute__((always_inline))

// d held to [-limit, limit].
template <class T>
FL_INLINE T between(T d, T limit) {
  const T low = d < -limit ? -limit : d;
  return low > limit ? limit : low;
}

// Each has value(x, t, p, w) and slope(...) in x; p is the parameter, w the positive weight.
struct L1 {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T) { return vm::abs(x - t); }
  template <class T>
  static FL_INLINE T slope(T x, T t, T, T) { return vm::sign(x - t); }
};
struct Mse {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T) { return (x - t) * (x - t); }
  template <class T>
  static FL_INLINE T slope(T x, T t, T, T) { return 2 * (x - t); }
};
struct SmoothL1 {
  template <class T>
  static FL_INLINE T value(T x, T t, T beta, T) {
    const T a = vm::abs(x - t), h = a < beta ? a : beta;
    return beta == 0 ? a : h / beta * (a - T(0.5) * h);
  }
  template <class T>
  static FL_INLINE T slope(T x, T t, T beta, T) {
    const T d = x - t;
    return beta == 0 ? vm::sign(d) : between(d, beta) / beta;
  }
};
struct Huber {
  template <class T>
  static FL_INLINE T value(T x, T t, T delta, T) {
    const T a = vm::abs(x - t), h = a < delta ? a : delta;
    return h * (a - T(0.5) * h);
  }
  template <class T>
  static FL_INLINE T slope(T x, T t, T delta, T) {
    return between(x - t, delta);
  }
};
struct Bce {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T) {
    const T a = vm::log(x), b = vm::log(T(1) - x);  // both held above -100
    return -(t * (a < -100 ? T(-100) : a) + (1 - t) * (b < -100 ? T(-100) : b));
  }
  template <class T>
  static FL_INLINE T slope(T x, T t, T, T) {
    const T d = (1 - x) * x;
    return (x - t) / (d < T(1e-12) ? T(1e-12) : d);
  }
};
struct BceLogits {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T w) {
    const T f = 1 + (w - 1) * t, m = x < 0 ? -x : T(0);
    return (1 - t) * x + f * (vm::log1p(vm::exp(-vm::abs(x))) + m);
  }
  template <class T>
  static FL_INLINE T slope(T x, T t, T, T w) {
    const T f = 1 + (w - 1) * t;
    return (1 - t) - f * vm::sigmoid(-x);
  }
};
struct KlDiv {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T) {
    const T v = t * (vm::log(t) - x);
    return t == 0 ? T(0) : v;
  }
  template <class T>
  static FL_INLINE T slope(T, T t, T, T) { return -t; }
};
struct KlDivLog {
  template <class T>
  static FL_INLINE T value(T x, T t, T, T) { return vm::exp(t) * (t - x); }
  template <class T>
  static FL_INLINE T slope(T, T t, T, T) { return -vm::exp(t); }
};

template <class F, class T>
double values(const LossChunk<T>& c, T* out) {
  const T *x = c.x, *t = c.target, *w = c.weight, *pw = c.pos_weight;
  const T p = c.param;
  T s = 0;
  if (!w && !pw) {
    if (!out) {
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < c.n; ++i) s += F::value(x[i], t[i], p, T(1));
      return s;
    }
#pragma omp simd
    for (int64_t i = 0; i < c.n; ++i) out[i] = F::value(x[i], t[i], p, T(1));
    return 0;
  }
  for (int64_t i = 0; i < c.n; ++i) {
    const T v = F::value(x[i], t[i], p, pw ? pw[i] : T(1)) * (w ? w[i] : T(1));
    if (out) out[i] = v;
    s += v;
  }
  return s;
}

template <class F, class T>
void gradients(const LossChunk<T>& c, const T* dy, int64_t dy_step, T scale, T* dx) {
  const T *x = c.x, *t = c.target, *w = c.weight, *pw = c.pos_weight;
  const T p = c.param;
  if (!w && !pw && dy_step == 0) {
    const T g = *dy * scale;
#pragma omp simd
    for (int64_t i = 0; i < c.n; ++i) dx[i] = g * F::slope(x[i], t[i], p, T(1));
    return;
  }
  for (int64_t i = 0; i < c.n; ++i) dx[i] = dy[i * dy_step] * scale * F::slope(x[i], t[i], p, pw ? pw[i] : T(1)) * (w ? w[i] : T(1));
}

template <class T>
double (*pick_values(const LossChunk<T>& c))(const LossChunk<T>&, T*) {
  switch (c.kind) {
    case Loss::L1: return values<L1, T>;
    case Loss::Mse: return values<Mse, T>;
    case Loss::SmoothL1: return values<SmoothL1, T>;
    case Loss::Huber: return values<Huber, T>;
    case Loss::Bce: return values<Bce, T>;
    case Loss::BceLogits: return values<BceLogits, T>;
    case Loss::KlDiv: return values<KlDiv, T>;
    default: return values<KlDivLog, T>;
  }
}
template <class T>
void (*pick_gradients(const LossChunk<T>& c))(const LossChunk<T>&, const T*, int64_t, T, T*) {
  switch (c.kind) {
    case Loss::L1: return gradients<L1, T>;
    case Loss::Mse: return gradients<Mse, T>;
    case Loss::SmoothL1: return gradients<SmoothL1, T>;
    case Loss::Huber: return gradients<Huber, T>;
    case Loss::Bce: return gradients<Bce, T>;
    case Loss::BceLogits: return gradients<BceLogits, T>;
    case Loss::KlDiv: return gradients<KlDiv, T>;
    default: return gradients<KlDivLog, T>;
  }
}

}  // namespace

double loss_values_f32(const LossChunk<float>& c, float* out) { return pick_values(c)(c, out); }
double loss_values_f64(const LossChunk<double>& c, double* out) { return pick_values(c)(c, out); }
void loss_gradients_f32(const LossChunk<float>& c, const float* dy, int64_t step, float scale, float* dx) { pick_gradients(c)(c, dy, step, scale, dx); }
void loss_gradients_f64(const LossChunk<double>& c, const double* dy, int64_t step, double scale, double* dx) {
  pick_gradients(c)(c, dy, step, scale, dx);
}

}  // namespace fl::kernels::FL_ISA
