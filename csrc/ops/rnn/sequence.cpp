// LSTM and GRU over whole sequences. The input halves of all gates come as one product, so a step costs the
// product with the hidden state, whose weight is packed once, and the cell. Backwards, the gradient of the
// weight is one product over all steps at the end.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/half.h"
#include "ops/rnn/cells.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

// c = a b for many a [m, k] and one b [k, n].
template <class T>
class Repeated {
 public:
  Repeated(int64_t m, int64_t n, int64_t k, Mat<T> b) : m_(m), n_(n), k_(k), b_(b) {
    if constexpr (std::is_same_v<T, float>) packed_ = onednn::PackedProduct(m, n, k, b);
  }
  void run(const T* a, T* c) const {
    if constexpr (std::is_same_v<T, float>)
      if (packed_.run(a, c)) return;
    gemm(Gemm<T>{m_, n_, k_, Mat<T>{a, k_, 1}, b_, c, n_});
  }

 private:
  int64_t m_, n_, k_;
  Mat<T> b_;
  onednn::PackedProduct packed_;
};

struct Sizes {
  int64_t steps, batch, hidden, gates;  // gates: columns of the products
  Sizes(const Tensor& gates_x, const Tensor& weight)
      : steps(gates_x.size(0)), batch(gates_x.size(1)), hidden(weight.size(1)), gates(weight.size(0)) {}
  int64_t state() const { return batch * hidden; }
  // Step number k in the order of computation, and the one before it in memory (-1: the first state).
  int64_t at(int64_t k, bool reverse) const { return reverse ? steps - 1 - k : k; }
};

// f(first row, end row) over the batch.
template <class F>
void over_batch(const Sizes& s, const F& f) {
  parallel_for(0, s.batch, std::max<int64_t>(1, 1024 / (s.hidden + 1)), [&](int64_t b0, int64_t b1) { f(b0, b1); });
}

// dw[g, h] = sum over steps and batch of dgates[t, b, g] * state before t[b, h].
template <class T>
void weight_gradient(const Sizes& s, const T* dgates, const T* ys, const T* first, bool reverse, T* dw) {
  const int64_t rows = (s.steps - 1) * s.batch, edge = reverse ? rows : 0;
  const T* later = dgates + (reverse ? 0 : s.batch * s.gates);
  const T* before = ys + (reverse ? s.state() : 0);
  gemm(Gemm<T>{s.gates, s.hidden, s.batch, Mat<T>{dgates + edge * s.gates, 1, s.gates}, Mat<T>{first, s.hidden, 1}, dw, s.hidden});
  if (rows > 0) gemm(Gemm<T>{s.gates, s.hidden, rows, Mat<T>{later, 1, s.gates}, Mat<T>{before, s.hidden, 1}, dw, s.hidden, T(1), T(1)});
}

// dh += dy, where there is one.
template <class T>
void add(const T* dy, T* dh, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dh[i] += dy[i];
}

}  // namespace

void lstm_sequence(const Tensor& gates_x, const Tensor& h, const Tensor& c, const Tensor& weight, bool reverse, const Tensor& gates, const Tensor& cs,
                   const Tensor& ys, const Tensor& h_n, const Tensor& c_n) {
  const WideOutput oy(ys), oh(h_n), oc(c_n);
  const Tensor gx = widened(gates_x), wh = widened(h), wc = widened(c), ww = widened(weight);
  const Sizes s(gates_x, weight);
  visit_float(gates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Repeated<T> product(s.batch, s.gates, s.hidden, Mat<T>{ww.data<T>(), 1, s.hidden, &ww.storage()});
    const Tensor scratch = empty(Dims{s.batch, s.gates}, gates.dtype());
    const T *state = wh.data<T>(), *cell = wc.data<T>(), *x = gx.data<T>();
    T *g = gates.data<T>(), *y = oy.wide.data<T>(), *cells = cs.data<T>(), *products = scratch.data<T>();
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = s.at(k, reverse);
      product.run(state, products);
      T *y_t = y + t * s.state(), *c_t = cells + t * s.state();
      over_batch(s, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t row = (t * s.batch + b) * s.gates, at = b * s.hidden;
          FL_PICK(lstm_row)(x + row, products + b * s.gates, cell + at, g + row, y_t + at, c_t + at, s.hidden);
        }
      });
      state = y_t, cell = c_t;
    }
    std::copy_n(state, s.state(), oh.wide.data<T>());
    std::copy_n(cell, s.state(), oc.wide.data<T>());
  });
}

void lstm_sequence_backward(const Tensor& dys, const Tensor& dh_n, const Tensor& dc_n, const Tensor& gates, const Tensor& cs, const Tensor& ys,
                            const Tensor& h, const Tensor& c, const Tensor& weight, bool reverse, bool needs_weight, const Tensor& dgates_x,
                            const Tensor& dh, const Tensor& dc, const Tensor& dweight) {
  const WideOutput og(dgates_x), oh(dh), oc(dc), ow(dweight);
  const DType type = gates.dtype();
  const Tensor wdy = converted(dys, type), wdh = converted(dh_n, type), wdc = converted(dc_n, type), wy = converted(ys, type), wh = converted(h, type),
               wc = converted(c, type), ww = converted(weight, type);
  const Sizes s(gates, weight);
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    const Repeated<T> product(s.batch, s.hidden, s.gates, Mat<T>{ww.data<T>(), s.hidden, 1, &ww.storage()});
    const Tensor scratch = empty(c.sizes(), type);
    T *d_h = oh.wide.data<T>(), *d_c = oc.wide.data<T>(), *dg = og.wide.data<T>(), *earlier = scratch.data<T>();
    const T *g = gates.data<T>(), *cells = cs.data<T>(), *dy = wdy.data<T>();
    std::copy_n(wdh.data<T>(), s.state(), d_h);
    std::copy_n(wdc.data<T>(), s.state(), d_c);
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = s.at(k, reverse);
      const T* before = k == 0 ? wc.data<T>() : cells + s.at(k - 1, reverse) * s.state();
      over_batch(s, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t row = (t * s.batch + b) * s.gates, at = b * s.hidden, now = t * s.state() + at;
          add(dy + now, d_h + at, s.hidden);
          FL_PICK(lstm_row_backward)(d_h + at, d_c + at, g + row, before + at, cells + now, dg + row, earlier + at, s.hidden);
          std::copy_n(earlier + at, s.hidden, d_c + at);
        }
      });
      product.run(dg + t * s.batch * s.gates, d_h);
    }
    if (needs_weight) weight_gradient(s, dg, wy.data<T>(), wh.data<T>(), reverse, ow.wide.data<T>());
  });
}

void gru_sequence(const Tensor& gates_x, const Tensor& h, const Tensor& weight, const Tensor& bias, bool reverse, const Tensor& gates,
                  const Tensor& ys, const Tensor& h_n) {
  const WideOutput oy(ys), oh(h_n);
  const DType type = gates.dtype();
  const Tensor gx = widened(gates_x), wh = widened(h), ww = widened(weight), wb = converted(bias, type);
  const Sizes s(gates_x, weight);
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    const Repeated<T> product(s.batch, s.gates, s.hidden, Mat<T>{ww.data<T>(), 1, s.hidden, &ww.storage()});
    const Tensor scratch = empty(Dims{s.batch, s.gates}, type);
    const T *state = wh.data<T>(), *x = gx.data<T>(), *add_b = wb.defined() ? wb.data<T>() : nullptr;
    T *g = gates.data<T>(), *y = oy.wide.data<T>(), *products = scratch.data<T>();
    for (int64_t k = 0; k < s.steps; ++k) {
      const int64_t t = s.at(k, reverse);
      product.run(state, products);
      T* y_t = y + t * s.state();
      over_batch(s, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t row = t * s.batch + b, at = b * s.hidden;
          if (add_b) add(add_b, products + b * s.gates, s.gates);
          FL_PICK(gru_row)(x + row * s.gates, products + b * s.gates, state + at, g + row * 4 * s.hidden, y_t + at, s.hidden);
        }
      });
      state = y_t;
    }
    std::copy_n(state, s.state(), oh.wide.data<T>());
  });
}

void gru_sequence_backward(const Tensor& dys, const Tensor& dh_n, const Tensor& gates, const Tensor& ys, const Tensor& h, const Tensor& weight,
                           bool reverse, bool needs_weight, bool needs_bias, const Tensor& dgates_x, const Tensor& dh, const Tensor& dweight,
                           const Tensor& dbias) {
  const WideOutput og(dgates_x), oh(dh), ow(dweight), ob(dbias);
  const DType type = gates.dtype();
  const Tensor wdy = converted(dys, type), wdh = converted(dh_n, type), wy = converted(ys, type), wh = converted(h, type), ww = converted(weight, type);
  const Sizes s(dgates_x, weight);
  visit_float(type, [&](auto zero) {
    using T = decltype(zero);
    const Repeated<T> product(s.batch, s.hidden, s.gates, Mat<T>{ww.data<T>(), s.hidden, 1, &ww.storage()});
    // The hidden halves' gradients differ from those of the input halves; `direct` passes the product by.
    const Tensor hidden_half = empty(dgates_x.sizes(), type), direct = empty(h.sizes(), type);
    T *d_h = oh.wide.data<T>(), *dg = og.wide.data<T>(), *dgh = hidden_half.data<T>(), *past = direct.data<T>();
    const T *g = gates.data<T>(), *y = wy.data<T>(), *dy = wdy.data<T>();
    std::copy_n(wdh.data<T>(), s.state(), d_h);
    for (int64_t k = s.steps; k-- > 0;) {
      const int64_t t = s.at(k, reverse);
      const T* before = k == 0 ? wh.data<T>() : y + s.at(k - 1, reverse) * s.state();
      over_batch(s, [&](int64_t b0, int64_t b1) {
        for (int64_t b = b0; b < b1; ++b) {
          const int64_t row = t * s.batch + b, at = b * s.hidden;
          add(dy + t * s.state() + at, d_h + at, s.hidden);
          FL_PICK(gru_row_backward)(d_h + at, g + row * 4 * s.hidden, before + at, dg + row * s.gates, dgh + row * s.gates, past + at, s.hidden);
        }
      });
      product.run(dgh + t * s.batch * s.gates, d_h);
      add(past, d_h, s.state());
    }
    if (needs_weight) weight_gradient(s, dgh, y, wh.data<T>(), reverse, ow.wide.data<T>());
    if (!needs_bias) return;
    std::vector<double> sums(static_cast<size_t>(s.gates));
    for (int64_t r = 0; r < s.steps * s.batch; ++r)
      for (int64_t j = 0; j < s.gates; ++j) sums[static_cast<size_t>(j)] += static_cast<double>(dgh[r * s.gates + j]);
    for (int64_t j = 0; j < s.gates; ++j) ob.wide.data<T>()[j] = static_cast<T>(sums[static_cast<size_t>(j)]);
  });
}

}  // namespace fl::kernels
