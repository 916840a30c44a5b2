// LSTM and GRU over whole sequences. The input halves of all gates come as one product, so a step costs the
// product with the hidden state, whose weight is packed once, and the cell. Backwards, the gradient of the
// weight is one product over all steps at the end.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/half.h"
#include "ops/matmul/matmul.h"
#include "ops/rnn/cells.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

// c = a b for many a [m, k] of S and one b, which is the weight [n, k] transposed, or [k, n] as it is; c in float32 where
// S is a 16-bit float.
template <class S>
class Repeated {
 public:
  using T = Computed<S>;
  enum class Weight { Transposed, Plain };
  Repeated(int64_t m, const Tensor& weight, Weight form) : m_(m), n_(weight.size(form == Weight::Plain ? 1 : 0)), k_(weight.size(form == Weight::Plain ? 0 : 1)) {
    const int64_t row = form == Weight::Plain ? n_ : 1, col = form == Weight::Plain ? 1 : k_;
    if constexpr (std::is_same_v<T, float>) packed_ = onednn::PackedProduct(dtype_of<S>, m_, n_, k_, weight.data(), row, col, &weight.storage());
    if (packed_) return;
    weight_ = widened(weight);
    b_ = {weight_.data<T>(), row, col};
    rows_ = std::is_same_v<S, T> ? Tensor() : empty(Dims{m_, k_}, dtype_of<T>);
  }
  void run(const S* a, T* c) const {
    if constexpr (std::is_same_v<T, float>)
      if (packed_ && packed_.run(a, c)) return;
    const T* rows;
    if constexpr (std::is_same_v<S, T>) rows = a;
    else convert_elements(rows_.data(), dtype_of<T>, a, dtype_of<S>, m_ * k_), rows = rows_.data<T>();
    gemm(Gemm<T>{m_, n_, k_, Mat<T>{rows, k_, 1}, b_, c, n_});
  }

 private:
  int64_t m_, n_, k_;
  onednn::PackedProduct packed_;
  Tensor weight_, rows_;
  Mat<T> b_{};
};

struct Sizes {
  int64_t steps, batch, hidden, gates;  // gates: columns of the products
  Sizes(const Tensor& gates_x, const Tensor& weight)
      : steps(gates_x.size(0)), batch(gates_x.size(1)), hidden(weight.size(1)), gates(weight.size(0)) {}
  int64_t state() const { return batch * hidden; }
  // Step number k in the order of computation, and the one before it in memory (-1: the first state).
  int64_t at(int64_t k, bool reverse) const { return reverse ? steps - 1 - k : k; }
};

// f(row) over rows of the batch from `first` on.
template <class F>
void over_rows(const Sizes& s, int64_t first, int64_t rows, const F& f) {
  parallel_work(rows, s.hidden, 1024, [&](int64_t b0, int64_t b1) {
    for (int64_t b = first + b0; b < first + b1; ++b) f(b);
  });
}

// Calls steps(first row, rows, product) for groups of the batch's rows, which go through all steps without knowing of each other: each on one thread, which
// waits for nobody at a step. How many there are follows from sizes alone, so that results do not depend on the number of threads. All rows are one group,
// whose steps threads share, where they are few or the weight is larger than a second-level cache.
template <class S, class F>
void in_groups(const Sizes& s, const Tensor& weight, typename Repeated<S>::Weight form, const F& steps) {
  constexpr int64_t kRows = 16, kFewRows = 8, kMostWeight = 1 << 18;
  const int64_t rows = s.batch >= 2 * kRows ? kRows : kFewRows;
  if (!std::is_same_v<S, Computed<S>> || s.steps < 2 || s.batch < 2 * rows || weight.numel() > kMostWeight) return steps(0, s.batch, Repeated<S>(s.batch, weight, form));
  const int64_t groups = (s.batch + rows - 1) / rows, least = s.batch / groups, larger = s.batch % groups;
  std::vector<Repeated<S>> products;  // for the least rows, and one more
  {
    const OneCore one;
    products.emplace_back(least, weight, form);
    if (larger > 0) products.emplace_back(least + 1, weight, form);
  }
  parallel_for(0, groups, 1, [&](int64_t g0, int64_t g1) {
    const OneCore one;
    for (int64_t g = g0; g < g1; ++g) {
      const bool more = g < larger;
      steps(g * least + std::min(g, larger), least + (more ? 1 : 0), products[more ? 1 : 0]);
    }
  });
}

// dw[g, h] = sum over steps and batch of dgates[t, b, g] * state before t[b, h].
template <class S>
void weight_gradient(const Sizes& s, const S* dgates, const S* ys, const S* first, bool reverse, const Tensor& dw) {
  const int64_t rows = (s.steps - 1) * s.batch, edge = reverse ? rows : 0;
  const S* before = ys + (reverse ? s.state() : 0);
  if constexpr (std::is_same_v<S, Computed<S>>) {
    const S* later = dgates + (reverse ? 0 : s.batch * s.gates);
    S* to = dw.data<S>();
    gemm(Gemm<S>{s.gates, s.hidden, s.batch, Mat<S>{dgates + edge * s.gates, 1, s.gates}, Mat<S>{first, s.hidden, 1}, to, s.hidden});
    if (rows > 0) gemm(Gemm<S>{s.gates, s.hidden, rows, Mat<S>{later, 1, s.gates}, Mat<S>{before, s.hidden, 1}, to, s.hidden, S(1), S(1)});
  } else {  // one product, since 16 bits can not hold the sum of two; for that the states are put in order
    const Tensor states = empty(Dims{s.steps * s.batch, s.hidden}, dtype_of<S>);
    std::copy_n(first, s.state(), states.data<S>() + edge * s.hidden);
    std::copy_n(before, rows * s.hidden, states.data<S>() + (reverse ? 0 : s.state()));
    const auto matrix = [](const void* data, int64_t row, int64_t col) {
      return MatrixBatch{static_cast<char*>(const_cast<void*>(data)), Dims(), row, col};
    };
    matmul_batches(dtype_of<S>, Dims(), s.gates, s.hidden, rows + s.batch, matrix(dgates, 1, s.gates), matrix(states.data(), s.hidden, 1),
                   matrix(dw.data(), s.hidden, 1));
  }
}

}  // namespace

void lstm_sequence(const Tensor& gates_x, const Tensor& h, const Tensor& c, const Tensor& weight, bool reverse, const Tensor& ys, const Tensor& h_n,
                   const Tensor& c_n, const Tensor& gates, const Tensor& cs) {
  const Tensor wc = widened(c);
  const Sizes s(gates_x, weight);
  visit_memory(h.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Tensor scratch = empty(Dims{s.batch, s.gates}, gates.dtype());
    const S* x = gates_x.data<S>();
    S* y = ys.data<S>();
    T *g = gates.data<T>(), *cells = cs.data<T>(), *products = scratch.data<T>();
    in_groups<S>(s, weight, Repeated<S>::Weight::Transposed, [&](int64_t first, int64_t rows, const Repeated<S>& product) {
      const S* state = h.data<S>();
      const T* cell = wc.data<T>();
      for (int64_t k = 0; k < s.steps; ++k) {
        const int64_t t = s.at(k, reverse);
        product.run(state + first * s.hidden, products + first * s.gates);
        S* y_t = y + t * s.state();
        T* c_t = cells + t * s.state();
        over_rows(s, first, rows, [&](int64_t b) {
          const int64_t row = (t * s.batch + b) * s.gates, at = b * s.hidden;
          FL_PICK_MEMORY(lstm_row)(x + row, products + b * s.gates, cell + at, g + row, y_t + at, c_t + at, s.hidden);
        });
        state = y_t, cell = c_t;
      }
    });
    const int64_t last = s.at(s.steps - 1, reverse) * s.state();
    std::copy_n(s.steps > 0 ? y + last : h.data<S>(), s.state(), h_n.data<S>());
    convert_elements(c_n.data(), c_n.dtype(), s.steps > 0 ? cells + last : wc.data<T>(), dtype_of<T>, s.state());
  });
}

void lstm_sequence_backward(const Tensor& dys, const Tensor& dh_n, const Tensor& dc_n, const Tensor& gates, const Tensor& cs, const Tensor& ys,
                            const Tensor& h, const Tensor& c, const Tensor& weight, bool reverse, bool needs_weight, const Tensor& dgates_x,
                            const Tensor& dh, const Tensor& dc, const Tensor& dweight) {
  const WideOutput oh(dh), oc(dc);
  const Tensor wc = widened(c);
  const Sizes s(gates, weight);
  copy_elements(oh.wide, dh_n);
  copy_elements(oc.wide, dc_n);
  visit_memory(ys.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Tensor scratch = empty(c.sizes(), gates.dtype());
    S* dg = dgates_x.data<S>();
    T *d_h = oh.wide.data<T>(), *d_c = oc.wide.data<T>(), *earlier = scratch.data<T>();
    const S* dy = dys.data<S>();
    const T *g = gates.data<T>(), *cells = cs.data<T>();
    in_groups<S>(s, weight, Repeated<S>::Weight::Plain, [&](int64_t first, int64_t rows, const Repeated<S>& product) {
      for (int64_t k = s.steps; k-- > 0;) {
        const int64_t t = s.at(k, reverse);
        const T* before = k == 0 ? wc.data<T>() : cells + s.at(k - 1, reverse) * s.state();
        over_rows(s, first, rows, [&](int64_t b) {
          const int64_t row = (t * s.batch + b) * s.gates, at = b * s.hidden, now = t * s.state() + at;
          FL_PICK_MEMORY(rnn_add)(dy + now, d_h + at, s.hidden);
          FL_PICK_MEMORY(lstm_row_backward)(d_h + at, d_c + at, g + row, before + at, dg + row, earlier + at, s.hidden);
          std::copy_n(earlier + at, s.hidden, d_c + at);
        });
        product.run(dg + (t * s.batch + first) * s.gates, d_h + first * s.hidden);
      }
    });
    if (needs_weight) weight_gradient<S>(s, dg, ys.data<S>(), h.data<S>(), reverse, dweight);
  });
}

void gru_sequence(const Tensor& gates_x, const Tensor& h, const Tensor& weight, const Tensor& bias, bool reverse, const Tensor& ys,
                  const Tensor& h_n, const Tensor& gates) {
  const Tensor wb = widened(bias);
  const Sizes s(gates_x, weight);
  visit_memory(h.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Tensor scratch = empty(Dims{s.batch, s.gates}, gates.dtype());
    const S* x = gates_x.data<S>();
    const T* add_b = wb.defined() ? wb.data<T>() : nullptr;
    S* y = ys.data<S>();
    T *g = gates.data<T>(), *products = scratch.data<T>();
    in_groups<S>(s, weight, Repeated<S>::Weight::Transposed, [&](int64_t first, int64_t rows, const Repeated<S>& product) {
      const S* state = h.data<S>();
      for (int64_t k = 0; k < s.steps; ++k) {
        const int64_t t = s.at(k, reverse);
        product.run(state + first * s.hidden, products + first * s.gates);
        S* y_t = y + t * s.state();
        over_rows(s, first, rows, [&](int64_t b) {
          const int64_t row = t * s.batch + b, at = b * s.hidden;
          if (add_b) FL_PICK(rnn_add)(add_b, products + b * s.gates, s.gates);
          FL_PICK_MEMORY(gru_row)(x + row * s.gates, products + b * s.gates, state + at, g + row * 4 * s.hidden, y_t + at, s.hidden);
        });
        state = y_t;
      }
    });
    std::copy_n(s.steps > 0 ? y + s.at(s.steps - 1, reverse) * s.state() : h.data<S>(), s.state(), h_n.data<S>());
  });
}

void gru_sequence_backward(const Tensor& dys, const Tensor& dh_n, const Tensor& gates, const Tensor& ys, const Tensor& h, const Tensor& weight,
                           bool reverse, bool needs_weight, bool needs_bias, const Tensor& dgates_x, const Tensor& dh, const Tensor& dweight,
                           const Tensor& dbias) {
  const WideOutput oh(dh), ob(dbias);
  const Sizes s(dgates_x, weight);
  copy_elements(oh.wide, dh_n);
  visit_memory(ys.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    // The hidden halves' gradients differ from those of the input halves; `direct` passes the product by.
    const Tensor hidden_half = empty(dgates_x.sizes(), dgates_x.dtype()), direct = empty(h.sizes(), gates.dtype());
    S *dg = dgates_x.data<S>(), *dgh = hidden_half.data<S>();
    T *d_h = oh.wide.data<T>(), *past = direct.data<T>();
    const S *y = ys.data<S>(), *dy = dys.data<S>();
    const T* g = gates.data<T>();
    in_groups<S>(s, weight, Repeated<S>::Weight::Plain, [&](int64_t first, int64_t rows, const Repeated<S>& product) {
      for (int64_t k = s.steps; k-- > 0;) {
        const int64_t t = s.at(k, reverse);
        const S* before = k == 0 ? h.data<S>() : y + s.at(k - 1, reverse) * s.state();
        over_rows(s, first, rows, [&](int64_t b) {
          const int64_t row = t * s.batch + b, at = b * s.hidden;
          FL_PICK_MEMORY(rnn_add)(dy + t * s.state() + at, d_h + at, s.hidden);
          FL_PICK_MEMORY(gru_row_backward)(d_h + at, g + row * 4 * s.hidden, before + at, dg + row * s.gates, dgh + row * s.gates, past + at, s.hidden);
        });
        const int64_t from = first * s.hidden;
        product.run(dgh + (t * s.batch + first) * s.gates, d_h + from);
        FL_PICK(rnn_add)(past + from, d_h + from, rows * s.hidden);
      }
    });
    if (needs_weight) weight_gradient<S>(s, dgh, y, h.data<S>(), reverse, dweight);
    if (!needs_bias) return;
    std::vector<double> sums(static_cast<size_t>(s.gates));
    for (int64_t r = 0; r < s.steps * s.batch; ++r)
      for (int64_t j = 0; j < s.gates; ++j) sums[static_cast<size_t>(j)] += static_cast<double>(dgh[r * s.gates + j]);
    for (int64_t j = 0; j < s.gates; ++j) ob.wide.data<T>()[j] = static_cast<T>(sums[static_cast<size_t>(j)]);
  });
}

}  // namespace fl::kernels
