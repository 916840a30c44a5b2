#include "ops/distance/distance.h"

#include <algorithm>

#include "base/parallel.h"
#include "tensor/tensor.h"

namespace fl::kernels {
namespace {

void run(const RowPairs& pairs, const float* x, const float* others, float* y) { row_distances_f32(pairs, x, others, y); }
void run(const RowPairs& pairs, const double* x, const double* others, double* y) { row_distances_f64(pairs, x, others, y); }
void run_back(const RowPairs& pairs, const float* dy, const float* x, const float* others, const float* y, float* dx) {
  row_distances_gradient_f32(pairs, dy, x, others, y, dx);
}
void run_back(const RowPairs& pairs, const double* dy, const double* x, const double* others, const double* y, double* dx) {
  row_distances_gradient_f64(pairs, dy, x, others, y, dx);
}

// f(zero, pairs, row of x1, its matrix of x2) for rows of x1 [.., P, M]; x2 is [.., R, M].
template <class F>
void over_rows(const Tensor& x1, const Tensor& x2, double p, F&& f) {
  const int64_t per = x1.size(-2), width = x1.size(-1), others = x2.size(-2), rows = width ? x1.numel() / width : 0;
  const RowPairs pairs{others, width, p};
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, others * width));
  const auto of_type = [&](auto zero) {
    parallel_for(0, rows, grain, [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r) f(zero, pairs, r, r / per);
    });
  };
  if (x1.dtype() == DType::Float64) of_type(double{});
  else of_type(float{});
}

}  // namespace

void cdist_direct(const Tensor& x1, const Tensor& x2, double p, const Tensor& y) {
  over_rows(x1, x2, p, [&](auto zero, const RowPairs& pairs, int64_t row, int64_t matrix) {
    using T = decltype(zero);
    run(pairs, x1.data<T>() + row * pairs.width, x2.data<T>() + matrix * pairs.rows * pairs.width, y.data<T>() + row * pairs.rows);
  });
}

void cdist_gradient(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, double p, const Tensor& dx) {
  over_rows(x1, x2, p, [&](auto zero, const RowPairs& pairs, int64_t row, int64_t matrix) {
    using T = decltype(zero);
    run_back(pairs, dy.data<T>() + row * pairs.rows, x1.data<T>() + row * pairs.width, x2.data<T>() + matrix * pairs.rows * pairs.width,
             y.data<T>() + row * pairs.rows, dx.data<T>() + row * pairs.width);
  });
}

}  // namespace fl::kernels
