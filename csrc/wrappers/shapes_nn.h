// Shape rules of matrix products, convolution, pooling and losses. They run after the checks.
#pragma once

#include <optional>

#include "ops/vision/columns.h"
#include "tensor/tensor.h"

namespace fl::shape {

inline Dims mm(const Tensor& a, const Tensor& b) { return {a.size(0), b.size(1)}; }
inline Dims bmm(const Tensor& a, const Tensor& b) { return {a.size(0), a.size(1), b.size(2)}; }
inline Dims mv(const Tensor& a, const Tensor&) { return {a.size(0)}; }

inline Dims matmul(const Tensor& a, const Tensor& b) {
  const int na = a.ndim(), nb = b.ndim(), n = std::max({na - 2, nb - 2, 0});
  Dims out(n, 1);
  for (int d = 0; d < na - 2; ++d) out[n - (na - 2) + d] = a.size(d);
  for (int d = 0; d < nb - 2; ++d)
    if (b.size(d) != 1) out[n - (nb - 2) + d] = b.size(d);
  if (na > 1) out.push_back(a.size(-2));
  if (nb > 1) out.push_back(b.size(-1));
  return out;
}

inline Dims linear(const Tensor& x, const Tensor& weight) {
  Dims out = x.sizes();
  out.back() = weight.size(0);
  return out;
}

// How many windows of a kernel start every `stride` elements of a padded axis.
inline int64_t windows(Extent size, Extent kernel, Extent stride, Extent padding, Extent dilation, bool ceil_mode) {
  const Extent span = size + 2 * padding - dilation * (kernel - 1) - 1;
  const Extent n = (span + (ceil_mode ? stride - 1 : Extent(0))) / stride + 1;
  if (ceil_mode && (n - 1) * stride >= size + padding) return n - 1;  // the last one must start inside of the padded input
  return n;
}

// Convolution over the axes after [N, C].
inline Dims conv(const Tensor& x, const Tensor& weight, IntList stride, IntList padding, IntList dilation) {
  Dims out{x.size(0), weight.size(0)};
  for (int d = 2; d < x.ndim(); ++d)
    out.push_back(windows(x.size(d), weight.size(d), stride[d - 2], padding[d - 2], dilation[d - 2], false));
  return out;
}

inline Dims conv_transpose(const Tensor& x, const Tensor& weight, IntList stride, IntList padding, IntList output_padding,
                           IntList dilation, int64_t groups) {
  Dims out{x.size(0), Extent(weight.size(1)) * groups};
  for (int d = 2; d < x.ndim(); ++d)
    out.push_back((Extent(x.size(d)) - 1) * stride[d - 2] - 2 * Extent(padding[d - 2]) + Extent(dilation[d - 2]) * (Extent(weight.size(d)) - 1) +
                  output_padding[d - 2] + 1);
  return out;
}

inline Dims pool(const Tensor& x, IntList kernel, IntList stride, IntList padding, IntList dilation, bool ceil_mode) {
  Dims out{x.size(0), x.size(1)};
  for (int d = 2; d < x.ndim(); ++d) {
    const int64_t s = stride.empty() ? kernel[d - 2] : stride[d - 2];
    out.push_back(windows(x.size(d), kernel[d - 2], s, padding[d - 2], dilation[d - 2], ceil_mode));
  }
  return out;
}
inline Dims avg_pool(const Tensor& x, IntList kernel, IntList stride, IntList padding, bool ceil_mode) {
  return pool(x, kernel, stride, padding, Dims(static_cast<int>(kernel.size()), 1), ceil_mode);
}
inline Dims adaptive_pool(const Tensor& x, IntList output_size) {
  Dims out{x.size(0), x.size(1)};
  for (const int64_t n : output_size) out.push_back(n);
  return out;
}

inline Dims ctc_losses(const Tensor& log_probs) { return {log_probs.size(1)}; }
inline Dims mixed(const Tensor& x, int64_t dim, const Tensor& index) {
  Dims out = x.sizes();
  out[static_cast<int>(dim)] = index.size(1);
  return out;
}
inline Dims grid_sample(const Tensor& x, const Tensor& grid) {
  Dims out{x.size(0), x.size(1)};
  const int axes = x.ndim() - 2;
  for (int d = 0; d < axes; ++d) out.push_back(grid.size(d + 1));
  return out;
}

// A loss: one number, or one per element of x (reduction 0).
inline Dims reduced(const Tensor& x, int64_t reduction) { return reduction == 0 ? x.sizes() : Dims(); }
inline Dims reduced2(const Tensor& a, const Tensor& b, int64_t reduction) {
  if (reduction != 0) return {};
  const int n = std::max(a.ndim(), b.ndim());
  Dims out(n, 1);
  for (int d = 0; d < a.ndim(); ++d) out[n - a.ndim() + d] = a.size(d);
  for (int d = 0; d < b.ndim(); ++d)
    if (b.size(d) != 1) out[n - b.ndim() + d] = b.size(d);
  return out;
}

// [N, C, ...] -> [C]; the leading axes of x without the last `axes`; [N, groups].
inline Dims channels(const Tensor& x) { return {x.size(1)}; }
inline Dims leading(const Tensor& x, int64_t axes) { return Dims(IntList(x.sizes().data(), x.ndim() - axes)); }
inline Dims rows_of(const Tensor& x, IntList normalized) { return leading(x, static_cast<int64_t>(normalized.size())); }
inline Dims rows_of(const Tensor& x, const Dims& normalized) { return leading(x, normalized.size()); }
inline Dims groups_of(const Tensor& x, int64_t groups) { return {x.size(0), groups}; }

inline Dims embedding(const Tensor& weight, const Tensor& indices) {
  Dims out = indices.sizes();
  out.push_back(weight.size(1));
  return out;
}
inline Dims one_hot(const Tensor& indices, int64_t num_classes) {
  Dims out = indices.sizes();
  out.push_back(num_classes);
  return out;
}
inline Dims attention(const Tensor& q, const Tensor& v) {
  Dims out = q.sizes();
  out.back() = v.size(-1);
  return out;
}

inline Dims gru_kept(const Tensor& h) { return {h.size(0), 4 * Extent(h.size(1))}; }
inline Dims gru_gates(const Tensor& h) { return {h.size(0), 3 * Extent(h.size(1))}; }
inline Dims states_of_sequence(const Tensor& gates_x, const Tensor& h) { return {gates_x.size(0), h.size(0), h.size(1)}; }
inline Dims gru_kept_sequence(const Tensor& gates_x, const Tensor& h) { return {gates_x.size(0), h.size(0), 4 * Extent(h.size(1))}; }
inline Dims gru_gates_sequence(const Tensor& kept, const Tensor& h) { return {kept.size(0), h.size(0), 3 * Extent(h.size(1))}; }
inline Dims first_axis(const Tensor& x) { return {x.size(0)}; }

inline Dims im2col(const Tensor& x, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  const int64_t rows = windows_along(0, x.size(2), {kernel, dilation, padding, stride}), cols = windows_along(1, x.size(3), {kernel, dilation, padding, stride});
  return {x.size(0), Extent(x.size(1)) * Extent(kernel[0]) * Extent(kernel[1]), Extent(rows) * Extent(cols)};
}
inline Dims col2im(const Tensor& x, IntList output_size, IntList kernel) {
  return {x.size(0), x.size(1) / (kernel[0] * kernel[1]), output_size[0], output_size[1]};
}

}  // namespace fl::shape
