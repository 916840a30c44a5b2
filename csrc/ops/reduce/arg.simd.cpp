// Where the extreme is: rows are searched for their extreme and then for its first position; columns carry
// the position along. NaN counts as the extreme, the first one wins.
#include "ops/reduce/arg.h"

#include <algorithm>
#include <type_traits>

#include "base/vmath_basic.h"

namespace fl::kernels::FL_ISA {
namespace {

template <bool Max, class T>
int64_t in_row(const T* x, int64_t n) {
  constexpr int kLanes = 32;
  T best = x[0];
  int64_t i = 0;
  if (n >= kLanes) {
    T lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = x[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) lane[l] = Max ? vm::maximum(lane[l], x[i + l]) : vm::minimum(lane[l], x[i + l]);
    }
    for (int l = 0; l < kLanes; ++l) best = Max ? vm::maximum(best, lane[l]) : vm::minimum(best, lane[l]);
  }
  for (; i < n; ++i) best = Max ? vm::maximum(best, x[i]) : vm::minimum(best, x[i]);
  const bool nan = best != best;
  for (int64_t b = 0; b < n; b += 256) {
    const int64_t m = std::min<int64_t>(256, n - b);
    int hits = 0;
    if (nan) {
#pragma omp simd reduction(+ : hits)
      for (int64_t k = 0; k < m; ++k) hits += x[b + k] != x[b + k];
    } else {
#pragma omp simd reduction(+ : hits)
      for (int64_t k = 0; k < m; ++k) hits += x[b + k] == best;
    }
    if (!hits) continue;
    for (int64_t k = 0; k < m; ++k)
      if (nan ? x[b + k] != x[b + k] : x[b + k] == best) return b + k;
  }
  return 0;
}

// Row `at` against the best so far; I is an integer as wide as T, so that both fill the same lanes.
template <bool Max, class T, class I>
void down(const T* row, int64_t n, I at, T* best, I* where) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T x = row[j], b = best[j];
    const T m = Max ? (x > b ? x : b) : (x < b ? x : b);
    const T v = b == b ? (x == x ? m : x) : b;
    // v differs from b (or is the first NaN) exactly where x wins.
    where[j] = v == b ? where[j] : (b == b ? at : where[j]);
    best[j] = v;
  }
}

template <bool Max, class T>
void columns(const T* x, int64_t stride, int64_t rows, int64_t n, int64_t* where, T* best) {
  using I = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  I at[256];
  for (int64_t j = 0; j < n; ++j) best[j] = x[j], at[j] = 0;
  for (int64_t i = 1; i < rows; ++i) down<Max, T, I>(x + i * stride, n, static_cast<I>(i), best, at);
  for (int64_t j = 0; j < n; ++j) where[j] = at[j];
}

template <class Fn>
void choose_type(DType type, Fn&& f) {
  switch (type) {
    case DType::Float32: return f(float{});
    case DType::Float64: return f(double{});
    case DType::Int32: return f(int32_t{});
    default: return f(int64_t{});
  }
}

}  // namespace

int64_t arg_row(bool max, DType type, const void* x, int64_t n) {
  int64_t at = 0;
  choose_type(type, [&](auto t) {
    using T = decltype(t);
    at = max ? in_row<true>(static_cast<const T*>(x), n) : in_row<false>(static_cast<const T*>(x), n);
  });
  return at;
}
void arg_columns(bool max, DType type, const void* x, int64_t stride, int64_t rows, int64_t n, int64_t* where, void* best) {
  choose_type(type, [&](auto t) {
    using T = decltype(t);
    if (max) columns<true>(static_cast<const T*>(x), stride, rows, n, where, static_cast<T*>(best));
    else columns<false>(static_cast<const T*>(x), stride, rows, n, where, static_cast<T*>(best));
  });
}

}  // namespace fl::kernels::FL_ISA
