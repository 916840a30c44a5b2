// Pooling over the last axes of [N, C, L] and [N, C, H, W], plane by plane.
#include "ops/pool/pool.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "tensor/raw.h"

namespace fl::kernels {
namespace {

// Planes of x: one spatial axis is a plane of height one.
struct Planes {
  int64_t count, h, w;
};
Planes planes_of(IntList s) {
  const int64_t h = s.size() == 3 ? 1 : s[2];
  return {s[0] * s[1], h, s.back()};
}

int64_t given(IntList v, int spatial, int axis, int64_t otherwise) {
  if (v.empty()) return otherwise;
  return v.size() == 1 ? v[0] : v[spatial == 1 ? 0 : axis];
}

DType work_type(DType t) { return t == DType::Float32 || is_half(t) ? DType::Float32 : DType::Float64; }

template <class F>
void for_planes(const Planes& p, const F& f) {
  parallel_for(0, p.count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.h * p.w)), [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) f(i);
  });
}

// The output in the work type: itself where it has that type.
class WorkOutput {
 public:
  explicit WorkOutput(const Tensor& out) : out_(out), work(out.dtype() == work_type(out.dtype()) ? out : empty(out.sizes(), work_type(out.dtype()))) {}
  WorkOutput(const WorkOutput&) = delete;
  ~WorkOutput() {
    if (!work.same(out_)) copy_elements(out_, work);
  }

 private:
  const Tensor& out_;

 public:
  Tensor work;
};

bool deferred(const Tensor& x) { return x.storage().maybe_deferred() && is_deferred(x); }

#define FL_PICK(name) ([] { if constexpr (std::is_same_v<T, float>) return name##_f32; else return name##_f64; }())

// f(image, first channel, channels) for strips of channels of every image.
template <class F>
void for_strips(int64_t images, int64_t channels, const F& f) {
  constexpr int64_t kStrip = 64;
  const int64_t strips = (channels + kStrip - 1) / kStrip;
  parallel_for(0, images * strips, 1, [&](int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; ++j) f(j / strips, j % strips * kStrip, std::min(kStrip, channels - j % strips * kStrip));
  });
}

void max_pool(const Tensor& x, const PoolAxis& h, const PoolAxis& w, const Tensor& y, const Tensor& indices) {
  const Planes p = planes_of(x.sizes());
  const int64_t size = h.out * w.out, c = x.size(1);
  if (deferred(x) && p.h * p.w < (int64_t(1) << 31)) {
    const ChannelRows from(x), to = ChannelRows::fresh(y), at = ChannelRows::fresh(indices);
    const WorkOutput out(to.matrix());
    const Tensor in = converted(from.matrix(), out.work.dtype());
    return visit_float(in.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for_strips(x.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK(max_pool_strip)(in.data<T>() + n * p.h * p.w * c + k, c, width, out.work.data<T>() + n * size * c + k,
                                at.matrix().data<int64_t>() + n * size * c + k, h, w);
      });
    });
  }
  const WorkOutput out(y);
  const Tensor in = converted(x, out.work.dtype());
  int64_t* index = indices.data<int64_t>();
  for_planes(p, [&](int64_t i) {
    if (in.dtype() == DType::Float32)
      max_pool_plane_f32(in.data<float>() + i * p.h * p.w, out.work.data<float>() + i * size, index + i * size, h, w);
    else
      max_pool_plane_f64(in.data<double>() + i * p.h * p.w, out.work.data<double>() + i * size, index + i * size, h, w);
  });
}

void max_pool_general(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, const Tensor& y, const Tensor& indices) {
  const int spatial = x.ndim() - 2;
  const Planes in = planes_of(x.sizes()), out = planes_of(y.sizes());
  const auto axis = [&](int d, int64_t n, int64_t m) {
    const int64_t k = given(kernel, spatial, d, 1), s = given(stride, spatial, d, k);
    return PoolAxis{n, m, -given(padding, spatial, d, 0), s, k, given(dilation, spatial, d, 1)};
  };
  const PoolAxis h = spatial == 1 ? PoolAxis{1, 1, 0, 1, 1, 1} : axis(0, in.h, out.h);
  max_pool(x, h, axis(spatial - 1, in.w, out.w), y, indices);
}

std::vector<PoolWindow> windows(int64_t n, int64_t out, int64_t k, int64_t s, int64_t p, bool include_pad) {
  std::vector<PoolWindow> w(out);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * s - p, last = std::min(first + k, n + p);
    w[o].begin = std::max<int64_t>(first, 0);
    w[o].end = std::max(w[o].begin, std::min(first + k, n));
    w[o].length = include_pad ? last - first : w[o].end - w[o].begin;
  }
  return w;
}
std::vector<PoolWindow> adaptive_windows(int64_t n, int64_t out) {
  std::vector<PoolWindow> w(out);
  for (int64_t o = 0; o < out; ++o) {
    w[o].begin = o * n / out;
    w[o].end = ((o + 1) * n + out - 1) / out;
    w[o].length = w[o].end - w[o].begin;
  }
  return w;
}

struct Windows {
  std::vector<PoolWindow> h, w;
};
Windows average_windows(IntList in, IntList out, IntList kernel, IntList stride, IntList padding, bool include_pad) {
  const int spatial = static_cast<int>(in.size()) - 2;
  const auto axis = [&](int d, int64_t n, int64_t m) {
    const int64_t k = given(kernel, spatial, d, 1);
    return windows(n, m, k, given(stride, spatial, d, k), given(padding, spatial, d, 0), include_pad);
  };
  return {spatial == 1 ? windows(1, 1, 1, 1, 0, true) : axis(0, in[2], out[2]), axis(spatial - 1, in.back(), out.back())};
}
Windows adaptive(IntList in, IntList out) {
  return {in.size() == 3 ? adaptive_windows(1, 1) : adaptive_windows(in[2], out[2]), adaptive_windows(in.back(), out.back())};
}

void mean(const Tensor& x, const Windows& win, double divisor, const Tensor& y) {
  const Planes p = planes_of(x.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size()), c = x.size(1);
  if (deferred(x)) {
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    const WideOutput out(to.matrix());
    const Tensor in = widened(from.matrix());
    return visit_float(in.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for_strips(x.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK(mean_pool_strip)(in.data<T>() + n * p.h * p.w * c + k, c, width, p.w, out.wide.data<T>() + n * oh * ow * c + k, win.h.data(), oh,
                                 win.w.data(), ow, divisor);
      });
    });
  }
  const WideOutput out(y);
  const Tensor in = widened(x);
  for_planes(p, [&](int64_t i) {
    if (in.dtype() == DType::Float32)
      mean_pool_plane_f32(in.data<float>() + i * p.h * p.w, p.w, out.wide.data<float>() + i * oh * ow, win.h.data(), oh, win.w.data(), ow, divisor);
    else
      mean_pool_plane_f64(in.data<double>() + i * p.h * p.w, p.w, out.wide.data<double>() + i * oh * ow, win.h.data(), oh, win.w.data(), ow, divisor);
  });
}

void spread(const Tensor& dy, const Windows& win, double divisor, const Tensor& dx) {
  const Planes p = planes_of(dx.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size()), c = dx.size(1);
  // A gradient of [N, C, 1, 1] says nothing of the layout; what is pooled globally comes from convolutions.
  if (deferred(dy) || (oh * ow == 1 && layout_mode() == LayoutMode::Deferred && may_defer(dx.sizes()) && c >= 16)) {
    const ChannelRows from(dy), to = ChannelRows::fresh(dx);
    const WideOutput out(to.matrix());
    const Tensor in = widened(from.matrix());
    return visit_float(in.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::memset(out.wide.data(), 0, sizeof(T) * static_cast<size_t>(dx.numel()));
      for_strips(dx.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK(mean_spread_strip)(in.data<T>() + n * oh * ow * c + k, c, width, p.w, out.wide.data<T>() + n * p.h * p.w * c + k, win.h.data(), oh,
                                   win.w.data(), ow, divisor);
      });
    });
  }
  const WideOutput out(dx);
  const Tensor in = widened(dy);
  for_planes(p, [&](int64_t i) {
    if (in.dtype() == DType::Float32) {
      float* to = out.wide.data<float>() + i * p.h * p.w;
      std::memset(to, 0, sizeof(float) * p.h * p.w);
      mean_pool_spread_f32(in.data<float>() + i * oh * ow, p.w, to, win.h.data(), oh, win.w.data(), ow, divisor);
    } else {
      double* to = out.wide.data<double>() + i * p.h * p.w;
      std::memset(to, 0, sizeof(double) * p.h * p.w);
      mean_pool_spread_f64(in.data<double>() + i * oh * ow, p.w, to, win.h.data(), oh, win.w.data(), ow, divisor);
    }
  });
}

}  // namespace

void max_pool_with_indices(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, bool, const Tensor& y,
                           const Tensor& indices) {
  max_pool_general(x, kernel, stride, padding, dilation, y, indices);
}

// Adds each element of dy at its index in the plane.
void plane_scatter(const Tensor& dy, const Tensor& indices, IntList shape, const Tensor& dx) {
  if (deferred(dy) || deferred(indices)) {
    const ChannelRows from(dy), at(indices), to = ChannelRows::fresh(dx);
    const WorkOutput out(to.matrix());
    const Tensor in = converted(from.matrix(), out.work.dtype());
    const int64_t c = shape[1], plane = planes_of(shape).h * planes_of(shape).w, size = dy.numel() / (shape[0] * c);
    return visit_float(in.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::memset(out.work.data(), 0, sizeof(T) * static_cast<size_t>(dx.numel()));
      for_strips(shape[0], c, [&](int64_t n, int64_t k, int64_t width) {
        T* y = out.work.data<T>() + n * plane * c + k;
        const T* x = in.data<T>() + n * size * c + k;
        const int64_t* index = at.matrix().data<int64_t>() + n * size * c + k;
        for (int64_t j = 0; j < size; ++j)
          for (int64_t i = 0; i < width; ++i) y[index[j * c + i] * c + i] += x[j * c + i];
      });
    });
  }
  const WorkOutput out(dx);
  const Tensor in = converted(dy, out.work.dtype());
  const Planes p = planes_of(shape);
  const int64_t size = p.count ? dy.numel() / p.count : 0;
  const int64_t* index = indices.data<int64_t>();
  visit_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_planes(p, [&](int64_t i) {
      T* to = out.work.data<T>() + i * p.h * p.w;
      std::memset(to, 0, sizeof(T) * p.h * p.w);
      const T* from = in.data<T>() + i * size;
      for (int64_t j = 0; j < size; ++j) to[index[i * size + j]] += from[j];
    });
  });
}

// The adjoint: the elements of x at the indices.
void plane_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
  const WorkOutput out(y);
  const Tensor in = converted(x, out.work.dtype());
  const Planes p = planes_of(x.sizes());
  const int64_t size = p.count ? y.numel() / p.count : 0;
  const int64_t* index = indices.data<int64_t>();
  visit_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_planes(p, [&](int64_t i) {
      const T* from = in.data<T>() + i * p.h * p.w;
      T* to = out.work.data<T>() + i * size;
      for (int64_t j = 0; j < size; ++j) to[j] = from[index[i * size + j]];
    });
  });
}

void avg_pool(const Tensor& x, IntList kernel, IntList stride, IntList padding, bool, bool count_include_pad,
              std::optional<int64_t> divisor, const Tensor& y) {
  mean(x, average_windows(x.sizes(), y.sizes(), kernel, stride, padding, count_include_pad), static_cast<double>(divisor.value_or(0)), y);
}
void avg_pool_backward(const Tensor& dy, IntList shape, IntList kernel, IntList stride, IntList padding, bool, bool count_include_pad,
                       std::optional<int64_t> divisor, const Tensor& dx) {
  spread(dy, average_windows(shape, dy.sizes(), kernel, stride, padding, count_include_pad), static_cast<double>(divisor.value_or(0)), dx);
}

void adaptive_avg_pool(const Tensor& x, IntList, const Tensor& y) { mean(x, adaptive(x.sizes(), y.sizes()), 0, y); }
void adaptive_avg_pool_backward(const Tensor& dy, IntList shape, IntList, const Tensor& dx) { spread(dy, adaptive(shape, dy.sizes()), 0, dx); }

void adaptive_max_pool(const Tensor& x, IntList, const Tensor& y, const Tensor& indices) {
  const Windows win = adaptive(x.sizes(), y.sizes());
  const WorkOutput out(y);
  const Tensor in = converted(x, out.work.dtype());
  const Planes p = planes_of(x.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size());
  visit_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_planes(p, [&](int64_t i) {
      const T* from = in.data<T>() + i * p.h * p.w;
      for (int64_t a = 0; a < oh; ++a)
        for (int64_t b = 0; b < ow; ++b) {
          int64_t best = win.h[a].begin * p.w + win.w[b].begin;
          for (int64_t r = win.h[a].begin; r < win.h[a].end; ++r)
            for (int64_t c = win.w[b].begin; c < win.w[b].end; ++c) {
              const T v = from[r * p.w + c];
              if (v > from[best] || v != v) best = r * p.w + c;
            }
          out.work.data<T>()[(i * oh + a) * ow + b] = from[best];
          indices.data<int64_t>()[(i * oh + a) * ow + b] = best;
        }
    });
  });
}

}  // namespace fl::kernels
