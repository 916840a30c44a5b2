// Second derivatives that are differentiated again.
//
// Note [Second derivatives made of ops]
// Kernels compute the second derivatives of norms and of cross_entropy, and have no derivative themselves. Where one is asked for, the layer
// is written down with ops here and differentiated twice by the graph that this makes; so any further derivative is there, too.
// Graphs of the caller's are not entered: the tensors are stood for by views, at which both passes end.
#include <algorithm>

#include "autograd/meta.h"
#include "op/add.h"
#include "op/batch_norm_double_backward_values.h"
#include "op/cast.h"
#include "op/cross_entropy_double_backward_values.h"
#include "op/div.h"
#include "op/group_norm_double_backward_values.h"
#include "op/layer_norm_double_backward_values.h"
#include "op/log_softmax.h"
#include "op/mean.h"
#include "op/mul.h"
#include "op/ne.h"
#include "op/neg.h"
#include "op/nll_loss.h"
#include "op/reciprocal.h"
#include "op/reshape.h"
#include "op/rms_norm_double_backward_values.h"
#include "op/rsqrt.h"
#include "op/square.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/unsqueeze.h"
#include "op/view.h"
#include "op/zeros.h"
#include "op/zeros_like.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"

namespace fl::native {
namespace {

bool differentiated(std::initializer_list<const Tensor*> tensors) {
  return grad_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const Tensor* t) { return t->defined() && requires_grad(*t); });
}

Tensor stands_for(const Tensor& x) {
  if (!x.defined()) return x;
  if (requires_grad(x)) return op::view(x, x.sizes());
  const Tensor leaf = alias(x, x.sizes(), x.strides(), x.offset());
  set_requires_grad(leaf, true);
  return leaf;
}

// With g = forward(in)'s gradients by `in` for dy, and a cotangent of each: the gradients of their products by dy, then by `in`.
template <class Forward>
std::vector<Tensor> second(const Tensor& dy, std::vector<Tensor> in, const std::vector<Tensor>& cotangents, Forward&& forward) {
  for (Tensor& x : in) x = stands_for(x);
  const Tensor stand = stands_for(dy);
  std::vector<Tensor> inputs;
  for (const Tensor& x : in)
    if (x.defined()) inputs.push_back(x);
  const std::vector<Tensor> first = run_backward({forward(in)}, {stand}, true, true, inputs, false, true, false);
  std::vector<Tensor> roots, grads, wanted{stand};
  for (size_t i = 0, k = 0; i < in.size(); ++i) {
    if (!in[i].defined()) continue;
    const Tensor& g = first[k++];
    if (!g.defined() || !requires_grad(g)) continue;
    roots.push_back(g);
    grads.push_back(cotangents[i]);
  }
  wanted.insert(wanted.end(), inputs.begin(), inputs.end());
  std::vector<Tensor> found = run_backward(roots, grads, true, true, wanted, false, true, false), out{found[0].defined() ? found[0] : op::zeros_like(dy)};
  for (size_t i = 0, k = 1; i < in.size(); ++i) {
    out.emplace_back();
    if (!in[i].defined()) continue;
    out.back() = found[k].defined() ? found[k] : op::zeros_like(in[i]);
    ++k;
  }
  return out;
}

// What was added to the variance, of which rstd is the root's reciprocal.
Tensor added(const Tensor& variance, const Tensor& rstd) {
  const NoGrad off;
  return op::sub(op::reciprocal(op::square(op::reshape(rstd, variance.sizes()))), variance);
}

// x over the axes, by their mean and variance (or mean square), then times weight plus bias, which broadcast.
Tensor normalised(const Tensor& x, IntList axes, bool centred, const Tensor& rstd, const Tensor& weight, const Tensor& bias) {
  const Tensor centre = centred ? op::sub(x, op::mean(x, axes, true)) : x;
  const Tensor variance = op::mean(op::square(centre), axes, true);
  Tensor y = op::mul(centre, op::rsqrt(op::add(variance, added(variance, rstd))));
  if (weight.defined()) y = op::mul(y, weight);
  return bias.defined() ? op::add(y, bias) : y;
}

Dims last_axes(const Tensor& x, size_t count) {
  Dims axes;
  for (int i = x.ndim() - static_cast<int>(count); i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

// A vector of channels beside [N, C, ...].
Tensor beside(const Tensor& channels, const Tensor& x) {
  if (!channels.defined()) return channels;
  Dims sizes(x.ndim());
  for (int i = 0; i < x.ndim(); ++i) sizes[i] = i == 1 ? channels.numel() : 1;
  return op::reshape(channels, sizes);
}

}  // namespace

std::tuple<Tensor, Tensor> cross_entropy_double_backward(const Tensor& v, const Tensor& dy, const Tensor& x, const Tensor& lse, const Tensor& total,
                                                         const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
                                                         double label_smoothing) {
  if (!differentiated({&v, &dy, &x}))
    return op::cross_entropy_double_backward_values(v, dy, x, lse, total, target, weight, reduction, ignore_index, label_smoothing);
  const auto forward = [&](const std::vector<Tensor>& in) {
    const bool one = in[0].ndim() == 1;
    const Tensor scores = one ? op::unsqueeze(in[0], 0) : in[0], classes = one ? op::unsqueeze(target, 0) : target;
    const Tensor logs = op::log_softmax(scores, 1);
    Tensor loss = op::nll_loss(logs, classes, weight, 0, ignore_index);
    if (label_smoothing != 0) {
      const int64_t over_classes[] = {1};
      const Tensor all = op::sum(weight.defined() ? op::mul(logs, beside(weight, logs)) : logs, IntList(over_classes));
      const Tensor counted = op::cast(op::ne(classes, Scalar(ignore_index)), logs.dtype());
      const double share = label_smoothing / static_cast<double>(scores.size(1));
      loss = op::sub(op::mul(loss, Scalar(1 - label_smoothing)), op::mul(op::mul(all, counted), Scalar(share)));
    }
    if (reduction == 0) return op::reshape(loss, target.sizes());
    return reduction == 2 ? op::sum(loss) : op::div(op::sum(loss), op::reshape(total, IntList()));
  };
  auto g = second(dy, {x}, {v}, forward);
  return {g[0], g[1]};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x,
                                                              const Tensor& weight, const Tensor& mean, const Tensor& rstd, IntList normalized_shape) {
  if (!differentiated({&u, &a, &e, &dy, &x, &weight}))
    return op::layer_norm_double_backward_values(u, a, e, dy, x, weight, mean, rstd, normalized_shape);
  const Tensor bias = op::zeros(normalized_shape, x.dtype());
  auto g = second(dy, {x, weight, bias}, {u, a, e}, [&](const std::vector<Tensor>& in) {
    return normalised(in[0], last_axes(x, normalized_shape.size()), true, rstd, in[1], in[2]);
  });
  return {g[0], g[1], g[2]};
}

std::tuple<Tensor, Tensor, Tensor> rms_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& dy, const Tensor& x, const Tensor& weight,
                                                            const Tensor& rstd, IntList normalized_shape) {
  if (!differentiated({&u, &a, &dy, &x, &weight})) return op::rms_norm_double_backward_values(u, a, dy, x, weight, rstd, normalized_shape);
  auto g = second(dy, {x, weight}, {u, a}, [&](const std::vector<Tensor>& in) {
    return normalised(in[0], last_axes(x, normalized_shape.size()), false, rstd, in[1], {});
  });
  return {g[0], g[1], g[2]};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x,
                                                              const Tensor& weight, const Tensor& mean, const Tensor& rstd, int64_t num_groups) {
  if (!differentiated({&u, &a, &e, &dy, &x, &weight}))
    return op::group_norm_double_backward_values(u, a, e, dy, x, weight, mean, rstd, num_groups);
  const Tensor bias = op::zeros(Dims{x.size(1)}, x.dtype());
  auto g = second(dy, {x, weight, bias}, {u, a, e}, [&](const std::vector<Tensor>& in) {
    const int64_t groups = num_groups ? num_groups : x.size(1);
    const Tensor rows = op::reshape(in[0], Dims{x.size(0), groups, x.numel() / std::max<int64_t>(1, x.size(0) * groups)});
    Tensor y = op::reshape(normalised(rows, last_axes(rows, 1), true, rstd, {}, {}), x.sizes());
    if (in[1].defined()) y = op::mul(y, beside(in[1], x));
    return op::add(y, beside(in[2], x));
  });
  return {g[0], g[1], g[2]};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_double_backward(const Tensor& u, const Tensor& a, const Tensor& e, const Tensor& dy, const Tensor& x,
                                                              const Tensor& weight, const Tensor& mean, const Tensor& rstd, bool training) {
  if (!differentiated({&u, &a, &e, &dy, &x, &weight}))
    return op::batch_norm_double_backward_values(u, a, e, dy, x, weight, mean, rstd, training);
  const Tensor bias = op::zeros(Dims{x.size(1)}, x.dtype());
  auto g = second(dy, {x, weight, bias}, {u, a, e}, [&](const std::vector<Tensor>& in) {
    const Tensor w = beside(in[1], x), b = beside(in[2], x);
    Dims axes;
    for (int i = 0; i < x.ndim(); ++i)
      if (i != 1) axes.push_back(i);
    if (training) return normalised(in[0], axes, true, rstd, w, b);
    const Tensor y = op::mul(op::sub(in[0], beside(mean, x)), beside(rstd, x));
    return op::add(w.defined() ? op::mul(y, w) : y, b);
  });
  return {g[0], g[1], g[2]};
}

}  // namespace fl::native
