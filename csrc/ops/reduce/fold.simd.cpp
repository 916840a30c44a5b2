// Folds along contiguous elements. Sums of floats are taken in 64 lanes over blocks of 2048, so that no lane
// adds more than 32 floats, and the blocks are added in double. Rows of fewer have eight lanes, the shortest none: eight of
// those rows go together. Small integers have more lanes. Lanes and blocks do not depend on the instruction set or on threads.
#include "ops/reduce/fold_parts.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
constexpr int kLanes = sizeof(T) < 4 ? 256 / static_cast<int>(sizeof(T)) : 64;
constexpr int kFew = 8;
constexpr int64_t kBlock = 2048;
constexpr int64_t kRows = 8;

// Folds the upper half of the lanes onto the lower one until one is left.
template <Fold F, int Width, class T>
FL_VM void collapse(T* lane) {
  if constexpr (Width > 0) {
#pragma omp simd
    for (int l = 0; l < Width; ++l) lane[l] = combine<F, T>(lane[l], lane[l + Width]);
    collapse<F, Width / 2>(lane);
  }
}

template <Fold F, int Lanes, class T>
FL_VM Acc<T> block(const T* x, int64_t n, T c, T p) {
  using A = Acc<T>;
  T lane[Lanes];
#pragma omp simd
  for (int l = 0; l < Lanes; ++l) lane[l] = neutral<F, T>();
  int64_t k = 0;
  for (; k + Lanes <= n; k += Lanes) {
#pragma omp simd
    for (int l = 0; l < Lanes; ++l) lane[l] = combine<F, T>(lane[l], image<F>(x[k + l], c, p));
  }
  A s = neutral<F, A>();
  for (; k < n; ++k) s = combine<F, A>(s, static_cast<A>(image<F>(x[k], c, p)));
  collapse<F, Lanes / 2>(lane);
  return combine<F, A>(static_cast<A>(lane[0]), s);
}

template <Fold F, class T>
void run(const T* x, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T c = center ? *center : T(0), pt = static_cast<T>(p);
  A total = *acc;
  if (n < kLanes<T>) {
    total = combine<F, A>(total, block<F, kFew>(x, n, c, pt));
  } else {
    for (int64_t i = 0; i < n; i += kBlock) total = combine<F, A>(total, block<F, kLanes<T>>(x + i, std::min(kBlock, n - i), c, pt));
  }
  *acc = total;
}

// Eight rows of fewer elements than a row has lanes, with the results of run().
template <Fold F, class T>
void short_rows(const T* x, int64_t stride, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T pt = static_cast<T>(p);
  T c[kRows];
  A s[kRows];
  for (int64_t r = 0; r < kRows; ++r) c[r] = center ? center[r] : T(0), s[r] = neutral<F, A>();
  for (int64_t k = 0; k < n; ++k) {
    T column[kRows];
    for (int64_t r = 0; r < kRows; ++r) column[r] = x[r * stride + k];
#pragma omp simd
    for (int64_t r = 0; r < kRows; ++r) s[r] = combine<F, A>(s[r], static_cast<A>(image<F>(column[r], c[r], pt)));
  }
#pragma omp simd
  for (int64_t r = 0; r < kRows; ++r) acc[r] = combine<F, A>(acc[r], s[r]);
}

// Sums of floats have loops of their own.
bool summed_apart(Fold op, DType type) { return op == Fold::Sum && is_float(type) && type != DType::Float64; }

}  // namespace

void fold_run(Fold op, DType type, const void* x, int64_t n, const void* center, double p, void* acc) {
  if (summed_apart(op, type)) return FL_ISA::fold_sums(type, x, n, 1, n, static_cast<double*>(acc));
  choose(op, [&](auto f) {
    choose_type<decltype(f)::value>(type, [&](auto t) {
      using T = decltype(t);
      run<decltype(f)::value, T>(static_cast<const T*>(x), n, static_cast<const T*>(center), p, static_cast<Acc<T>*>(acc));
    });
  });
}
void fold_runs(Fold op, DType type, const void* x, int64_t stride, int64_t m, int64_t n, const void* center, double p, void* acc) {
  if (summed_apart(op, type)) return FL_ISA::fold_sums(type, x, stride, m, n, static_cast<double*>(acc));
  choose(op, [&](auto f) {
    choose_type<decltype(f)::value>(type, [&](auto t) {
      using T = decltype(t);
      constexpr Fold F = decltype(f)::value;
      const T *from = static_cast<const T*>(x), *c = static_cast<const T*>(center);
      Acc<T>* to = static_cast<Acc<T>*>(acc);
      int64_t j = 0;
      if (n < kFew)
        for (; j + kRows <= m; j += kRows) short_rows<F, T>(from + j * stride, stride, n, c ? c + j : nullptr, p, to + j);
      for (; j < m; ++j) run<F, T>(from + j * stride, n, c ? c + j : nullptr, p, to + j);
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
