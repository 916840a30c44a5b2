#include "ops/scan/products.h"

#include "base/element.h"
#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
FL_VM double wide(T x) {
  if constexpr (is_half_type<T>) return static_cast<double>(vm::wide(x));
  else return static_cast<double>(x);
}
template <class T>
FL_VM T stored(double x) {
  if constexpr (is_half_type<T>) return vm::narrow<T>(static_cast<float>(x));
  else return static_cast<T>(x);
}

template <class T>
void others(const double* dy, const T* x, T* dx, int64_t n, int64_t stride, int64_t m) {
  double product[kProductColumns], zeros[kProductColumns];
  for (int64_t j = 0; j < m; ++j) product[j] = 1, zeros[j] = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) {
      const double v = wide(row[j]);
      product[j] *= v == 0 ? 1.0 : v;
      zeros[j] += v == 0 ? 1.0 : 0.0;
    }
  }
#pragma omp simd
  for (int64_t j = 0; j < m; ++j) product[j] *= dy[j];
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
    T* to = dx + i * stride;
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) {
      const double v = wide(row[j]), alone = (zeros[j] == 1.0) & (v == 0) ? product[j] : 0.0;
      const double quotient = product[j] / v;
      to[j] = stored<T>(zeros[j] == 0.0 ? quotient : alone);
    }
  }
}

template <class T>
void running(const T* dy, const T* x, T* dx, int64_t n, int64_t stride, int64_t m, double* room) {
  double carry[kProductColumns];
  for (int64_t i = n; i-- > 0;) {
    const T *g = dy + i * stride, *next = x + (i + 1) * stride;
    double* to = room + i * m;
    if (i + 1 == n) {
      for (int64_t j = 0; j < m; ++j) to[j] = carry[j] = wide(g[j]);
      continue;
    }
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) to[j] = carry[j] = wide(g[j]) + wide(next[j]) * carry[j];
  }
  for (int64_t j = 0; j < m; ++j) carry[j] = 1;
  for (int64_t i = 0; i < n; ++i) {
    const T* row = x + i * stride;
    const double* s = room + i * m;
    T* to = dx + i * stride;
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) {
      const double v = wide(row[j]);
      to[j] = stored<T>(s[j] * carry[j]);
      carry[j] *= v;
    }
  }
}

}  // namespace

void other_products(DType dtype, const double* dy, const void* x, void* dx, int64_t n, int64_t stride, int64_t m) {
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) others(dy, static_cast<const T*>(x), static_cast<T*>(dx), n, stride, m);
  });
}

void running_product_gradient(DType dtype, const void* dy, const void* x, void* dx, int64_t n, int64_t stride, int64_t m, double* room) {
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T> || is_half_type<T>) running(static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx), n, stride, m, room);
  });
}

}  // namespace fl::kernels::FL_ISA
