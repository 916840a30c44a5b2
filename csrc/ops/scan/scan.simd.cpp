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

template <class T, class A>
FL_VM T stored(A y) {
  if constexpr (is_half_type<T>) return vm::narrow<T>(static_cast<float>(y));
  else return static_cast<T>(y);
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
      out[j] = stored<T>(y);
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
  // Of a row by itself: whether none of the next elements is better, so that all have what there is. Most pieces of a long row are like that.
  bool stays(const T* in, T* out, int64_t* index, int64_t m) const {
    const T old = best[0];
    const auto b = value_of(old);
    int wins = 0;
#pragma omp simd reduction(| : wins)
    for (int64_t j = 0; j < m; ++j) {
      const auto a = value_of(in[j]);
      wins |= (a != a) | ((b == b) & (kMax ? a >= b : a <= b)) ? 1 : 0;
    }
    if (wins) return false;
    std::fill_n(out, m, old);
    std::fill_n(index, m, at[0]);
    return true;
  }
  // Elements i to i + m of a row by itself, one after the other.
  void walk(int64_t i, const T* in, T* out, int64_t* index, int64_t m) {
    T old = i == 0 ? in[0] : best[0];
    int64_t place = i == 0 ? 0 : at[0];
    for (int64_t j = 0; j < m; ++j) {
      const T x = in[j];
      const auto a = value_of(x), b = value_of(old);
      const bool wins = (a != a) | ((b == b) & (kMax ? a >= b : a <= b));
      old = wins ? x : old;
      place = wins ? i + j : place;
      out[j] = old, index[j] = place;
    }
    best[0] = old, at[0] = place;
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

template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap

// One row by itself, where there are too few to go side by side. Sums and products of vectors go up in the logarithm of their length.
template <bool kBackward, class S, class A>
A running_sum(const S* in, S* out, int64_t n, A carry) {
#pragma omp simd reduction(inscan, + : carry)
  for (int64_t i = 0; i < n; ++i) {
    carry += static_cast<A>(in[kBackward ? n - 1 - i : i]);
#pragma omp scan inclusive(carry)
    out[kBackward ? n - 1 - i : i] = static_cast<S>(carry);
  }
  return carry;
}
template <class S, class A>
A running_product(const S* in, S* out, int64_t n, A carry) {
#pragma omp simd reduction(inscan, * : carry)
  for (int64_t i = 0; i < n; ++i) {
    carry *= static_cast<A>(in[i]);
#pragma omp scan inclusive(carry)
    out[i] = static_cast<S>(carry);
  }
  return carry;
}
template <class S, class A>
A running(Scan scan, bool backward, const S* in, S* out, int64_t n, A carry) {
  if (scan == Scan::Product) return running_product(in, out, n, carry);
  return backward ? running_sum<true>(in, out, n, carry) : running_sum<false>(in, out, n, carry);
}
template <class S>
void running_row(Scan scan, DType dtype, const S* in, S* out, int64_t n, bool backward) {
  constexpr bool half = is_half_type<S>;
  using T = std::conditional_t<half, float, S>;
  Sum<T> carry = scan == Scan::Product ? 1 : 0;
  if constexpr (!half) {
    running(scan, backward, in, out, n, carry);
  } else {
    constexpr int64_t kPiece = 512;
    T piece[kPiece];
    for (int64_t done = 0; done < n; done += kPiece) {
      const int64_t m = std::min(kPiece, n - done), first = backward ? n - done - m : done;
      FL_ISA::convert_loop(piece, DType::Float32, in + first, dtype, m);
      carry = running(scan, backward, piece, piece, m, carry);
      FL_ISA::convert_loop(out + first, dtype, piece, DType::Float32, m);
    }
  }
}
// Rows of n pairs side by side, since each sum waits for the one before it.
constexpr int kTogether = 4;
template <int R, class T>
void running_pairs(const T* in, T* out, int64_t n, bool backward) {
  double carry[R][2] = {};
  const int64_t step = backward ? -2 : 2;
  for (int64_t i = 0, at = backward ? 2 * (n - 1) : 0; i < n; ++i, at += step)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const T* const from = in + r * 2 * n + at;
      T* const to = out + r * 2 * n + at;
      const double first = carry[r][0] + static_cast<double>(from[0]), second = carry[r][1] + static_cast<double>(from[1]);
      carry[r][0] = first, carry[r][1] = second;
      to[0] = static_cast<T>(first), to[1] = static_cast<T>(second);
    }
}
template <class S, class Chain, class T = typename Chain::Element>
void along_row(Chain& chain, DType dtype, const S* in, S* out, int64_t* index, int64_t n) {
  T piece[kSteps];
  for (int64_t done = 0; done < n; done += kSteps) {
    const int64_t steps = std::min(kSteps, n - done);
    if constexpr (std::is_same_v<S, T>) {
      if constexpr (requires { chain.best; }) {
        if (done == 0 || !chain.stays(in + done, out + done, index + done, steps)) chain.walk(done, in + done, out + done, index + done, steps);
        continue;
      }
      for (int64_t i = done; i < done + steps; ++i) chain.advance(i, in + i, out + i, index + i, 1);
    } else {
      FL_ISA::convert_loop(piece, DType::Float32, in + done, dtype, steps);
      for (int64_t i = 0; i < steps; ++i) chain.advance(done + i, piece + i, piece + i, index + done + i, 1);
      FL_ISA::convert_loop(out + done, dtype, piece, DType::Float32, steps);
    }
  }
}

// Calls f(chain) for the scan of elements of type T.
template <class T, class F>
void with_chain(Scan scan, F&& f) {
  auto carried = [&]<class A>(A start, auto step) {
    Carried<T, A, decltype(step)> chain(start, step);
    f(chain);
  };
  switch (scan) {
    case Scan::Sum: return carried(Sum<T>(0), [](Sum<T> a, Sum<T> b) { return a + b; });
    case Scan::Product: return carried(Sum<T>(1), [](Sum<T> a, Sum<T> b) { return a * b; });
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
    const bool by_logarithm = (scan == Scan::Sum || scan == Scan::Product) && n >= kSteps;
    // The largest so far stays for most pieces of a row. Beside each other, eight bytes at a time, rows gain less.
    const bool by_pieces = (scan == Scan::Max || scan == Scan::Min) && sizeof(S) == 8;
    if (rows <= kScanFewRows || by_logarithm || by_pieces) {
      for (int64_t r = 0; r < rows; ++r) {
        const S* const from = static_cast<const S*>(in) + r * n;
        S* const to = static_cast<S*>(out) + r * n;
        if (scan == Scan::Sum || scan == Scan::Product) running_row(scan, dtype, from, to, n, backward);
        else with_chain<T>(scan, [&](auto& chain) { along_row(chain, dtype, from, to, index + r * n, n); });
      }
      return;
    }
    with_chain<T>(scan, [&](auto& chain) { along_rows(chain, dtype, static_cast<const S*>(in), static_cast<S*>(out), index, n, rows, backward); });
  });
}

void sum_rows_of_pairs(DType dtype, const void* in, void* out, int64_t n, int64_t rows, bool backward) {
  const auto sums = [&]<class T>(T) {
    for (int64_t r = 0; r < rows; r += kTogether) {
      const T* const from = static_cast<const T*>(in) + r * 2 * n;
      T* const to = static_cast<T*>(out) + r * 2 * n;
      if (rows - r >= kTogether) running_pairs<kTogether>(from, to, n, backward);
      else
        for (int64_t k = 0; k < rows - r; ++k) running_pairs<1>(from + k * 2 * n, to + k * 2 * n, n, backward);
    }
  };
  return dtype == DType::Float32 ? sums(float{}) : sums(double{});
}

}  // namespace fl::kernels::FL_ISA
