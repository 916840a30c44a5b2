#include <string_view>

#include "backend/onednn/cache.h"
#include "backend/onednn/onednn.h"

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

Key conv_key(Op op, const ConvShape& s, DType t, bool last, bool bias) {
  Key key(op);
  key.add(static_cast<int64_t>(t)).add(s.x).add(s.w).add(s.y).add(s.stride).add(s.padding).add(s.dilation).add(s.groups).add(last).add(bias);
  return key;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Descs& d, bool bias, dnnl::prop_kind kind) {
  const auto algo = dnnl::algorithm::convolution_direct;
  const auto attr = default_attr();
  return bias ? dnnl::convolution_forward::primitive_desc(engine(), kind, algo, d.any_x, d.any_w, d.b, d.any_y, d.stride, d.dilation,
                                                          d.padding, d.padding, attr)
              : dnnl::convolution_forward::primitive_desc(engine(), kind, algo, d.any_x, d.any_w, d.any_y, d.stride, d.dilation, d.padding,
                                                          d.padding, attr);
}

}  // namespace

bool convolves(DType t) { return has_native(t); }

bool conv_forward(const ConvShape& s, bool last, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  const DType t = x.dtype();
  if (!has_native(t) || x.numel() == 0 || y.numel() == 0 || w.numel() == 0) return false;
  const auto p = cached(conv_key(Op::ConvForward, s, t, last, bias.defined()), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    const auto pd = forward_desc(d, bias.defined(), dnnl::prop_kind::forward_training);
    add_reorder(out, d.x, pd.src_desc(), false);
    add_reorder(out, d.w, pd.weights_desc(), false);
    add_reorder(out, d.y, pd.dst_desc(), true);
    out.mds = {d.b};
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = dnnl::convolution_forward(pd);
  });
  if (!p) return false;
  Args args;
  args.input(*p, 0, DNNL_ARG_SRC, x.data()).weight(*p, 1, DNNL_ARG_WEIGHTS, w.storage(), w.data()).output(*p, 2, DNNL_ARG_DST, y.data());
  if (bias.defined()) args.add(DNNL_ARG_BIAS, p->mds[0], bias.data());
  return args.run(*p);
}

bool conv_backward_data(const ConvShape& s, bool last, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const DType t = dy.dtype();
  if (!has_native(t) || dx.numel() == 0 || dy.numel() == 0 || w.numel() == 0) return false;
  const auto p = cached(conv_key(Op::ConvBackwardData, s, t, last, false), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    const auto hint = forward_desc(d, false, dnnl::prop_kind::forward_training);
    const auto make = [&] {
      return dnnl::convolution_backward_data::primitive_desc(engine(), dnnl::algorithm::convolution_direct, d.any_x, d.any_w, d.any_y, d.stride,
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
    add_reorder(out, d.y, pd.diff_dst_desc(), false);
    add_reorder(out, d.w, pd.weights_desc(), false);
    add_reorder(out, d.x, pd.diff_src_desc(), true);
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = dnnl::convolution_backward_data(pd);
  });
  if (!p) return false;
  Args args;
  args.input(*p, 0, DNNL_ARG_DIFF_DST, dy.data()).weight(*p, 1, DNNL_ARG_WEIGHTS, w.storage(), w.data()).output(*p, 2, DNNL_ARG_DIFF_SRC, dx.data());
  return args.run(*p);
}

bool conv_backward_weight(const ConvShape& s, bool last, const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& db) {
  const DType t = dy.dtype();
  if (!has_native(t) || x.numel() == 0 || dy.numel() == 0 || dw.numel() == 0) return false;
  const auto p = cached(conv_key(Op::ConvBackwardWeight, s, t, last, db.defined()), [&](Primitive& out) {
    const Descs d = descs(s, t, last);
    const auto hint = forward_desc(d, false, dnnl::prop_kind::forward_training);
    using weights = dnnl::convolution_backward_weights;
    const auto algo = dnnl::algorithm::convolution_direct;
    const auto pd = db.defined() ? weights::primitive_desc(engine(), algo, d.any_x, d.any_w, d.b, d.any_y, d.stride, d.dilation, d.padding,
                                                           d.padding, hint, default_attr())
                                 : weights::primitive_desc(engine(), algo, d.any_x, d.any_w, d.any_y, d.stride, d.dilation, d.padding, d.padding,
                                                           hint, default_attr());
    add_reorder(out, d.y, pd.diff_dst_desc(), false);
    add_reorder(out, d.x, pd.src_desc(), false);
    add_reorder(out, d.w, pd.diff_weights_desc(), true);
    out.mds = {d.b};
    out.scratchpad = pd.scratchpad_desc();
    out.primitive = weights(pd);
  });
  if (!p) return false;
  Args args;
  args.input(*p, 0, DNNL_ARG_DIFF_DST, dy.data()).input(*p, 1, DNNL_ARG_SRC, x.data()).output(*p, 2, DNNL_ARG_DIFF_WEIGHTS, dw.data());
  if (db.defined()) args.add(DNNL_ARG_DIFF_BIAS, p->mds[0], db.data());
  return args.run(*p);
}

}  // namespace fl::onednn
