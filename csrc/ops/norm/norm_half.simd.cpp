// Rows of layer_norm and rms_norm in 16-bit floats, with one row of floats between.
#include <cmath>

#include "dispatch/half_rows.h"
#include "ops/norm/norm.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class S>
void norm_row(const S* x, const float* w, const float* b, S* y, float* row, int64_t n, double eps, bool centered, float* mean, float* rstd) {
  constexpr int64_t kBlock = 1024;  // elements whose sum is one of floats
  constexpr int kChains = 4;        // that do not wait for each other
  const int64_t end = whole_vectors(n), rest = end - n;
  double sum = 0, square = 0;
  for (int64_t c = 0; c < n; c += kBlock) {
    Vector sums[kChains] = {};
    const int64_t m = n - c < kBlock ? n - c : kBlock, whole = m / (kChains * kLanes) * (kChains * kLanes);
    for (int64_t i = 0; i < whole; i += kChains * kLanes)
#pragma GCC unroll 4
      for (int u = 0; u < kChains; ++u) {
        const Vector v = widened_at(x + c + i + u * kLanes);
        store_floats(row + c + i + u * kLanes, v);
        sums[u] += v;
      }
    each_vector(x + c + whole, m - whole, 0, [&](int64_t i, Vector v) __attribute__((always_inline)) {
      store_floats(row + c + whole + i, v);
      sums[0] += v;
    });
    sum += static_cast<double>(sum_of((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  const float m = centered ? static_cast<float>(sum / static_cast<double>(n)) : 0;
  for (int64_t l = 0; l < rest; ++l) row[n + l] = m;  // no distance
  for (int64_t c = 0; c < end; c += kBlock) {
    Vector squares[kChains] = {};
    const int64_t last = end - c < kBlock ? end : c + kBlock;
    int64_t i = c;
    for (; i + kChains * kLanes <= last; i += kChains * kLanes)
#pragma GCC unroll 4
      for (int u = 0; u < kChains; ++u) {
        const Vector d = load_floats(row + i + u * kLanes) - m;
        squares[u] += d * d;
      }
    for (; i < last; i += kLanes) {
      const Vector d = load_floats(row + i) - m;
      squares[0] += d * d;
    }
    square += static_cast<double>(sum_of((squares[0] + squares[1]) + (squares[2] + squares[3])));
  }
  const auto scale = static_cast<float>(1 / std::sqrt(square / static_cast<double>(n) + eps));
  if (mean) *mean = m;
  *rstd = scale;
  const auto at = [&](const float* factors, int64_t i) {
    if (i + kLanes <= n) return load_floats(factors + i);
    Vector v = {};
    std::memcpy(&v, factors + i, static_cast<size_t>(n - i) * sizeof(float));
    return v;
  };
  for (int64_t i = 0; i < end; i += kLanes) {
    Vector v = (load_floats(row + i) - m) * scale;
    if (w) v *= at(w, i);
    if (b) v += at(b, i);
    store_at(y, i, n, v);
  }
}

}  // namespace

void norm_row_bf16(const BFloat16* x, const float* w, const float* b, BFloat16* y, float* row, int64_t n, double eps, bool centered, float* mean, float* rstd) {
  norm_row(x, w, b, y, row, n, eps, centered, mean, rstd);
}
void norm_row_f16(const Float16* x, const float* w, const float* b, Float16* y, float* row, int64_t n, double eps, bool centered, float* mean, float* rstd) {
  norm_row(x, w, b, y, row, n, eps, centered, mean, rstd);
}

}  // namespace fl::kernels::FL_ISA
