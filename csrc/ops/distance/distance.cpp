#include "ops/distance/distance.h"

#include <algorithm>

#include "base/parallel.h"
#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

namespace fl::kernels {
namespace {

void run(const RowPairs& pairs, const float* x, const float* others, float* y) { row_distances_f32(pairs, x, others, y); }
void run(const RowPairs& pairs, const double* x, const double* others, double* y) { row_distances_f64(pairs, x, others, y); }
void squares(int64_t rows, int64_t width, const float* x, float* y) { row_squares_f32(rows, width, x, y); }
void squares(int64_t rows, int64_t width, const double* x, double* y) { row_squares_f64(rows, width, x, y); }
void from_products(int64_t n, float own, const float* others, float* y) { distances_of_products_f32(n, own, others, y); }
void from_products(int64_t n, double own, const double* others, double* y) { distances_of_products_f64(n, own, others, y); }
void run_back(const RowPairs& pairs, const float* dy, const float* x, const float* others, const float* y, float* dx) {
  row_distances_gradient_f32(pairs, dy, x, others, y, dx);
}
void run_back(const RowPairs& pairs, const double* dy, const double* x, const double* others, const double* y, double* dx) {
  row_distances_gradient_f64(pairs, dy, x, others, y, dx);
}

// f(zero, pairs, row of x1, its matrix of x2) for rows of x1 [.., P, M]; x2 is [.., R, M].
template <class F>
void over_rows(const Tensor& x1, const Tensor& x2, double p, F&& f) {
  const int64_t per = x1.size(-2), width = x1.size(-1), others = x2.size(-2);
  int64_t rows = 1;  // of no columns, too: their distances are 0
  for (int i = 0; i + 1 < x1.ndim(); ++i) rows *= x1.size(i);
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

void pdist_direct(const Tensor& x, double p, const Tensor& y) {
  const int64_t n = x.size(-2), width = x.size(-1), half = (n + 1) / 2, matrices = n > 1 ? y.numel() / (n * (n - 1) / 2) : 0;
  const auto of_type = [&](auto zero) {
    using T = decltype(zero);
    const auto row = [&](int64_t matrix, int64_t i) {
      const T* from = x.data<T>() + (matrix * n + i) * width;
      run({n - 1 - i, width, p}, from, from + width, y.data<T>() + matrix * (n * (n - 1) / 2) + i * (2 * n - 1 - i) / 2);
    };
    // The first row with the last, and so on: all take the same time.
    parallel_work(matrices * half, n * width, 32768, [&](int64_t b, int64_t e) {
      for (int64_t k = b; k < e; ++k) {
        const int64_t matrix = k / half, i = k % half;
        row(matrix, i);
        if (i != n - 1 - i) row(matrix, n - 1 - i);
      }
    });
  };
  if (x.dtype() == DType::Float64) of_type(double{});
  else of_type(float{});
}

// |a - b|^2 = |a|^2 + |b|^2 - 2 a b
void cdist_products(const Tensor& x1, const Tensor& x2, const Tensor& y) {
  const int64_t m = x1.size(-2), n = x2.size(-2), width = x1.size(-1), matrices = m && n ? y.numel() / (m * n) : 0;
  const auto of_type = [&](auto zero) {
    using T = decltype(zero);
    const Tensor sizes = empty(Dims{matrices * (m + n)}, x1.dtype());
    T *rows = sizes.data<T>(), *columns = rows + matrices * m;
    squares(matrices * m, width, x1.data<T>(), rows);
    squares(matrices * n, width, x2.data<T>(), columns);
    for (int64_t i = 0; i < matrices; ++i) {
      gemm(Gemm<T>{m, n, width, {x1.data<T>() + i * m * width, width, 1}, {x2.data<T>() + i * n * width, 1, width}, y.data<T>() + i * m * n, n});
    }
    parallel_work(matrices * m, n, 16384, [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r) from_products(n, rows[r], columns + r / m * n, y.data<T>() + r * n);
    });
  };
  if (x1.dtype() == DType::Float64) of_type(double{});
  else of_type(float{});
}

void cdist_gradient(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, double p, const Tensor& dx) {
  over_rows(x1, x2, p, [&](auto zero, const RowPairs& pairs, int64_t row, int64_t matrix) {
    using T = decltype(zero);
    run_back(pairs, dy.data<T>() + row * pairs.rows, x1.data<T>() + row * pairs.width, x2.data<T>() + matrix * pairs.rows * pairs.width,
             y.data<T>() + row * pairs.rows, dx.data<T>() + row * pairs.width);
  });
}

}  // namespace fl::kernels
