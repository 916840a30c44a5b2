#include "ops/pool/pool.h"

#include <algorithm>
#include <limits>

#include "base/element.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kStrip = 64;

// Outputs o of an axis whose tap t lies inside [0, in): a range.
inline void inside(const PoolAxis& a, int64_t t, int64_t o0, int64_t o1, int64_t& lo, int64_t& hi) {
  const int64_t at = a.first + t * a.dilation;  // position for o = 0
  lo = at >= 0 ? 0 : (-at + a.stride - 1) / a.stride;
  hi = at >= a.in ? 0 : (a.in - 1 - at) / a.stride + 1;
  lo = lo < o0 ? o0 : lo;
  hi = hi > o1 ? o1 : hi;
}

// The first position that output o looks at: the place of a maximum of nothing but -inf, or of nothing (a dilated window
// may step over an axis).
inline int64_t first_inside(const PoolAxis& a, int64_t o) {
  int64_t at = a.first + o * a.stride;
  while (at < 0) at += a.dilation;
  return at < a.in ? at : a.in - 1;
}

// kPlaces: with the position of the maximum, or its value alone.
template <bool kPlaces, class T, class I, int kStride>
inline __attribute__((always_inline)) void take_max(const T* from, int64_t stride, I start, int64_t n, T* best, I* index) {
  const int64_t s = kStride ? kStride : stride;
  const I step = static_cast<I>(s);
  if constexpr (!kPlaces) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T v = from[j * s], b = best[j];
      best[j] = (v > b) | (v != v) ? v : b;
    }
    return;
  }
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T v = from[j * s], b = best[j];
    const bool take = (v > b) | (v != v);
    best[j] = take ? v : b;
    index[j] = take ? start + static_cast<I>(j) * step : index[j];
  }
}

// Window by window, for rows that are too short for a loop over them.
template <class T>
void max_windows(const T* x, T* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {
  for (int64_t oh = 0; oh < h.out; ++oh)
    for (int64_t ow = 0; ow < w.out; ++ow) {
      T best = -std::numeric_limits<T>::infinity();
      int64_t where = first_inside(h, oh) * w.in + first_inside(w, ow);
      for (int64_t a = 0; a < h.taps; ++a) {
        const int64_t ih = h.first + oh * h.stride + a * h.dilation;
        if (ih < 0 || ih >= h.in) continue;
        for (int64_t b = 0; b < w.taps; ++b) {
          const int64_t iw = w.first + ow * w.stride + b * w.dilation;
          if (iw < 0 || iw >= w.in) continue;
          const T v = x[ih * w.in + iw];
          const bool take = (v > best) | (v != v);
          best = take ? v : best;
          where = take ? ih * w.in + iw : where;
        }
      }
      y[oh * w.out + ow] = best;
      if (index) index[oh * w.out + ow] = where;
    }
}

template <bool kPlaces, class T, class I>
void max_plane(const T* x, T* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {
  if (w.out < 8) return max_windows(x, y, index, h, w);
  constexpr int64_t kTaps = 16;
  T best[kStrip];
  I where[kStrip];
  int64_t los[kTaps], his[kTaps];
  for (int64_t o0 = 0; o0 < w.out; o0 += kStrip) {
    const int64_t o1 = o0 + kStrip < w.out ? o0 + kStrip : w.out;
    for (int64_t b = 0; b < w.taps && b < kTaps; ++b) inside(w, b, o0, o1, los[b], his[b]);  // they divide: once for all rows
    for (int64_t oh = 0; oh < h.out; ++oh) {
      for (int64_t o = 0; o < o1 - o0; ++o) best[o] = -std::numeric_limits<T>::infinity();
      if constexpr (kPlaces) {
        const int64_t first_h = first_inside(h, oh);
        for (int64_t o = o0; o < o1; ++o) where[o - o0] = static_cast<I>(first_h * w.in + first_inside(w, o));
      }
      for (int64_t a = 0; a < h.taps; ++a) {
        const int64_t ih = h.first + oh * h.stride + a * h.dilation;
        if (ih < 0 || ih >= h.in) continue;
        for (int64_t b = 0; b < w.taps; ++b) {
          int64_t lo, hi;
          if (b < kTaps) lo = los[b], hi = his[b];
          else inside(w, b, o0, o1, lo, hi);
          if (lo >= hi) continue;
          const int64_t at = ih * w.in + w.first + b * w.dilation + lo * w.stride;
          if (w.stride == 2) take_max<kPlaces, T, I, 2>(x + at, 2, static_cast<I>(at), hi - lo, best + lo - o0, where + lo - o0);
          else if (w.stride == 1) take_max<kPlaces, T, I, 1>(x + at, 1, static_cast<I>(at), hi - lo, best + lo - o0, where + lo - o0);
          else take_max<kPlaces, T, I, 0>(x + at, w.stride, static_cast<I>(at), hi - lo, best + lo - o0, where + lo - o0);
        }
      }
      for (int64_t o = o0; o < o1; ++o) {
        y[oh * w.out + o] = best[o - o0];
        if constexpr (kPlaces) index[oh * w.out + o] = where[o - o0];
      }
    }
  }
}

// Whether the windows of an axis are its elements, as in the pooling of another axis.
inline bool single(const PoolWindow* w, int64_t n, int64_t width) {
  bool all = n == width;
  for (int64_t j = 0; j < n && all; ++j) all = w[j].begin == j && w[j].end == j + 1 && w[j].length == 1;
  return all;
}

// Whether they are of two elements, side by side.
inline bool in_pairs(const PoolWindow* w, int64_t n) {
  bool all = n > 0;
  for (int64_t j = 0; j < n && all; ++j) all = w[j].begin == 2 * j && w[j].end == 2 * j + 2 && w[j].length == w[0].length;
  return all;
}

// The longest run of equal windows [first, last) each of which begins one behind the one before it, as those of stride 1 do between the borders.
struct Sliding {
  int64_t first = 0, last = 0, elements = 0;
  Sliding(const PoolWindow* w, int64_t n) {
    for (int64_t j = 0, k; j < n; j = k) {
      for (k = j + 1; k < n && w[k].begin == w[j].begin + k - j && w[k].end == w[j].end + k - j && w[k].length == w[j].length; ++k) {}
      if (k - j > last - first) first = j, last = k;
    }
    elements = n > 0 ? w[first].end - w[first].begin : 0;
    if (last - first < 8 || elements == 0) first = last = 0;
  }
};

// Sums down the rows of a window first, over the whole width at once, where that has room; then along them.
template <class T>
void mean_plane(const T* x, int64_t width, T* y, const PoolWindow* h, int64_t oh, const PoolWindow* w, int64_t ow, double divisor) {
  constexpr int64_t kColumns = 1024;
  alignas(64) T columns[kColumns];
  const auto sum = [](const T* v, int64_t n) {
    T total = 0;
    if (n >= 8) {
#pragma omp simd reduction(+ : total)
      for (int64_t b = 0; b < n; ++b) total += v[b];
    } else {
      for (int64_t b = 0; b < n; ++b) total += v[b];
    }
    return total;
  };
  if (single(w, ow, width)) {
    for (int64_t i = 0; i < oh; ++i) {
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length));
      for (int64_t j0 = 0; j0 < width; j0 += kColumns) {
        const int64_t n = std::min(kColumns, width - j0);
        std::fill_n(columns, n, T(0));
        for (int64_t a = h[i].begin; a < h[i].end; ++a) {
          const T* row = x + a * width + j0;
#pragma omp simd
          for (int64_t b = 0; b < n; ++b) columns[b] += row[b];
        }
#pragma omp simd
        for (int64_t b = 0; b < n; ++b) y[i * width + j0 + b] = columns[b] / d;
      }
    }
    return;
  }
  const bool pairs = in_pairs(w, ow);
  const Sliding sliding = width <= kColumns ? Sliding(w, ow) : Sliding(w, 0);
  for (int64_t i = 0; i < oh; ++i) {
    if (pairs && h[i].end - h[i].begin == 2) {
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[0].length));
      const T *upper = x + h[i].begin * width, *lower = upper + width;
      T* to = y + i * ow;
#pragma omp simd
      for (int64_t j = 0; j < ow; ++j) to[j] = ((upper[2 * j] + lower[2 * j]) + (upper[2 * j + 1] + lower[2 * j + 1])) / d;
      continue;
    }
    if (width <= kColumns) {
      std::fill_n(columns, width, T(0));
      for (int64_t a = h[i].begin; a < h[i].end; ++a) {
        const T* row = x + a * width;
#pragma omp simd
        for (int64_t b = 0; b < width; ++b) columns[b] += row[b];
      }
    }
    if (sliding.last) {  // neighbours side by side
      T* const to = y + i * ow + sliding.first;
      const T* const from = columns + w[sliding.first].begin;
      const int64_t m = sliding.last - sliding.first;
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[sliding.first].length));
      T sums[kColumns];
      std::fill_n(sums, m, T(0));
      for (int64_t t = 0; t < sliding.elements; ++t) {
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) sums[j] += from[t + j];
      }
#pragma omp simd
      for (int64_t j = 0; j < m; ++j) to[j] = sums[j] / d;
    }
    for (int64_t j = 0; j < ow; ++j) {
      if (j == sliding.first) j = sliding.last;
      if (j == ow) break;
      const int64_t from = w[j].begin, n = w[j].end - from;
      T s = 0;
      if (width <= kColumns) s = sum(columns + from, n);
      else
        for (int64_t a = h[i].begin; a < h[i].end; ++a) s += sum(x + a * width + from, n);
      y[i * ow + j] = s / static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[j].length));
    }
  }
}

// A row of dy is spread over the width first, and what comes of it added to the rows of its windows, where that has room.
template <class T>
void spread_plane(const T* dy, int64_t width, T* dx, const PoolWindow* h, int64_t oh, const PoolWindow* w, int64_t ow, double divisor) {
  constexpr int64_t kColumns = 1024;
  alignas(64) T columns[kColumns];
  const auto share = [&](int64_t i, int64_t j) {
    return dy[i * ow + j] / static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[j].length));
  };
  if (single(w, ow, width)) {
    for (int64_t i = 0; i < oh; ++i) {
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length));
      const T* row = dy + i * width;
      for (int64_t a = h[i].begin; a < h[i].end; ++a) {
        T* to = dx + a * width;
#pragma omp simd
        for (int64_t b = 0; b < width; ++b) to[b] += row[b] / d;
      }
    }
    return;
  }
  if (width > kColumns) {
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j) {
        const T g = share(i, j);
        for (int64_t a = h[i].begin; a < h[i].end; ++a)
          for (int64_t b = w[j].begin; b < w[j].end; ++b) dx[a * width + b] += g;
      }
    return;
  }
  const bool pairs = in_pairs(w, ow);
  const Sliding sliding(w, ow);
  for (int64_t i = 0; i < oh; ++i) {
    if (pairs) {
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[0].length));
      const T* row = dy + i * ow;
#pragma omp simd
      for (int64_t j = 0; j < ow; ++j) columns[2 * j] = columns[2 * j + 1] = row[j] / d;
      std::fill_n(columns + 2 * ow, width - 2 * ow, T(0));
    } else {
      std::fill_n(columns, width, T(0));
      if (sliding.last) {
        const T* const row = dy + i * ow + sliding.first;
        T* const to = columns + w[sliding.first].begin;
        const int64_t m = sliding.last - sliding.first;
        const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[sliding.first].length));
        T shares[kColumns];
#pragma omp simd
        for (int64_t j = 0; j < m; ++j) shares[j] = row[j] / d;
        for (int64_t t = 0; t < sliding.elements; ++t) {
#pragma omp simd
          for (int64_t j = 0; j < m; ++j) to[t + j] += shares[j];
        }
      }
      for (int64_t j = 0; j < ow; ++j) {
        if (j == sliding.first) j = sliding.last;
        if (j == ow) break;
        const T g = share(i, j);
        for (int64_t b = w[j].begin; b < w[j].end; ++b) columns[b] += g;
      }
    }
    for (int64_t a = h[i].begin; a < h[i].end; ++a) {
      T* row = dx + a * width;
#pragma omp simd
      for (int64_t b = 0; b < width; ++b) row[b] += columns[b];
    }
  }
}

template <bool kPlaces, class S, class T = Computed<S>>
void max_strip(const S* x, int64_t c, int64_t width, S* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {
  for (int64_t oh = 0; oh < h.out; ++oh)
    for (int64_t ow = 0; ow < w.out; ++ow) {
      T best[kStrip];
      int32_t where[kStrip];
      std::fill_n(best, width, -std::numeric_limits<T>::infinity());
      if constexpr (kPlaces) std::fill_n(where, width, static_cast<int32_t>(first_inside(h, oh) * w.in + first_inside(w, ow)));
      for (int64_t a = 0; a < h.taps; ++a) {
        const int64_t ih = h.first + oh * h.stride + a * h.dilation;
        if (ih < 0 || ih >= h.in) continue;
        for (int64_t b = 0; b < w.taps; ++b) {
          const int64_t iw = w.first + ow * w.stride + b * w.dilation;
          if (iw < 0 || iw >= w.in) continue;
          const int32_t at = static_cast<int32_t>(ih * w.in + iw);
          const S* from = x + at * c;
#pragma omp simd
          for (int64_t j = 0; j < width; ++j) {
            const T v = vm::wide(from[j]);
            const bool take = (v > best[j]) | (v != v);
            best[j] = take ? v : best[j];
            if constexpr (kPlaces) where[j] = take ? at : where[j];
          }
        }
      }
      const int64_t to = (oh * w.out + ow) * c;
      for (int64_t j = 0; j < width; ++j) y[to + j] = vm::narrow<S>(best[j]);
      if constexpr (kPlaces)
        for (int64_t j = 0; j < width; ++j) index[to + j] = where[j];
    }
}

template <class S, class T = Computed<S>>
void mean_strip(const S* x, int64_t c, int64_t width, int64_t in_w, S* y, const PoolWindow* h, int64_t oh, const PoolWindow* w, int64_t ow, double divisor) {
  for (int64_t i = 0; i < oh; ++i)
    for (int64_t j = 0; j < ow; ++j) {
      T sum[kStrip] = {};
      for (int64_t a = h[i].begin; a < h[i].end; ++a)
        for (int64_t b = w[j].begin; b < w[j].end; ++b) {
          const S* from = x + (a * in_w + b) * c;
#pragma omp simd
          for (int64_t k = 0; k < width; ++k) sum[k] += vm::wide(from[k]);
        }
      const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[j].length));
      S* to = y + (i * ow + j) * c;
      for (int64_t k = 0; k < width; ++k) to[k] = vm::narrow<S>(sum[k] / d);
    }
}

// The windows [lo, hi) that hold a position, for positions in ascending order: windows begin and end in order.
struct Covering {
  int64_t lo = 0, hi = 0;
  void advance(const PoolWindow* w, int64_t n, int64_t position) {
    while (lo < n && w[lo].end <= position) ++lo;
    while (hi < n && w[hi].begin <= position) ++hi;
  }
};

template <class S, class T = Computed<S>>
void spread_strip(const S* dy, int64_t c, int64_t width, int64_t in_h, int64_t in_w, S* dx, const PoolWindow* h, int64_t oh, const PoolWindow* w,
                  int64_t ow, double divisor) {
  Covering rows;
  for (int64_t a = 0; a < in_h; ++a) {
    rows.advance(h, oh, a);
    Covering cols;
    for (int64_t b = 0; b < in_w; ++b) {
      cols.advance(w, ow, b);
      T sum[kStrip] = {};
      for (int64_t i = rows.lo; i < rows.hi; ++i)
        for (int64_t j = cols.lo; j < cols.hi; ++j) {
          const T d = static_cast<T>(divisor != 0 ? divisor : static_cast<double>(h[i].length * w[j].length));
          const S* from = dy + (i * ow + j) * c;
#pragma omp simd
          for (int64_t k = 0; k < width; ++k) sum[k] += vm::wide(from[k]) / d;
        }
      S* to = dx + (a * in_w + b) * c;
      for (int64_t k = 0; k < width; ++k) to[k] = vm::narrow<S>(sum[k]);
    }
  }
}

}  // namespace

void max_pool_plane_f32(const float* x, float* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {
  if (!index) max_plane<false, float, int32_t>(x, y, index, h, w);
  else if (h.in * w.in < (int64_t(1) << 30)) max_plane<true, float, int32_t>(x, y, index, h, w);
  else max_plane<true, float, int64_t>(x, y, index, h, w);
}
void max_pool_plane_f64(const double* x, double* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {
  if (!index) max_plane<false, double, int64_t>(x, y, index, h, w);
  else max_plane<true, double, int64_t>(x, y, index, h, w);
}
#define FL_DEFINE(T, suffix)                                                                                                                     \
  void mean_pool_plane_##suffix(const T* x, int64_t width, T* y, const PoolWindow* h, int64_t oh, const PoolWindow* w, int64_t ow, double d) {   \
    mean_plane(x, width, y, h, oh, w, ow, d);                                                                                                    \
  }                                                                                                                                              \
  void mean_pool_spread_##suffix(const T* dy, int64_t width, T* dx, const PoolWindow* h, int64_t oh, const PoolWindow* w, int64_t ow, double d) { \
    spread_plane(dy, width, dx, h, oh, w, ow, d);                                                                                                \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)

#undef FL_DEFINE

#define FL_DEFINE(S, suffix)                                                                                                                     \
  void max_pool_strip_##suffix(const S* x, int64_t c, int64_t width, S* y, int64_t* index, const PoolAxis& h, const PoolAxis& w) {               \
    if (index) max_strip<true>(x, c, width, y, index, h, w);                                                                                                    \
    else max_strip<false>(x, c, width, y, index, h, w);                                                                                                        \
  }                                                                                                                                              \
  void mean_pool_strip_##suffix(const S* x, int64_t c, int64_t width, int64_t in_w, S* y, const PoolWindow* h, int64_t oh, const PoolWindow* w,   \
                                int64_t ow, double d) {                                                                                          \
    mean_strip(x, c, width, in_w, y, h, oh, w, ow, d);                                                                                           \
  }                                                                                                                                              \
  void mean_spread_strip_##suffix(const S* dy, int64_t c, int64_t width, int64_t in_h, int64_t in_w, S* dx, const PoolWindow* h, int64_t oh,      \
                                  const PoolWindow* w, int64_t ow, double d) {                                                                   \
    spread_strip(dy, c, width, in_h, in_w, dx, h, oh, w, ow, d);                                                                                 \
  }
FL_DEFINE(float, f32)
FL_DEFINE(double, f64)
FL_DEFINE(BFloat16, bf16)
FL_DEFINE(Float16, f16)

}  // namespace fl::kernels::FL_ISA
