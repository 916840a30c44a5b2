// Folds along contiguous elements. Sums of floats are taken in 64 lanes over blocks of 2048, so that no lane
// adds more than 32 floats, and the blocks are added in double. Lanes and blocks do not depend on the
// instruction set or on threads.
#include "ops/reduce/fold_parts.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int kLanes = 64;
constexpr int64_t kBlock = 2048;

// Folds the upper half of the lanes onto the lower one until one is left.
template <Fold F, int Width, class T>
FL_VM void collapse(T* lane) {
  if constexpr (Width > 0) {
#pragma omp simd
    for (int l = 0; l < Width; ++l) lane[l] = combine<F, T>(lane[l], lane[l + Width]);
    collapse<F, Width / 2>(lane);
  }
}

template <Fold F, class T>
void run(const T* x, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T c = center ? *center : T(0), pt = static_cast<T>(p);
  A total = *acc;
  if (n < kLanes) {
    A s = neutral<F, A>();
    for (int64_t i = 0; i < n; ++i) s = combine<F, A>(s, static_cast<A>(image<F>(x[i], c, pt)));
    *acc = combine<F, A>(total, s);
    return;
  }
  for (int64_t i = 0; i < n; i += kBlock) {
    const T* b = x + i;
    const int64_t m = std::min(kBlock, n - i);
    T lane[kLanes];
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) lane[l] = neutral<F, T>();
    int64_t k = 0;
    for (; k + kLanes <= m; k += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lane[l] = combine<F, T>(lane[l], image<F>(b[k + l], c, pt));
    }
    A s = neutral<F, A>();
    for (; k < m; ++k) s = combine<F, A>(s, static_cast<A>(image<F>(b[k], c, pt)));
    collapse<F, kLanes / 2>(lane);
    total = combine<F, A>(total, combine<F, A>(static_cast<A>(lane[0]), s));
  }
  *acc = total;
}

// Sums of floats have loops of their own.
bool summed_apart(Fold op, DType type) { return op == Fold::Sum && is_float(type) && type != DType::Float64; }

}  // namespace

void fold_run(Fold op, DType type, const void* x, int64_t n, const void* center, double p, void* acc) {
  if (summed_apart(op, type)) return FL_ISA::fold_sums(type, x, n, 1, n, static_cast<double*>(acc));
  choose(op, [&](auto f) {
    choose_type(type, [&](auto t) {
      using T = decltype(t);
      run<decltype(f)::value, T>(static_cast<const T*>(x), n, static_cast<const T*>(center), p, static_cast<Acc<T>*>(acc));
    });
  });
}
void fold_runs(Fold op, DType type, const void* x, int64_t stride, int64_t m, int64_t n, const void* center, double p, void* acc) {
  if (summed_apart(op, type)) return FL_ISA::fold_sums(type, x, stride, m, n, static_cast<double*>(acc));
  choose(op, [&](auto f) {
    choose_type(type, [&](auto t) {
      using T = decltype(t);
      const T* c = static_cast<const T*>(center);
      for (int64_t j = 0; j < m; ++j)
        run<decltype(f)::value, T>(static_cast<const T*>(x) + j * stride, n, c ? c + j : nullptr, p, static_cast<Acc<T>*>(acc) + j);
    });
  });
}
void fold_init(Fold op, DType type, void* acc, int64_t n) {
  choose(op, [&](auto f) {
    if (type == DType::Int64) std::fill_n(static_cast<int64_t*>(acc), n, neutral<decltype(f)::value, int64_t>());
    else std::fill_n(static_cast<double*>(acc), n, neutral<decltype(f)::value, double>());
  });
}
void fold_merge(Fold op, DType type, const void* other, void* acc, int64_t n) {
  choose(op, [&](auto f) {
    constexpr Fold F = decltype(f)::value;
    auto merge = [&](const auto* from, auto* to) {
      using A = std::remove_pointer_t<decltype(to)>;
      for (int64_t i = 0; i < n; ++i) to[i] = combine<F, A>(to[i], from[i]);
    };
    if (type == DType::Int64) merge(static_cast<const int64_t*>(other), static_cast<int64_t*>(acc));
    else merge(static_cast<const double*>(other), static_cast<double*>(acc));
  });
}

}  // namespace fl::kernels::FL_ISA
