// Checks of linear algebra. Names of ops are said as users know them: linalg.inv, not linalg_inv_ex.
#pragma once

#include <limits>
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/tensor.h"

namespace fl::check {

inline void axis_of_three(const char* op, const Tensor& x, int64_t dim) {
  if (x.size(static_cast<int>(dim)) != 3) raise<ShapeError>(op, ": axis ", dim, " of shape ", x.sizes(), " has size ", x.size(static_cast<int>(dim)), "; expected 3");
}

inline std::string linalg_name(std::string_view op) {
  if (op.ends_with("_ex")) op.remove_suffix(3);  // mostly called for the function that raises
  return op.starts_with("linalg_") ? "linalg." + std::string(op.substr(7)) : std::string(op);
}
// A batch of matrices of float32 or float64.
inline void matrices(const char* op, const Tensor& A, const char* name = "A") {
  if (A.ndim() < 2) raise<ShapeError>(linalg_name(op), ": The input tensor ", name, " must have at least 2 dimensions, of which the last two are a matrix: its shape is ", A.sizes());
  if (A.dtype() != DType::Float32 && A.dtype() != DType::Float64)
    raise<DTypeError>(linalg_name(op), ": ", name, " is ", A.dtype(), "; expected float32 or float64");
}
inline void square_matrices(const char* op, const Tensor& A) {
  matrices(op, A);
  if (A.size(-1) != A.size(-2)) raise<ShapeError>(linalg_name(op), ": A must be batches of square matrices, [..., n, n], but they are ", A.size(-2), " by ", A.size(-1), " matrices: A has shape ", A.sizes());
}
// Two batches of matrices of one type and one batch shape, the first square, whose rows are as many.
inline void system(const char* op, const Tensor& A, const Tensor& B) {
  square_matrices(op, A);
  matrices(op, B, "B");
  if (A.dtype() != B.dtype()) raise<DTypeError>(linalg_name(op), ": A is ", A.dtype(), ", B is ", B.dtype(), "; expected one dtype");
  bool fits = A.ndim() == B.ndim() && A.size(-1) == B.size(-2);
  for (int i = 0; fits && i + 2 < A.ndim(); ++i) fits = A.size(i) == B.size(i);
  if (!fits)
    raise<ShapeError>(linalg_name(op), ": A has shape ", A.sizes(), ", B has shape ", B.sizes(), "; expected [..., n, n] and [..., n, k] of one batch shape");
}
inline void pivoting(const char* op, bool pivot) {
  if (!pivot) raise<ArgumentError>(linalg_name(op), ": pivot = False; expected True, as LU without pivoting is not done on the CPU");
}
// The factors of A, and a row for each of its rows.
inline void factors_of(const char* op, const Tensor& A, const Tensor& LU, const Tensor& pivots) {
  const bool fits = LU.dtype() == A.dtype() && LU.sizes() == A.sizes() && pivots.dtype() == DType::Int32 && pivots.ndim() == A.ndim() - 1 &&
                    std::equal(pivots.sizes().begin(), pivots.sizes().end(), A.sizes().begin());
  if (!fits)
    raise<ShapeError>(linalg_name(op), ": A is ", A.dtype(), " ", A.sizes(), ", LU ", LU.dtype(), " ", LU.sizes(), ", pivots ", pivots.dtype(), " ",
                      pivots.sizes(), "; expected what linalg.lu_factor gives of A");
}
inline void pseudoinverse_of(const char* op, const Tensor& A, const Tensor& value) {
  bool fits = value.dtype() == A.dtype() && value.ndim() == A.ndim() && value.size(-1) == A.size(-2) && value.size(-2) == A.size(-1);
  for (int i = 0; fits && i + 2 < A.ndim(); ++i) fits = A.size(i) == value.size(i);
  if (!fits)
    raise<ShapeError>(linalg_name(op), ": A is ", A.dtype(), " ", A.sizes(), ", value ", value.dtype(), " ", value.sizes(), "; expected the shape of A^T");
}
inline void pivot_type(const char* op, const Tensor& pivots, int64_t rows) {
  if (pivots.ndim() >= 1 && pivots.size(-1) > rows)
    raise<ShapeError>(linalg_name(op), ": pivots have shape ", pivots.sizes(), "; expected at most one for each of the ", rows, " rows");
  if (pivots.ndim() < 1 || pivots.dtype() != DType::Int32)
    raise<DTypeError>(linalg_name(op), ": pivots are ", pivots.dtype(), " ", pivots.sizes(), "; expected int32 with at least one axis");
}
inline void triangle_name(const char* op, std::string_view UPLO) {
  if (UPLO != "L" && UPLO != "U" && UPLO != "l" && UPLO != "u") raise<ArgumentError>(linalg_name(op), ": UPLO = '", UPLO, "'; expected 'L' or 'U'");
}
inline void qr_mode(const char* op, std::string_view mode) {
  if (mode != "reduced" && mode != "complete" && mode != "r")
    raise<ArgumentError>(linalg_name(op), ": mode = '", mode, "'; expected 'reduced', 'complete' or 'r'");
}
inline void reflectors(const char* op, const Tensor& a, const Tensor& tau, int64_t columns) {
  matrices(op, a, "input");
  if (tau.dtype() != a.dtype()) raise<DTypeError>(linalg_name(op), ": input is ", a.dtype(), ", tau is ", tau.dtype(), "; expected one dtype");
  bool fits = tau.ndim() == a.ndim() - 1 && tau.size(-1) <= a.size(-1) && a.size(-1) <= a.size(-2) && columns >= tau.size(-1) && columns <= a.size(-2);
  for (int i = 0; fits && i + 2 < a.ndim(); ++i) fits = a.size(i) == tau.size(i);
  if (!fits)
    raise<ShapeError>(linalg_name(op), ": input has shape ", a.sizes(), ", tau has shape ", tau.sizes(),
                      "; expected [..., m, n] with m >= n and [..., k] with k <= n of one batch shape");
}
// Matrices of rows, of one batch shape, whose distances are asked for.
inline void row_pairs(const char* op, const Tensor& x1, const Tensor& x2, double p) {
  bool fits = x1.ndim() == x2.ndim() && x1.ndim() >= 2 && x1.size(-1) == x2.size(-1);
  for (int i = 0; fits && i + 2 < x1.ndim(); ++i) fits = x1.size(i) == x2.size(i);
  if (!fits) raise<ShapeError>(op, ": x1 has shape ", x1.sizes(), ", x2 ", x2.sizes(), "; expected [.., P, M] and [.., R, M] of one batch shape");
  if ((x1.dtype() != DType::Float32 && x1.dtype() != DType::Float64) || x1.dtype() != x2.dtype())
    raise<DTypeError>(op, ": x1 is ", x1.dtype(), ", x2 is ", x2.dtype(), "; expected float32 or float64 for both");
  if (!(p > 0 && p <= std::numeric_limits<double>::max())) raise<ArgumentError>(op, ": p = ", p, "; expected a finite p > 0");
}
inline void row_distances(const char* op, const Tensor& y, const Tensor& x1, const Tensor& x2) {
  bool fits = y.ndim() == x1.ndim() && y.size(-2) == x1.size(-2) && y.size(-1) == x2.size(-2) && y.dtype() == x1.dtype();
  for (int i = 0; fits && i + 2 < x1.ndim(); ++i) fits = y.size(i) == x1.size(i);
  if (!fits) raise<ShapeError>(op, ": distances ", y.sizes(), " of x1 ", x1.sizes(), " and x2 ", x2.sizes(), "; expected one for each pair of rows");
}

}  // namespace fl::check
