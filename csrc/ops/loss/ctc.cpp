// Connectionist temporal classification: the probability of a sequence of labels under all of its alignments, by the
// forward and backward recursions over labels with blanks between them (Graves et al., ICML 2006, section 4).
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/loss/ctc.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  if (a != a || b != b) return a + b;
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
};

// The recursions of a sequence. Rows of states lie between two that nothing reaches, so that no state is a special case.
template <class T>
class Alignments {
 public:
  explicit Alignments(const Sequence<T>& q) : q_(q), n_(q.states()), of_(size(n_)), open_(size(n_ + 2), 0), p_(size(n_)), alpha_(size(q.times * row()), kNever) {
    for (int64_t s = 0; s < n_; ++s) {
      // Another thread may have written labels since they were looked at.
      const int64_t label = s % 2 == 0 ? q.blank : q.labels[s / 2];
      of_[size(s)] = static_cast<uint64_t>(label) < static_cast<uint64_t>(q.classes) ? label : q.blank;
    }
    // Whether the blank between the labels of s - 2 and s may be left out.
    for (int64_t s = 0; s < n_ + 2; ++s) open_[size(s)] = s % 2 == 1 && s >= 2 && s < n_ && of_[size(s)] != of_[size(s - 2)] ? 0 : kNever;
  }

  // log of the probability of the first t + 1 elements along alignments that end in each state.
  void forward() {
    for (int64_t t = 0; t < q_.times; ++t) {
      const double* p = probabilities(t);
      double* now = alpha(t);
      if (t == 0) {
        now[0] = p[0];
        if (n_ > 1) now[1] = p[1];
      } else {
        const double* before = alpha(t - 1);
        ctc_step(before, before - 1, before - 2, open_.data(), p, now, n_);
      }
    }
  }
  double loss() {
    if (q_.times == 0) return q_.count == 0 ? 0 : -kNever;
    forward();
    const double* last = alpha(q_.times - 1);
    return -(q_.count == 0 ? last[0] : log_add(last[2 * q_.count], last[2 * q_.count - 1]));
  }

  // dx[t][c] = (exp(log_probs) - shares) * scale, where shares are what of the probability goes through (t, c).
  void gradient(double scale, T* dx) {
    const double loss = this->loss();
    std::vector<double> rows(size(2 * row()), kNever), through(size(n_)), shares(size(q_.classes));
    double *beta = rows.data() + kEdge, *next = beta + row();
    for (int64_t t = q_.times - 1; t >= 0; --t) {
      // beta[s]: log of the probability of the elements from t on along alignments that begin in state s.
      const double* p = probabilities(t);
      if (t == q_.times - 1)
        for (int64_t s = std::max<int64_t>(0, n_ - 2); s < n_; ++s) beta[s] = p[s];
      else
        ctc_step(next, next + 1, next + 2, open_.data() + 2, p, beta, n_);
      ctc_shares(alpha(t), beta, p, loss, through.data(), n_);
      std::fill(shares.begin(), shares.end(), std::isfinite(loss) ? 0 : std::numeric_limits<double>::quiet_NaN());
      for (int64_t s = 0; s < n_; ++s) shares[size(of_[size(s)])] += through[size(s)];
      const T* at = q_.data + t * q_.step;
      if constexpr (std::is_same_v<T, float>) ctc_slopes_f32(at, shares.data(), scale, dx + t * q_.step, q_.classes);
      else ctc_slopes_f64(at, shares.data(), scale, dx + t * q_.step, q_.classes);
      std::swap(beta, next);
    }
  }

 private:
  static constexpr int64_t kEdge = 2;

  static size_t size(int64_t n) { return static_cast<size_t>(n); }
  int64_t row() const { return n_ + 2 * kEdge; }
  double* alpha(int64_t t) { return alpha_.data() + t * row() + kEdge; }
  const double* probabilities(int64_t t) {
    const T* at = q_.data + t * q_.step;
    for (int64_t s = 0; s < n_; ++s) p_[size(s)] = static_cast<double>(at[of_[size(s)]]);
    return p_.data();
  }

  Sequence<T> q_;
  int64_t n_;
  std::vector<int64_t> of_;  // the label of a state
  std::vector<double> open_, p_, alpha_;
};

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
        out.wide.data<T>()[i] = static_cast<T>(Alignments<T>(sequence<T>(in, targets, input_lengths, target_lengths, blank, i)).loss());
    });
  });
}

void ctc_loss_backward(const Tensor& dy, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
                       const Tensor&, int64_t blank, const Tensor& dx) {  // the losses that were returned are rounded to their type: they are computed again
  const Tensor in = widened(log_probs), grads = widened(dy);
  const WideOutput out(dx);
  visit_float(in.dtype(), [&]<class T>(T) {
    T* to = out.wide.data<T>();
    std::fill_n(to, dx.numel(), T(0));
    parallel_for(0, dy.numel(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double scale = static_cast<double>(grads.data<T>()[i]);
        if (scale == 0) continue;
        Alignments<T>(sequence<T>(in, targets, input_lengths, target_lengths, blank, i)).gradient(scale, to + i * in.size(2));
      }
    });
  });
}

}  // namespace fl::kernels
