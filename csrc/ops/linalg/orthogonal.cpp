// QR, eigenvalues of symmetric matrices, singular values, and exponentials of matrices.
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "ops/linalg/lapack.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/reflections.h"

namespace fl::linalg {
namespace {

// Memory of one thread for the singular values of matrices of one shape. What is as long as the matrix is of type T.
template <class T>
struct Singular {
  int64_t m, n;  // of the matrix as it is used, with m >= n
  bool vectors;
  int64_t columns;  // of u
  std::vector<T> a, tau, work, q, u;
  std::vector<double> r, j, s;
  Singular(int64_t rows, int64_t cols, bool full, bool with_vectors) : m(std::max(rows, cols)), n(std::min(rows, cols)), vectors(with_vectors), columns(full ? m : n) {
    a.resize(static_cast<size_t>(m * n)), tau.resize(static_cast<size_t>(n)), work.resize(static_cast<size_t>(m * (std::max(n, columns) + 1)));
    r.resize(static_cast<size_t>(n * n)), s.resize(static_cast<size_t>(n));
    if (vectors) q.resize(static_cast<size_t>(m * columns)), u.resize(static_cast<size_t>(m * columns)), j.resize(static_cast<size_t>(n * n));
  }
  // a = u [m, columns] s r, with rows of r [n, n]: a = Q R, whose rows are turned until they are orthogonal.
  bool run() {
    reflect(a.data(), m, n, tau.data(), work.data());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k) r[static_cast<size_t>(i * n + k)] = k < i ? 0 : a[static_cast<size_t>(i * n + k)];
    if (!kernels::orthogonal_rows(r.data(), n, n, vectors ? j.data() : nullptr, s.data())) return false;
    if (!vectors) return true;
    reflector_product(a.data(), n, tau.data(), m, n, columns, q.data(), work.data());
    if constexpr (std::is_same_v<T, double>) {
      kernels::rows_times_rows(q.data(), columns, m, n, j.data(), n, u.data(), columns);
    } else {
      const std::vector<T> turns(j.begin(), j.end());
      gemm(Gemm<T>{m, n, n, {q.data(), columns, 1}, {turns.data(), 1, n}, u.data(), columns});
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = n; k < columns; ++k) u[static_cast<size_t>(i * columns + k)] = q[static_cast<size_t>(i * columns + k)];
    return true;
  }
};

template <class W, class T>
bool svd_one(Singular<W>& x, const T* in, int64_t m, int64_t n, T* u, T* s, T* vh) {
  const bool wide = n > m;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < n; ++k) x.a[static_cast<size_t>(wide ? k * m + i : i * n + k)] = static_cast<W>(in[i * n + k]);
  if (!x.run()) return false;
  for (int64_t i = 0; i < x.n; ++i) s[i] = static_cast<T>(x.s[static_cast<size_t>(i)]);
  if (!x.vectors) return true;
  // Of a wide matrix the transpose was taken: the factors change places, and are transposed.
  const int64_t small = x.n, c = x.columns;
  if (!wide) {
    for (int64_t i = 0; i < m * c; ++i) u[i] = static_cast<T>(x.u[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < n * n; ++i) vh[i] = static_cast<T>(x.r[static_cast<size_t>(i)]);
  } else {
    for (int64_t i = 0; i < small; ++i)
      for (int64_t k = 0; k < small; ++k) u[i * small + k] = static_cast<T>(x.r[static_cast<size_t>(k * small + i)]);
    for (int64_t i = 0; i < c; ++i)
      for (int64_t k = 0; k < n; ++k) vh[i * n + k] = static_cast<T>(x.u[static_cast<size_t>(k * c + i)]);
  }
  return true;
}

// From this many rows or columns on LAPACK is faster, where there is one.
constexpr int64_t kEigenRows = 48, kSingularRows = 24;
// From this many reflections on they are applied by blocks.
constexpr int64_t kReflectedColumns = 48;
bool by_lapack(int64_t size, int64_t least) { return size >= least && has_lapack(); }
// f(first, last) of `count` matrices: beside one another, or one by one where LAPACK takes the threads itself.
template <class F>
void over_lapack(int64_t count, int64_t rows, F&& f) {
  const LapackThreads threads(rows);
  if (lapack_is_serial(rows)) parallel_for(0, count, 1, f);
  else f(0, count);
}
template <class T>
bool all_finite(const T* a, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * T(0);
  return sum == 0;
}
// Raises for the first that is set, whichever thread found one first.
void refuse_unconverged(const char* op, const Tensor& A, const std::vector<char>& failed) {
  for (size_t i = 0; i < failed.size(); ++i)
    if (failed[i])
      raise<LinAlgError>(op, ": ", A.ndim() > 2 ? text("(Batch element ", i, "): ") : std::string(),
                         "The algorithm failed to converge because the input matrix is ill-conditioned or has elements that are not finite.");
}

// c = a b of [n, n] doubles.
void product(int64_t n, const double* a, const double* b, double* c) { gemm(Gemm<double>{n, n, n, {a, n, 1}, {b, n, 1}, c, n}); }

// e^a: the Pade approximant of degree 13 of a / 2^k, squared k times (Higham, The scaling and squaring method for the matrix
// exponential revisited, 2005).
void exponential(std::vector<double>& a, int64_t n, std::vector<double>& y) {
  constexpr double c[] = {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800., 129060195264000., 10559470521600.,
                          670442572800., 33522128640., 1323241920., 40840800., 960960., 16380., 182., 1.};
  const auto size = static_cast<size_t>(n * n);
  double norm = 0;
  for (int64_t k = 0; k < n; ++k) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::fabs(a[static_cast<size_t>(i * n + k)]);
    norm = sum > norm || sum != sum ? sum : norm;
  }
  if (!std::isfinite(norm)) return y.assign(size, NAN);
  const int squarings = norm > 5.371920351148152 ? std::max(0, static_cast<int>(std::ceil(std::log2(norm / 5.371920351148152)))) : 0;
  for (double& v : a) v = std::ldexp(v, -squarings);
  std::vector<double> a2(size), a4(size), a6(size), t(size), u(size), v(size);
  product(n, a.data(), a.data(), a2.data());
  product(n, a2.data(), a2.data(), a4.data());
  product(n, a4.data(), a2.data(), a6.data());
  const auto odd_and_even = [&](size_t i, int first) { return c[first] * a2[i] + c[first + 2] * a4[i] + c[first + 4] * a6[i]; };
  for (size_t i = 0; i < size; ++i) t[i] = odd_and_even(i, 9);
  product(n, a6.data(), t.data(), v.data());
  for (size_t i = 0; i < size; ++i) v[i] += odd_and_even(i, 3) + (i % static_cast<size_t>(n + 1) == 0 ? c[1] : 0);
  product(n, a.data(), v.data(), u.data());
  for (size_t i = 0; i < size; ++i) t[i] = odd_and_even(i, 8);
  product(n, a6.data(), t.data(), v.data());
  for (size_t i = 0; i < size; ++i) v[i] += odd_and_even(i, 2) + (i % static_cast<size_t>(n + 1) == 0 ? c[0] : 0);
  y.resize(size);
  for (size_t i = 0; i < size; ++i) t[i] = v[i] - u[i], y[i] = v[i] + u[i];
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  lu_factor(t.data(), n, n, pivots.data());
  lu_solve(t.data(), pivots.data(), n, n, false, y.data());
  for (int k = 0; k < squarings; ++k) {
    product(n, y.data(), y.data(), t.data());
    std::swap(y, t);
  }
}

}  // namespace
}  // namespace fl::linalg

namespace fl::kernels {

using namespace linalg;

void linalg_geqrf(const Tensor& A, const Tensor& a, const Tensor& tau) {
  const Matrices x = matrices_of(A);
  const int64_t k = std::min(x.m, x.n);
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::copy_n(A.data<T>(), A.numel(), a.data<T>());
    T *out = a.data<T>(), *factors = tau.data<T>();
    if (k >= kReflectedColumns) {
      for (int64_t i = 0; i < x.count; ++i) Reflections<T>(out + i * x.m * x.n, x.m, x.n, factors + i * k);
      return;
    }
    over_matrices(x.count, 4 * x.m * x.n * k, [&](int64_t b, int64_t e) {
      std::vector<T> work(static_cast<size_t>(x.m * x.n));
      for (int64_t i = b; i < e; ++i) reflect(out + i * x.m * x.n, x.m, x.n, factors + i * k, work.data());
    });
  });
}

void linalg_reflectors(const Tensor& a, const Tensor& tau, int64_t columns, const Tensor& q) {
  const Matrices x = matrices_of(a);
  const int64_t k = tau.size(-1);
  with_real(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *in = a.data<T>(), *factors = tau.data<T>();
    T* out = q.data<T>();
    if (k >= kReflectedColumns) {
      for (int64_t i = 0; i < x.count; ++i) Reflections<T>(in + i * x.m * x.n, x.m, x.n, factors + i * k, k).product(columns, out + i * x.m * columns);
      return;
    }
    over_matrices(x.count, 4 * x.m * columns * std::max<int64_t>(k, 1), [&](int64_t b, int64_t e) {
      std::vector<T> work(static_cast<size_t>(x.m * (columns + 1)));
      for (int64_t i = b; i < e; ++i) reflector_product(in + i * x.m * x.n, x.n, factors + i * k, x.m, k, columns, out + i * x.m * columns, work.data());
    });
  });
}

void linalg_qr(const Tensor& A, std::string_view mode, const Tensor& Q, const Tensor& R) {
  const Matrices x = matrices_of(A);
  const int64_t k = std::min(x.m, x.n), columns = mode == "complete" ? x.m : k, rows = R.size(-2);
  const bool with_q = mode != "r";
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto some = [&](int64_t b, int64_t e) {
      std::vector<T> a(static_cast<size_t>(x.m * x.n)), tau(static_cast<size_t>(k)), work(k >= kReflectedColumns ? 0 : static_cast<size_t>(x.m * (std::max(x.n, columns) + 1)));
      for (int64_t i = b; i < e; ++i) {
        std::copy_n(A.data<T>() + i * x.m * x.n, x.m * x.n, a.data());
        T* q = with_q ? Q.data<T>() + i * x.m * columns : nullptr;
        if (k >= kReflectedColumns) {
          const Reflections<T> reflections(a.data(), x.m, x.n, tau.data());
          if (q) reflections.product(columns, q);
        } else {
          reflect(a.data(), x.m, x.n, tau.data(), work.data());
          if (q) reflector_product(a.data(), x.n, tau.data(), x.m, k, columns, q, work.data());
        }
        T* r = R.data<T>() + i * rows * x.n;
        for (int64_t p = 0; p < rows; ++p)
          for (int64_t c = 0; c < x.n; ++c) r[p * x.n + c] = c < p ? T(0) : a[static_cast<size_t>(p * x.n + c)];
      }
    };
    if (k >= kReflectedColumns) some(0, x.count);
    else over_matrices(x.count, 8 * x.m * std::max(x.n, columns) * std::max<int64_t>(k, 1), some);
  });
}

void linalg_eigh(const Tensor& A, std::string_view UPLO, bool vectors, const Tensor& w, const Tensor& V) {
  const Matrices x = matrices_of(A);
  const int64_t n = x.n, size = n * n;
  const bool upper = UPLO == "U" || UPLO == "u";
  std::vector<char> failed(static_cast<size_t>(x.count));
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (by_lapack(n, kEigenRows))
      return over_lapack(x.count, n, [&](int64_t b, int64_t e) {
        std::vector<T> a(static_cast<size_t>(size));
        for (int64_t i = b; i < e; ++i) {
          std::copy_n(A.data<T>() + i * size, size, a.data());
          failed[static_cast<size_t>(i)] = !all_finite(a.data(), size) || lapack_eigen(a.data(), n, !upper, vectors, w.data<T>() + i * n);
          for (int64_t r = 0; vectors && r < n; ++r)
            for (int64_t c = 0; c < n; ++c) V.data<T>()[i * size + r * n + c] = a[static_cast<size_t>(c * n + r)];
        }
      });
    over_matrices(x.count, 8 * size * n, [&](int64_t b, int64_t e) {
      std::vector<double> a(static_cast<size_t>(size)), z(static_cast<size_t>(vectors ? size : 0)), values(static_cast<size_t>(n)), work(static_cast<size_t>(3 * n));
      for (int64_t i = b; i < e; ++i) {
        const T* in = A.data<T>() + i * size;
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c < n; ++c) a[static_cast<size_t>(r * n + c)] = static_cast<double>((c > r) == upper ? in[r * n + c] : in[c * n + r]);
        if (!symmetric_eigen(a.data(), n, values.data(), vectors ? z.data() : nullptr, work.data())) {
          failed[static_cast<size_t>(i)] = 1;
          continue;
        }
        for (int64_t k = 0; k < n; ++k) w.data<T>()[i * n + k] = static_cast<T>(values[static_cast<size_t>(k)]);
        for (int64_t r = 0; vectors && r < n; ++r)
          for (int64_t c = 0; c < n; ++c) V.data<T>()[i * size + r * n + c] = static_cast<T>(z[static_cast<size_t>(c * n + r)]);
      }
    });
  });
  refuse_unconverged("linalg.eigh", A, failed);
}

void linalg_svd(const Tensor& A, bool full_matrices, bool vectors, const Tensor& U, const Tensor& S, const Tensor& Vh) {
  const Matrices x = matrices_of(A);
  const int64_t k = std::min(x.m, x.n), u_size = vectors ? x.m * U.size(-1) : 0, v_size = vectors ? Vh.size(-2) * x.n : 0;
  std::vector<char> failed(static_cast<size_t>(x.count));
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (by_lapack(k, kSingularRows))
      return over_lapack(x.count, k, [&](int64_t b, int64_t e) {
        std::vector<T> a(static_cast<size_t>(x.m * x.n));
        for (int64_t i = b; i < e; ++i) {
          std::copy_n(A.data<T>() + i * x.m * x.n, x.m * x.n, a.data());
          T *u = vectors ? U.data<T>() + i * u_size : nullptr, *vh = vectors ? Vh.data<T>() + i * v_size : nullptr;
          failed[static_cast<size_t>(i)] = !all_finite(a.data(), x.m * x.n) || lapack_svd(a.data(), x.m, x.n, full_matrices, u, S.data<T>() + i * k, vh);
        }
      });
    const auto in_type = [&]<class W>(W) {
      over_matrices(x.count, 32 * x.m * x.n * std::max<int64_t>(k, 1), [&](int64_t b, int64_t e) {
        Singular<W> memory(x.m, x.n, full_matrices, vectors);
        for (int64_t i = b; i < e; ++i)
          failed[static_cast<size_t>(i)] = !svd_one(memory, A.data<T>() + i * x.m * x.n, x.m, x.n, U.data<T>() + i * u_size, S.data<T>() + i * k, Vh.data<T>() + i * v_size);
      });
    };
    // A long matrix's reflections are most of the time, and as exact as it is in its own type.
    if (std::max(x.m, x.n) >= std::max<int64_t>(128, 4 * k)) in_type(T{});
    else in_type(double{});
  });
  refuse_unconverged("linalg.svd", A, failed);
}

void linalg_matrix_exp(const Tensor& A, const Tensor& y) {
  const Matrices x = matrices_of(A);
  const int64_t size = x.n * x.n;
  with_real(A.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto some = [&](int64_t b, int64_t e) {
      std::vector<double> a, out;
      for (int64_t i = b; i < e; ++i) {
        a.assign(A.data<T>() + i * size, A.data<T>() + (i + 1) * size);
        exponential(a, x.n, out);
        for (int64_t k = 0; k < size; ++k) y.data<T>()[i * size + k] = static_cast<T>(out[static_cast<size_t>(k)]);
      }
    };
    if (x.n > kBlock) some(0, x.count);
    else over_matrices(x.count, 20 * size * x.n, some);
  });
}

}  // namespace fl::kernels
