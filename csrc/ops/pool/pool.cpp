// Pooling over the last axes of [N, C, L] and [N, C, H, W], plane by plane.
#include "ops/pool/pool.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "dispatch/axes.h"
#include "ops/index/kept.h"
#include "ops/matmul/half.h"
#include "ops/reduce/reduce.h"
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

// Integers are pooled as float64; floats as they are.
DType work_type(DType t) { return is_float(t) ? t : DType::Float64; }

template <class F>
void for_planes(const Planes& p, const F& f) {
  parallel_work(p.count, p.h * p.w, 16384, [&](int64_t i0, int64_t i1) {
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

// Planes of `size` elements in the compute type: the memory itself, or 16-bit floats through a buffer.
template <class T>
class PlanePieces {
 public:
  struct Plane {
    Tensor buffer;
    T* data;
  };
  PlanePieces(const Tensor& x, int64_t size) : all_(x), size_(size) {}
  Plane read(int64_t i) const {
    Tensor buffer = all_.buffer(size_);
    T* data = const_cast<T*>(all_.read(i * size_, size_, buffer));
    return {std::move(buffer), data};
  }
  Plane place(int64_t i) const {
    Tensor buffer = all_.buffer(size_);
    T* data = all_.place(i * size_, buffer);
    return {std::move(buffer), data};
  }
  void write(int64_t i, const Plane& plane) const { all_.write(i * size_, size_, plane.buffer); }

 private:
  Pieces<T> all_;
  int64_t size_;
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

// Without indices where those are not defined.
void max_pool(const Tensor& x, const PoolAxis& h, const PoolAxis& w, const Tensor& y, const Tensor& indices) {
  const Planes p = planes_of(x.sizes());
  const int64_t size = h.out * w.out, c = x.size(1);
  if (deferred(x) && p.h * p.w < (int64_t(1) << 31)) {
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    const Tensor at = indices.defined() ? ChannelRows::fresh(indices).matrix() : Tensor();
    const WorkOutput out(to.matrix());
    const Tensor in = converted(from.matrix(), out.work.dtype());
    return visit_memory(in.dtype(), [&](auto element) {
      using S = decltype(element);
      for_strips(x.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK_MEMORY(max_pool_strip)(in.data<S>() + n * p.h * p.w * c + k, c, width, out.work.data<S>() + n * size * c + k,
                                       at.defined() ? at.data<int64_t>() + n * size * c + k : nullptr, h, w);
      });
    });
  }
  const WorkOutput out(y);
  const Tensor in = converted(x, out.work.dtype());
  int64_t* index = indices.defined() ? indices.data<int64_t>() : nullptr;
  visit_float(compute_float(in), [&](auto zero) {
    using T = decltype(zero);
    const PlanePieces<T> from(in, p.h * p.w), to(out.work, size);
    // Without places the planes of one axis are rows of one plane, or where their windows fill them, one long row.
    if (p.h == 1 && h.out == 1 && h.first == 0 && !index && in.dtype() == dtype_of<T>) {
      const bool filled = w.first == 0 && w.in == w.out * w.stride && w.dilation * (w.taps - 1) < w.stride;
      const T* x = in.data<T>();
      T* y = out.work.data<T>();
      return parallel_work(p.count, p.w, 16384, [&](int64_t i0, int64_t i1) {
        const int64_t n = filled ? 1 : i1 - i0, m = filled ? i1 - i0 : 1;
        FL_PICK(max_pool_plane)(x + i0 * w.in, y + i0 * w.out, nullptr, {n, n, 0, 1, 1, 1}, {m * w.in, m * w.out, w.first, w.stride, w.taps, w.dilation});
      });
    }
    for_planes(p, [&](int64_t i) {
      const auto plane = to.place(i);
      FL_PICK(max_pool_plane)(from.read(i).data, plane.data, index ? index + i * size : nullptr, h, w);
      to.write(i, plane);
    });
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

// Of nothing where there are no planes, however large those would be.
struct Windows {
  std::vector<PoolWindow> h, w;
};
bool no_planes(IntList in) { return in[0] == 0 || in[1] == 0; }
Windows average_windows(IntList in, IntList out, IntList kernel, IntList stride, IntList padding, bool include_pad) {
  if (no_planes(in)) return {};
  const int spatial = static_cast<int>(in.size()) - 2;
  const auto axis = [&](int d, int64_t n, int64_t m) {
    const int64_t k = given(kernel, spatial, d, 1);
    return windows(n, m, k, given(stride, spatial, d, k), given(padding, spatial, d, 0), include_pad);
  };
  return {spatial == 1 ? windows(1, 1, 1, 1, 0, true) : axis(0, in[2], out[2]), axis(spatial - 1, in.back(), out.back())};
}
Windows adaptive(IntList in, IntList out) {
  if (no_planes(in)) return {};
  return {in.size() == 3 ? adaptive_windows(1, 1) : adaptive_windows(in[2], out[2]), adaptive_windows(in.back(), out.back())};
}

void mean(const Tensor& x, const Windows& win, double divisor, const Tensor& y) {
  const Planes p = planes_of(x.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size()), c = x.size(1);
  if (deferred(x)) {
    const ChannelRows from(x), to = ChannelRows::fresh(y);
    return visit_memory(x.dtype(), [&](auto element) {
      using S = decltype(element);
      for_strips(x.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK_MEMORY(mean_pool_strip)(from.matrix().data<S>() + n * p.h * p.w * c + k, c, width, p.w, to.matrix().data<S>() + n * oh * ow * c + k,
                                        win.h.data(), oh, win.w.data(), ow, divisor);
      });
    });
  }
  visit_float(compute_float(x), [&](auto zero) {
    using T = decltype(zero);
    const PlanePieces<T> from(x, p.h * p.w), to(y, oh * ow);
    for_planes(p, [&](int64_t i) {
      const auto plane = to.place(i);
      FL_PICK(mean_pool_plane)(from.read(i).data, p.w, plane.data, win.h.data(), oh, win.w.data(), ow, divisor);
      to.write(i, plane);
    });
  });
}

void spread(const Tensor& dy, const Windows& win, double divisor, const Tensor& dx) {
  const Planes p = planes_of(dx.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size()), c = dx.size(1);
  // A gradient of [N, C, 1, 1] says nothing of the layout; what is pooled globally comes from convolutions.
  if (deferred(dy) || (oh * ow == 1 && layout_mode() == LayoutMode::Deferred && may_defer(dx.sizes()) && c >= 16)) {
    const ChannelRows from(dy), to = ChannelRows::fresh(dx);
    return visit_memory(dy.dtype(), [&](auto element) {
      using S = decltype(element);
      for_strips(dx.size(0), c, [&](int64_t n, int64_t k, int64_t width) {
        FL_PICK_MEMORY(mean_spread_strip)(from.matrix().data<S>() + n * oh * ow * c + k, c, width, p.h, p.w,
                                          to.matrix().data<S>() + n * p.h * p.w * c + k, win.h.data(), oh, win.w.data(), ow, divisor);
      });
    });
  }
  visit_float(compute_float(dy), [&](auto zero) {
    using T = decltype(zero);
    const PlanePieces<T> from(dy, oh * ow), to(dx, p.h * p.w);
    for_planes(p, [&](int64_t i) {
      const auto plane = to.place(i);
      std::fill_n(plane.data, p.h * p.w, T(0));
      FL_PICK(mean_pool_spread)(from.read(i).data, p.w, plane.data, win.h.data(), oh, win.w.data(), ow, divisor);
      to.write(i, plane);
    });
  });
}

}  // namespace

void max_pool_with_indices(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, bool, const Tensor& y,
                           const Tensor& indices) {
  max_pool_general(x, kernel, stride, padding, dilation, y, indices);
}

void max_pool_values(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, bool, const Tensor& y) {
  max_pool_general(x, kernel, stride, padding, dilation, y, {});
}

// Adds each element of dy at its index in the plane.
void plane_scatter(const Tensor& dy, const Tensor& indices, IntList shape, const Tensor& dx) {
  const Planes p = planes_of(shape);
  const int64_t plane = p.h * p.w;
  if (deferred(dy) || deferred(indices)) {
    const ChannelRows from(dy), at(indices), to = ChannelRows::fresh(dx);
    require_kept("max_pool", at.matrix(), plane);
    const WorkOutput out(to.matrix());
    const Tensor in = converted(from.matrix(), out.work.dtype());
    const int64_t c = shape[1], size = dy.numel() / (shape[0] * c);
    return visit_memory(in.dtype(), [&](auto element) {
      using S = decltype(element);
      using T = Computed<S>;
      for_strips(shape[0], c, [&](int64_t n, int64_t k, int64_t width) {
        S* y = out.work.data<S>() + n * plane * c + k;
        const S* x = in.data<S>() + n * size * c + k;
        const int64_t* index = at.matrix().data<int64_t>() + n * size * c + k;
        const auto add = [&](T* sums, int64_t ld) {
          for (int64_t j = 0; j < plane; ++j) std::fill_n(sums + j * ld, width, T(0));
          for (int64_t j = 0; j < size; ++j)
            for (int64_t i = 0; i < width; ++i) sums[index[j * c + i] * ld + i] += x[j * c + i];
        };
        if constexpr (std::is_same_v<S, T>) {
          add(y, c);
        } else {  // an element may get several: they are added in float32
          const Tensor sums = empty(Dims{plane, width}, dtype_of<T>);
          add(sums.data<T>(), width);
          for (int64_t j = 0; j < plane; ++j) convert_elements(y + j * c, dtype_of<S>, sums.data<T>() + j * width, dtype_of<T>, width);
        }
      });
    });
  }
  const WorkOutput out(dx);
  const Tensor in = converted(dy, out.work.dtype());
  const int64_t size = p.count ? dy.numel() / p.count : 0;
  require_kept("max_pool", indices, plane);
  const int64_t* index = indices.data<int64_t>();
  visit_float(compute_float(in), [&](auto zero) {
    using T = decltype(zero);
    const PlanePieces<T> from(in, size), to(out.work, plane);
    for_planes(p, [&](int64_t i) {
      const auto x = from.read(i), y = to.place(i);
      std::fill_n(y.data, plane, T(0));
      for (int64_t j = 0; j < size; ++j) y.data[index[i * size + j]] += x.data[j];
      to.write(i, y);
    });
  });
}

// The adjoint: the elements of x at the indices.
void plane_gather(const Tensor& x, const Tensor& indices, const Tensor& y) {
  const Planes p = planes_of(x.sizes());
  const int64_t size = p.count ? y.numel() / p.count : 0;
  require_kept("max_pool", indices, p.h * p.w);
  const int64_t* index = indices.data<int64_t>();
  by_size(x.item_bytes(), [&](auto unit) {
    using U = decltype(unit);
    const U* all = static_cast<const U*>(x.data());
    U* to = static_cast<U*>(y.data());
    for_planes(p, [&](int64_t i) {
      const U* from = all + i * p.h * p.w;
      for (int64_t j = 0; j < size; ++j) to[i * size + j] = from[index[i * size + j]];
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

void adaptive_avg_pool(const Tensor& x, IntList, const Tensor& y) {
  const Planes p = planes_of(x.sizes());
  if (y.numel() != p.count || deferred(x)) return mean(x, adaptive(x.sizes(), y.sizes()), 0, y);
  // Of whole planes, which are rows.
  const Tensor rows = alias(x, Dims{p.count, p.h * p.w}, Dims{p.h * p.w, 1}, x.offset());
  const int64_t along[] = {1};
  const double n = static_cast<double>(p.h * p.w);
  reduce({.fold = Fold::Sum, .finish = Finish::Divide, .q = n}, compute_float(x), rows, IntList(along), y);
}
void adaptive_avg_pool_backward(const Tensor& dy, IntList shape, IntList, const Tensor& dx) { spread(dy, adaptive(shape, dy.sizes()), 0, dx); }

void adaptive_max_pool(const Tensor& x, IntList, const Tensor& y, const Tensor& indices) {
  const Windows win = adaptive(x.sizes(), y.sizes());
  const WorkOutput out(y);
  const Tensor in = converted(x, out.work.dtype());
  const Planes p = planes_of(x.sizes());
  const int64_t oh = static_cast<int64_t>(win.h.size()), ow = static_cast<int64_t>(win.w.size());
  visit_float(compute_float(in), [&](auto zero) {
    using T = decltype(zero);
    const PlanePieces<T> all(in, p.h * p.w), to(out.work, oh * ow);
    for_planes(p, [&](int64_t i) {
      const auto x = all.read(i), y = to.place(i);
      const T* from = x.data;
      for (int64_t a = 0; a < oh; ++a)
        for (int64_t b = 0; b < ow; ++b) {
          int64_t best = win.h[a].begin * p.w + win.w[b].begin;
          for (int64_t r = win.h[a].begin; r < win.h[a].end; ++r)
            for (int64_t c = win.w[b].begin; c < win.w[b].end; ++c) {
              const T v = from[r * p.w + c];
              if (v > from[best] || v != v) best = r * p.w + c;
            }
          y.data[a * ow + b] = from[best];
          indices.data<int64_t>()[(i * oh + a) * ow + b] = best;
        }
      to.write(i, y);
    });
  });
}

}  // namespace fl::kernels
