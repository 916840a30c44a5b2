// The gradients of recurrent steps. Where they are to be differentiated again, or a gradient arrives for what a step keeps, ops
// make them that have derivatives; else one kernel does.
//
// Note [What a recurrent step keeps]
// Cells and sequences give their activated gates (and cell states) as outputs, which the layers do not hand on. So a second backward
// has where to go: from the gates that the formulas below read to the step that made them, whose gradient by z follows from a = f(z).
// A single step's new cell state is not kept but computed again, so that it may be written into.
#include <algorithm>

#include "op/add.h"
#include "op/cast.h"
#include "op/cat.h"
#include "op/gru_cell_gradients.h"
#include "op/gru_sequence_backward.h"
#include "op/lstm_cell_gradients.h"
#include "op/lstm_sequence_backward.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/narrow.h"
#include "op/reshape.h"
#include "op/rsub.h"
#include "op/select.h"
#include "op/stack.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/tanh.h"
#include "op/transpose.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"

namespace fl::native {
namespace {

Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : op::cast(x, dtype); }
Tensor sum_of(const Tensor& x, const Tensor& more) { return more.defined() ? op::add(x, more) : x; }
Tensor through_sigmoid(const Tensor& d, const Tensor& a) { return op::mul(d, op::mul(a, op::rsub(a, 1))); }
Tensor through_tanh(const Tensor& d, const Tensor& a) { return op::mul(d, op::rsub(op::mul(a, a), 1)); }

// Columns number k of x [B, n * H].
Tensor part(const Tensor& x, int64_t k, int64_t hidden) { return x.defined() ? op::narrow(x, 1, k * hidden, hidden) : x; }
Tensor at(const Tensor& xs, int64_t t) { return xs.defined() ? op::select(xs, 0, t) : xs; }

bool by_ops(TensorList kept_gradients, TensorList all) {
  const auto given = [](const Tensor& x) { return x.defined(); };
  return std::any_of(kept_gradients.begin(), kept_gradients.end(), given) ||
         (grad_enabled() && std::any_of(all.begin(), all.end(), [](const Tensor& x) { return requires_grad(x); }));
}

struct LstmStep {
  Tensor dz, dc;  // by the sum of both products, by the cell state before
  LstmStep(const Tensor& dh, Tensor d, const Tensor& kept, const Tensor& dkept, const Tensor& before, const Tensor& after) {
    const int64_t n = before.size(1);
    const Tensor i = part(kept, 0, n), f = part(kept, 1, n), g = part(kept, 2, n), o = part(kept, 3, n), y = op::tanh(after);
    d = op::add(d, through_tanh(op::mul(dh, o), y));
    const Tensor parts[] = {through_sigmoid(sum_of(op::mul(d, g), part(dkept, 0, n)), i), through_sigmoid(sum_of(op::mul(d, before), part(dkept, 1, n)), f),
                            through_tanh(sum_of(op::mul(d, i), part(dkept, 2, n)), g), through_sigmoid(sum_of(op::mul(dh, y), part(dkept, 3, n)), o)};
    dz = op::cat(parts, 1);
    dc = op::mul(d, f);
  }
};

struct GruStep {
  Tensor dx, dh, past;  // by the products with the input and with the state; by the state, past its product
  GruStep(const Tensor& d, const Tensor& kept, const Tensor& dkept, const Tensor& before) {
    const int64_t n = before.size(1);
    const Tensor r = part(kept, 0, n), z = part(kept, 1, n), m = part(kept, 2, n), hn = part(kept, 3, n);
    const Tensor dm = through_tanh(sum_of(op::mul(d, op::rsub(z, 1)), part(dkept, 2, n)), m);
    const Tensor dz = through_sigmoid(sum_of(op::mul(d, op::sub(before, m)), part(dkept, 1, n)), z);
    const Tensor dr = through_sigmoid(sum_of(op::mul(dm, hn), part(dkept, 0, n)), r), dhn = sum_of(op::mul(dm, r), part(dkept, 3, n));
    dx = op::cat(std::array{dr, dz, dm}, 1);
    dh = op::cat(std::array{dr, dz, dhn}, 1);
    past = op::mul(d, z);
  }
};

// Steps in the order of time, from those in the order of computation.
Tensor in_time(std::vector<Tensor> steps, bool reverse) {
  if (reverse) std::reverse(steps.begin(), steps.end());
  return op::stack(steps, 0);
}

// By the weight: of the products' gradients dz [T, B, G], and the states that they were made of.
Tensor by_weight(const Tensor& dz, const Tensor& ys, const Tensor& first, bool reverse) {
  const int64_t steps = ys.size(0), rows = steps * ys.size(1);
  const Tensor edge = op::reshape(first, Dims{1, first.size(0), first.size(1)}), others = op::narrow(ys, 0, reverse ? 1 : 0, steps - 1);
  const Tensor before = op::cat(reverse ? std::array{others, edge} : std::array{edge, others}, 0);
  return op::matmul(op::transpose(op::reshape(dz, Dims{rows, dz.size(2)}), 0, 1), op::reshape(before, Dims{rows, first.size(1)}));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm_cell_derivatives(const Tensor& dh, const Tensor& dc_next, const Tensor& dkept, const Tensor& kept, const Tensor& c) {
  if (!by_ops(std::array{dkept}, std::array{dh, dc_next, kept, c})) return op::lstm_cell_gradients(dh, dc_next, kept, c);
  const DType t = kept.dtype();
  const int64_t n = c.size(1);
  const Tensor before = as(c, t), after = op::add(op::mul(part(kept, 1, n), before), op::mul(part(kept, 0, n), part(kept, 2, n)));
  const LstmStep step(as(dh, t), as(dc_next, t), kept, dkept, before, after);
  const Tensor dz = as(step.dz, c.dtype());
  return {dz, dz, as(step.dc, c.dtype())};
}

std::tuple<Tensor, Tensor, Tensor> gru_cell_derivatives(const Tensor& dh_next, const Tensor& dkept, const Tensor& kept, const Tensor& h) {
  if (!by_ops(std::array{dkept}, std::array{dh_next, kept, h})) return op::gru_cell_gradients(dh_next, kept, h);
  const DType t = kept.dtype();
  const GruStep step(as(dh_next, t), kept, dkept, as(h, t));
  return {as(step.dx, h.dtype()), as(step.dh, h.dtype()), as(step.past, h.dtype())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> lstm_sequence_derivatives(const Tensor& dys, const Tensor& dh_n, const Tensor& dc_n, const Tensor& dgates,
                                                                     const Tensor& dcs, const Tensor& gates, const Tensor& cs, const Tensor& ys,
                                                                     const Tensor& h, const Tensor& c, const Tensor& weight, bool reverse, bool needs_weight) {
  if (!by_ops(std::array{dgates, dcs}, std::array{dys, dh_n, dc_n, gates, cs, ys, h, c, weight}))
    return op::lstm_sequence_backward(dys, dh_n, dc_n, gates, cs, ys, h, c, weight, reverse, needs_weight);
  const DType t = gates.dtype(), out = h.dtype();
  const int64_t steps = gates.size(0);
  const Tensor w = as(weight, t), first = as(c, t), dy = as(dys, t);
  Tensor dh = as(dh_n, t), dc = as(dc_n, t);
  std::vector<Tensor> dz;
  for (int64_t k = steps; k-- > 0;) {
    const int64_t now = reverse ? steps - 1 - k : k, earlier = reverse ? now + 1 : now - 1;
    LstmStep step(op::add(dh, at(dy, now)), sum_of(dc, at(dcs, now)), at(gates, now), at(dgates, now), k ? at(cs, earlier) : first, at(cs, now));
    dh = op::matmul(step.dz, w);
    dc = std::move(step.dc);
    dz.push_back(std::move(step.dz));
  }
  const Tensor all = in_time(std::move(dz), !reverse);
  return {as(all, out), as(dh, out), as(dc, out), needs_weight ? as(by_weight(all, as(ys, t), as(h, t), reverse), out) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> gru_sequence_derivatives(const Tensor& dys, const Tensor& dh_n, const Tensor& dgates, const Tensor& gates,
                                                                    const Tensor& ys, const Tensor& h, const Tensor& weight, bool reverse, bool needs_weight,
                                                                    bool needs_bias) {
  if (!by_ops(std::array{dgates}, std::array{dys, dh_n, gates, ys, h, weight}))
    return op::gru_sequence_backward(dys, dh_n, gates, ys, h, weight, reverse, needs_weight, needs_bias);
  const DType t = gates.dtype(), out = h.dtype();
  const int64_t steps = gates.size(0);
  const Tensor w = as(weight, t), first = as(h, t), dy = as(dys, t), y = as(ys, t);
  Tensor dh = as(dh_n, t);
  std::vector<Tensor> dx, dz;
  for (int64_t k = steps; k-- > 0;) {
    const int64_t now = reverse ? steps - 1 - k : k, earlier = reverse ? now + 1 : now - 1;
    GruStep step(op::add(dh, at(dy, now)), at(gates, now), at(dgates, now), k ? at(y, earlier) : first);
    dh = op::add(op::matmul(step.dh, w), step.past);
    dx.push_back(std::move(step.dx));
    dz.push_back(std::move(step.dh));
  }
  const Tensor all = in_time(std::move(dz), !reverse);
  const Dims steps_and_batch{0, 1};
  return {as(in_time(std::move(dx), !reverse), out), as(dh, out), needs_weight ? as(by_weight(all, y, first, reverse), out) : Tensor(),
          needs_bias ? as(op::sum(all, IntList(steps_and_batch)), out) : Tensor()};
}

}  // namespace fl::native
