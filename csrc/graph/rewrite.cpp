// What becomes of recorded nodes before they are planned: patterns of some nodes that one does with fewer passes over memory.
#include <algorithm>
#include <limits>

#include "graph/program.h"

namespace fl::graph {

// Per buffer the nodes that use it, in order.
std::vector<std::vector<uint32_t>> Program::users() const {
  std::vector<std::vector<uint32_t>> users(buffers_.size());
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k)
    for (uint32_t v = tape_.nodes[k].first; v < tape_.nodes[k].last; ++v)
      if (const uint32_t b = tape_.buffer_of[v]; b != kNone && (users[b].empty() || users[b].back() != k)) users[b].push_back(k);
  return users;
}

// The value of an argument that is one tensor; kNone where it is none, or was not given.
uint32_t Program::value_of(const NodeRecord& node, uint32_t argument) const {
  const Box& box = tape_.boxes[node.args + argument];
  return box.kind == Box::Kind::Tensor ? static_cast<uint32_t>(box.integer) : kNone;
}

// Whether a node between these two overwrites the buffer.
bool Program::is_written(uint32_t buffer, uint32_t after, uint32_t before) const {
  bool written = false;
  for (uint32_t j = after + 1; j < before; ++j) tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) { written |= tape_.buffer_of[v] == buffer; });
  return written;
}

// Whether two values are the same elements of a buffer.
bool Program::same_place(uint32_t v, uint32_t u) const {
  if (v == kNone || u == kNone) return v == u;
  const Tensor &x = tape_.values[v], &y = tape_.values[u];
  return tape_.buffer_of[v] == tape_.buffer_of[u] && x.dtype() == y.dtype() && x.offset() == y.offset() && x.sizes() == y.sizes() && x.strides() == y.strides();
}

// A node of these arguments, tensors of which are values that exist, and outputs in the places of others.
NodeRecord Program::node_of(const OpInfo* op, SourceId source, std::initializer_list<Box> args, std::initializer_list<uint32_t> outs) {
  NodeRecord node{op, static_cast<uint32_t>(tape_.boxes.size()), static_cast<uint32_t>(args.size()), 0, 0, 0, source};
  node.first = static_cast<uint32_t>(tape_.values.size());
  const auto again = [&](uint32_t v) {
    const Tensor same = tape_.values[v];
    return new_value(tape_.buffer_of[v], same);
  };
  for (const Box& box : args) tape_.boxes.push_back(box.kind == Box::Kind::Tensor ? Box(Box::Kind::Tensor, again(static_cast<uint32_t>(box.integer))) : box);
  node.outs = static_cast<uint32_t>(tape_.values.size());
  for (const uint32_t v : outs) again(v);
  node.last = static_cast<uint32_t>(tape_.values.size());
  return node;
}

uint32_t Program::new_value(uint32_t buffer, const Tensor& like) {
  const auto v = static_cast<uint32_t>(tape_.values.size());
  tape_.values.push_back(like.defined() ? alias(like) : like);
  tape_.buffer_of.push_back(like.defined() ? buffer : kNone);
  tape_.next.push_back(kNone);
  if (like.defined()) buffers_[buffer].values.push_back(v);
  return v;
}

// x -> convolution -> batch_norm by running statistics -> y   becomes   fold_batch_norm -> weight, bias;  x -> convolution -> y
// in the places of the two nodes. The new weight and bias depend on parameters and statistics alone, so they are computed once.
void Program::fold_batch_norms() {
  const OpInfo *const convolution = find_op("convolution"), *const norm = find_op("batch_norm"), *const folding = find_op("fold_batch_norm");
  enum { X, Weight, Bias };                                   // arguments of a convolution
  enum { NormX, Mean, Var, NormWeight, NormBias, Training, Momentum, Eps };  // ... and of a batch norm
  const std::vector<std::vector<uint32_t>> users = this->users();
  const auto stands = [&](uint32_t v) {  // a parameter or statistic
    if (v == kNone) return true;
    const Tensor& x = tape_.values[v];
    return buffers_[tape_.buffer_of[v]].kind == Kind::Fixed && x.dtype() == DType::Float32 && x.is_contiguous();
  };
  for (uint32_t k = 0; k < tape_.nodes.size(); ++k) {
    const NodeRecord after = tape_.nodes[k];
    if (after.op != norm || tape_.boxes[after.args + Training].integer != 0) continue;
    const uint32_t x = value_of(after, NormX), mean = value_of(after, Mean), var = value_of(after, Var), y = after.outs;
    if (mean == kNone || var == kNone || !stands(mean) || !stands(var) || !stands(value_of(after, NormWeight)) || !stands(value_of(after, NormBias))) continue;
    const uint32_t between = tape_.buffer_of[x];
    if (buffers_[between].kind != Kind::Internal || users[between].size() != 2 || users[between][1] != k) continue;
    const uint32_t c = users[between][0];
    const NodeRecord conv = tape_.nodes[c];
    if (conv.op != convolution || !stands(value_of(conv, Weight)) || !stands(value_of(conv, Bias))) continue;
    const Tensor made = tape_.values[conv.outs], normed = tape_.values[x], out = tape_.values[y];
    if (made.dtype() != DType::Float32 || !(made.sizes() == normed.sizes()) || !(made.strides() == normed.strides()) || !(made.strides() == out.strides())) continue;
    bool alone = true;  // the statistics that it keeps for a backward are nobody's, and nobody writes what is read
    for (uint32_t v = y + 1; v < after.last; ++v) alone &= tape_.buffer_of[v] == kNone || users[tape_.buffer_of[v]].size() == 1;
    const uint32_t in = value_of(conv, X);
    for (uint32_t j = c + 1; j < k; ++j) {
      if (tape_.nodes[j].op == norm && tape_.boxes[tape_.nodes[j].args + Training].integer == 0) continue;  // its statistics are only read
      tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) {
        for (const uint32_t other : {in, value_of(conv, Weight), value_of(conv, Bias), mean, var, value_of(after, NormWeight), value_of(after, NormBias)})
          alone &= other == kNone || tape_.buffer_of[v] != tape_.buffer_of[other];
      });
    }
    if (!alone) continue;

    const Tensor weight = tape_.values[value_of(conv, Weight)], channels = tape_.values[mean];
    const auto fresh = [&](const Tensor& like) {  // a buffer for a tensor of this geometry
      buffers_.push_back({Kind::Internal, kNone, static_cast<size_t>(like.numel()) * like.item_bytes(), 0, {}, {}});
      return static_cast<uint32_t>(buffers_.size() - 1);
    };
    const uint32_t w = fresh(weight), b = fresh(channels);
    const auto shape = [](const Tensor& x) { return Tensor(make_ref<TensorImpl>(Storage::allocate_now(static_cast<size_t>(x.numel()) * x.item_bytes(), Device{}), x.sizes(), x.strides(), 0, x.dtype())); };
    // The one becomes fold_batch_norm(weight, bias, mean, var, norm's weight, norm's bias, eps) -> w, b
    NodeRecord fold{folding, static_cast<uint32_t>(tape_.boxes.size()), 7, 0, 0, 0, after.source};
    fold.first = static_cast<uint32_t>(tape_.values.size());
    for (const uint32_t v : {value_of(conv, Weight), value_of(conv, Bias), mean, var, value_of(after, NormWeight), value_of(after, NormBias)}) {
      if (v == kNone) {
        tape_.boxes.emplace_back();
      } else {
        const Tensor same = tape_.values[v];
        tape_.boxes.emplace_back(Box::Kind::Tensor, new_value(tape_.buffer_of[v], same));
      }
    }
    tape_.boxes.push_back(Box(tape_.boxes[after.args + Eps]));
    fold.outs = new_value(w, shape(weight));
    new_value(b, shape(channels));
    fold.last = static_cast<uint32_t>(tape_.values.size());
    // The other becomes convolution(x, w, b, ...) -> y
    NodeRecord then{convolution, static_cast<uint32_t>(tape_.boxes.size()), conv.n_args, 0, 0, 0, conv.source};
    for (uint32_t i = 0; i < conv.n_args; ++i) tape_.boxes.push_back(Box(tape_.boxes[conv.args + i]));
    then.first = static_cast<uint32_t>(tape_.values.size());
    const Tensor given = tape_.values[in], new_w = tape_.values[fold.outs], new_b = tape_.values[fold.outs + 1];
    tape_.boxes[then.args + X] = Box(Box::Kind::Tensor, new_value(tape_.buffer_of[in], given));
    tape_.boxes[then.args + Weight] = Box(Box::Kind::Tensor, new_value(w, new_w));
    tape_.boxes[then.args + Bias] = Box(Box::Kind::Tensor, new_value(b, new_b));
    then.outs = new_value(tape_.buffer_of[y], out);
    then.last = static_cast<uint32_t>(tape_.values.size());
    tape_.nodes[c] = fold;
    tape_.nodes[k] = then;
    for (const uint32_t fresh_buffer : {w, b})
      for (const uint32_t v : buffers_[fresh_buffer].values) tape_.values[v].impl()->storage = nullptr;
  }
}

// batch_norm -> y;  y or z = y held between lo and hi     becomes   batch_norm_clamp -> y or z
// and, where only that asks for g,
// dy held back -> g;  batch_norm_backward(g)             becomes   batch_norm_clamp_backward(dy)
// The bits are the same; what is saved are two passes over memory here and three there.
void Program::clamp_batch_norms() {
  enum { X, Mean, Var, Weight, Bias, Training, Momentum, Eps };               // arguments of batch_norm
  enum { Dy, BackX, BackWeight, BackMean, BackRstd, BackTraining, NeedsX };    // ... of batch_norm_backward
  enum { Of, Low, High };                                                      // ... of an activation
  constexpr double kNoLimit = std::numeric_limits<double>::quiet_NaN();
  const OpInfo *const norm = find_op("batch_norm"), *const backward = find_op("batch_norm_backward");
  struct Activation {
    const OpInfo *op, *inplace, *backward;
    double lo, hi;  // of hardtanh they are arguments
  };
  const Activation activations[] = {{find_op("relu"), find_op("relu_"), find_op("relu_backward"), 0, kNoLimit},
                                    {find_op("relu6"), find_op("relu6_"), find_op("hardtanh_backward"), 0, 6},
                                    {find_op("hardtanh"), find_op("hardtanh_"), find_op("hardtanh_backward"), kNoLimit, kNoLimit}};
  std::vector<std::vector<uint32_t>> users = this->users();
  const auto box = [](uint32_t v) { return v == kNone ? Box() : Box(Box::Kind::Tensor, v); };
  const auto number = [&](const NodeRecord& node, uint32_t i) { return tape_.frame_of(node).scalar(static_cast<int>(i)).as_double(); };
  const auto drop = [&](uint32_t k) { tape_.nodes[k] = {tape_.nodes[k].op, 0, 0, 0, 0, 0, tape_.nodes[k].source}; };
  for (uint32_t c = 0; c < tape_.nodes.size(); ++c) {
    const NodeRecord before = tape_.nodes[c];
    if (before.op != norm) continue;
    const uint32_t y = before.outs, b = tape_.buffer_of[y];
    const DType type = tape_.values[y].dtype();
    if ((type != DType::Float32 && type != DType::Float64) || users[b].size() < 2 || users[b][0] != c) continue;
    const uint32_t k = users[b][1];
    const NodeRecord after = tape_.nodes[k];
    const auto* const act = std::find_if(std::begin(activations), std::end(activations), [&](const Activation& a) { return after.op == a.op || after.op == a.inplace; });
    if (act == std::end(activations) || !same_place(value_of(after, Of), y)) continue;
    const bool inplace = after.op == act->inplace;
    const uint32_t out = inplace ? y : after.outs, o = tape_.buffer_of[out];
    const bool given = act->op == activations[2].op;
    const double lo = given ? number(after, Low) : act->lo, hi = given ? number(after, High) : act->hi;
    // A backward that looks at y sees the same in what was held between limits, if these are numbers of its type.
    if (const bool exact = type == DType::Float64 || (static_cast<float>(lo) == lo && static_cast<float>(hi) == hi); !inplace && exact && lo < hi && users[b].size() == 3) {
      const uint32_t r = users[b][2];
      const NodeRecord held = tape_.nodes[r];
      if (held.op == activations[1].backward && same_place(value_of(held, Of + 1), y) && !same_place(value_of(held, 0), y) && number(held, 2) == lo && number(held, 3) == hi &&
          !is_written(b, c, r) && !is_written(o, k, r) && tape_.values[out].strides() == tape_.values[y].strides()) {
        tape_.nodes[r] = node_of(held.op, held.source, {box(value_of(held, 0)), box(out), Box(lo), Box(hi)}, {held.outs});
        users[b].pop_back();
        if (std::find(users[o].begin(), users[o].end(), r) == users[o].end()) users[o].insert(std::upper_bound(users[o].begin(), users[o].end(), r), r);
      }
    }
    if (!inplace && (buffers_[b].kind != Kind::Internal || users[b].size() != 2 || users[o][0] != k || tape_.values[out].dtype() != type || !(tape_.values[out].strides() == tape_.values[y].strides()))) continue;
    const auto arg = [&](uint32_t i) { return Box(tape_.boxes[before.args + i]); };
    const uint32_t saved = before.outs + 1;  // mean and 1 / deviation
    tape_.nodes[c] = node_of(find_op("batch_norm_clamp"), before.source,
                             {arg(X), arg(Mean), arg(Var), arg(Weight), arg(Bias), arg(Training), arg(Momentum), arg(Eps), Box(lo), Box(hi)},
                             {out, saved, saved + 1});
    drop(k);
    if (!inplace) buffers_[b].size_bytes = 0;

    // The backward, if it is here: what holds dy back looks at y, which nobody wrote since.
    for (const uint32_t r : users[o]) {
      const NodeRecord held = tape_.nodes[r];
      if (held.op != act->backward || r <= k || value_of(held, Of + 1) == kNone || !same_place(value_of(held, Of + 1), out)) continue;
      if (act->backward == activations[1].backward && (number(held, 2) != lo || number(held, 3) != hi)) continue;
      const uint32_t g = held.outs, gb = tape_.buffer_of[g];
      if (gb == kNone || buffers_[gb].kind != Kind::Internal || users[gb].size() != 2 || users[gb][0] != r || is_written(o, k, r)) continue;
      const uint32_t n = users[gb][1];
      const NodeRecord last = tape_.nodes[n];
      const uint32_t x = value_of(before, X), dy = value_of(held, 0), bias = value_of(before, Bias);
      if (last.op != backward || !same_place(value_of(last, Dy), g) || !same_place(value_of(last, BackX), x) || !same_place(value_of(last, BackWeight), value_of(before, Weight)) ||
          !same_place(value_of(last, BackMean), saved) || !same_place(value_of(last, BackRstd), saved + 1))
        continue;
      bool unwritten = !is_written(tape_.buffer_of[dy], r, n) && !is_written(tape_.buffer_of[x], c, n);
      for (const uint32_t v : {value_of(before, Weight), bias}) unwritten &= v == kNone || !is_written(tape_.buffer_of[v], c, n);
      if (!unwritten || tape_.values[dy].dtype() != type || !(tape_.values[dy].strides() == tape_.values[g].strides())) continue;
      const auto back = [&](uint32_t i) { return Box(tape_.boxes[last.args + i]); };
      tape_.nodes[n] = node_of(find_op("batch_norm_clamp_backward"), last.source,
                               {box(dy), back(BackX), back(BackWeight), box(bias), back(BackMean), back(BackRstd), back(BackTraining), back(NeedsX), Box(lo), Box(hi)},
                               {last.outs, last.outs + 1, last.outs + 2});
      drop(r);
      buffers_[gb].size_bytes = 0;
    }
  }
}

}  // namespace fl::graph
