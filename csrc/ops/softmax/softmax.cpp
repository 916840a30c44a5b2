// softmax and log_softmax over one axis: x seen as [outer, n, inner].
#include "ops/softmax/softmax.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/parallel.h"
#include "ops/index/lines.h"
#include "ops/matmul/half.h"

namespace fl::kernels {
namespace {

// Rows where the axis is the last one, else strips of at most 64 columns.
template <class Rows, class Cols>
void over(const Lines& a, const Rows& rows, const Cols& cols) {
  if (a.outer == 0) return;
  if (a.inner == 1) {
    parallel_work(a.outer, a.n, 4096, [&](int64_t r0, int64_t r1) { rows(r0 * a.n, r1 - r0); });
    return;
  }
  const int64_t strips = (a.inner + 63) / 64;
  parallel_work(a.outer * strips, a.n, 64, [&](int64_t s0, int64_t s1) {
    for (int64_t s = s0; s < s1; ++s) {
      const int64_t j = s % strips * 64;
      cols(s / strips * a.n * a.inner + j, std::min<int64_t>(64, a.inner - j));
    }
  });
}

// Rows of 16-bit floats: f(where they start, how many), a buffer's worth at a time.
template <class F>
void by_pieces(const Lines& a, const F& f) {
  const int64_t most = std::max<int64_t>(1, 4096 / std::max<int64_t>(a.n, 1));
  parallel_for(0, a.outer, most, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; r += most) f(r * a.n, std::min(most, r1 - r));
  });
}
int64_t piece_size(const Lines& a) { return std::max<int64_t>(4096, a.n); }

void forward(const Tensor& x, int64_t dim, const Tensor& y, bool log) {
  if (const Lines a = lines_of(x, dim); a.inner == 1 && a.n > 0 && is_half(x.dtype()) && (is_half(y.dtype()) || y.dtype() == DType::Float32)) {
    const Pieces<float> from(x), to(y);
    return by_pieces(a, [&](int64_t at, int64_t rows) {
      const Tensor in = from.buffer(piece_size(a)), out = to.buffer(piece_size(a));
      softmax_rows_f32(from.read(at, rows * a.n, in), to.place(at, out), rows, a.n, log);
      to.write(at, rows * a.n, out);
    });
  }
  const WideOutput out(y);
  const Tensor in = converted(x, out.wide.dtype());
  const Lines a = lines_of(x, dim);
  visit_float(out.wide.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* px = in.data<T>();
    T* py = out.wide.data<T>();
    if constexpr (std::is_same_v<T, float>)
      over(a, [&](int64_t at, int64_t rows) { softmax_rows_f32(px + at, py + at, rows, a.n, log); },
           [&](int64_t at, int64_t width) { softmax_cols_f32(px + at, py + at, a.n, a.inner, width, log); });
    else
      over(a, [&](int64_t at, int64_t rows) { softmax_rows_f64(px + at, py + at, rows, a.n, log); },
           [&](int64_t at, int64_t width) { softmax_cols_f64(px + at, py + at, a.n, a.inner, width, log); });
  });
}

void backward(const Tensor& dy, const Tensor& y, int64_t dim, const Tensor& dx, bool log) {
  if (const Lines a = lines_of(y, dim); a.inner == 1 && a.n > 0 && is_half(y.dtype()) && dy.dtype() == y.dtype() && dx.dtype() == y.dtype()) {
    const Pieces<float> grads(dy), from(y), to(dx);
    return by_pieces(a, [&](int64_t at, int64_t rows) {
      const Tensor g = grads.buffer(piece_size(a)), in = from.buffer(piece_size(a)), out = to.buffer(piece_size(a));
      softmax_rows_backward_f32(grads.read(at, rows * a.n, g), from.read(at, rows * a.n, in), to.place(at, out), rows, a.n, log);
      to.write(at, rows * a.n, out);
    });
  }
  const WideOutput out(dx);
  const DType t = out.wide.dtype();
  const Tensor wdy = converted(dy, t), wy = converted(y, t);
  const Lines a = lines_of(y, dim);
  visit_float(t, [&](auto zero) {
    using T = decltype(zero);
    const T *pd = wdy.data<T>(), *py = wy.data<T>();
    T* px = out.wide.data<T>();
    if constexpr (std::is_same_v<T, float>)
      over(a, [&](int64_t at, int64_t rows) { softmax_rows_backward_f32(pd + at, py + at, px + at, rows, a.n, log); },
           [&](int64_t at, int64_t width) { softmax_cols_backward_f32(pd + at, py + at, px + at, a.n, a.inner, width, log); });
    else
      over(a, [&](int64_t at, int64_t rows) { softmax_rows_backward_f64(pd + at, py + at, px + at, rows, a.n, log); },
           [&](int64_t at, int64_t width) { softmax_cols_backward_f64(pd + at, py + at, px + at, a.n, a.inner, width, log); });
  });
}

}  // namespace

void softmax(const Tensor& x, int64_t dim, std::optional<DType>, const Tensor& y) { forward(x, dim, y, false); }
void log_softmax(const Tensor& x, int64_t dim, std::optional<DType>, const Tensor& y) { forward(x, dim, y, true); }
void softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim, DType, const Tensor& dx) { backward(dy, y, dim, dx, false); }
void log_softmax_backward(const Tensor& dy, const Tensor& y, int64_t dim, DType, const Tensor& dx) { backward(dy, y, dim, dx, true); }

}  // namespace fl::kernels
