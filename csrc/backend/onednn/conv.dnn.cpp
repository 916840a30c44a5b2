#include <algorithm>
#include <numeric>
#include <string_view>

#include "backend/onednn/cache.h"
#include "backend/onednn/onednn.h"
#include "base/parallel.h"

namespace fl::onednn {
namespace {

using md = dnnl::memory::desc;
using tag = dnnl::memory::format_tag;

dnnl::memory::dims to_dims(const Dims& d) { return {d.begin(), d.end()}; }

// Plain and free-layout descriptors of the four arguments.
struct Descs {
  md x, w, b, y, any_x, any_w, any_y;
  dnnl::memory::dims stride, dilation, padding;
};

// With `last`, activations have their channels last, for the primitive as well.
Descs descs(const ConvShape& s, DType t, bool last) {
  const auto type = data_type(t);
  const auto x = to_dims(s.x), y = to_dims(s.y);
  auto w = to_dims(s.w);
  if (s.groups > 1) {
    w[0] /= s.groups;
    w.insert(w.begin(), s.groups);
  }
  const auto plain = [&](const dnnl::memory::dims& dims) {
    dnnl::memory::dims strides(dims.size(), 1);
    for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
    return md(dims, type, strides);
  };
  Descs d;
  const auto channels_last = [&](const dnnl::memory::dims& dims) {
    dnnl::memory::dims strides(dims.size(), 1);
    dnnl::memory::dim step = dims[1];
    for (size_t i = dims.size(); i-- > 2; step *= dims[i]) strides[i] = step;
    strides[0] = step;
    return md(dims, type, strides);
  };
  d.x = last ? channels_last(x) : plain(x);
  d.w = plain(w);
  d.y = last ? channels_last(y) : plain(y);
  d.b = md({s.y[1]}, type, tag::a);
  d.any_x = last ? d.x : md(x, type, tag::any);
  d.any_w = md(w, type, tag::any);
  d.any_y = last ? d.y : md(y, type, tag::any);
  d.stride = to_dims(s.stride);
  d.padding = to_dims(s.padding);
  d.dilation = to_dims(s.dilation);
  for (auto& v : d.dilation) --v;
  return d;
}

Key conv_key(const Entry& entry, Op op, const ConvShape& s, DType t, bool last, bool bias) {
  Key key(entry, op);
  key.add(static_cast<int64_t>(t)).add(s.x).add(s.w).add(s.y).add(s.stride).add(s.padding).add(s.dilation).add(s.groups).add(last).add(bias);
  return key;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Entry& entry, const Descs& d, bool bias) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algo = dnnl::algorithm::convolution_direct;
  const auto attr = default_attr();
  return bias ? dnnl::convolution_forward::primitive_desc(entry.engine(), kind, algo, d.any_x, d.any_w, d.b, d.any_y, d.stride, d.dilation,
                                                          d.padding, d.padding, attr)
              : dnnl::convolution_forward::primitive_desc(entry.engine(), kind, algo, d.any_x, d.any_w, d.any_y, d.stride, d.dilation, d.padding,
                                                          d.padding, attr);
}

// Note [Strided 1x1 convolutions]
// For a 1x1 convolution with a stride, oneDNN's kernels jit_1x1 and jit_bf16_1x1 gather the positions that they read into
// a piece of the scratchpad per thread. With channels last (oneDNN 3.2) pieces are booked for C channels per position,
// but written where blocks of 16 (AVX2: 8) channels would begin. Where C is no multiple of that, the second thread and
// those after it write beyond the scratchpad, by several times its size: no slack behind a buffer would do. So such
// shapes get the next implementation. Found over guard pages (storage/guarded.h), where tests/core/test_guard_pages.py
// runs all kernels.
template <class Desc, class Broken>
void avoid(Desc& pd, const Broken& broken) {
  while (broken(std::string_view(pd.impl_info_str())))
    if (!pd.next_impl()) throw dnnl::error(dnnl_unimplemented, "no other implementation");
}
template <class Desc>
void avoid_gathering(Desc& pd, const ConvShape& s, bool last) {
  constexpr int64_t kBlock = 16;
  const auto all_one = [](const Dims& d, int from) { return std::all_of(d.begin() + from, d.end(), [](int64_t v) { return v == 1; }); };
  if (!last || all_one(s.stride, 0) || !all_one(s.w, 2) || (s.x[1] / s.groups % kBlock == 0 && s.y[1] / s.groups % kBlock == 0)) return;
  avoid(pd, [](std::string_view name) { return name.starts_with("jit") && name.find("1x1") != name.npos; });
}

// Note [Wrong convolutions]
// What oneDNN 3.2 computes wrongly, as random shapes beside float64 found (tests/nn/test_wrong_convolutions.py). Such shapes get the next implementation,
// or our own kernels:
//
//   results of bfloat16 (brgconv)                   window, stride, and image have a common factor along the last axis (mostly without padding), and
//                                                   input channels do not fill blocks of 32
//   weights' gradients of float32 (jit, AVX-512)    volumes padded by more than a stride of their depth; the last axis strided, dilated, and padded by 15 or more
//   weights' gradients of 16-bit volumes            taps of which nothing is written, where windows are deeper than the image (jit, AVX-512) or depthwise:
//                                                   always by way of float32
//   16-bit floats, strided and dilated              wrong results by tiles (brgconv, AMX), seldom: always by way of float32
//   16-bit volumes with a stride of their depth     planes of the input's gradient of which nothing is written, and wrong results where the last axis is
//                                                   dilated (brgconv, AMX): always by way of float32
void avoid_wrong_forward(dnnl::convolution_forward::primitive_desc& pd, const ConvShape& s, DType t) {
  constexpr int64_t kBlock = 32;
  if (t != DType::BFloat16 || s.x[1] / s.groups % kBlock == 0 || std::gcd(std::gcd(s.w.back(), s.stride.back()), s.x.back()) == 1) return;
  avoid(pd, [](std::string_view name) { return name.starts_with("brgconv"); });
}
void avoid_wrong_weights(dnnl::convolution_backward_weights::primitive_desc& pd, const ConvShape& s, DType t) {
  if (t != DType::Float32) return;
  const bool deep = s.x.size() == 5 && s.stride[0] > 1 && s.padding[0] > s.stride[0];
  const bool wide = s.stride.back() > 1 && s.dilation.back() > 1 && s.padding.back() >= 15;
  if (deep || wide) avoid(pd, [](std::string_view name) { return name.starts_with("jit:avx512"); });
}
bool wants_float32(const ConvShape& s, DType t, bool weights = false) {
  if (t == DType::Float32) return false;
  const auto beyond_one = [](const Dims& d) { return std::any_of(d.begin(), d.end(), [](int64_t v) { return v > 1; }); };
  if (beyond_one(s.stride) && beyond_one(s.dilation)) return true;
  if (s.x.size() != 5) return false;
  return s.stride[0] > 1 || (weights && ((s.groups > 1 && s.w[1] == 1) || s.x[2] < (s.w[2] - 1) * s.dilation[0] + 1));
}

// Note [Gradients of weights on AVX2]
// Without AVX-512, oneDNN's kernel for the gradient of the weight reads blocks of 8 channels. In a channels-last row these
// lie a whole pixel apart, often a power of two: the lines of many pixels share a few sets of the cache. Copied into the
// kernel's own blocks they do not, which pays for the copies. One core of a Zen 3, milliseconds with the copies:
//
//     64 -> 64 channels of 224 x 224, batch 2    588 -> 149        128 -> 128 of 28 x 28, batch 8     45 -> 35
//     64 -> 32 of 128 x 128, batch 8             279 -> 110        192 -> 384 of 13 x 13, batch 32   143 -> 131
//
// Where channels do not fill their blocks (20 of 64 x 64: 13 -> 17), and for the kernels of 1x1 and depthwise
// convolutions, which read rows as they lie, it does not.
bool wants_blocks(std::string_view kernel, const ConvShape& s) {
  constexpr int64_t kBlock = 8;
  const int64_t in = s.x[1] / s.groups, out = s.y[1] / s.groups;
  return kernel == "jit:avx2" && out % kBlock == 0 && (in % kBlock == 0 || (s.groups == 1 && in <= 3));
}

}  // namespace

// Not float16 without tiles (AMX): its kernels take three times as long as float32's with tiles of products. (64 channels of 56 x 56 by 3 x 3, 8 images, on
// a Xeon with AVX512-FP16, 2 threads: 7.9 ms, here 2.6.)
bool convolves(DType t) { return has_native(t) && (t != DType::Float16 || has_float16_tiles()); }

bool conv_forward(const ConvShape& s, bool last, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  const DType t = x.dtype();
  if (!convolves(t) || wants_float32(s, t) || x.numel() == 0 || y.numel() == 0 || w.numel() == 0) return false;
  const Entry entry;
  const auto p = cached(entry, conv_key(entry, Op::ConvForward, s, t, last, bias.defined()), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    auto pd = forward_desc(entry, d, bias.defined());
    avoid_gathering(pd, s, last);
    avoid_wrong_forward(pd, s, t);
    add_reorder(entry, out, d.x, pd.src_desc(), false);
    add_reorder(entry, out, d.w, pd.weights_desc(), false);
    add_reorder(entry, out, d.y, pd.dst_desc(), true);
    out.mds = {d.b};
    adopt<dnnl::convolution_forward>(out, pd);
  });
  if (!p) return false;
  Args args(entry);
  args.input(*p, 0, DNNL_ARG_SRC, x.data()).weight(*p, 1, DNNL_ARG_WEIGHTS, w.storage(), w.data()).output(*p, 2, DNNL_ARG_DST, y.data());
  if (bias.defined()) args.add(DNNL_ARG_BIAS, p->mds[0], bias.data());
  return args.run(*p);
}

namespace {
// Note [Gradients by the forward convolution]
// With a stride of one the input's gradient is a convolution of the output's, by the weight with its channels exchanged and its taps in reverse order. oneDNN's primitive
// for it is that, too, and has the same bits; but along a single axis its descriptor takes up to 145 ms to make, for each length of a signal (AVX2, 64 x 32 x 5 at 1200
// elements; forward 1 ms). Turning the weight is nothing beside what many places do with it (1 to 5 % of the smallest that are turned).
bool turns(const ConvShape& s, DType t) {
  constexpr int64_t kLeast = 512;  // places
  return t == DType::Float32 && s.x.size() == 3 && s.stride[0] == 1 && s.w[2] > 1 && s.padding[0] <= s.dilation[0] * (s.w[2] - 1) && s.y[0] * s.y[2] >= kLeast;
}

// [out, in / groups, taps] as [in, out / groups, taps], with the taps in reverse order.
Tensor turned(const Tensor& w, int64_t groups) {
  const int64_t out = w.size(0) / groups, in = w.size(1), taps = w.size(2);
  const Tensor y = empty(Dims{in * groups, out, taps}, w.dtype());
  const float* from = w.data<float>();
  float* to = y.data<float>();
  parallel_work(groups * in, out * taps, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t o = 0; o < out; ++o) {
        const float* x = from + ((c / in * out + o) * in + c % in) * taps;
        std::reverse_copy(x, x + taps, to + (c * out + o) * taps);
      }
  });
  return y;
}
}  // namespace

bool conv_backward_data(const ConvShape& s, bool last, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const DType t = dy.dtype();
  if (!convolves(t) || wants_float32(s, t) || dx.numel() == 0 || dy.numel() == 0 || w.numel() == 0) return false;
  if (turns(s, t)) {
    const Tensor weight = turned(w, s.groups);
    const ConvShape forward{s.y, weight.sizes(), s.x, s.stride, Dims{s.dilation[0] * (s.w[2] - 1) - s.padding[0]}, s.dilation, s.groups};
    return conv_forward(forward, last, dy, weight, {}, dx);
  }
  const Entry entry;
  const auto p = cached(entry, conv_key(entry, Op::ConvBackwardData, s, t, last, false), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    const auto hint = forward_desc(entry, d, false);
    const auto make = [&] {
      return dnnl::convolution_backward_data::primitive_desc(entry.engine(), dnnl::algorithm::convolution_direct, d.any_x, d.any_w, d.any_y, d.stride,
                                                             d.dilation, d.padding, d.padding, hint, default_attr());
    };
    auto pd = make();
    // oneDNN's first choice for strided depthwise convolutions in bfloat16 works channel by channel; a later one is made
    // for them. 96 channels of 112 x 112 with stride 2, batch 16, one core: 137 against 8.5 ms.
    if (s.groups > 1 && s.groups == s.x[1] && s.groups == s.y[1] && t != DType::Float32) {
      const auto depthwise = [](const auto& desc) { return std::string_view(desc.impl_info_str()).starts_with("jit_dw"); };
      while (!depthwise(pd))
        if (!pd.next_impl()) {
          pd = make();
          break;
        }
    }
    avoid_gathering(pd, s, last);
    add_reorder(entry, out, d.y, pd.diff_dst_desc(), false);
    add_reorder(entry, out, d.w, pd.weights_desc(), false);
    add_reorder(entry, out, d.x, pd.diff_src_desc(), true);
    adopt<dnnl::convolution_backward_data>(out, pd);
  });
  if (!p) return false;
  Args args(entry);
  args.input(*p, 0, DNNL_ARG_DIFF_DST, dy.data()).weight(*p, 1, DNNL_ARG_WEIGHTS, w.storage(), w.data()).output(*p, 2, DNNL_ARG_DIFF_SRC, dx.data());
  return args.run(*p);
}

bool conv_backward_weight(const ConvShape& s, bool last, const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db) {
  const DType t = dy.dtype();
  if (!convolves(t) || wants_float32(s, t, true) || x.numel() == 0 || dy.numel() == 0 || dw.numel() == 0) return false;
  const Entry entry;
  const auto p = cached(entry, conv_key(entry, Op::ConvBackwardWeight, s, t, last, db.defined()), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    using weights = dnnl::convolution_backward_weights;
    dnnl::convolution_forward::primitive_desc hint;  // pd.next_impl() still looks at it
    const auto make = [&](const Descs& free) {
      const auto algo = dnnl::algorithm::convolution_direct;
      hint = forward_desc(entry, free, false);
      return db.defined() ? weights::primitive_desc(entry.engine(), algo, free.any_x, free.any_w, free.b, free.any_y, free.stride, free.dilation,
                                                    free.padding, free.padding, hint, default_attr())
                          : weights::primitive_desc(entry.engine(), algo, free.any_x, free.any_w, free.any_y, free.stride, free.dilation,
                                                    free.padding, free.padding, hint, default_attr());
    };
    auto pd = make(d);
    avoid_gathering(pd, s, last);
    avoid_wrong_weights(pd, s, t);
    if (last && wants_blocks(pd.impl_info_str(), s)) pd = make(descs(s, t, false));
    add_reorder(entry, out, d.y, pd.diff_dst_desc(), false);
    add_reorder(entry, out, d.x, pd.src_desc(), false);
    add_reorder(entry, out, d.w, pd.diff_weights_desc(), true);
    out.mds = {d.b};
    adopt<weights>(out, pd);
  });
  if (!p) return false;
  Args args(entry);
  args.input(*p, 0, DNNL_ARG_DIFF_DST, dy.data()).input(*p, 1, DNNL_ARG_SRC, x.data()).output(*p, 2, DNNL_ARG_DIFF_WEIGHTS, dw.data());
  if (db.defined()) args.add(DNNL_ARG_DIFF_BIAS, p->mds[0], db.data());
  return args.run(*p);
}

}  // namespace fl::onednn
