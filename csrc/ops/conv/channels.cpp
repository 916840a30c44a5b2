// Sums over all but the axis of channels, and values spread along it: biases and their gradients.
#include "ops/conv/channels.h"

#include <algorithm>
#include <vector>

#include "backend/onednn/onednn.h"
#include "base/parallel.h"
#include "ops/matmul/half.h"
#include "ops/reduce/fold.h"
#include "tensor/raw.h"
#include "kernel/channel_expand.h"
#include "kernel/channel_sums.h"

namespace fl {
namespace {

// m[r, c] += row[c].
void add_row(const Tensor& m, const Tensor& row) {
  const int64_t n = m.size(1);
  const WideOutput out(m, true);
  const Tensor wide = widened(row);
  visit_float(wide.dtype(), [&](auto z) {
    using T = decltype(z);
    const T* b = wide.data<T>();
    T* p = out.wide.data<T>();
    parallel_work(m.size(0), n, 16384, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t c = 0; c < n; ++c) p[r * n + c] += b[c];
    });
  });
}

// Sums down the columns of m, by fixed bands of rows.
void column_sums(const Tensor& m, const Tensor& sums) {
  constexpr int64_t kBand = 1024;
  const int64_t rows = m.size(0), n = m.size(1), bands = (rows + kBand - 1) / kBand;
  std::vector<double> parts(static_cast<size_t>(bands * n));
  parallel_work(bands, kBand * n, 32768, [&](int64_t b0, int64_t b1) {
    for (int64_t b = b0; b < b1; ++b) {
      double* acc = parts.data() + b * n;
      kernels::fold_init(Fold::Sum, m.dtype(), acc, n);
      kernels::fold_rows(Fold::Sum, m.dtype(), m.data<char>() + b * kBand * n * static_cast<int64_t>(m.item_bytes()), n, std::min(kBand, rows - b * kBand), n,
                         nullptr, 0, acc);
    }
  });
  visit_float(sums.dtype(), [&](auto z) {
    using T = decltype(z);
    for (int64_t c = 0; c < n; ++c) {
      double total = 0;
      for (int64_t b = 0; b < bands; ++b) total += parts[static_cast<size_t>(b * n + c)];
      sums.data<T>()[c] = static_cast<T>(total);
    }
  });
}

}  // namespace

void conv::add_channel_bias(const Tensor& y, const Tensor& bias) {
  if (y.storage().maybe_deferred()) {
    const ChannelRows rows(y);
    const Tensor row = converted(bias, y.dtype());
    return add_row(rows.matrix(), row);
  }
  const WideOutput out(y, true);
  const Tensor wb = widened(bias);
  const int64_t channels = y.size(1), plane = y.numel() / (y.size(0) * channels);
  visit_float(out.wide.dtype(), [&](auto z) {
    using T = decltype(z);
    T* p = out.wide.data<T>();
    const T* b = wb.data<T>();
    parallel_work(y.size(0) * channels, plane, 16384, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t i = 0; i < plane; ++i) p[r * plane + i] += b[r % channels];
    });
  });
}

namespace kernels {

// Sums over everything but axis 1. Where convolutions leave bytes channels-last they are added in that order however they lie:
// that depends on who has read them, and the sum should not.
void channel_sums(const Tensor& x, const Tensor& y) {
  const WideOutput out(y);
  const bool may_lie_last = layout_mode() == LayoutMode::Deferred && onednn::convolves(x.dtype()) && may_defer(x.sizes()) && x.numel() > 0;
  if (may_lie_last || (x.storage().maybe_deferred() && is_deferred(x))) {
    const ChannelRows rows(x);
    return column_sums(widened(rows.matrix()), out.wide);
  }
  const Tensor wx = widened(x);
  const int64_t n = x.size(0), channels = x.size(1), plane = channels && n ? x.numel() / (n * channels) : 0;
  visit_float(out.wide.dtype(), [&](auto z) {
    using T = decltype(z);
    const T* p = wx.data<T>();
    T* to = out.wide.data<T>();
    parallel_work(channels, n * plane, 16384, [&](int64_t c0, int64_t c1) {
      for (int64_t c = c0; c < c1; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) {
          const T* row = p + (i * channels + c) * plane;
          T part[16] = {};  // lanes, so that the loop is a vector sum
          int64_t j = 0;
          for (; j + 16 <= plane; j += 16)
            for (int l = 0; l < 16; ++l) part[l] += row[j + l];
          double s = 0;
          for (; j < plane; ++j) s += row[j];
          for (int l = 0; l < 16; ++l) s += part[l];
          sum += s;
        }
        to[c] = static_cast<T>(sum);
      }
    });
  });
}

// The adjoint: each channel's value everywhere in the channel.
void channel_expand(const Tensor& x, IntList shape, const Tensor& y) {
  const WideOutput out(y);
  const Tensor wx = widened(x);
  const int64_t channels = shape[1], rows = shape[0] * channels, plane = rows ? y.numel() / rows : 0;
  visit_float(out.wide.dtype(), [&](auto z) {
    using T = decltype(z);
    for (int64_t r = 0; r < rows; ++r) std::fill_n(out.wide.data<T>() + r * plane, plane, wx.data<T>()[r % channels]);
  });
}

}  // namespace kernels
}  // namespace fl
