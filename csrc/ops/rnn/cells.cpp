// The element-wise part of LSTM and GRU cells: what is left once both matrix products are done.
#include "ops/rnn/cells.h"

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

// f(first row, end row) over the batch.
template <class F>
void over_rows(const Tensor& state, const F& f) {
  const int64_t n = state.size(1);
  parallel_work(state.size(0), n, 1024, [&](int64_t b0, int64_t b1) { f(b0, b1); });
}

}  // namespace

void lstm_cell(const Tensor& gates_x, const Tensor& gates_h, const Tensor& c, const Tensor& h_next, const Tensor& c_next, const Tensor& gates) {
  const int64_t n = c.size(1);
  visit_memory(c.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Pieces<T> products(gates_h), before(c), after(c_next);
    over_rows(c, [&](int64_t b0, int64_t b1) {
      const Tensor p = products.buffer(4 * n), from = before.buffer(n), to = after.buffer(n);
      for (int64_t b = b0; b < b1; ++b) {
        FL_PICK_MEMORY(lstm_row)(gates_x.data<S>() + b * 4 * n, products.read(b * 4 * n, 4 * n, p), before.read(b * n, n, from),
                                 gates.data<T>() + b * 4 * n, h_next.data<S>() + b * n, after.place(b * n, to), n);
        after.write(b * n, n, to);
      }
    });
  });
}

void lstm_cell_gradients(const Tensor& dh, const Tensor& dc_next, const Tensor& gates, const Tensor& c, const Tensor& dgates_x,
                         const Tensor& dgates_h, const Tensor& dc) {
  const int64_t n = c.size(1);
  visit_memory(c.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Pieces<T> grads(dh), cell_grads(dc_next), before(c), out(dc);
    over_rows(c, [&](int64_t b0, int64_t b1) {
      const Tensor g = grads.buffer(n), cg = grads.buffer(n), from = before.buffer(n), result = out.buffer(n);
      for (int64_t b = b0; b < b1; ++b) {
        const int64_t at = b * n;
        FL_PICK_MEMORY(lstm_row_backward)(grads.read(at, n, g), cell_grads.read(at, n, cg), gates.data<T>() + 4 * at, before.read(at, n, from),
                                          dgates_x.data<S>() + 4 * at, out.place(at, result), n);
        out.write(at, n, result);
      }
    });
  });
  copy_elements(dgates_h, dgates_x);
}

void gru_cell(const Tensor& gates_x, const Tensor& gates_h, const Tensor& h, const Tensor& h_next, const Tensor& gates) {
  const int64_t n = h.size(1);
  visit_memory(h.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Pieces<T> products(gates_h);
    over_rows(h, [&](int64_t b0, int64_t b1) {
      const Tensor p = products.buffer(3 * n);
      for (int64_t b = b0; b < b1; ++b)
        FL_PICK_MEMORY(gru_row)(gates_x.data<S>() + b * 3 * n, products.read(b * 3 * n, 3 * n, p), h.data<S>() + b * n, gates.data<T>() + b * 4 * n,
                                h_next.data<S>() + b * n, n);
    });
  });
}

void gru_cell_gradients(const Tensor& dh_next, const Tensor& gates, const Tensor& h, const Tensor& dgx, const Tensor& dgh, const Tensor& dh) {
  const int64_t n = h.size(1);
  visit_memory(h.dtype(), [&](auto element) {
    using S = decltype(element);
    using T = Computed<S>;
    const Pieces<T> grads(dh_next), out(dh);
    over_rows(h, [&](int64_t b0, int64_t b1) {
      const Tensor g = grads.buffer(n), result = out.buffer(n);
      for (int64_t b = b0; b < b1; ++b) {
        FL_PICK_MEMORY(gru_row_backward)(grads.read(b * n, n, g), gates.data<T>() + b * 4 * n, h.data<S>() + b * n, dgx.data<S>() + b * 3 * n,
                                         dgh.data<S>() + b * 3 * n, out.place(b * n, result), n);
        out.write(b * n, n, result);
      }
    });
  });
}

}  // namespace fl::kernels
