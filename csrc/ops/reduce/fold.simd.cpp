// Sums of floats are taken in 32 lanes over blocks of 2048 elements (or down blocks of 64 rows), so that no
// lane adds more than 64 floats, and the blocks are added in double. Lanes and blocks do not depend on the
// instruction set or on threads.
#include "ops/reduce/fold.h"

#include <algorithm>
#include <limits>

#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
using Acc = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <Fold F>
constexpr bool kMax = F == Fold::Max || F == Fold::AbsMax || F == Fold::Any;
template <Fold F>
constexpr bool kMin = F == Fold::Min || F == Fold::AbsMin || F == Fold::All;

template <Fold F, class A>
FL_VM A neutral() {
  if constexpr (F == Fold::Any) return 0;
  else if constexpr (F == Fold::All) return 1;
  else if constexpr (F == Fold::Prod) return 1;
  else if constexpr (F == Fold::AbsMax) return 0;
  else if constexpr (kMax<F>) return std::is_integral_v<A> ? std::numeric_limits<A>::lowest() : -vm::kInf<A>;
  else if constexpr (kMin<F>) return std::is_integral_v<A> ? std::numeric_limits<A>::max() : vm::kInf<A>;
  else return 0;
}
template <Fold F, class A>
FL_VM A combine(A a, A b) {
  if constexpr (F == Fold::Prod) return a * b;
  else if constexpr (kMax<F>) return vm::maximum(a, b);
  else if constexpr (kMin<F>) return vm::minimum(a, b);
  else return a + b;
}
template <Fold F, class T>
FL_VM T image(T x, T center, [[maybe_unused]] T p) {
  if constexpr (F == Fold::Any || F == Fold::All || F == Fold::NonZero) return x != 0 ? T(1) : T(0);
  else if constexpr (F == Fold::NanSum) return x == x ? x : T(0);
  else if constexpr (F == Fold::Deviation) return (x - center) * (x - center);
  else if constexpr (F == Fold::Square) return x * x;
  else if constexpr (F == Fold::Abs || F == Fold::AbsMax || F == Fold::AbsMin) return vm::abs(x);
  else if constexpr (F == Fold::Exp && std::is_floating_point_v<T>) return vm::exp(x - center);
  else if constexpr (F == Fold::Power && std::is_floating_point_v<T>) return vm::pow(vm::abs(x), p);
  else return x;
}

constexpr int kLanes = 32;
constexpr int64_t kBlock = 2048, kRows = 64, kCols = 256;

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
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] = combine<F, T>(lane[l], lane[l + width]);
    total = combine<F, A>(total, combine<F, A>(static_cast<A>(lane[0]), s));
  }
  *acc = total;
}

template <Fold F, class T>
void short_rows(const T* x, int64_t stride, int64_t m, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T pt = static_cast<T>(p);
  for (int64_t j = 0; j < m; ++j) {
    const T c = center ? center[j] : T(0);
    A s = acc[j];
    for (int64_t i = 0; i < n; ++i) s = combine<F, A>(s, static_cast<A>(image<F>(x[j * stride + i], c, pt)));
    acc[j] = s;
  }
}

template <Fold F, class T>
void rows(const T* x, int64_t stride, int64_t n_rows, int64_t n, const T* center, double p, Acc<T>* acc) {
  using A = Acc<T>;
  const T pt = static_cast<T>(p);
  static constexpr T no_center[kCols] = {};
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
        const T* a = x + r * stride + j;
        const T* b = a + stride;
#pragma omp simd
        for (int64_t l = 0; l < m; ++l)
          part[l] = combine<F, T>(part[l], combine<F, T>(image<F>(a[l], c[l], pt), image<F>(b[l], c[l], pt)));
      }
      for (; r < last; ++r) {
        const T* a = x + r * stride + j;
#pragma omp simd
        for (int64_t l = 0; l < m; ++l) part[l] = combine<F, T>(part[l], image<F>(a[l], c[l], pt));
      }
#pragma omp simd
      for (int64_t l = 0; l < m; ++l) acc[j + l] = combine<F, A>(acc[j + l], static_cast<A>(part[l]));
    }
  }
}

// f(std::integral_constant<Fold, op>{}, T{})
template <class Fn>
void choose_type(DType type, Fn&& f) {
  if (type == DType::Float32) f(float{});
  else if (type == DType::Float64) f(double{});
  else f(int64_t{});
}
template <class Fn>
void choose(Fold op, Fn&& f) {
  switch (op) {
#define FL_CASE(F) \
  case Fold::F: return f(std::integral_constant<Fold, Fold::F>{});
    FL_CASE(Sum)
    FL_CASE(Prod)
    FL_CASE(Max)
    FL_CASE(Min)
    FL_CASE(Any)
    FL_CASE(All)
    FL_CASE(NanSum)
    FL_CASE(NonZero)
    FL_CASE(Deviation)
    FL_CASE(Exp)
    FL_CASE(Abs)
    FL_CASE(Square)
    FL_CASE(Power)
    FL_CASE(AbsMax)
    FL_CASE(AbsMin)
#undef FL_CASE
  }
}

}  // namespace

void fold_run(Fold op, DType type, const void* x, int64_t n, const void* center, double p, void* acc) {
  choose(op, [&](auto f) {
    choose_type(type, [&](auto t) {
      using T = decltype(t);
      run<decltype(f)::value, T>(static_cast<const T*>(x), n, static_cast<const T*>(center), p, static_cast<Acc<T>*>(acc));
    });
  });
}
void fold_rows(Fold op, DType type, const void* x, int64_t stride, int64_t n_rows, int64_t n, const void* center,
               double p, void* acc) {
  choose(op, [&](auto f) {
    choose_type(type, [&](auto t) {
      using T = decltype(t);
      rows<decltype(f)::value, T>(static_cast<const T*>(x), stride, n_rows, n, static_cast<const T*>(center), p,
                                  static_cast<Acc<T>*>(acc));
    });
  });
}
void fold_short(Fold op, DType type, const void* x, int64_t stride, int64_t m, int64_t n, const void* center, double p, void* acc) {
  choose(op, [&](auto f) {
    choose_type(type, [&](auto t) {
      using T = decltype(t);
      short_rows<decltype(f)::value, T>(static_cast<const T*>(x), stride, m, n, static_cast<const T*>(center), p,
                                        static_cast<Acc<T>*>(acc));
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
