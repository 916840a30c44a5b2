// What the kernels of linear algebra share: batches of matrices, loops by type, and what a failure is called.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/linalg/loops.h"
#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

namespace fl::linalg {

// The last two axes are a matrix [m, n]; there are `count` of them.
struct Matrices {
  int64_t count, m, n;
};
inline Matrices matrices_of(const Tensor& x) {
  int64_t count = 1;
  for (int i = 0; i + 2 < x.ndim(); ++i) count *= x.size(i);
  return {count, x.size(-2), x.size(-1)};
}

// Calls f with a zero of the type that t is, float or double.
template <class F>
void with_real(DType t, F&& f) {
  if (t == DType::Float64) f(double{});
  else f(float{});
}

// Larger matrices are worked on by all threads, one after another; smaller ones are shared out.
constexpr int64_t kBlock = 64;
template <class F>
void over_matrices(int64_t count, int64_t work, F f) {
  parallel_work(count, work, 65536, f);
}

// `text(k)` says what an info k means; the first that is not 0 is an error.
template <class F>
void refuse_failures(const char* op, const Tensor& info, F&& text) {
  const int32_t* failed = info.data<int32_t>();
  for (int64_t i = 0; i < info.numel(); ++i)
    if (failed[i]) {
      const std::string where = info.ndim() ? fl::text("(Batch element ", i, "): ") : std::string();
      raise<LinAlgError>(op, ": ", where, text(failed[i]));
    }
}

// A [m, n] in place: L below its diagonal, U above; see lu_columns_f32 for the rest.
int64_t lu_factor(float* a, int64_t m, int64_t n, int32_t* pivots);
int64_t lu_factor(double* a, int64_t m, int64_t n, int32_t* pivots);
// b [n, r] := T^-1 b, blocked where it is large.
void triangle_solve(int64_t n, int64_t r, const float* a, int64_t row, int64_t col, bool lower, bool unit, float* b);
void triangle_solve(int64_t n, int64_t r, const double* a, int64_t row, int64_t col, bool lower, bool unit, double* b);
// b [n, r] := A^-1 b, or A^-T b, for factors of A.
template <class T>
void lu_solve(const T* lu, const int32_t* pivots, int64_t n, int64_t r, bool transposed, T* b) {
  const auto exchange = [&](int64_t k) {
    const int64_t at = pivots[k] - 1;
    if (at != k)
      for (int64_t c = 0; c < r; ++c) std::swap(b[k * r + c], b[at * r + c]);
  };
  if (!transposed) {
    for (int64_t k = 0; k < n; ++k) exchange(k);
    triangle_solve(n, r, lu, n, 1, true, true, b);
    triangle_solve(n, r, lu, n, 1, false, false, b);
  } else {
    triangle_solve(n, r, lu, 1, n, true, false, b);
    triangle_solve(n, r, lu, 1, n, false, true, b);
    for (int64_t k = n - 1; k >= 0; --k) exchange(k);
  }
}

}  // namespace fl::linalg
