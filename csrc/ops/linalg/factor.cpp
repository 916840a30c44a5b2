// LU and Cholesky factors, and what is solved with them: systems, inverses, determinants. Matrices beyond kBlock rows are
// worked on in blocks, whose products are gemm's.
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "ops/linalg/linalg.h"

namespace fl::linalg {
namespace {

template <class T>
constexpr bool kDouble = std::is_same_v<T, double>;
template <class T>
int64_t lu_strips(T* a, int64_t m, int64_t n, int64_t first, int64_t last, int64_t until, int32_t* pivots, T* work) {
  if constexpr (kDouble<T>) return kernels::lu_strips_f64(a, m, n, n, first, last, until, pivots, work);
  else return kernels::lu_strips_f32(a, m, n, n, first, last, until, pivots, work);
}
template <class T>
void triangle_base(int64_t n, int64_t r, const T* a, int64_t row, int64_t col, bool lower, bool unit, T* b, int64_t ldb) {
  if constexpr (kDouble<T>) kernels::triangle_solve_f64(n, r, a, row, col, lower, unit, b, ldb);
  else kernels::triangle_solve_f32(n, r, a, row, col, lower, unit, b, ldb);
}
// c [m, n] -= a b
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, Mat<T> a, Mat<T> b, T* c, int64_t ldc) {
  if (m > 0 && n > 0 && k > 0) gemm(Gemm<T>{m, n, k, a, b, c, ldc, T(-1), T(1)});
}

template <class T>
void triangle_rows(int64_t n, int64_t r, const T* a, int64_t row, int64_t col, bool lower, bool unit, T* b, int64_t ldb) {
  if (n <= kBlock) return triangle_base(n, r, a, row, col, lower, unit, b, ldb);
  const int64_t half = n / 2;
  const T* corner = a + half * (row + col);
  if (lower) {
    triangle_rows(half, r, a, row, col, lower, unit, b, ldb);
    subtract_product<T>(n - half, r, half, {a + half * row, row, col}, {b, ldb, 1}, b + half * ldb, ldb);
    triangle_rows(n - half, r, corner, row, col, lower, unit, b + half * ldb, ldb);
  } else {
    triangle_rows(n - half, r, corner, row, col, lower, unit, b + half * ldb, ldb);
    subtract_product<T>(half, r, n - half, {a + half * col, row, col}, {b + half * ldb, ldb, 1}, b, ldb);
    triangle_rows(half, r, a, row, col, lower, unit, b, ldb);
  }
}

template <class T>
int64_t lu_blocks(T* a, int64_t m, int64_t n, int32_t* pivots) {
  const int64_t k = std::min(m, n);
  std::vector<T> work(static_cast<size_t>(8 * m));
  if (k <= kBlock) return lu_strips(a, m, n, 0, k, n, pivots, work.data());
  int64_t missing = 0;
  for (int64_t j = 0; j < k; j += kBlock) {
    const int64_t end = std::min(j + kBlock, k), width = end - j;
    const int64_t found = lu_strips(a, m, n, j, end, end, pivots, work.data());
    if (found && !missing) missing = found;
    triangle_rows(width, n - end, a + j * n + j, n, int64_t{1}, true, true, a + j * n + end, n);
    subtract_product<T>(m - end, n - end, width, {a + end * n + j, n, 1}, {a + j * n + end, n, 1}, a + end * n + end, n);
  }
  return missing;
}

template <class T>
int64_t cholesky_blocks(T* a, int64_t n) {
  for (int64_t j = 0; j < n; j += kBlock) {
    const int64_t end = std::min(j + kBlock, n), width = end - j;
    T* corner = a + j * n + j;
    int64_t failed;
    if constexpr (kDouble<T>) failed = kernels::cholesky_lower_f64(corner, width, n);
    else failed = kernels::cholesky_lower_f32(corner, width, n);
    if (failed) return j + failed;
    // The rows below by L^T, which is a solve with their transpose: in memory of its own.
    const int64_t left = n - end;
    std::vector<T> turned(static_cast<size_t>(width * left));
    for (int64_t i = 0; i < left; ++i)
      for (int64_t c = 0; c < width; ++c) turned[static_cast<size_t>(c * left + i)] = a[(end + i) * n + j + c];
    triangle_base(width, left, corner, n, int64_t{1}, true, false, turned.data(), left);
    for (int64_t i = 0; i < left; ++i)
      for (int64_t c = 0; c < width; ++c) a[(end + i) * n + j + c] = turned[static_cast<size_t>(c * left + i)];
    for (int64_t at = end; at < n; at += 4 * kBlock) {  // what is above the diagonal is not wanted
      const int64_t columns = std::min(4 * kBlock, n - at);
      subtract_product<T>(n - at, columns, width, {a + at * n + j, n, 1}, {turned.data() + (at - end), left, 1}, a + at * n + at, n);
    }
  }
  return 0;
}

constexpr int64_t kStripsFrom = 16;  // rows; strips do not pay for fewer

template <class T>
void lu_batch(T* a, const Matrices& x, int32_t* pivots, int32_t* info) {
  const int64_t k = std::min(x.m, x.n), size = x.m * x.n;
  if (k > kBlock) {
    for (int64_t i = 0; i < x.count; ++i) info[i] = static_cast<int32_t>(lu_factor(a + i * size, x.m, x.n, pivots + i * k));
    return;
  }
  over_matrices(x.count, size * k, [&](int64_t b, int64_t e) {
    if (x.m == x.n && x.n <= kStripsFrom) {
      if constexpr (kDouble<T>) kernels::lu_many_f64(a + b * size, e - b, x.n, pivots + b * k, info + b);
      else kernels::lu_many_f32(a + b * size, e - b, x.n, pivots + b * k, info + b);
      return;
    }
    for (int64_t i = b; i < e; ++i) info[i] = static_cast<int32_t>(lu_factor(a + i * size, x.m, x.n, pivots + i * k));
  });
}

// The solutions of `count` systems side by side.
template <class T>
void lu_solve_each(const T* lu, const int32_t* pivots, int64_t count, int64_t n, int64_t r, bool transposed, T* b) {
  bool done;
  if constexpr (kDouble<T>) done = kernels::lu_solve_many_f64(lu, pivots, count, n, r, transposed, b);
  else done = kernels::lu_solve_many_f32(lu, pivots, count, n, r, transposed, b);
  if (done) return;
  for (int64_t i = 0; i < count; ++i) lu_solve(lu + i * n * n, pivots + i * n, n, r, transposed, b + i * n * r);
}

template <class T>
void copy(const Tensor& from, const Tensor& to) {
  if (from.numel()) std::memcpy(to.data(), from.data(), static_cast<size_t>(from.numel()) * sizeof(T));
}
template <class T>
void keep_triangle(T* a, int64_t n, bool upper) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      if (upper) a[i * n + j] = a[j * n + i], a[j * n + i] = 0;
      else a[i * n + j] = 0;
    }
}
std::string singular(int64_t k) {
  return text("The diagonal element ", k, " is zero, the inversion could not be completed because the input matrix is singular.");
}

}  // namespace

int64_t lu_factor(float* a, int64_t m, int64_t n, int32_t* pivots) { return lu_blocks(a, m, n, pivots); }
int64_t lu_factor(double* a, int64_t m, int64_t n, int32_t* pivots) { return lu_blocks(a, m, n, pivots); }
void triangle_solve(int64_t n, int64_t r, const float* a, int64_t row, int64_t col, bool lower, bool unit, float* b) {
  triangle_rows(n, r, a, row, col, lower, unit, b, r);
}
void triangle_solve(int64_t n, int64_t r, const double* a, int64_t row, int64_t col, bool lower, bool unit, double* b) {
  triangle_rows(n, r, a, row, col, lower, unit, b, r);
}

}  // namespace fl::linalg

namespace fl::kernels {

using namespace linalg;

void linalg_cholesky_ex(const Tensor& A, bool upper, bool check_errors, const Tensor& L, const Tensor& info) {
  const Matrices x = matrices_of(A);
  const int64_t n = x.n, size = n * n;
  int32_t* failed = info.data<int32_t>();
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = A.data<T>();
    T* out = L.data<T>();
    const auto prepare = [&](int64_t i) {
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c) out[i * size + r * n + c] = upper ? in[i * size + c * n + r] : in[i * size + r * n + c];
    };
    if (n > kBlock) {
      for (int64_t i = 0; i < x.count; ++i) {
        prepare(i);
        failed[i] = static_cast<int32_t>(cholesky_blocks(out + i * size, n));
        keep_triangle(out + i * size, n, upper);
      }
      return;
    }
    over_matrices(x.count, size * n, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) prepare(i);
      if constexpr (std::is_same_v<T, double>) cholesky_many_f64(out + b * size, e - b, n, failed + b);
      else cholesky_many_f32(out + b * size, e - b, n, failed + b);
      for (int64_t i = b; i < e; ++i) keep_triangle(out + i * size, n, upper);
    });
  });
  if (check_errors)
    refuse_failures("linalg.cholesky", info, [](int64_t k) {
      return text("The factorization could not be completed because the input is not positive-definite (the leading minor of order ", k,
                  " is not positive-definite).");
    });
}

void linalg_lu_factor_ex(const Tensor& A, bool, bool check_errors, std::string_view what, const Tensor& LU, const Tensor& pivots, const Tensor& info) {
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    copy<T>(A, LU);
    lu_batch(LU.data<T>(), matrices_of(A), pivots.data<int32_t>(), info.data<int32_t>());
  });
  if (check_errors)
    refuse_failures(what == "solve" ? "linalg.solve" : "linalg.lu_factor", info, [&](int64_t k) {
      if (what == "solve") return std::string("The solver failed because the input matrix is singular.");
      return text("U[", k, ",", k, "] is zero and using it on lu_solve would result in a division by zero. "
                  "If you still want to perform the factorization, consider calling linalg.lu_factor_ex.");
    });
}

namespace {

void refuse_pivot(int64_t row, int64_t rows) {
  if (row < 1 || row > rows)
    raise<ArgumentError>("linalg.lu_solve: pivots have ", row, "; expected rows from 1 to ", rows, ", as linalg.lu_factor gives them");
}

}  // namespace

void linalg_pivot_order(const Tensor& pivots, int64_t rows, const Tensor& order) {
  const int64_t k = pivots.size(-1), count = rows ? order.numel() / rows : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* p = pivots.data<int32_t>() + i * k;
    int64_t* out = order.data<int64_t>() + i * rows;
    for (int64_t r = 0; r < rows; ++r) out[r] = r;
    for (int64_t r = 0; r < k; ++r) {
      refuse_pivot(p[r], rows);
      std::swap(out[r], out[p[r] - 1]);
    }
  }
}

void linalg_solve_factored(const Tensor&, const Tensor& LU, const Tensor& pivots, const Tensor& B, bool transposed, const Tensor& y) {
  const Matrices x = matrices_of(LU);
  const int64_t n = x.n, r = B.size(-1);
  for (int64_t i = 0; i < pivots.numel(); ++i) refuse_pivot(pivots.data<int32_t>()[i], n);
  with_real(B.dtype(), [&](auto zero) {
    using T = decltype(zero);
    copy<T>(B, y);
    const auto one = [&](int64_t b, int64_t e) {
      lu_solve_each(LU.data<T>() + b * n * n, pivots.data<int32_t>() + b * n, e - b, n, r, transposed, y.data<T>() + b * n * r);
    };
    if (n > kBlock) one(0, x.count);
    else over_matrices(x.count, n * n * r, one);
  });
}

void linalg_inv_ex(const Tensor& A, bool check_errors, const Tensor& inverse, const Tensor& info) {
  const Matrices x = matrices_of(A);
  const int64_t n = x.n, size = n * n;
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto some = [&](int64_t b, int64_t e) {
      std::vector<T> lu(A.data<T>() + b * size, A.data<T>() + e * size);
      std::vector<int32_t> pivots(static_cast<size_t>((e - b) * n));
      lu_batch(lu.data(), {e - b, n, n}, pivots.data(), info.data<int32_t>() + b);
      T* out = inverse.data<T>() + b * size;
      std::fill_n(out, (e - b) * size, T(0));
      for (int64_t i = 0; i < e - b; ++i)
        for (int64_t k = 0; k < n; ++k) out[i * size + k * (n + 1)] = 1;
      lu_solve_each(lu.data(), pivots.data(), e - b, n, n, false, out);
    };
    if (n > kBlock)
      for (int64_t i = 0; i < x.count; ++i) some(i, i + 1);
    else over_matrices(x.count, 2 * size * n, some);
  });
  if (check_errors) refuse_failures("linalg.inv", info, singular);
}

void linalg_pinv_value(const Tensor&, const Tensor& value, const Tensor& y) {
  std::memcpy(y.data(), value.data(), static_cast<size_t>(value.numel()) * value.item_bytes());
}

void linalg_triangle(const Tensor& A, const Tensor& B, bool upper, bool transposed, bool unitriangular, const Tensor& y) {
  const Matrices x = matrices_of(A);
  const int64_t n = x.n, r = B.size(-1);
  with_real(B.dtype(), [&](auto zero) {
    using T = decltype(zero);
    copy<T>(B, y);
    const int64_t row = transposed ? 1 : n, col = transposed ? n : 1;
    const auto some = [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        triangle_solve(n, r, A.data<T>() + i * n * n, row, col, upper == transposed, unitriangular, y.data<T>() + i * n * r);
    };
    if (n > kBlock) some(0, x.count);
    else over_matrices(x.count, n * n * r, some);
  });
}

namespace {

// Calls f(lu, pivots, i) with the factors of each matrix.
template <class T, class F>
void with_factors(const Tensor& A, F&& f) {
  const Matrices x = matrices_of(A);
  const int64_t n = x.n, size = n * n;
  const auto some = [&](int64_t b, int64_t e) {
    std::vector<T> lu(A.data<T>() + b * size, A.data<T>() + e * size);
    std::vector<int32_t> pivots(static_cast<size_t>((e - b) * n)), info(static_cast<size_t>(e - b));
    lu_batch(lu.data(), {e - b, n, n}, pivots.data(), info.data());
    for (int64_t i = b; i < e; ++i) f(lu.data() + (i - b) * size, pivots.data() + (i - b) * n, i);
  };
  if (n > kBlock)
    for (int64_t i = 0; i < x.count; ++i) some(i, i + 1);
  else over_matrices(x.count, size * n, some);
}
template <class T>
T sign_of(const int32_t* pivots, int64_t n) {
  T sign = 1;
  for (int64_t k = 0; k < n; ++k)
    if (pivots[k] != k + 1) sign = -sign;
  return sign;
}

}  // namespace

void linalg_det(const Tensor& A, const Tensor& y) {
  const int64_t n = A.size(-1);
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    with_factors<T>(A, [&](const T* lu, const int32_t* pivots, int64_t i) {
      T product = sign_of<T>(pivots, n);
      for (int64_t k = 0; k < n; ++k) product *= lu[k * n + k];
      y.data<T>()[i] = product;
    });
  });
}

void linalg_slogdet(const Tensor& A, const Tensor& sign, const Tensor& logabsdet) {
  const int64_t n = A.size(-1);
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    with_factors<T>(A, [&](const T* lu, const int32_t* pivots, int64_t i) {
      T s = sign_of<T>(pivots, n);
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T u = lu[k * n + k];
        s = u == 0 ? T(0) : u < 0 ? -s : u > 0 ? s : std::numeric_limits<T>::quiet_NaN();
        sum += std::log(std::fabs(static_cast<double>(u)));
      }
      sign.data<T>()[i] = s;
      logabsdet.data<T>()[i] = static_cast<T>(sum);
    });
  });
}

// The derivative of det by each element, which is det inv^T, finite where A is singular as well: a pivot that is 0 becomes one
// so small that it does not count, and cancels.
void linalg_cofactor(const Tensor& A, const Tensor& y) {
  const int64_t n = A.size(-1), size = n * n;
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    with_factors<T>(A, [&](T* lu, const int32_t* pivots, int64_t i) {
      T largest = 0;
      for (int64_t k = 0; k < size; ++k) largest = std::max(largest, std::fabs(A.data<T>()[i * size + k]));
      const T tiny = largest > 0 ? largest * std::numeric_limits<T>::epsilon() * std::numeric_limits<T>::epsilon() : T(1e-30);
      T det = sign_of<T>(pivots, n);
      for (int64_t k = 0; k < n; ++k) {
        if (lu[k * n + k] == 0) lu[k * n + k] = tiny;
        det *= lu[k * n + k];
      }
      T* out = y.data<T>() + i * size;
      for (int64_t k = 0; k < size; ++k) out[k] = k % (n + 1) == 0 ? det : T(0);
      lu_solve(lu, pivots, n, n, true, out);
    });
  });
}

}  // namespace fl::kernels
