// Pictures at places between their elements. A place is a sum of taps (an element, its weight, and how the weight moves
// with each coordinate), which are the same for all channels. Second derivatives need how weights bend, too.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "ops/vision/places.h"

namespace fl::kernels {
namespace {

using namespace places;

constexpr int kTaps = 16;

// What is known of the weights.
enum class Order { Values, Slopes, Bends };

template <class T>
struct Taps {
  int count = 0;
  std::array<int64_t, kTaps> index;
  std::array<T, kTaps> weight;
  std::array<std::array<T, 3>, kTaps> slope;  // by the grid's coordinates, of the last axis first
  std::array<std::array<std::array<T, 3>, 3>, kTaps> bend;  // second derivatives, if they are wanted
};

// Weights of one axis: which elements, and how weights move.
template <class T>
struct Axis {
  int count = 0;
  std::array<int64_t, 4> index;
  std::array<T, 4> weight, slope, bend;
};

template <class T>
void add(Axis<T>& axis, int64_t index, T weight, T slope, T bend) {
  axis.index[axis.count] = index;
  axis.weight[axis.count] = weight;
  axis.bend[axis.count] = bend;
  axis.slope[axis.count++] = slope;
}

// Cubic convolution (Keys 1981) with a = -0.75: of four neighbours, and the derivatives.
template <class T>
void cubic(T t, T (&w)[4], T (&d)[4], T (&b)[4]) {
  const T a = T(-0.75);
  const T far = t + 1, near = t, near2 = 1 - t, far2 = 2 - t;
  w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  w[1] = ((a + 2) * near - (a + 3)) * near * near + 1;
  w[2] = ((a + 2) * near2 - (a + 3)) * near2 * near2 + 1;
  w[3] = ((a * far2 - 5 * a) * far2 + 8 * a) * far2 - 4 * a;
  d[0] = (3 * a * far - 10 * a) * far + 8 * a;
  d[1] = (3 * (a + 2) * near - 2 * (a + 3)) * near;
  d[2] = -(3 * (a + 2) * near2 - 2 * (a + 3)) * near2;
  d[3] = -((3 * a * far2 - 10 * a) * far2 + 8 * a);
  b[0] = 6 * a * far - 10 * a;
  b[1] = 6 * (a + 2) * near - 2 * (a + 3);
  b[2] = 6 * (a + 2) * near2 - 2 * (a + 3);
  b[3] = 6 * a * far2 - 10 * a;
}

// Of places near elements: std::floor and std::nearbyint are calls where the instruction set has nothing for them.
template <class T>
T floor_of(T v) {
  const T whole = static_cast<T>(static_cast<int64_t>(v));
  return whole - static_cast<T>(whole > v);  // without a jump that would go either way
}
template <class T>
T nearest_to(T v) {  // ties to even, as sums of doubles are rounded
  constexpr double kNoFraction = 0x1.8p52;
  return static_cast<T>((static_cast<double>(v) + kNoFraction) - kNoFraction);
}

// Into `out`, as below: to return so much by value is to copy it.
template <class T>
void axis_taps(T v, int64_t size, Mode mode, Padding padding, bool align, Axis<T>& out) {
  out.count = 0;
  const auto put = [&](T index, T weight, T slope, T bend = 0) {
    if (index >= 0 && index <= static_cast<T>(size - 1)) add(out, static_cast<int64_t>(index), weight, slope, bend);
  };
  Moved<T> x = element_of(v, size, padding, align);
  if (mode == Mode::Cubic) {  // the neighbours are padded, not the place
    T w[4], d[4], b[4];
    const T low = floor_of(x.at);
    cubic(x.at - low, w, d, b);
    for (int k = 0; k < 4; ++k) put(inside(Moved<T>{low + static_cast<T>(k - 1), 0}, size, padding, align).at, w[k], d[k] * x.slope, b[k] * x.slope * x.slope);
    return;
  }
  x = inside(x, size, padding, align);
  if (mode == Mode::Nearest) {
    put(nearest_to(x.at), 1, 0);
    return;
  }
  const T low = floor_of(x.at), t = x.at - low;
  put(low, 1 - t, -x.slope);
  put(low + 1, t, x.slope);
}

// The taps of a place in a volume all of whose eight neighbours, or whose nearest element, are there, or none: most places. In the order and with the roundings of
// `taps_at`.
template <Order order, class T>
bool taps_within(const T* place, const Tensor& x, bool nearest, Padding padding, bool align, Taps<T>& taps) {
  T weight[3][2], slope[3];
  int64_t at = 0, step[3], stride = 1;
  const int64_t* sizes = x.sizes().data() + 4;
  for (int d = 0; d < 3; ++d) {
    const int64_t size = sizes[-d];
    const Moved<T> v = inside(element_of(place[d], size, padding, align), size, padding, align);
    const T low = nearest ? nearest_to(v.at) : floor_of(v.at), t = v.at - low;
    const T last = static_cast<T>(size - 1);
    if (low < (nearest ? T(0) : T(-1)) || low > last) return taps.count = 0, true;  // nothing is there
    if (!(low >= 0 && (nearest || low < last))) return false;
    weight[d][0] = 1 - t, weight[d][1] = t, slope[d] = v.slope;
    at += static_cast<int64_t>(low) * stride;
    step[d] = stride;
    stride *= size;
  }
  if (nearest) {
    taps.count = 1;
    taps.index[0] = at, taps.weight[0] = 1, taps.slope[0] = {};
    return true;
  }
  taps.count = 8;
  for (int n = 0; n < 8; ++n) {
    const int i = n & 1, j = n >> 1 & 1, k = n >> 2;
    taps.index[n] = at + (i ? step[0] : 0) + (j ? step[1] : 0) + (k ? step[2] : 0);
    const T a = weight[0][i], b = weight[1][j], c = weight[2][k];
    taps.weight[n] = a * b * c;
    if (order == Order::Slopes) taps.slope[n] = {(i ? slope[0] : -slope[0]) * b * c, a * (j ? slope[1] : -slope[1]) * c, a * b * (k ? slope[2] : -slope[2])};
  }
  return true;
}

template <Order order, class T>
void taps_at(const T* place, const Tensor& x, Mode mode, Padding padding, bool align, Taps<T>& taps) {
  const int axes = x.ndim() - 2;
  if (order != Order::Bends && axes == 3 && mode != Mode::Cubic && taps_within<order>(place, x, mode == Mode::Nearest, padding, align, taps)) return;
  std::array<Axis<T>, 3> of;
  for (int d = 0; d < axes; ++d) axis_taps(place[d], x.size(-1 - d), mode, padding, align, of[d]);
  if (axes == 2) of[2].count = 1, of[2].index[0] = 0, of[2].weight[0] = 1, of[2].slope[0] = of[2].bend[0] = 0;
  const int64_t w = x.size(-1), h = x.size(-2);
  taps.count = 0;
  for (int k = 0; k < of[2].count; ++k)
    for (int j = 0; j < of[1].count; ++j)
      for (int i = 0; i < of[0].count; ++i) {
        const int n = taps.count++;
        taps.index[n] = (of[2].index[k] * h + of[1].index[j]) * w + of[0].index[i];
        const T a = of[0].weight[i], b = of[1].weight[j], c = of[2].weight[k];
        taps.weight[n] = a * b * c;
        if (order == Order::Values) continue;
        const T da = of[0].slope[i], db = of[1].slope[j], dc = of[2].slope[k];
        taps.slope[n] = {da * b * c, a * db * c, a * b * dc};
        if (order == Order::Slopes) continue;
        const T ab = da * db * c, ac = da * b * dc, bc = a * db * dc;
        taps.bend[n] = {{{of[0].bend[i] * b * c, ab, ac}, {ab, a * of[1].bend[j] * c, bc}, {ac, bc, a * b * of[2].bend[k]}}};
      }
}

int64_t plane_of(const Tensor& x) {
  int64_t n = 1;
  for (int d = 2; d < x.ndim(); ++d) n *= x.size(d);
  return n;
}

// Whether a place without a number has no value: its weights have none.
bool loses(Mode mode, Padding padding) { return mode == Mode::Cubic || (mode == Mode::Linear && padding == Padding::Zeros); }
// Gives the places [begin, end) of picture n whose coordinates are infinite or NaN the value NaN in all channels of y.
template <class T>
void lose(const T* grid, int axes, int64_t begin, int64_t end, T* y, int64_t channels, int64_t points) {
  T sum = 0;
  for (int64_t i = begin * axes; i < end * axes; ++i) sum += grid[i] * 0;
  if (sum == 0) return;
  for (int64_t p = begin; p < end; ++p) {
    bool counts = true;
    for (int d = 0; d < axes; ++d) counts = counts && std::isfinite(grid[p * axes + d]);
    for (int64_t k = 0; k < channels && !counts; ++k) y[k * points + p] = std::numeric_limits<T>::quiet_NaN();
  }
}

// Pictures, at places that fall on one element or between four, have loops of their own.
bool is_picture(const Tensor& x, Mode mode) { return x.ndim() == 4 && mode != Mode::Cubic && plane_of(x) < INT32_MAX; }
Places places_of(const Tensor& x, const Tensor& y, Mode mode, Padding padding, bool align) {
  return {x.size(1), x.size(2), x.size(3), plane_of(y), mode == Mode::Nearest, padding, align};
}
template <class T>
void pictures(const Tensor& x, const Tensor& grid, Mode mode, Padding padding, bool align, const Tensor& y) {
  const Places p = places_of(x, y, mode, padding, align);
  const auto sample = [] {
    if constexpr (std::is_same_v<T, float>) return sample_places_f32;
    else return sample_places_f64;
  }();
  const int64_t blocks = (p.points + kPlaces - 1) / kPlaces;
  parallel_work(x.size(0) * blocks, std::min<int64_t>(kPlaces, p.points) * std::max<int64_t>(1, p.channels), 2048,
               [&](int64_t first, int64_t last) {
                 sample(x.data<T>(), grid.data<T>(), y.data<T>(), p, first, last);
                 for (int64_t b = first; b < last && loses(mode, padding); ++b) {
                   const int64_t n = b / blocks, begin = b % blocks * kPlaces;
                   lose(grid.data<T>() + n * p.points * 2, 2, begin, std::min(begin + kPlaces, p.points), y.data<T>() + n * p.channels * p.points, p.channels, p.points);
                 }
               });
}

}  // namespace

void grid_sample(const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding, bool align, const Tensor& y) {
  const Tensor in = widened(x), places = widened(grid);
  const WideOutput out(y);
  const int axes = x.ndim() - 2;
  const int64_t c = x.size(1), plane = plane_of(x), points = plane_of(y);
  visit_float(in.dtype(), [&]<class T>(T) {
    if (is_picture(x, static_cast<Mode>(mode)))
      return pictures<T>(in, places, static_cast<Mode>(mode), static_cast<Padding>(padding), align, out.wide);
    parallel_work(x.size(0) * points, c, 2048, [&](int64_t begin, int64_t end) {
      Taps<T> taps;
      int64_t n = begin / points, past = (n + 1) * points;  // the picture, and where it ends
      for (int64_t p = begin; p < end; ++p) {
        if (p == past) n += 1, past += points;
        taps_at<Order::Values>(places.data<T>() + p * axes, in, static_cast<Mode>(mode), static_cast<Padding>(padding), align, taps);
        const int64_t point = p - (past - points);
        const T* from = in.data<T>() + n * c * plane;
        T* to = out.wide.data<T>() + n * c * points + point;
        const auto sums = [&](int count) __attribute__((always_inline)) {
          for (int64_t k = 0; k < c; ++k) {
            T sum = 0;
            for (int i = 0; i < count; ++i) sum += taps.weight[i] * from[k * plane + taps.index[i]];
            to[k * points] = sum;
          }
        };
        if (taps.count == 8) sums(8);  // known to the compiler
        else sums(taps.count);
        if (loses(static_cast<Mode>(mode), static_cast<Padding>(padding)))
          lose(places.data<T>() + n * points * axes, axes, point, point + 1, out.wide.data<T>() + n * c * points, c, points);
      }
    });
  });
}

void grid_sample_backward(const Tensor& dy, const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding, bool align, const Tensor& dx,
                          const Tensor& dgrid) {
  const Tensor in = widened(x), places = widened(grid), grads = widened(dy);
  const WideOutput out_x(dx), out_grid(dgrid);
  const int axes = x.ndim() - 2;
  const int64_t c = x.size(1), plane = plane_of(x), points = plane_of(dy);
  visit_float(in.dtype(), [&]<class T>(T) {
    parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {  // pictures: the places of one add up in order
      Taps<T> taps;
      for (int64_t n = begin; n < end; ++n) {
        const T* from = in.data<T>() + n * c * plane;
        T* to = out_x.wide.data<T>() + n * c * plane;
        std::fill_n(to, c * plane, T(0));
        if (is_picture(x, static_cast<Mode>(mode))) {
          const Places all = places_of(x, dy, static_cast<Mode>(mode), static_cast<Padding>(padding), align);
          if constexpr (std::is_same_v<T, float>) spread_places_f32(grads.data<T>(), in.data<T>(), places.data<T>(), out_x.wide.data<T>(), out_grid.wide.data<T>(), all, n);
          else spread_places_f64(grads.data<T>(), in.data<T>(), places.data<T>(), out_x.wide.data<T>(), out_grid.wide.data<T>(), all, n);
          continue;
        }
        for (int64_t p = 0; p < points; ++p) {
          const int64_t at = (n * points + p) * axes;
          taps_at<Order::Slopes>(places.data<T>() + at, in, static_cast<Mode>(mode), static_cast<Padding>(padding), align, taps);
          const T* dys = grads.data<T>() + n * c * points + p;
          std::array<T, 3> slope{};
          for (int64_t k = 0; k < c; ++k) {
            const T g = dys[k * points];
            for (int i = 0; i < taps.count; ++i) {
              to[k * plane + taps.index[i]] += taps.weight[i] * g;
              const T v = g * from[k * plane + taps.index[i]];
              for (int d = 0; d < axes; ++d) slope[d] += v * taps.slope[i][d];
            }
          }
          for (int d = 0; d < axes; ++d) out_grid.wide.data<T>()[at + d] = slope[d];
        }
      }
    });
  });
}

// Of a loss by (dx, dgrid) with gradients (gx, ggrid): sums over taps i of w_i dy (to x at i) and of dy x_i dw_i (to the grid), turned round.
void grid_sample_double_backward(const Tensor& gx, const Tensor& ggrid, const Tensor& dy, const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding,
                                 bool align, const Tensor& ddy, const Tensor& dx, const Tensor& dgrid) {
  const Tensor in = widened(x), places = widened(grid), grads = widened(dy), by_x = widened(gx), by_grid = widened(ggrid);
  const WideOutput out_y(ddy), out_x(dx), out_grid(dgrid);
  const int axes = x.ndim() - 2;
  const int64_t c = x.size(1), plane = plane_of(x), points = plane_of(dy);
  visit_float(in.dtype(), [&]<class T>(T) {
    parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {  // pictures, as in the gradient
      Taps<T> taps;
      for (int64_t n = begin; n < end; ++n) {
        const T *from = in.data<T>() + n * c * plane, *moved = by_x.data<T>() + n * c * plane;
        T* to = out_x.wide.data<T>() + n * c * plane;
        std::fill_n(to, c * plane, T(0));
        for (int64_t p = 0; p < points; ++p) {
          const int64_t at = (n * points + p) * axes;
          taps_at<Order::Bends>(places.data<T>() + at, in, static_cast<Mode>(mode), static_cast<Padding>(padding), align, taps);
          const T* along = by_grid.data<T>() + at;
          std::array<T, kTaps> change;  // of each weight, along the gradient by the grid
          std::array<std::array<T, 3>, kTaps> change_slope;
          for (int i = 0; i < taps.count; ++i) {
            change[i] = 0, change_slope[i] = {};
            for (int d = 0; d < axes; ++d) {
              change[i] += along[d] * taps.slope[i][d];
              for (int e = 0; e < axes; ++e) change_slope[i][e] += along[d] * taps.bend[i][d][e];
            }
          }
          const T* dys = grads.data<T>() + n * c * points + p;
          T* ddys = out_y.wide.data<T>() + n * c * points + p;
          std::array<T, 3> slope{};
          for (int64_t k = 0; k < c; ++k) {
            const T g = dys[k * points];
            T sum = 0;
            for (int i = 0; i < taps.count; ++i) {
              const int64_t here = k * plane + taps.index[i];
              sum += moved[here] * taps.weight[i] + from[here] * change[i];
              to[here] += g * change[i];
              for (int d = 0; d < axes; ++d) slope[d] += g * (moved[here] * taps.slope[i][d] + from[here] * change_slope[i][d]);
            }
            ddys[k * points] = sum;
          }
          for (int d = 0; d < axes; ++d) out_grid.wide.data<T>()[at + d] = slope[d];
        }
      }
    });
  });
}

}  // namespace fl::kernels
