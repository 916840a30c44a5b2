// Folds down columns: blocks of 64 rows in the type itself, and the blocks in double.
#include "base/element.h"
#include "dispatch/half_vectors.h"
#include "ops/reduce/fold_parts.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kRows = 64, kCols = 256;

// 16-bit floats as floats.
template <class S>
void widen(const S* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kVectorFloats <= n; i += kVectorFloats) {
    const Vector wide = widened<S>(reinterpret_cast<const char*>(from + i));
    std::memcpy(to + i, &wide, kVector);
  }
  for (; i < n; ++i) to[i] = vm::wide(from[i]);
}

// The elements lie in memory as S, which is T but for 16-bit floats.
template <Fold F, class T, class S>
void rows(const S* x, int64_t stride, int64_t n_rows, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T pt = static_cast<T>(p);
  static constexpr T no_center[kCols] = {};
  T room[2][kCols];
  const auto row = [&](const S* from, int64_t m, int which) -> const T* {
    if constexpr (std::is_same_v<S, T>) return from;
    else return widen(from, m, room[which]), room[which];
  };
  for (int64_t j = 0; j < n; j += kCols) {
    const int64_t m = std::min(kCols, n - j);
    const T* c = center ? center + j : no_center;
    for (int64_t i = 0; i < n_rows; i += kRows) {
      T part[kCols];
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) part[l] = neutral<F, T>();
      const int64_t last = std::min(n_rows, i + kRows);
      int64_t r = i;
      for (; r + 2 <= last; r += 2) {
        const T* a = row(x + r * stride + j, m, 0);
        const T* b = row(x + (r + 1) * stride + j, m, 1);
#pragma omp simd
        for (int64_t l = 0; l < m; ++l)
          part[l] = combine<F, T>(part[l], combine<F, T>(image<F>(a[l], c[l], pt), image<F>(b[l], c[l], pt)));
      }
      for (; r < last; ++r) {
        const T* a = row(x + r * stride + j, m, 0);
#pragma omp simd
        for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(part[l], image<F>(a[l], c[l], pt));
      }
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) acc[j + l] = combine<F, A>(acc[j + l], static_cast<A>(part[l]));
    }
  }
}

template <Fold F, class T>
void plane(const T* x, int64_t stride, int64_t n_rows, int64_t n, T divisor, T* out) {
  const T zero = 0;
  for (int64_t j = 0; j < n; j += kCols) {
    const int64_t m = std::min(kCols, n - j);
    const T* a = x + j;
    T part[kCols];
    int64_t r = 1;
    if (n_rows > 1) {
      const T* b = a + stride;
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(neutral<F, T>(), combine<F, T>(image<F>(a[l], zero, zero), image<F>(b[l], zero, zero)));
      r = 2;
    } else {
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(neutral<F, T>(), image<F>(a[l], zero, zero));
    }
    for (; r + 2 <= n_rows; r += 2) {
      const T *p = a + r * stride, *q = p + stride;
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(part[l], combine<F, T>(image<F>(p[l], zero, zero), image<F>(q[l], zero, zero)));
    }
    if (r < n_rows) {
      const T* p = a + r * stride;
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(part[l], image<F>(p[l], zero, zero));
    }
    T* const to = out + j;
    if constexpr (std::is_floating_point_v<T>) {
      if (divisor != 0) {
#pragma omp simd
        for (int64_t l = 0; l < m; ++l) to[l] = part[l] / divisor;
        continue;
      }
    }
#pragma omp simd
    for (int64_t l = 0; l < m; ++l) to[l] = part[l];
  }
}

}  // namespace

void fold_planes(Fold op, DType type, const void* x, int64_t plane_step, int64_t planes, int64_t stride, int64_t n_rows, int64_t n, double divisor, void* out) {
  choose(op, [&](auto f) {
    constexpr Fold F = decltype(f)::value;
    if constexpr (in_planes(F)) {
      choose_type<F>(type, [&](auto t) {
        using T = decltype(t);
        const T* from = static_cast<const T*>(x);
        T* to = static_cast<T*>(out);
        for (int64_t u = 0; u < planes; ++u) plane<F, T>(from + u * plane_step, stride, n_rows, n, static_cast<T>(divisor), to + u * n);
      });
    }
  });
}

void fold_rows(Fold op, DType type, const void* x, int64_t stride, int64_t n_rows, int64_t n, const void* center,
               double p, void* acc) {
  if (is_float(type) && item_size(type) == 2) {  // sums alone: reads_half()
    const auto sums = [&](auto s) {
      using S = decltype(s);
      rows<Fold::Sum, float, S>(static_cast<const S*>(x), stride, n_rows, n, nullptr, p, static_cast<double*>(acc));
    };
    return type == DType::BFloat16 ? sums(BFloat16{}) : sums(Float16{});
  }
  choose(op, [&](auto f) {
    choose_type<decltype(f)::value>(type, [&](auto t) {
      using T = decltype(t);
      rows<decltype(f)::value, T, T>(static_cast<const T*>(x), stride, n_rows, n, static_cast<const T*>(center), p,
                                  static_cast<Acc<T>*>(acc));
    });
  });
}

}  // namespace fl::kernels::FL_ISA
