#include "ops/optim/optim.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "ops/optim/steps.h"

namespace fl::optim {
namespace {

constexpr int64_t kChunk = 8192;

struct Chunk {
  int index;
  int64_t begin, count;
};

std::vector<Chunk> chunks_of(TensorList tensors) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int64_t b = 0; b < tensors[i].numel(); b += kChunk)
      chunks.push_back({static_cast<int>(i), b, std::min(kChunk, tensors[i].numel() - b)});
  return chunks;
}

// The lists of one step, with 16-bit tensors replaced by float32 copies; writes the copies back at the end.
class Lists {
 public:
  Lists(TensorList params) : params_(params), chunks_(chunks_of(params)) {}
  ~Lists() {
    for (auto& w : writes_) copy_elements(w.first, w.second);
  }
  Lists(const Lists&) = delete;

  // A list that is read, or read and written. An empty list gives no pointers.
  int add(TensorList list, bool written) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < list.size(); ++i) {
      const DType t = params_[i].dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
      const Tensor& x = list[i];
      if (x.dtype() == t) {
        out.push_back(x);
        continue;
      }
      const Tensor wide = empty(x.sizes(), t);
      copy_elements(wide, x);
      if (written) writes_.emplace_back(x, wide);
      out.push_back(wide);
    }
    lists_.push_back(std::move(out));
    return static_cast<int>(lists_.size()) - 1;
  }

  template <class T>
  T* at(int list, const Chunk& c) const {
    return lists_[list].empty() ? nullptr : lists_[list][c.index].data<T>() + c.begin;
  }

  // f(chunk, T()) for every chunk, in parallel.
  template <class F>
  void run(const F& f) const {
    // Elements, not chunks, are shared out evenly: each thread takes the chunks that start in its range.
    std::vector<int64_t> starts(chunks_.size() + 1, 0);
    for (size_t i = 0; i < chunks_.size(); ++i) starts[i + 1] = starts[i] + chunks_[i].count;
    parallel_for(0, starts.back(), 2 * kChunk, [&](int64_t e0, int64_t e1) {
      auto c = std::lower_bound(starts.begin(), starts.end() - 1, e0) - starts.begin();
      for (; c < static_cast<int64_t>(chunks_.size()) && starts[c] < e1; ++c) {
        const Chunk& chunk = chunks_[c];
        if (params_[chunk.index].dtype() == DType::Float64) f(chunk, double{});
        else f(chunk, float{});
      }
    });
  }
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  TensorList params_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<Tensor>> lists_;
  std::vector<std::pair<Tensor, Tensor>> writes_;
};

#define FL_PICK(T, name) ([] { if constexpr (sizeof(T) == 4) return kernels::name##_f32; else return kernels::name##_f64; }())

}  // namespace

void sgd(TensorList params, TensorList grads, TensorList bufs, Flags first, double lr, double momentum, double dampening, double weight_decay,
         bool nesterov, bool maximize) {
  Lists lists(params);
  const int p = lists.add(params, true), g = lists.add(grads, false), b = lists.add(bufs, true);
  const SgdStep step{lr, momentum, dampening, weight_decay, nesterov, maximize};
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    FL_PICK(T, sgd_step)(c.count, lists.at<T>(p, c), lists.at<T>(g, c), lists.at<T>(b, c), !first.empty() && first[c.index], step);
  });
}

void adam(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, Steps steps, double lr,
          double beta1, double beta2, double eps, double weight_decay, bool decoupled, bool amsgrad, bool maximize) {
  Lists lists(params);
  const int p = lists.add(params, true), g = lists.add(grads, false), m = lists.add(exp_avgs, true), v = lists.add(exp_avg_sqs, true);
  const int top = lists.add(amsgrad ? max_exp_avg_sqs : TensorList(), true);
  const AdamStep step{lr, beta1, beta2, eps, weight_decay, decoupled, maximize};
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    const double t = static_cast<double>(steps[c.index]);
    FL_PICK(T, adam_step)(c.count, lists.at<T>(p, c), lists.at<T>(g, c), lists.at<T>(m, c), lists.at<T>(v, c), lists.at<T>(top, c),
                          1 - std::pow(beta1, t), 1 - std::pow(beta2, t), step);
  });
}

void rmsprop(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs, TensorList momentum_buffers, double lr, double alpha,
             double eps, double weight_decay, double momentum, bool maximize) {
  Lists lists(params);
  const int p = lists.add(params, true), g = lists.add(grads, false), sq = lists.add(square_avgs, true);
  const int mean = lists.add(grad_avgs, true), buf = lists.add(momentum_buffers, true);
  const RmspropStep step{lr, alpha, eps, weight_decay, momentum, maximize};
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    FL_PICK(T, rmsprop_step)(c.count, lists.at<T>(p, c), lists.at<T>(g, c), lists.at<T>(sq, c), lists.at<T>(mean, c), lists.at<T>(buf, c), step);
  });
}

void adagrad(TensorList params, TensorList grads, TensorList state_sums, Steps steps, double lr, double lr_decay, double weight_decay, double eps,
             bool maximize) {
  Lists lists(params);
  const int p = lists.add(params, true), g = lists.add(grads, false), sum = lists.add(state_sums, true);
  const AdagradStep step{weight_decay, eps, maximize};
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    FL_PICK(T, adagrad_step)(c.count, lists.at<T>(p, c), lists.at<T>(g, c), lists.at<T>(sum, c),
                             lr / (1 + static_cast<double>(steps[c.index] - 1) * lr_decay), step);
  });
}

void total_norm(TensorList tensors, double norm_type, const Tensor& out) {
  Lists lists(tensors);
  const int x = lists.add(tensors, false);
  const int kind = std::isinf(norm_type) ? 2 : norm_type == 1 ? 0 : norm_type == 2 ? 1 : norm_type == 0 ? 4 : 3;
  std::vector<double> parts(lists.chunks().size());
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    parts[&c - lists.chunks().data()] = FL_PICK(T, norm_part)(c.count, lists.at<T>(x, c), kind, norm_type);
  });
  double s = 0;
  for (const double part : parts) {
    if (kind == 2) s = part != part || part > s ? part : s;
    else s += part;
  }
  if (kind == 1) s = std::sqrt(s);
  if (kind == 3) s = std::pow(s, 1 / norm_type);
  if (out.dtype() == DType::Float64) *out.data<double>() = s;
  else *out.data<float>() = static_cast<float>(s);
}

void scale(TensorList tensors, double factor) {
  Lists lists(tensors);
  const int x = lists.add(tensors, true);
  lists.run([&](const Chunk& c, auto zero) {
    using T = decltype(zero);
    FL_PICK(T, scale_part)(c.count, lists.at<T>(x, c), factor);
  });
}

void scale(TensorList tensors, const Tensor& factor) {
  const Tensor f = converted(factor, DType::Float64);
  scale(tensors, *f.data<double>());
}

}  // namespace fl::optim
