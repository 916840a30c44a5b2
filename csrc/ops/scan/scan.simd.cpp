#include "ops/scan/scan.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/element.h"
#include "base/vmath.h"
#include "dispatch/convert.h"
#include "storage/transpose.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kSteps = 64;  // of a block of rows

// What an element is computed as.
template <class T>
FL_VM auto value_of(T x) {
  if constexpr (is_half_type<T>) return vm::wide(x);
  else return x;
}

// y[i] = step(y[i - 1], x[i]) with the carry in A.
template <class T, class A, class Step>
struct Carried {
  using Element = T;
  Step step;
  A carry[kScanColumns];
  Carried(A start, Step f) : step(f) { std::fill_n(carry, kScanColumns, start); }
  inline __attribute__((always_inline)) void advance(int64_t, const T* in, T* out, int64_t*, int64_t m) {
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) {
      const A y = step(carry[j], static_cast<A>(value_of(in[j])));
      carry[j] = y;
      if constexpr (is_half_type<T>) out[j] = vm::narrow<T>(static_cast<float>(y));
      else out[j] = static_cast<T>(y);
    }
  }
};

// The largest or smallest so far, the last of equals, and its position; NaN stays.
template <class T, bool kMax>
struct Extreme {
  using Element = T;
  T best[kScanColumns];
  int64_t at[kScanColumns];
  inline __attribute__((always_inline)) void advance(int64_t i, const T* in, T* out, int64_t* index, int64_t m) {
    const bool first = i == 0;
#pragma omp simd
    for (int64_t j = 0; j < m; ++j) {
      const T x = in[j], old = best[j];
      const auto a = value_of(x), b = value_of(old);
      const bool wins = first | (a != a) | ((b == b) & (kMax ? a >= b : a <= b));
      best[j] = out[j] = wins ? x : old;
      at[j] = index[j] = wins ? i : at[j];
    }
  }
};

template <class Chain, class T = typename Chain::Element>
void down_columns(Chain& chain, const T* in, T* out, int64_t* index, int64_t n, int64_t stride, int64_t m, bool backward) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (backward ? n - 1 - i : i) * stride;
    chain.advance(i, in + at, out + at, index + at, m);
  }
}

// Rows become columns of transposed blocks. The elements lie in memory as S, which is T but for 16-bit floats.
template <class S, class Chain, class T = typename Chain::Element>
void along_rows(Chain& chain, DType dtype, const S* in, S* out, int64_t* index, int64_t n, int64_t rows, bool backward) {
  constexpr bool same = std::is_same_v<S, T>;
  alignas(64) T block[kSteps * kScanRows];
  alignas(64) int64_t places[kSteps * kScanRows];
  alignas(64) S halves[same ? 1 : kSteps * kScanRows];
  S* raw = halves;
  if constexpr (same) raw = block;
  if (rows < kScanRows) std::fill_n(raw, kSteps * kScanRows, S{});  // the missing rows are scanned too
  for (int64_t done = 0; done < n; done += kSteps) {
    const int64_t steps = std::min(kSteps, n - done), first = backward ? n - done - steps : done;
    transpose_block(in + first, n, raw, kScanRows, rows, steps, sizeof(S));
    if constexpr (!same) FL_ISA::convert_loop(block, DType::Float32, raw, dtype, steps * kScanRows);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t at = (backward ? steps - 1 - i : i) * kScanRows;
      chain.advance(done + i, block + at, block + at, places + at, kScanRows);
    }
    if constexpr (!same) FL_ISA::convert_loop(raw, dtype, block, DType::Float32, steps * kScanRows);
    transpose_block(raw, kScanRows, out + first, n, steps, rows, sizeof(S));
    if (index) transpose_block(places, kScanRows, index + first, n, steps, rows, sizeof(int64_t));
  }
}

// Calls f(chain) for the scan of elements of type T.
template <class T, class F>
void with_chain(Scan scan, F&& f) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap
  auto carried = [&]<class A>(A start, auto step) {
    Carried<T, A, decltype(step)> chain(start, step);
    f(chain);
  };
  switch (scan) {
    case Scan::Sum: return carried(Sum(0), [](Sum a, Sum b) { return a + b; });
    case Scan::Product: return carried(Sum(1), [](Sum a, Sum b) { return a * b; });
    case Scan::LogSumExp:
      if constexpr (!std::is_integral_v<T>) carried(-std::numeric_limits<double>::infinity(), [](double a, double b) { return vm::logaddexp(a, b); });
      return;
    case Scan::Max: {
      Extreme<T, true> chain{};
      return f(chain);
    }
    case Scan::Min: {
      Extreme<T, false> chain{};
      return f(chain);
    }
  }
}

}  // namespace

void scan_columns(Scan scan, DType dtype, const void* in, void* out, int64_t* index, int64_t n, int64_t stride, int64_t m, bool backward) {
  visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    with_chain<T>(scan, [&](auto& chain) { down_columns(chain, static_cast<const T*>(in), static_cast<T*>(out), index, n, stride, m, backward); });
  });
}

void scan_rows(Scan scan, DType dtype, const void* in, void* out, int64_t* index, int64_t n, int64_t rows, bool backward) {
  visit(dtype, [&](auto zero) {
    using S = decltype(zero);
    using T = std::conditional_t<is_half_type<S>, float, S>;
    with_chain<T>(scan, [&](auto& chain) { along_rows(chain, dtype, static_cast<const S*>(in), static_cast<S*>(out), index, n, rows, backward); });
  });
}

}  // namespace fl::kernels::FL_ISA
