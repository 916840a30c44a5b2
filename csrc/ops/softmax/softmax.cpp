// softmax and log_softmax over one axis: x seen as [outer, n, inner].
#include "ops/softmax/softmax.h"

#include <algorithm>
#include <array>
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

// Rows of 16-bit floats: f(a value of their type, where they start, how many, room for one as floats).
template <class F>
void half_rows(DType t, const Lines& a, const F& f) {
  constexpr int64_t kVector = 16;
  const auto of = [&](auto element) {
    parallel_work(a.outer, a.n, 4096, [&](int64_t r0, int64_t r1) {
      const Tensor row = empty(Dims{a.n + kVector}, DType::Float32);
      f(element, r0 * a.n, r1 - r0, row.data<float>());
    });
  };
  if (t == DType::BFloat16) of(BFloat16{});
  else of(Float16{});
}

// Strips of columns of 16-bit floats, widened into memory that stays in the cache: f(what is read, what is written, columns), with all of a strip's
// elements side by side. `reads` is of one type with `to`.
constexpr int64_t kLongColumn = 8192;
template <size_t N, class F>
void half_strips(const Lines& a, const std::array<Tensor, N>& reads, const Tensor& to, const F& f) {
  const DType t = to.dtype();
  over(a, [](int64_t, int64_t) {}, [&](int64_t at, int64_t width) {
    const Tensor room = empty(Dims{static_cast<int64_t>(N + 1), a.n * width}, DType::Float32);
    std::array<float*, N> wide;
    for (size_t k = 0; k < N; ++k) {
      wide[k] = room.data<float>() + static_cast<int64_t>(k + 1) * a.n * width;
      for (int64_t i = 0; i < a.n; ++i) convert_elements(wide[k] + i * width, DType::Float32, reads[k].template data<uint16_t>() + at + i * a.inner, t, width);
    }
    f(wide, room.data<float>(), width);
    for (int64_t i = 0; i < a.n; ++i) convert_elements(to.data<uint16_t>() + at + i * a.inner, t, room.data<float>() + i * width, DType::Float32, width);
  });
}

void forward(const Tensor& x, int64_t dim, const Tensor& y, bool log) {
  if (const Lines a = lines_of(x, dim); a.inner == 1 && a.n > 0 && is_half(x.dtype()) && (x.dtype() == y.dtype() || y.dtype() == DType::Float32))
    return half_rows(x.dtype(), a, [&](auto element, int64_t at, int64_t rows, float* row) {
      using S = decltype(element);
      const S* from = x.data<S>() + at;
      if (y.dtype() == DType::Float32) {
        if constexpr (std::is_same_v<S, BFloat16>) softmax_wide_rows_bf16(from, y.data<float>() + at, row, rows, a.n, log);
        else softmax_wide_rows_f16(from, y.data<float>() + at, row, rows, a.n, log);
      } else {
        if constexpr (std::is_same_v<S, BFloat16>) softmax_rows_bf16(from, y.data<S>() + at, row, rows, a.n, log);
        else softmax_rows_f16(from, y.data<S>() + at, row, rows, a.n, log);
      }
    });
  if (const Lines a = lines_of(x, dim); a.inner > 1 && a.n > 0 && a.n <= kLongColumn && is_half(x.dtype()) && x.dtype() == y.dtype())
    return half_strips<1>(a, {x}, y, [&](const auto& from, float* to, int64_t width) { softmax_cols_f32(from[0], to, a.n, width, width, log); });
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
  if (const Lines a = lines_of(y, dim); a.inner == 1 && a.n > 0 && is_half(y.dtype()) && dy.dtype() == y.dtype() && dx.dtype() == y.dtype())
    return half_rows(y.dtype(), a, [&](auto element, int64_t at, int64_t rows, float* row) {
      using S = decltype(element);
      const S *grads = dy.data<S>() + at, *from = y.data<S>() + at;
      if constexpr (std::is_same_v<S, BFloat16>) softmax_rows_backward_bf16(grads, from, dx.data<S>() + at, row, rows, a.n, log);
      else softmax_rows_backward_f16(grads, from, dx.data<S>() + at, row, rows, a.n, log);
    });
  if (const Lines a = lines_of(y, dim); a.inner > 1 && a.n > 0 && a.n <= kLongColumn && is_half(y.dtype()) && dy.dtype() == y.dtype() && dx.dtype() == y.dtype())
    return half_strips<2>(a, {dy, y}, dx, [&](const auto& from, float* to, int64_t width) {
      softmax_cols_backward_f32(from[0], from[1], to, a.n, width, width, log);
    });
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
