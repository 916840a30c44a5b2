// Eigenvalues of symmetric matrices and singular values, in double: Householder's tridiagonal form with the QL iteration
// (Wilkinson's implicit shifts), and Hestenes' one-sided Jacobi rotations.
#include <cstdint>

#include "base/vmath_basic.h"
#include "ops/linalg/loops.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr double kEps = 0x1p-52;

FL_VM double dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
FL_VM void add(double factor, const double* x, double* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}
// (x, y) := (c x - s y, s x + c y)
FL_VM void turn(double* x, double* y, int64_t n, double c, double s) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const double u = x[i], v = y[i];
    x[i] = c * u - s * v;
    y[i] = s * u + c * v;
  }
}
FL_VM void exchange(double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    x[i] = y[i];
    y[i] = v;
  }
}
FL_VM double length(double a, double b) {
  const double x = vm::abs(a), y = vm::abs(b), big = x > y ? x : y, small = x > y ? y : x;
  if (!(small > 0)) return big;
  const double q = small / big;
  return big * vm::sqrt(1 + q * q);
}

// a becomes tridiagonal: d on the diagonal, e beside it. Behind the diagonal of row k is then the vector that row k was
// reflected with, whose factor is tau[k].
void tridiagonalise(double* a, int64_t n, double* d, double* e, double* tau, double* p) {
  for (int64_t k = 0; k + 2 < n; ++k) {
    double* v = a + k * n + k + 1;
    const int64_t left = n - k - 1;
    const double alpha = v[0], rest = dot(v + 1, v + 1, left - 1);
    d[k] = a[k * n + k];
    tau[k] = 0;
    e[k] = alpha;
    if (rest == 0) continue;
    const double beta = -vm::copysign(vm::sqrt(alpha * alpha + rest), alpha);
    tau[k] = (beta - alpha) / beta;
    e[k] = beta;
    const double scale = 1 / (alpha - beta);
    v[0] = 1;
    for (int64_t i = 1; i < left; ++i) v[i] *= scale;
    double* rows = a + (k + 1) * n + k + 1;
    for (int64_t i = 0; i < left; ++i) p[i] = tau[k] * dot(rows + i * n, v, left);
    add(-0.5 * tau[k] * dot(p, v, left), v, p, left);
    for (int64_t i = 0; i < left; ++i) {
      double* row = rows + i * n;
      const double vi = v[i], pi = p[i];
#pragma omp simd
      for (int64_t j = 0; j < left; ++j) row[j] -= vi * p[j] + pi * v[j];
    }
  }
  if (n >= 2) d[n - 2] = a[(n - 2) * n + n - 2], e[n - 2] = a[(n - 2) * n + n - 1];
  if (n >= 1) d[n - 1] = a[n * n - 1], e[n - 1] = 0;
}
// The rows of z are the columns of H_0 H_1 ...
void gather_reflections(const double* a, int64_t n, const double* tau, double* z) {
  for (int64_t i = 0; i < n * n; ++i) z[i] = i % (n + 1) == 0 ? 1 : 0;
  for (int64_t k = n - 3; k >= 0; --k) {
    const double* v = a + k * n + k + 1;
    const int64_t left = n - k - 1;
    if (tau[k] == 0) continue;
    for (int64_t i = 0; i < left; ++i) {
      double* row = z + (k + 1 + i) * n + k + 1;
      add(-tau[k] * dot(row, v, left), v, row, left);
    }
  }
}
// One QL sweep over [l, m] with the shift that belongs to d[l].
FL_VM void ql_sweep(double* d, double* e, int64_t l, int64_t m, double* z, int64_t n) {
  double g = (d[l + 1] - d[l]) / (2 * e[l]);
  g = d[m] - d[l] + e[l] / (g + vm::copysign(length(g, 1.0), g));
  double s = 1, c = 1, shift = 0;
  for (int64_t i = m - 1; i >= l; --i) {
    const double f = s * e[i], b = c * e[i], r = length(f, g);
    e[i + 1] = r;
    if (r == 0) {  // it falls apart here
      d[i + 1] -= shift;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    const double h = d[i + 1] - shift, t = (d[i] - h) * s + 2 * c * b;
    shift = s * t;
    d[i + 1] = h + shift;
    g = c * t - b;
    if (z) turn(z + i * n, z + (i + 1) * n, n, c, s);
  }
  d[l] -= shift;
  e[l] = g;
  e[m] = 0;
}
FL_VM bool ql(double* d, double* e, int64_t n, double* z) {
  for (int64_t l = 0; l < n; ++l)
    for (int rounds = 0;; ++rounds) {
      int64_t m = l;
      while (m + 1 < n && !(vm::abs(e[m]) <= kEps * (vm::abs(d[m]) + vm::abs(d[m + 1])) || vm::abs(e[m]) < 1e-290)) ++m;
      if (m == l) break;
      if (rounds == 80) return false;
      ql_sweep(d, e, l, m, z, n);
    }
  return true;
}
// A power of two that brings the largest element near 1; 0 for zeros, and NaN where something is not finite.
FL_VM double scale_of(const double* a, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = vm::abs(a[i]);
    if (!(v < vm::kInf<double>)) return vm::kNaN<double>;
    largest = v > largest ? v : largest;
  }
  if (largest == 0) return 0;
  const int exponent = static_cast<int>(vm::bits<uint64_t>(largest < 0x1p-1000 ? 0x1p-1000 : largest) >> 52) - 1023;
  return vm::bits<double>(static_cast<uint64_t>(1023 - (exponent > 1000 ? 1000 : exponent)) << 52);
}

// A unit vector for row k of x [n, m] that is orthogonal to the rows before it and to those in `done`.
void complete_row(double* x, int64_t k, int64_t m) {
  double* mine = x + k * m;
  int64_t at = 0;
  double most = -1;
  for (int64_t c = 0; c < m; ++c) {
    double used = 0;
    for (int64_t i = 0; i < k; ++i) used += x[i * m + c] * x[i * m + c];
    if (1 - used > most) most = 1 - used, at = c;
  }
  for (int64_t c = 0; c < m; ++c) mine[c] = c == at ? 1 : 0;
  for (int twice = 0; twice < 2; ++twice)
    for (int64_t i = 0; i < k; ++i) add(-dot(mine, x + i * m, m), x + i * m, mine, m);
  const double norm = vm::sqrt(dot(mine, mine, m));
  for (int64_t c = 0; c < m; ++c) mine[c] /= norm;
}
// Whether a pair of rows was turned.
FL_VM bool turn_pair(double* x, double* j, int64_t n, int64_t m, int64_t p, int64_t q, double least) {
  double *u = x + p * m, *v = x + q * m;
  double uu = 0, vv = 0, uv = 0;
#pragma omp simd reduction(+ : uu, vv, uv)
  for (int64_t i = 0; i < m; ++i) uu += u[i] * u[i], vv += v[i] * v[i], uv += u[i] * v[i];
  if (uu < least || vv < least || vm::abs(uv) <= 4 * kEps * vm::sqrt(uu) * vm::sqrt(vv)) return false;
  const double zeta = (vv - uu) / (2 * uv);
  const double t = vm::copysign(1.0, zeta) / (vm::abs(zeta) + length(1.0, zeta));
  const double c = 1 / vm::sqrt(1 + t * t), s = c * t;
  turn(u, v, m, c, s);
  if (j) turn(j + p * n, j + q * n, n, c, s);
  return true;
}

}  // namespace

bool symmetric_eigen(double* a, int64_t n, double* w, double* z, double* work) {
  double *e = work, *tau = work + n, *p = work + 2 * n;
  const double scale = scale_of(a, n * n);
  if (scale != scale) return false;
  for (int64_t i = 0; i < n * n; ++i) a[i] *= scale;
  tridiagonalise(a, n, w, e, tau, p);
  if (z) gather_reflections(a, n, tau, z);
  if (!ql(w, e, n, z)) return false;
  for (int64_t i = 0; i < n; ++i) {
    int64_t least = i;
    for (int64_t k = i + 1; k < n; ++k)
      if (w[k] < w[least]) least = k;
    if (least == i) continue;
    const double v = w[i];
    w[i] = w[least];
    w[least] = v;
    if (z) exchange(z + i * n, z + least * n, n);
  }
  for (int64_t i = 0; i < n; ++i) w[i] = scale == 0 ? 0 : w[i] / scale;
  return true;
}

bool orthogonal_rows(double* x, int64_t n, int64_t m, double* j, double* s) {
  const double scale = scale_of(x, n * m);
  if (scale != scale) return false;
  for (int64_t i = 0; i < n * m; ++i) x[i] *= scale;
  if (j)
    for (int64_t i = 0; i < n * n; ++i) j[i] = i % (n + 1) == 0 ? 1 : 0;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double square = dot(x + i * m, x + i * m, m);
    largest = square > largest ? square : largest;
  }
  const double nothing = 1e-2 * kEps * vm::sqrt(largest);
  bool turned = true;
  for (int sweep = 0; turned && sweep < 80; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) turned |= turn_pair(x, j, n, m, p, q, nothing * nothing);
  }
  if (turned) return false;
  for (int64_t i = 0; i < n; ++i) s[i] = vm::sqrt(dot(x + i * m, x + i * m, m));
  for (int64_t i = 0; i < n; ++i) {
    int64_t most = i;
    for (int64_t k = i + 1; k < n; ++k)
      if (s[k] > s[most]) most = k;
    if (most != i) {
      const double v = s[i];
      s[i] = s[most];
      s[most] = v;
      exchange(x + i * m, x + most * m, m);
      if (j) exchange(j + i * n, j + most * n, n);
    }
    if (s[i] > nothing)
      for (int64_t c = 0; c < m; ++c) x[i * m + c] /= s[i];
    else if (j) complete_row(x, i, m);
  }
  for (int64_t i = 0; i < n; ++i) s[i] = scale == 0 ? 0 : s[i] / scale;
  return true;
}

void rows_times_rows(const double* a, int64_t lda, int64_t m, int64_t n, const double* b, int64_t r, double* out, int64_t ld) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < r; ++k) out[i * ld + k] = dot(a + i * lda, b + k * n, n);
}

}  // namespace fl::kernels::FL_ISA
