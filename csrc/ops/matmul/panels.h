// Panels of a product, by the type of their elements; for files that are not kernels of one instruction set.
#pragma once

#include "ops/matmul/gemm.h"

namespace fl {
template <class T>
inline int gemm_rows() {
  static const PanelSizes s = kernels::gemm_panel_sizes();
  return sizeof(T) == 4 ? s.rows_f32 : s.rows_f64;
}
template <class T>
inline int gemm_cols() {
  static const PanelSizes s = kernels::gemm_panel_sizes();
  return sizeof(T) == 4 ? s.cols_f32 : s.cols_f64;
}
inline void gemm_tile(const GemmTile<float>& t) { kernels::gemm_tile_f32(t); }
inline void gemm_tile(const GemmTile<double>& t) { kernels::gemm_tile_f64(t); }
// All of k: in blocks, so that a panel of B stays in the first-level cache. The first has beta and bias, the others add.
constexpr int64_t kGemmBlock = 256;
template <class T>
void gemm_tile(GemmTile<T> t, int64_t k) {
  const GemmTile<T> whole = t;
  for (int64_t p = 0; p < k || p == 0; p += kGemmBlock) {
    t.k = k - p < kGemmBlock ? k - p : kGemmBlock;
    t.a = whole.a + p * t.a_step;
    t.b = whole.b + p * t.b_step;
    t.b_last = whole.b_last ? whole.b_last + p * gemm_cols<T>() : nullptr;
    gemm_tile(t);
    t.beta = 1;
    t.bias_n = t.bias_m = nullptr;
  }
}
inline void gemm_pack(const float* src, int64_t row, int64_t step, int64_t n, int64_t k, int64_t width, float* dst) {
  kernels::gemm_pack_f32(src, row, step, n, k, width, dst);
}
inline void gemm_pack(const double* src, int64_t row, int64_t step, int64_t n, int64_t k, int64_t width, double* dst) {
  kernels::gemm_pack_f64(src, row, step, n, k, width, dst);
}
}  // namespace fl
