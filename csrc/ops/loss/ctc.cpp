// Connectionist temporal classification: the probability of a sequence of labels under all of its alignments, by the
// forward and backward recursions over labels with blanks between them (Graves et al., ICML 2006, section 4).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double top = std::max(a, b);
  return top == kNever ? kNever : top + std::log1p(std::exp(std::min(a, b) - top));
}

// One sequence: log_probs[t][c] at data + t * step, and its labels, between which blanks are read.
template <class T>
struct Sequence {
  const T* data;
  int64_t step, times, classes;
  const int64_t* labels;
  int64_t count, blank;

  int64_t states() const { return 2 * count + 1; }
  // Another thread may have written labels since they were looked at.
  int64_t label(int64_t s) const {
    if (s % 2 == 0) return blank;
    const int64_t l = labels[s / 2];
    return static_cast<uint64_t>(l) < static_cast<uint64_t>(classes) ? l : blank;
  }
  double at(int64_t t, int64_t s) const { return static_cast<double>(data[t * step + label(s)]); }
  // Whether the blank between the labels of s - 2 and s may be left out.
  bool may_skip(int64_t s) const { return s % 2 == 1 && s >= 2 && label(s) != label(s - 2); }
};

// alpha[t][s]: log of the probability of the first t + 1 elements along alignments that end in state s.
template <class T>
std::vector<double> forward(const Sequence<T>& q) {
  const int64_t n = q.states();
  std::vector<double> alpha(static_cast<size_t>(q.times * n), kNever);
  if (q.times == 0) return alpha;
  alpha[0] = q.at(0, 0);
  if (n > 1) alpha[1] = q.at(0, 1);
  for (int64_t t = 1; t < q.times; ++t) {
    const double* before = alpha.data() + (t - 1) * n;
    double* now = alpha.data() + t * n;
    for (int64_t s = 0; s < n; ++s) {
      double sum = before[s];
      if (s >= 1) sum = log_add(sum, before[s - 1]);
      if (q.may_skip(s)) sum = log_add(sum, before[s - 2]);
      now[s] = sum + q.at(t, s);
    }
  }
  return alpha;
}

template <class T>
double loss_of(const Sequence<T>& q) {
  if (q.times == 0) return q.count == 0 ? 0 : -kNever;
  const auto alpha = forward(q);
  const double* last = alpha.data() + (q.times - 1) * q.states();
  return -(q.count == 0 ? last[0] : log_add(last[2 * q.count], last[2 * q.count - 1]));
}

// dx[t][c] = (exp(log_probs) - shares) * scale, where shares are what of the probability goes through (t, c).
template <class T>
void gradient_of(const Sequence<T>& q, double loss, double scale, T* dx) {
  const int64_t n = q.states();
  const auto alpha = forward(q);
  std::vector<double> beta(static_cast<size_t>(n), kNever), next(beta), share(static_cast<size_t>(q.classes));
  for (int64_t t = q.times - 1; t >= 0; --t) {
    // beta[s]: log of the probability of the elements from t on along alignments that begin in state s.
    for (int64_t s = 0; s < n; ++s) {
      double sum = kNever;
      if (t == q.times - 1) {
        if (s >= n - 2) sum = 0;
      } else {
        sum = next[static_cast<size_t>(s)];
        if (s + 1 < n) sum = log_add(sum, next[static_cast<size_t>(s + 1)]);
        if (s + 2 < n && q.may_skip(s + 2)) sum = log_add(sum, next[static_cast<size_t>(s + 2)]);
      }
      beta[static_cast<size_t>(s)] = sum + q.at(t, s);
    }
    std::fill(share.begin(), share.end(), kNever);
    for (int64_t s = 0; s < n; ++s) {
      double& sum = share[static_cast<size_t>(q.label(s))];
      sum = log_add(sum, alpha[static_cast<size_t>(t * n + s)] + beta[static_cast<size_t>(s)]);
    }
    for (int64_t c = 0; c < q.classes; ++c) {
      const double p = static_cast<double>(q.data[t * q.step + c]);
      const double through = share[static_cast<size_t>(c)];
      dx[t * q.step + c] = static_cast<T>(scale * (std::exp(p) - (through == kNever && std::isfinite(loss) ? 0 : std::exp(through + loss - p))));
    }
    std::swap(beta, next);
  }
}

template <class T>
Sequence<T> sequence(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank, int64_t i) {
  const int64_t n = log_probs.size(1), c = log_probs.size(2), most = targets.size(1);
  const int64_t times = std::clamp<int64_t>(input_lengths.data<int64_t>()[i], 0, log_probs.size(0));
  const int64_t count = std::clamp<int64_t>(target_lengths.data<int64_t>()[i], 0, most);
  return {log_probs.data<T>() + i * c, n * c, times, c, targets.data<int64_t>() + i * most, count, blank};
}

}  // namespace

void ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank, const Tensor& y) {
  const Tensor in = widened(log_probs);
  const WideOutput out(y);
  visit_float(in.dtype(), [&]<class T>(T) {
    parallel_for(0, y.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out.wide.data<T>()[i] = static_cast<T>(loss_of(sequence<T>(in, targets, input_lengths, target_lengths, blank, i)));
    });
  });
}

void ctc_loss_backward(const Tensor& dy, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                       const Tensor& y, int64_t blank, const Tensor& dx) {
  const Tensor in = widened(log_probs), grads = widened(dy), losses = widened(y);
  const WideOutput out(dx);
  visit_float(in.dtype(), [&]<class T>(T) {
    T* to = out.wide.data<T>();
    std::fill_n(to, dx.numel(), T(0));
    parallel_for(0, y.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double scale = static_cast<double>(grads.data<T>()[i]);
        if (scale == 0) continue;
        gradient_of(sequence<T>(in, targets, input_lengths, target_lengths, blank, i), static_cast<double>(losses.data<T>()[i]), scale,
                    to + i * in.size(2));
      }
    });
  });
}

}  // namespace fl::kernels
