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
      : x(x_), target(target_), weight(spread(w, x_, x_.dtype())), pos_weight(spread(pw, x_, x_.dtype())) {}
};

// Chunks of the inputs in the compute type; 16-bit floats are converted one chunk at a time.
template <class T>
class Chunks {
 public:
  Chunks(Loss kind, double param, const Inputs& in)
      : kind_(kind), param_(static_cast<T>(param)), n_(in.x.numel()), all_{in.x, in.target, in.weight, in.pos_weight},
        given_{true, true, in.weight.defined(), in.pos_weight.defined()} {}
  int64_t count() const { return (n_ + kChunk - 1) / kChunk; }
  int64_t size(int64_t c) const { return std::min(kChunk, n_ - c * kChunk); }

  // Chunks one after another, on one thread.
  class Reader {
   public:
    explicit Reader(const Chunks& chunks) : of_(chunks) {
      for (int k = 0; k < 4; ++k)
        if (of_.given_[k]) buffers_[k] = of_.all_[k].buffer(kChunk);
    }
    LossChunk<T> operator()(int64_t c) const {
      const T* data[4] = {};
      for (int k = 0; k < 4; ++k)
        if (of_.given_[k]) data[k] = of_.all_[k].read(c * kChunk, of_.size(c), buffers_[k]);
      return {of_.kind_, of_.size(c), data[0], data[1], data[2], data[3], of_.param_};
    }

   private:
    const Chunks& of_;
    Tensor buffers_[4];
  };

 private:
  Loss kind_;
  T param_;
  int64_t n_;
  Pieces<T> all_[4];
  bool given_[4];
};

void forward(Loss kind, double param, const Inputs& in, int64_t reduction, const Tensor& y) {
  visit_float(compute_float(in.x), [&](auto zero) {
    using T = decltype(zero);
    const Chunks<T> all(kind, param, in);
    const Pieces<T> out(y);
    std::vector<double> sums(all.count());
    parallel_for(0, all.count(), 2, [&](int64_t c0, int64_t c1) {
      const typename Chunks<T>::Reader chunk(all);
      const Tensor result = reduction == 0 ? out.buffer(kChunk) : Tensor();
      for (int64_t c = c0; c < c1; ++c) {
        sums[c] = loss_values(chunk(c), reduction == 0 ? out.place(c * kChunk, result) : nullptr);
        if (reduction == 0) out.write(c * kChunk, all.size(c), result);
      }
    });
    if (reduction == 0) return;
    double s = 0;
    for (const double v : sums) s += v;
    fill_elements(y, Scalar(static_cast<double>(static_cast<T>(reduction == 1 ? s / static_cast<double>(in.x.numel()) : s))));
  });
}

void backward(Loss kind, double param, const Tensor& dy, const Inputs& in, int64_t reduction, const Tensor& dx) {
  visit_float(compute_float(in.x), [&](auto zero) {
    using T = decltype(zero);
    const Chunks<T> all(kind, param, in);
    const Pieces<T> grads(dy), out(dx);
    const int64_t step = reduction == 0 ? 1 : 0;
    const T scale = reduction == 1 ? static_cast<T>(1.0 / static_cast<double>(in.x.numel())) : T(1);
    parallel_for(0, all.count(), 2, [&](int64_t c0, int64_t c1) {
      const typename Chunks<T>::Reader chunk(all);
      const Tensor up = grads.buffer(kChunk), result = out.buffer(kChunk);
      for (int64_t c = c0; c < c1; ++c) {
        loss_gradients(chunk(c), grads.read(c * kChunk * step, step ? all.size(c) : 1, up), step, scale, out.place(c * kChunk, result));
        out.write(c * kChunk, all.size(c), result);
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
