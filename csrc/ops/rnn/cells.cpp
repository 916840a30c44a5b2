// The element-wise part of LSTM and GRU cells: what is left once both matrix products are done.
#include "ops/rnn/cells.h"

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

template <class F>
void for_rows(const Tensor& state, const F& f) {
  const int64_t n = state.size(1);
  parallel_for(0, state.size(0), std::max<int64_t>(1, 1024 / (n + 1)), [&](int64_t b0, int64_t b1) {
    for (int64_t b = b0; b < b1; ++b) f(b);
  });
}

}  // namespace

void lstm_cell(const Tensor& gates_x, const Tensor& gates_h, const Tensor& c, const Tensor& gates, const Tensor& h_next, const Tensor& c_next) {
  const WideOutput oh(h_next), oc(c_next);
  const Tensor gx = widened(gates_x), gh = widened(gates_h), wc = widened(c);
  const int64_t n = c.size(1);
  visit_float(gates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_rows(c, [&](int64_t b) {
      FL_PICK(lstm_row)(gx.data<T>() + b * 4 * n, gh.data<T>() + b * 4 * n, wc.data<T>() + b * n, gates.data<T>() + b * 4 * n,
                        oh.wide.data<T>() + b * n, oc.wide.data<T>() + b * n, n);
    });
  });
}

void lstm_cell_gradients(const Tensor& dh, const Tensor& dc_next, const Tensor& gates, const Tensor& c, const Tensor& c_next,
                         const Tensor& dgates_x, const Tensor& dgates_h, const Tensor& dc) {
  const WideOutput og(dgates_x), oc(dc);
  const DType t = gates.dtype();
  const Tensor wh = converted(dh, t), wd = converted(dc_next, t), wc = converted(c, t), wn = converted(c_next, t);
  const int64_t n = c.size(1);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    for_rows(c, [&](int64_t b) {
      FL_PICK(lstm_row_backward)(wh.data<T>() + b * n, wd.data<T>() + b * n, gates.data<T>() + b * 4 * n, wc.data<T>() + b * n,
                                 wn.data<T>() + b * n, og.wide.data<T>() + b * 4 * n, oc.wide.data<T>() + b * n, n);
    });
  });
  copy_elements(dgates_h, og.wide);
}

void gru_cell(const Tensor& gates_x, const Tensor& gates_h, const Tensor& h, const Tensor& gates, const Tensor& h_next) {
  const WideOutput out(h_next);
  const Tensor gx = widened(gates_x), gh = widened(gates_h), wh = widened(h);
  const int64_t n = h.size(1);
  visit_float(gates.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_rows(h, [&](int64_t b) {
      FL_PICK(gru_row)(gx.data<T>() + b * 3 * n, gh.data<T>() + b * 3 * n, wh.data<T>() + b * n, gates.data<T>() + b * 4 * n,
                       out.wide.data<T>() + b * n, n);
    });
  });
}

void gru_cell_gradients(const Tensor& dh_next, const Tensor& gates, const Tensor& h, const Tensor& dgx, const Tensor& dgh, const Tensor& dh) {
  const WideOutput ox(dgx), og(dgh), oh(dh);
  const DType t = gates.dtype();
  const Tensor wd = converted(dh_next, t), wh = converted(h, t);
  const int64_t n = h.size(1);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    for_rows(h, [&](int64_t b) {
      FL_PICK(gru_row_backward)(wd.data<T>() + b * n, gates.data<T>() + b * 4 * n, wh.data<T>() + b * n, ox.wide.data<T>() + b * 3 * n,
                                og.wide.data<T>() + b * 3 * n, oh.wide.data<T>() + b * n, n);
    });
  });
}

}  // namespace fl::kernels
