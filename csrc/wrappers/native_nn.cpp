#include <algorithm>

#include "base/error.h"
#include "wrappers/checks_nn.h"
#include "wrappers/native.h"
#include "wrappers/wrap.h"
#include "op/add.h"
#include "op/amax.h"
#include "op/avg_pool2d.h"
#include "op/cast.h"
#include "op/col2im.h"
#include "op/constant_pad.h"
#include "op/convolution.h"
#include "op/div.h"
#include "op/empty.h"
#include "op/eq.h"
#include "op/gather.h"
#include "op/index_add.h"
#include "op/index_select.h"
#include "op/linalg_svd.h"
#include "op/logical_not.h"
#include "op/masked_fill.h"
#include "op/matmul.h"
#include "op/max_pool1d_values.h"
#include "op/max_pool1d_with_indices.h"
#include "op/max_pool2d.h"
#include "op/max_pool2d_values.h"
#include "op/max_pool2d_with_indices.h"
#include "op/mul.h"
#include "op/narrow.h"
#include "op/new_ones.h"
#include "op/new_zeros.h"
#include "op/pad_within.h"
#include "op/permute.h"
#include "op/plane_scatter.h"
#include "op/relu.h"
#include "op/reshape.h"
#include "op/rsub.h"
#include "op/scatter.h"
#include "op/sigmoid.h"
#include "op/slice.h"
#include "op/softmax.h"
#include "op/sub.h"
#include "op/sum.h"
#include "op/sum_to.h"
#include "op/transpose.h"
#include "op/tril.h"
#include "op/unsqueeze.h"
#include "op/vector_norm.h"

namespace fl::native {
namespace {

// For output positions -before .. n + after - 1, the input position that each shows.
Tensor source_positions(std::string_view mode, int64_t n, int64_t before, int64_t after) {
  Tensor index = op::empty(Dims{n + before + after}, DType::Int64);
  int64_t* out = index.data<int64_t>();
  for (int64_t i = -before; i < n + after; ++i) {
    int64_t from = std::clamp<int64_t>(i, 0, n - 1);
    if (mode == "reflect") from = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    if (mode == "circular") from = (i % n + n) % n;
    *out++ = from;
  }
  return index;
}

}  // namespace

Tensor constant_pad_backward(const Tensor& g, IntList pad) {
  Dims back(pad);
  for (int64_t& p : back) p = -p;
  return op::constant_pad(g, back, Scalar(0));
}

Tensor pad(const Tensor& x, IntList pad, std::string_view mode, std::optional<Scalar> value) {
  if (mode == "constant") return op::constant_pad(x, pad, value.value_or(Scalar(0)));
  check::pad_within("pad", x, pad, mode);
  Dims added(pad);
  for (int64_t& p : added) p = std::max<int64_t>(p, 0);
  const bool any = std::any_of(added.begin(), added.end(), [](int64_t p) { return p != 0; });
  const auto cut = [&](Tensor y) {  // what pads below 0 take away
    for (size_t k = 0; k < pad.size() / 2; ++k) {
      const int64_t before = std::max<int64_t>(-pad[2 * k], 0), after = std::max<int64_t>(-pad[2 * k + 1], 0);
      const int dim = x.ndim() - 1 - static_cast<int>(k);
      if (before > 0 || after > 0) y = op::slice(y, dim, before, y.size(dim) - after, 1);
    }
    return y;
  };
  if (!any) return cut(x);
  if (mode != "circular") return cut(op::pad_within(x, added, mode));
  const Tensor core = cut(x);  // what goes round is what is left, as in PyTorch
  check::pad_within("pad", core, added, mode);
  return op::pad_within(core, added, mode);
}

Tensor pad_within_backward(const Tensor& dy, IntList shape, IntList pad, std::string_view mode) {
  Tensor g = dy;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    const int64_t before = pad[2 * k], after = pad[2 * k + 1];
    if (before == 0 && after == 0) continue;
    const int dim = dy.ndim() - 1 - static_cast<int>(k);
    Dims sizes = g.sizes();
    sizes[dim] = shape[static_cast<size_t>(dim)];
    g = op::index_add(op::new_zeros(g, sizes), dim, source_positions(mode, sizes[dim], before, after), g);
  }
  return g;
}

Tensor multi_margin_rows(const Tensor& x, const Tensor& target, int64_t p, double margin, const Tensor& weight) {
  const Tensor classes = op::unsqueeze(target, 1);
  Tensor y = op::relu(op::add(op::rsub(op::gather(x, 1, classes), Scalar(margin)), x));
  if (p == 2) y = op::mul(y, y);
  if (weight) y = op::mul(y, op::unsqueeze(op::index_select(weight, 0, target), 1));
  const int64_t over_classes[] = {1};
  return op::div(op::sum(op::scatter(y, 1, classes, Scalar(0)), over_classes), Scalar(x.size(1)));
}

Tensor glu(const Tensor& x, int64_t dim) {
  dim = wrap_dim("glu", "dim", dim, x);
  const int64_t n = x.ndim() ? x.size(static_cast<int>(dim)) : 1;
  if (x.ndim() == 0) raise<ShapeError>("glu: does not support scalars because halving size must be even: x has shape []");
  if (n % 2 != 0) raise<ShapeError>("glu: Halving dimension must be even, but dimension ", dim, " is size ", n, " of shape ", x.sizes());
  return op::mul(op::slice(x, dim, 0, n / 2, 1), op::sigmoid(op::slice(x, dim, n / 2, n, 1)));
}

static void check_pixels(const char* op, const Tensor& x, const char* shape, const char* name, int64_t factor) {
  if (x.ndim() < 3) raise<ShapeError>(op, ": expects input to have at least 3 dimensions, ", shape, ", but got input with ", x.ndim(), " dimension(s), of shape ", x.sizes());
  if (factor < 1) raise<ArgumentError>(op, ": ", name, " = ", factor, "; expected a positive ", name);
}

// [*, C r^2, H, W] -> [*, C, H r, W r]: the parts of a channel are the places of a square.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor) {
  const int64_t r = upscale_factor;
  check_pixels("pixel_shuffle", x, "[*, C r^2, H, W]", "upscale_factor", r);
  const int n = x.ndim() - 3;
  const int64_t c = x.size(n), h = x.size(n + 1), w = x.size(n + 2);
  const int64_t square = Extent(r) * Extent(r);
  if (c % square != 0)
    raise<ShapeError>("pixel_shuffle: expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=", c, " is not divisible by ", square,
                      ": input has shape ", x.sizes());
  Dims parts(x.sizes()), order(n), out(x.sizes());
  parts[n] = c / square, parts[n + 1] = parts[n + 2] = r;
  parts.push_back(h), parts.push_back(w);
  for (int i = 0; i < n; ++i) order[i] = i;
  for (const int axis : {0, 3, 1, 4, 2}) order.push_back(n + axis);
  out[n] = c / square, out[n + 1] = Extent(h) * Extent(r), out[n + 2] = Extent(w) * Extent(r);
  return op::reshape(op::permute(op::reshape(x, parts), order), out);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor) {
  const int64_t r = downscale_factor;
  check_pixels("pixel_unshuffle", x, "[*, C, H r, W r]", "downscale_factor", r);
  const int n = x.ndim() - 3;
  const int64_t c = x.size(n), h = x.size(n + 1), w = x.size(n + 2);
  for (const auto& [name, at] : {std::pair{"height", -2}, std::pair{"width", -1}})
    if (x.size(at) % r != 0)
      raise<ShapeError>("pixel_unshuffle: expects ", name, " to be divisible by downscale_factor, but input.size(", at, ")=", x.size(at), " is not divisible by ", r, ": input has shape ",
                        x.sizes());
  Dims parts(x.sizes()), order(n), out(x.sizes());
  parts[n + 1] = h / r, parts[n + 2] = r;
  parts.push_back(w / r), parts.push_back(r);
  for (int i = 0; i < n; ++i) order[i] = i;
  for (const int axis : {0, 2, 4, 1, 3}) order.push_back(n + axis);
  out[n] = Extent(c) * Extent(r) * Extent(r), out[n + 1] = h / r, out[n + 2] = w / r;
  return op::reshape(op::permute(op::reshape(x, parts), order), out);
}

Tensor conv_transposed_backward(const Tensor& dy, const Tensor& weight, IntList shape, IntList stride, IntList padding, IntList dilation,
                                int64_t groups) {
  Tensor dx = op::convolution(dy, weight, {}, stride, padding, dilation, groups);
  for (int d = 2; d < dx.ndim(); ++d)
    if (dx.size(d) != shape[static_cast<size_t>(d)]) dx = op::narrow(dx, d, 0, shape[static_cast<size_t>(d)]);
  return dx;
}

namespace {
// Positions are found only where a gradient asks for them: they take twice the bytes of float32 maxima.
bool asks_for_positions(const Tensor& x) { return grad_enabled() && requires_grad(x); }
}  // namespace

Tensor max_pool1d(const Tensor& x, IntList kernel_size, IntList stride, IntList padding, IntList dilation, bool ceil_mode) {
  if (!asks_for_positions(x)) return op::max_pool1d_values(x, kernel_size, stride, padding, dilation, ceil_mode);
  return std::get<0>(op::max_pool1d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode));
}
Tensor max_pool2d(const Tensor& x, IntList kernel_size, IntList stride, IntList padding, IntList dilation, bool ceil_mode) {
  if (!asks_for_positions(x)) return op::max_pool2d_values(x, kernel_size, stride, padding, dilation, ceil_mode);
  return std::get<0>(op::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode));
}

Tensor im2col_backward(const Tensor& dy, IntList shape, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  return op::col2im(dy, shape.subspan(2), kernel, dilation, padding, stride);
}

namespace {
// Windows of boxes are windows of planes, and then of what became of these over the depth, where the places of a plane are a plane of one column each:
// over_planes(planes [N, C D, H, W]), over_depth(planes [N C, 1, D, H' W'], each list of 3 as the first of a pair).
template <class Planes, class Depth>
Tensor over_boxes(const Tensor& x, Planes&& over_planes, Depth&& over_depth) {
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2);
  const Tensor planes = over_planes(op::reshape(x, Dims{n, Extent(c) * Extent(d), x.size(3), x.size(4)}));
  const int64_t h = planes.size(2), w = planes.size(3);
  const Tensor y = over_depth(op::reshape(planes, Dims{Extent(n) * Extent(c), 1, d, Extent(h) * Extent(w)}));
  return op::reshape(y, Dims{n, c, y.size(2), h, w});
}
Dims of_depth(IntList three, int64_t rest) { return {three[0], rest}; }
}  // namespace

Tensor max_pool3d(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, bool ceil_mode) {
  check::pool_arguments("max_pool3d", 3, x, kernel, stride, padding, dilation, ceil_mode);
  const IntList step = stride.empty() ? kernel : stride;
  return over_boxes(
      x, [&](const Tensor& p) { return op::max_pool2d(p, kernel.subspan(1), step.subspan(1), padding.subspan(1), dilation.subspan(1), ceil_mode); },
      [&](const Tensor& p) { return op::max_pool2d(p, of_depth(kernel, 1), of_depth(step, 1), of_depth(padding, 0), of_depth(dilation, 1), ceil_mode); });
}
Tensor avg_pool3d(const Tensor& x, IntList kernel, IntList stride, IntList padding, bool ceil_mode, bool count_include_pad,
                  std::optional<int64_t> divisor_override) {
  check::avg_pool_arguments("avg_pool3d", 3, x, kernel, stride, padding, ceil_mode);
  const IntList step = stride.empty() ? kernel : stride;
  // With an own divisor the planes are summed, and the sums of columns divided by it.
  const std::optional<int64_t> whole = divisor_override ? std::optional<int64_t>(1) : std::nullopt;
  return over_boxes(
      x, [&](const Tensor& p) { return op::avg_pool2d(p, kernel.subspan(1), step.subspan(1), padding.subspan(1), ceil_mode, count_include_pad, whole); },
      [&](const Tensor& p) {
        return op::avg_pool2d(p, of_depth(kernel, 1), of_depth(step, 1), of_depth(padding, 0), ceil_mode, count_include_pad, divisor_override);
      });
}

Tensor max_pool_values_backward(const Tensor& dy, const Tensor& x, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                                bool ceil_mode) {
  const Tensor at = x.ndim() == 3 ? std::get<1>(op::max_pool1d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode))
                                  : std::get<1>(op::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode));
  return op::plane_scatter(dy, at, x.sizes());
}

Tensor attention_mask_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn_mask, const Tensor& y,
                               const Tensor&, std::optional<double> scale) {
  const double factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const Tensor scores = op::add(op::mul(op::matmul(q, op::transpose(k, -2, -1)), factor), attn_mask);
  // Not by lse, which has no history and is a function of the scores. A row that may look at nothing has no gradient.
  const Tensor empty = scores.size(-1) == 0 ? op::new_ones(scores, Dims{1}, DType::Bool) : op::eq(op::amax(scores, Dims{-1}, true), -INFINITY);
  const Tensor p = op::masked_fill(op::softmax(op::masked_fill(scores, empty, Scalar(0.0)), -1), empty, Scalar(0.0));
  const Tensor dp = op::matmul(dy, op::transpose(v, -2, -1));
  return op::sum_to(op::mul(p, op::sub(dp, op::sum(op::mul(dy, y), Dims{-1}, true))), attn_mask.sizes());
}

namespace {

// What the derivatives of attention's gradients have in common: with s = f q k^T + mask, p = softmax(s), y = p v the gradients are
//
//     dv = p^T dy      dp = dy v^T      ds = p (dp - rows(p dp))      dq = f ds k      dk = f ds^T q
//
// and a loss by (dq, dk, dv) with gradients (gq, gk, gv) goes back through these lines, to dy, q, k, v and s. rows: sums of rows, which stay.
struct AttentionGradients {
  Tensor q, k, v, dy, gq, gk, gv;
  double f;
  Tensor p, dp, ds, dp_bar, s_bar;

  static Tensor turned(const Tensor& x) { return op::transpose(x, -2, -1); }
  static Tensor rows(const Tensor& x) { return op::sum(x, Dims{-1}, true); }
  static Tensor wide(const Tensor& x) { return item_size(x.dtype()) < 4 ? op::cast(x, DType::Float32) : x; }

  AttentionGradients(const Tensor& gq_, const Tensor& gk_, const Tensor& gv_, const Tensor& dy_, const Tensor& q_, const Tensor& k_, const Tensor& v_,
                     const Tensor& mask, bool causal, std::optional<double> scale)
      : q(wide(q_)), k(wide(k_)), v(wide(v_)), dy(wide(dy_)), gq(wide(gq_)), gk(wide(gk_)), gv(wide(gv_)),
        f(scale.value_or(1.0 / std::sqrt(static_cast<double>(q_.size(-1))))) {
    Tensor s = op::mul(op::matmul(q, turned(k)), f);
    if (causal) {
      const Tensor shown = op::tril(op::new_ones(s, Dims{s.size(-2), s.size(-1)}, DType::Bool));
      s = op::masked_fill(s, op::logical_not(shown), Scalar(-INFINITY));
    }
    if (mask.defined()) s = mask.dtype() == DType::Bool ? op::masked_fill(s, op::logical_not(mask), Scalar(-INFINITY)) : op::add(s, wide(mask));
    // Rows that may look at nothing have neither weights nor gradients.
    const Tensor empty = s.size(-1) == 0 ? op::new_ones(s, Dims{1}, DType::Bool) : op::eq(op::amax(s, Dims{-1}, true), -INFINITY);
    p = op::masked_fill(op::softmax(op::masked_fill(s, empty, Scalar(0.0)), -1), empty, Scalar(0.0));
    dp = op::matmul(dy, turned(v));
    const Tensor centred = op::sub(dp, rows(op::mul(p, dp)));
    ds = op::mul(p, centred);
    const Tensor ds_bar = op::mul(op::add(op::matmul(gq, turned(k)), op::matmul(q, turned(gk))), f);
    const Tensor mean = rows(op::mul(p, ds_bar));
    dp_bar = op::mul(p, op::sub(ds_bar, mean));
    const Tensor p_bar = op::add(op::sub(op::mul(ds_bar, centred), op::mul(mean, dp)), op::matmul(dy, turned(gv)));
    s_bar = op::mul(p, op::sub(p_bar, rows(op::mul(p, p_bar))));
  }
};

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_double_backward(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& dy, const Tensor& q,
                                                                     const Tensor& k, const Tensor& v, const Tensor& attn_mask, bool is_causal,
                                                                     std::optional<double> scale) {
  const AttentionGradients a(gq, gk, gv, dy, q, k, v, attn_mask, is_causal, scale);
  const auto turned = AttentionGradients::turned;
  const auto back = [&](const Tensor& x) { return x.dtype() == q.dtype() ? x : op::cast(x, q.dtype()); };
  return {back(op::add(op::matmul(a.dp_bar, a.v), op::matmul(a.p, a.gv))),
          back(op::mul(op::add(op::matmul(a.ds, a.gk), op::matmul(a.s_bar, a.k)), a.f)),
          back(op::mul(op::add(op::matmul(turned(a.ds), a.gq), op::matmul(turned(a.s_bar), a.q)), a.f)), back(op::matmul(turned(a.dp_bar), a.dy))};
}

Tensor attention_mask_double_backward(const Tensor& gq, const Tensor& gk, const Tensor& gv, const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Tensor& attn_mask, std::optional<double> scale) {
  const AttentionGradients a(gq, gk, gv, dy, q, k, v, attn_mask, false, scale);
  const Tensor sum = op::sum_to(a.s_bar, attn_mask.sizes());
  return sum.dtype() == attn_mask.dtype() ? sum : op::cast(sum, attn_mask.dtype());
}

// The sum of the singular values of the matrices in two axes.
static Tensor nuclear_norm(const Tensor& x, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  if (dtype) return nuclear_norm(op::cast(x, *dtype), dim, keepdim, std::nullopt);
  const bool all = !dim || dim->empty();
  if (is_complex(x.dtype())) raise<DTypeError>("norm: p = 'nuc' of ", x.dtype(), "; expected a real type, or linalg.matrix_norm(x, 'nuc')");
  if (all ? x.ndim() != 2 : dim->size() != 2)
    raise<ShapeError>("norm: p = 'nuc' and dim = ", all ? Dims{} : Dims(*dim), " of a tensor of shape ", x.sizes(), "; expected two axes, or a matrix");
  const int64_t i = wrap_dim("norm", "dim", all ? 0 : (*dim)[0], x), j = wrap_dim("norm", "dim", all ? 1 : (*dim)[1], x);
  Dims order;
  for (int64_t d = 0; d < x.ndim(); ++d)
    if (d != i && d != j) order.push_back(d);
  order.push_back(i);
  order.push_back(j);
  const bool vectors = grad_enabled() && requires_grad(x);  // of which the gradient is made
  Tensor y = op::sum(std::get<1>(op::linalg_svd(op::permute(x, order), false, vectors)), Dims{-1});
  if (keepdim) y = op::unsqueeze(op::unsqueeze(y, std::min(i, j)), std::max(i, j));
  return y;
}

Tensor norm(const Tensor& x, std::optional<std::string_view> kind, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  const std::string_view p = kind.value_or("fro");
  if (p == "nuc") return nuclear_norm(x, dim, keepdim, dtype);
  if (p != "fro") raise<ArgumentError>("norm: p = '", p, "'; expected a number, 'fro' or 'nuc'");
  return op::vector_norm(x, 2.0, dim, keepdim, dtype);
}

}  // namespace fl::native
