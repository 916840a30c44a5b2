// Folds down columns: blocks of 64 rows in the type itself, and the blocks in double.
#include "base/element.h"
#include "ops/reduce/fold_parts.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kRows = 64, kCols = 256;

// The elements lie in memory as S, which is T but for 16-bit floats.
template <Fold F, class T, class S>
void rows(const S* x, int64_t stride, int64_t n_rows, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T pt = static_cast<T>(p);
  static constexpr T no_center[kCols] = {};
  const auto read = [](S v) -> T {
    if constexpr (std::is_same_v<S, T>) return v;
    else return vm::wide(v);
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
        const S* a = x + r * stride + j;
        const S* b = a + stride;
#pragma omp simd
        for (int64_t l = 0; l < m; ++l)
          part[l] = combine<F, T>(part[l], combine<F, T>(image<F>(read(a[l]), c[l], pt), image<F>(read(b[l]), c[l], pt)));
      }
      for (; r < last; ++r) {
        const S* a = x + r * stride + j;
#pragma omp simd
        for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(part[l], image<F>(read(a[l]), c[l], pt));
      }
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) acc[j + l] = combine<F, A>(acc[j + l], static_cast<A>(part[l]));
    }
  }
}

}  // namespace

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
