// Losses of one element of x and one of target: mse, l1, smooth_l1, huber, binary cross entropy, kl_div.
// Reduction 0 none, 1 mean, 2 sum. Sums are taken over fixed chunks and added in double, in order.
#include "ops/loss/pointwise.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

constexpr int64_t kChunk = 4096;

double loss_values(const LossChunk<float>& c, float* out) { return loss_values_f32(c, out); }
double loss_values(const LossChunk<double>& c, double* out) { return loss_values_f64(c, out); }
void loss_gradients(const LossChunk<float>& c, const float* dy, int64_t step, float s, float* dx) { loss_gradients_f32(c, dy, step, s, dx); }
void loss_gradients(const LossChunk<double>& c, const double* dy, int64_t step, double s, double* dx) { loss_gradients_f64(c, dy, step, s, dx); }

// w at every element of x, or undefined.
Tensor spread(const Tensor& w, const Tensor& x, DType t) {
  if (!w.defined()) return w;
  const Tensor full = empty(x.sizes(), t);
  Dims strides(x.ndim());
  const int lead = x.ndim() - w.ndim();
  for (int d = lead; d < x.ndim(); ++d) strides[d] = w.size(d - lead) == 1 ? 0 : w.stride(d - lead);
  copy_elements(full, alias(w, x.sizes(), strides, w.offset()));
  return full;
}

struct Inputs {
  Tensor x, target, weight, pos_weight;
  Inputs(const Tensor& x_, const Tensor& target_, const Tensor& w, const Tensor& pw)
      : x(widened(x_)), target(widened(target_)), weight(spread(w, x_, x.dtype())), pos_weight(spread(pw, x_, x.dtype())) {}
  template <class T>
  LossChunk<T> chunk(Loss kind, double param, int64_t i, int64_t n) const {
    return {kind, n, x.data<T>() + i, target.data<T>() + i, weight.defined() ? weight.data<T>() + i : nullptr,
            pos_weight.defined() ? pos_weight.data<T>() + i : nullptr, static_cast<T>(param)};
  }
};

void forward(Loss kind, double param, const Inputs& in, int64_t reduction, const Tensor& y) {
  const WideOutput out(y);
  const int64_t n = in.x.numel(), chunks = (n + kChunk - 1) / kChunk;
  visit_float(in.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> sums(chunks);
    T* to = out.wide.data<T>();
    parallel_for(0, chunks, 2, [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        const int64_t i = c * kChunk;
        sums[c] = loss_values(in.chunk<T>(kind, param, i, std::min(kChunk, n - i)), reduction == 0 ? to + i : nullptr);
      }
    });
    if (reduction == 0) return;
    double s = 0;
    for (const double v : sums) s += v;
    *to = static_cast<T>(reduction == 1 ? s / static_cast<double>(n) : s);
  });
}

void backward(Loss kind, double param, const Tensor& dy, const Inputs& in, int64_t reduction, const Tensor& dx) {
  const WideOutput out(dx);
  const Tensor wdy = widened(dy);
  const int64_t n = in.x.numel(), chunks = (n + kChunk - 1) / kChunk, step = reduction == 0 ? 1 : 0;
  visit_float(in.x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T scale = reduction == 1 ? static_cast<T>(1.0 / static_cast<double>(n)) : T(1);
    parallel_for(0, chunks, 2, [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        const int64_t i = c * kChunk;
        loss_gradients(in.chunk<T>(kind, param, i, std::min(kChunk, n - i)), wdy.data<T>() + i * step, step, scale, out.wide.data<T>() + i);
      }
    });
  });
}

}  // namespace

void l1_loss(const Tensor& x, const Tensor& target, int64_t reduction, const Tensor& y) { forward(Loss::L1, 0, {x, target, {}, {}}, reduction, y); }
void l1_loss_backward(const Tensor& dy, const Tensor& x, const Tensor& target, int64_t reduction, const Tensor& dx) {
  backward(Loss::L1, 0, dy, {x, target, {}, {}}, reduction, dx);
}
void mse_loss(const Tensor& x, const Tensor& target, int64_t reduction, const Tensor& y) { forward(Loss::Mse, 0, {x, target, {}, {}}, reduction, y); }
void mse_loss_backward(const Tensor& dy, const Tensor& x, const Tensor& target, int64_t reduction, const Tensor& dx) {
  backward(Loss::Mse, 0, dy, {x, target, {}, {}}, reduction, dx);
}
void smooth_l1_loss(const Tensor& x, const Tensor& target, int64_t reduction, double beta, const Tensor& y) {
  forward(beta == 0 ? Loss::L1 : Loss::SmoothL1, beta, {x, target, {}, {}}, reduction, y);
}
void smooth_l1_loss_backward(const Tensor& dy, const Tensor& x, const Tensor& target, int64_t reduction, double beta, const Tensor& dx) {
  backward(beta == 0 ? Loss::L1 : Loss::SmoothL1, beta, dy, {x, target, {}, {}}, reduction, dx);
}
void huber_loss(const Tensor& x, const Tensor& target, int64_t reduction, double delta, const Tensor& y) {
  forward(Loss::Huber, delta, {x, target, {}, {}}, reduction, y);
}
void huber_loss_backward(const Tensor& dy, const Tensor& x, const Tensor& target, int64_t reduction, double delta, const Tensor& dx) {
  backward(Loss::Huber, delta, dy, {x, target, {}, {}}, reduction, dx);
}
void binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction, const Tensor& y) {
  forward(Loss::Bce, 0, {x, target, weight, {}}, reduction, y);
}
void binary_cross_entropy_backward(const Tensor& dy, const Tensor& x, const Tensor& target, const Tensor& weight, int64_t reduction, const Tensor& dx) {
  backward(Loss::Bce, 0, dy, {x, target, weight, {}}, reduction, dx);
}
void binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight, const Tensor& pos_weight, int64_t reduction,
                                      const Tensor& y) {
  forward(Loss::BceLogits, 0, {x, target, weight, pos_weight}, reduction, y);
}
void binary_cross_entropy_with_logits_backward(const Tensor& dy, const Tensor& x, const Tensor& target, const Tensor& weight,
                                               const Tensor& pos_weight, int64_t reduction, const Tensor& dx) {
  backward(Loss::BceLogits, 0, dy, {x, target, weight, pos_weight}, reduction, dx);
}
void kl_div(const Tensor& x, const Tensor& target, int64_t reduction, bool log_target, const Tensor& y) {
  forward(log_target ? Loss::KlDivLog : Loss::KlDiv, 0, {x, target, {}, {}}, reduction, y);
}
void kl_div_backward(const Tensor& dy, const Tensor& x, const Tensor& target, int64_t reduction, bool log_target, const Tensor& dx) {
  backward(log_target ? Loss::KlDivLog : Loss::KlDiv, 0, dy, {x, target, {}, {}}, reduction, dx);
}

}  // namespace fl::kernels
