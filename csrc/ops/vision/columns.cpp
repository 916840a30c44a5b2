// im2col and col2im: windows of planes as columns, and columns added up where they were taken from.
//
// Columns of windows that neither overlap nor reach beyond the plane are a view of it with other strides; so are those of any windows of a
// plane with its border around it.
#include "ops/vision/columns.h"

#include <algorithm>

#include "base/parallel.h"
#include "dispatch/each.h"
#include "dispatch/operand.h"
#include "tensor/raw.h"

namespace fl::kernels {
namespace {

// The columns of windows, [N, C, KH, KW, OH, OW], in the memory of planes with the border that they need.
Tensor view_of_windows(const Tensor& planes, const Windows& w, int64_t rows, int64_t cols) {
  const int64_t h = planes.stride(2), v = planes.stride(3);
  return alias(planes, Dims{planes.size(0), planes.size(1), w.kernel[0], w.kernel[1], rows, cols},
               Dims{planes.stride(0), planes.stride(1), w.dilation[0] * h, w.dilation[1] * v, w.stride[0] * h, w.stride[1] * v}, planes.offset());
}
Tensor with_six_axes(const Tensor& columns, int64_t c, const Windows& w, int64_t rows, int64_t cols) {
  const int64_t row = columns.stride(1), col = columns.stride(2), width = w.kernel[1];
  return alias(columns, Dims{columns.size(0), c, w.kernel[0], width, rows, cols}, Dims{columns.stride(0), w.kernel[0] * width * row, width * row, row, cols * col, col},
               columns.offset());
}

// Which windows' tap t lies inside of the plane: a range.
struct Range {
  int64_t first, last;
};
Range inside(int64_t places, int64_t windows, int64_t tap, int64_t dilation, int64_t padding, int64_t stride) {
  const int64_t at = tap * dilation - padding;  // of the first window
  const int64_t first = at >= 0 ? 0 : (-at + stride - 1) / stride, end = at >= places ? 0 : (places - 1 - at) / stride + 1;
  return {std::min(first, windows), std::clamp<int64_t>(end, std::min(first, windows), windows)};
}

template <class T>
void add_columns(const T* columns, T* plane, int64_t height, int64_t width, const Windows& w, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    const Range down = inside(height, rows, i, w.dilation[0], w.padding[0], w.stride[0]);
    for (int64_t j = 0; j < w.kernel[1]; ++j, columns += rows * cols) {
      const Range across = inside(width, cols, j, w.dilation[1], w.padding[1], w.stride[1]);
      const int64_t step = w.stride[1], n = across.last - across.first;
      for (int64_t r = down.first; r < down.last; ++r) {
        const T* from = columns + r * cols + across.first;
        T* to = plane + (r * w.stride[0] + i * w.dilation[0] - w.padding[0]) * width + across.first * step + j * w.dilation[1] - w.padding[1];
        const auto add = [](T& sum, T x) {
          if constexpr (is_half_type<T>) sum = T(static_cast<float>(sum) + static_cast<float>(x));
          else if constexpr (is_complex_type<T>) sum = T(sum.re + x.re, sum.im + x.im);
          else if constexpr (std::is_same_v<T, Truth>) sum = sum || x;
          else sum = static_cast<T>(sum + x);
        };
        if (step == 1) {
#pragma omp simd
          for (int64_t k = 0; k < n; ++k) add(to[k], from[k]);
        } else {
          for (int64_t k = 0; k < n; ++k) add(to[k * step], from[k]);
        }
      }
    }
  }
}

bool apart(const Windows& w) {
  bool out = true;
  for (int i = 0; i < 2; ++i) out = out && w.padding[static_cast<size_t>(i)] == 0 && w.stride[static_cast<size_t>(i)] >= w.span(i);
  return out;
}

}  // namespace

void constant_pad(const Tensor& x, IntList pads, Scalar value, const Tensor& y);

void im2col(const Tensor& x, IntList kernel, IntList dilation, IntList padding, IntList stride, const Tensor& y) {
  const Windows w{kernel, dilation, padding, stride};
  const int64_t rows = windows_along(0, x.size(2), w), cols = windows_along(1, x.size(3), w);
  if (y.numel() == 0) return;
  Tensor planes = x;
  if (padding[0] || padding[1]) {
    planes = empty(Dims{x.size(0), x.size(1), x.size(2) + 2 * padding[0], x.size(3) + 2 * padding[1]}, x.dtype());
    constant_pad(x, Dims{padding[1], padding[1], padding[0], padding[0]}, Scalar(0), planes);
  }
  copy_elements(with_six_axes(y, x.size(1), w, rows, cols), view_of_windows(planes, w, rows, cols));
}

void col2im(const Tensor& x, IntList output_size, IntList kernel, IntList dilation, IntList padding, IntList stride, const Tensor& y) {
  const Windows w{kernel, dilation, padding, stride};
  const int64_t height = output_size[0], width = output_size[1], rows = windows_along(0, height, w), cols = windows_along(1, width, w);
  if (y.numel() == 0) return;
  const bool whole = stride[0] == kernel[0] && stride[1] == kernel[1] && rows * stride[0] == height && cols * stride[1] == width;
  if (!apart(w) || !whole) fill_elements(y, Scalar(0));
  if (x.numel() == 0) return;
  if (apart(w)) return copy_elements(view_of_windows(y, w, rows, cols), with_six_axes(x, y.size(1), w, rows, cols));
  const int64_t c = y.size(1), taps = kernel[0] * kernel[1];
  visit_any(with_sign(y.dtype()), [&]<class T>(T) {
    parallel_work(y.size(0) * c, taps * rows * cols, 16384, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) add_columns(x.data<T>() + p * taps * rows * cols, y.data<T>() + p * height * width, height, width, w, rows, cols);
    });
  });
}

}  // namespace fl::kernels
