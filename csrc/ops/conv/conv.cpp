// Convolution over up to three spatial axes, forwards and both gradients: by oneDNN or by our own algorithm (native.h),
// which works on any float type and layout NCHW without im2col.
#include <algorithm>
#include <cstring>

#include "backend/onednn/onednn.h"
#include "ops/conv/channels.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/narrow.h"
#include "ops/conv/native.h"
#include "ops/conv/reach.h"
#include "ops/conv/winograd.h"
#include "ops/matmul/half.h"
#include "tensor/raw.h"
#include "kernel/channel_expand.h"
#include "kernel/conv_backward_data.h"
#include "kernel/conv_backward_weight.h"
#include "kernel/conv_transposed.h"
#include "kernel/convolution.h"
#include "kernel/linear.h"
#include "kernel/mm.h"

namespace fl {
namespace {

// Depthwise ones along one axis are planes of one row: oneDNN has no kernels for those but by columns, which take up to 30 times as long.
onednn::ConvShape shape_of(const Dims& x, const Dims& w, const Dims& y, IntList stride, IntList padding, IntList dilation, int64_t groups) {
  onednn::ConvShape s{x, w, y, Dims(stride), Dims(padding), Dims(dilation), groups};
  if (x.size() != 3 || groups < 2 || w[1] != 1) return s;
  for (Dims* sizes : {&s.x, &s.w, &s.y}) sizes->insert(2, 1);
  for (Dims* steps : {&s.stride, &s.dilation}) steps->insert(0, 1);
  s.padding.insert(0, 0);
  return s;
}

void zero(const Tensor& t) { std::memset(t.data(), 0, t.numel() * t.item_bytes()); }

// Which of the two for row-major bytes (deferred layout off), as measured on AVX2: oneDNN loses time to reorders where
// there are few channels or the stride is not 1 in the data gradient, our own to the columns between rows of small
// planes and to depthwise convolutions. Its weight gradient depends on the number of threads, so it is only used
// for depthwise ones and 16-bit floats. It has float32 and native 16-bit floats only.
enum class Part { Forward, BackwardData, BackwardWeight };
bool use_onednn(Part part, DType t, const Dims& w, const Dims& y, IntList stride, int64_t groups) {
  if (is_half(t) || w.size() == 5) return true;
  if (groups > 1 && w[1] == 1) return true;
  int64_t k = w[1];
  for (int d = 2; d < w.size(); ++d) k *= w[d];
  const int64_t co = w[0] / groups, ci = w[1];
  switch (part) {
    case Part::Forward: return co >= 32 && k >= 128;
    case Part::BackwardData: {
      const bool unit = std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; });
      return co >= 32 && ci >= 32 && (unit || y.back() <= 8);
    }
    default: return false;
  }
}

// Activations stay channels-last between ops: Note [Deferred layout]. oneDNN then computes all three parts.
bool channels_last(const Tensor& a, const Tensor& b) {
  return layout_mode() == LayoutMode::Deferred && onednn::convolves(a.dtype()) && a.numel() > 0 && b.numel() > 0 &&
         (may_defer(a.sizes()) || may_defer(b.sizes()));
}

// 16-bit floats that oneDNN has no kernel for are convolved as float32. Bytes lie as they lay.
Tensor wide(const Tensor& x) {
  if (!is_deferred(x)) return widened(x);
  const Tensor y = empty(x.sizes(), DType::Float32);
  copy_elements(ChannelRows::fresh(y).matrix(), ChannelRows(x).matrix());
  return y;
}
void narrow_to(const Tensor& y, const Tensor& from) {
  if (!is_deferred(from)) return copy_elements(y, from);
  copy_elements(ChannelRows::fresh(y).matrix(), ChannelRows(from).matrix());
}

// A window that covers all of its input once: a product of matrices, whose weight is read as it lies. (512 -> 4096 channels of 7 x 7, four images, on a
// Zen 1: 105 ms and 410 for the weight's gradient as a convolution, which copies the weight; 35 and 75 as a product.)
bool is_product(const onednn::ConvShape& s, DType t) {
  bool covers = is_float(t) && s.groups == 1;
  for (int d = 2; d < s.x.size(); ++d)
    covers = covers && s.y[d] == 1 && s.w[d] == s.x[d] && s.padding[d - 2] == 0 && (s.w[d] == 1 || s.dilation[d - 2] == 1);
  return covers;
}
// [n, ...] as a matrix.
Tensor as_rows(const Tensor& t, bool turned = false) {
  (void)t.data();  // row-major from here on
  const int64_t n = t.size(0), m = t.numel() / n;
  return turned ? alias(t, Dims{m, n}, Dims{1, m}, t.offset()) : alias(t, Dims{n, m}, Dims{m, 1}, t.offset());
}

// Three spatial axes, as sums of two-dimensional convolutions over planes of the depth axis. Our own kernels
// only: oneDNN has it as one primitive, and depthwise volumes have kernels of their own.
struct Depth {
  int64_t stride, padding, dilation;
  // Input plane that output plane `o` sees through tap `k`.
  int64_t at(int64_t o, int64_t k) const { return o * stride - padding + k * dilation; }
};

Tensor plane(const Tensor& t, int64_t i) {  // t[:, :, i]
  Dims sizes = t.sizes(), strides = t.strides();
  const int64_t offset = t.offset() + i * strides[2];
  sizes.erase(2), strides.erase(2);
  return alias(t, sizes, strides, offset);
}
Tensor plane_copy(const Tensor& t, int64_t i) {
  const Tensor from = plane(t, i), copy = empty(from.sizes(), t.dtype());
  copy_elements(copy, from);
  return copy;
}
Dims without_depth(const Dims& d) {
  Dims out = d;
  out.erase(2);
  return out;
}

// out[:, :, i] = sum of part(i, j, result) over those j < count for which part returns true.
template <class T, class Part>
void sum_of_planes(const Tensor& out, int64_t count, const Part& part) {
  const Tensor sum = empty(without_depth(out.sizes()), dtype_of<T>), term = empty(sum.sizes(), dtype_of<T>);
  T *s = sum.data<T>(), *t = term.data<T>();
  for (int64_t i = 0; i < out.size(2); ++i) {
    std::fill_n(s, sum.numel(), T(0));
    for (int64_t j = 0; j < count; ++j)
      if (part(i, j, t))
        for (int64_t e = 0; e < sum.numel(); ++e) s[e] += t[e];
    copy_elements(plane(out, i), sum);
  }
}

}  // namespace

namespace kernels {

void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList dilation, int64_t groups,
                 const Tensor& y) {
  if (y.numel() == 0) return;
  const auto bias_alone = [&] { return bias.defined() ? channel_expand(bias, y.sizes(), y) : zero(y); };
  if (weight.numel() == 0) return bias_alone();  // no input channels
  if (const auto r = conv::reach(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation); !r.all && !r.few) {
    if (r.none) return bias_alone();
    return convolution(x, r.part_copy(weight), bias, stride, r.padding, r.dilation, groups, y);
  }
  const auto shape = shape_of(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation, groups);
  if (conv::is_depthwise_volume(shape, x.dtype())) return conv::depthwise_forward(shape, x, weight, bias, y);
  if (is_product(shape, x.dtype())) return linear(as_rows(x), as_rows(weight), bias, as_rows(y));
  if (channels_last(x, y)) {
    if (conv::narrow_forward(shape, x, weight, bias, y)) return;
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    if (conv::winograd_forward(shape, from, weight, bias, to) || onednn::conv_forward(shape, true, from.matrix(), weight, bias, to.matrix())) return;
  }
  if (use_onednn(Part::Forward, x.dtype(), weight.sizes(), y.sizes(), stride, groups) && onednn::conv_forward(shape, false, x, weight, bias, y)) return;
  if (is_half(x.dtype())) {
    const Tensor to = empty(y.sizes(), DType::Float32);
    convolution(wide(x), widened(weight), widened(bias), stride, padding, dilation, groups, to);
    return narrow_to(y, to);
  }
  if (x.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const conv::Conv c = conv::geometry(without_depth(x.sizes()), without_depth(weight.sizes()), without_depth(y.sizes()), stride.subspan(1), padding.subspan(1),
                            dilation.subspan(1), groups);
    return visit_float(y.dtype(), [&](auto z) {
      using T = decltype(z);
      const Tensor no_bias = empty(Dims{weight.size(0)}, dtype_of<T>);
      std::fill_n(no_bias.data<T>(), no_bias.numel(), T(0));
      const T* b = bias.defined() ? bias.data<T>() : no_bias.data<T>();
      // Tap 0 is the bias alone, so that a plane that sees only padding has it too.
      sum_of_planes<T>(y, weight.size(2) + 1, [&](int64_t o, int64_t k, T* to) {
        if (k == 0) {
          for (int64_t r = 0; r < c.n * c.groups * c.co; ++r) std::fill_n(to + r * c.oh * c.ow, c.oh * c.ow, b[r % (c.groups * c.co)]);
          return true;
        }
        const int64_t i = depth.at(o, k - 1);
        if (i < 0 || i >= x.size(2)) return false;
        conv::forward<T>(c, plane_copy(x, i).template data<T>(), plane_copy(weight, k - 1).template data<T>(), nullptr, to);
        return true;
      });
    });
  }
  const conv::Conv c = conv::geometry(x.sizes(), weight.sizes(), y.sizes(), stride, padding, dilation, groups);
  visit_float(y.dtype(), [&](auto z) {
    using T = decltype(z);
    conv::forward<T>(c, x.data<T>(), weight.data<T>(), bias.defined() ? bias.data<T>() : nullptr, y.data<T>());
  });
}

namespace {
// dx of y = conv(x), or with `result` what a transposed convolution makes.
void back(const Tensor& dy, const Tensor& weight, IntList stride, IntList padding, IntList dilation, int64_t groups, const Tensor& dx, bool result) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || weight.numel() == 0) return zero(dx);
  if (const auto r = conv::reach(dx.sizes(), weight.sizes(), dy.sizes(), stride, padding, dilation); !r.all && !r.few) {
    if (r.none) return zero(dx);
    return back(dy, r.part_copy(weight), stride, r.padding, r.dilation, groups, dx, result);
  }
  const auto shape = shape_of(dx.sizes(), weight.sizes(), dy.sizes(), stride, padding, dilation, groups);
  if (conv::is_depthwise_volume(shape, dy.dtype())) return conv::depthwise_backward_data(shape, dy, weight, dx);
  if (is_product(shape, dy.dtype())) return mm(as_rows(dy), as_rows(weight), as_rows(dx));
  if (channels_last(dy, dx)) {
    if (conv::narrow_backward_data(shape, dy, weight, dx)) return;
    const ChannelRows from(dy), to = ChannelRows::fresh(dx);
    if (conv::winograd_backward_data(shape, from, weight, to, result) || onednn::conv_backward_data(shape, true, from.matrix(), weight, to.matrix())) return;
  }
  if (use_onednn(Part::BackwardData, dy.dtype(), weight.sizes(), dy.sizes(), stride, groups) &&
      onednn::conv_backward_data(shape, false, dy, weight, dx))
    return;
  if (is_half(dy.dtype())) {
    const Tensor to = empty(dx.sizes(), DType::Float32);
    back(wide(dy), widened(weight), stride, padding, dilation, groups, to, result);
    return narrow_to(dx, to);
  }
  if (dx.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const conv::Conv c = conv::geometry(without_depth(dx.sizes()), without_depth(weight.sizes()), without_depth(dy.sizes()), stride.subspan(1),
                            padding.subspan(1), dilation.subspan(1), groups);
    const int64_t taps = weight.size(2);
    return visit_float(dx.dtype(), [&](auto z) {
      using T = decltype(z);
      sum_of_planes<T>(dx, dy.size(2) * taps, [&](int64_t i, int64_t j, T* to) {
        if (depth.at(j / taps, j % taps) != i) return false;
        conv::backward_data<T>(c, plane_copy(dy, j / taps).template data<T>(), plane_copy(weight, j % taps).template data<T>(), to);
        return true;
      });
    });
  }
  const conv::Conv c = conv::geometry(dx.sizes(), weight.sizes(), dy.sizes(), stride, padding, dilation, groups);
  visit_float(dx.dtype(), [&](auto z) {
    using T = decltype(z);
    conv::backward_data<T>(c, dy.data<T>(), weight.data<T>(), dx.data<T>());
  });
}
}  // namespace

void conv_backward_data(const Tensor& dy, const Tensor& weight, IntList, IntList stride, IntList padding, IntList dilation, int64_t groups,
                        const Tensor& dx) {
  back(dy, weight, stride, padding, dilation, groups, dx, false);
}

namespace {
void weight_gradient(const Tensor& dy, const Tensor& x, IntList stride, IntList padding, IntList dilation, int64_t groups, const Tensor& dw) {
  if (dw.numel() == 0) return;
  if (dy.numel() == 0 || x.numel() == 0) return zero(dw);
  if (const auto r = conv::reach(x.sizes(), dw.sizes(), dy.sizes(), stride, padding, dilation); !r.all) {
    zero(dw);
    if (r.none) return;
    const Tensor to = r.part(dw), part = empty(to.sizes(), dw.dtype());
    weight_gradient(dy, x, stride, r.padding, r.dilation, groups, part);
    return copy_elements(to, part);
  }
  const auto shape = shape_of(x.sizes(), dw.sizes(), dy.sizes(), stride, padding, dilation, groups);
  if (conv::is_depthwise_volume(shape, dy.dtype())) return conv::depthwise_backward_weight(shape, dy, x, dw);
  if (is_product(shape, dy.dtype())) return mm(as_rows(dy, true), as_rows(x), as_rows(dw));
  if (channels_last(x, dy)) {
    if (conv::narrow_backward_weight(shape, dy, x, dw)) return;
    const ChannelRows dy_rows(dy), x_rows(x);
    if (conv::is_depthwise_plane(shape, dy.dtype()))
      return conv::depthwise_plane_weight(shape, static_cast<const float*>(dy_rows.data()), static_cast<const float*>(x_rows.data()), dw);
    if (conv::winograd_backward_weight(shape, dy_rows, x_rows, dw) || onednn::conv_backward_weight(shape, true, dy_rows.matrix(), x_rows.matrix(), dw, {}))
      return;
  }
  if (use_onednn(Part::BackwardWeight, dy.dtype(), dw.sizes(), dy.sizes(), stride, groups) &&
      onednn::conv_backward_weight(shape, false, dy, x, dw, {}))
    return;
  if (is_half(dy.dtype())) {
    const Tensor to = empty(dw.sizes(), DType::Float32);
    weight_gradient(wide(dy), wide(x), stride, padding, dilation, groups, to);
    return copy_elements(dw, to);
  }
  if (x.ndim() == 5) {
    const Depth depth{stride[0], padding[0], dilation[0]};
    const conv::Conv c = conv::geometry(without_depth(x.sizes()), without_depth(dw.sizes()), without_depth(dy.sizes()), stride.subspan(1), padding.subspan(1),
                            dilation.subspan(1), groups);
    return visit_float(dw.dtype(), [&](auto z) {
      using T = decltype(z);
      sum_of_planes<T>(dw, dy.size(2), [&](int64_t k, int64_t o, T* to) {
        const int64_t i = depth.at(o, k);
        if (i < 0 || i >= x.size(2)) return false;
        conv::backward_weight<T>(c, plane_copy(dy, o).template data<T>(), plane_copy(x, i).template data<T>(), to);
        return true;
      });
    });
  }
  const conv::Conv c = conv::geometry(x.sizes(), dw.sizes(), dy.sizes(), stride, padding, dilation, groups);
  visit_float(dw.dtype(), [&](auto z) {
    using T = decltype(z);
    conv::backward_weight<T>(c, dy.data<T>(), x.data<T>(), dw.data<T>());
  });
}

}  // namespace

void conv_backward_weight(const Tensor& dy, const Tensor& x, IntList, IntList stride, IntList padding, IntList dilation, int64_t groups,
                          const Tensor& dw) {
  weight_gradient(dy, x, stride, padding, dilation, groups, dw);
  conv::clear_unseen(x.sizes(), dy.sizes(), stride, padding, dilation, dw);
}

void conv_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding, IntList, IntList dilation,
                     int64_t groups, const Tensor& y) {
  back(x, weight, stride, padding, dilation, groups, y, true);
  if (!bias.defined() || y.numel() == 0) return;
  conv::add_channel_bias(y, bias);
}

}  // namespace kernels
}  // namespace fl
