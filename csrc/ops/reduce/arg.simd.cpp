// Where the extreme is: rows are searched for their extreme and then for its first position; columns carry
// the position along, and so do short rows, of which sixteen make columns. NaN counts as the extreme, the first one wins.
#include "ops/reduce/arg.h"

#include <algorithm>
#include <type_traits>

#include "base/vmath_basic.h"

namespace fl::kernels::FL_ISA {
namespace {

// Elements of two vectors of AVX-512. Rows of fewer are short.
template <class T>
constexpr int kLanes = std::min<int>(64, 128 / sizeof(T));
template <size_t>
struct SignedOf;
template <> struct SignedOf<1> { using type = int8_t; };
template <> struct SignedOf<2> { using type = int16_t; };
template <> struct SignedOf<4> { using type = int32_t; };
template <> struct SignedOf<8> { using type = int64_t; };
// As wide as T, so that both fill the same lanes.
template <class T>
using Same = typename SignedOf<sizeof(T)>::type;

// One of the first n <= 256 is `best`, or NaN where that is.
template <class T>
bool among(const T* x, int64_t n, T best, bool nan) {
  Same<T> hits = 0;
  if (nan) {
#pragma omp simd reduction(| : hits)
    for (int64_t k = 0; k < n; ++k) hits |= x[k] != x[k] ? Same<T>(1) : Same<T>(0);
  } else {
#pragma omp simd reduction(| : hits)
    for (int64_t k = 0; k < n; ++k) hits |= x[k] == best ? Same<T>(1) : Same<T>(0);
  }
  return hits != 0;
}

template <bool Max, class T>
int64_t in_row(const T* x, int64_t n) {
  constexpr int kLanes = FL_ISA::kLanes<T>;
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
    if (!among(x + b, m, best, nan)) continue;
    for (int64_t k = 0; k < m; ++k)
      if (nan ? x[b + k] != x[b + k] : x[b + k] == best) return b + k;
  }
  return 0;
}

// Row `at` against the best so far.
template <bool Max, class T, class I>
FL_VM void down(const T* row, int64_t n, I at, T* best, I* where) {
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

template <bool Max, class T>
void rows_of(const T* x, int64_t n, int64_t rows, int64_t* where) {
  constexpr int64_t kRows = 16;
  int64_t r = 0;
  if (n < kLanes<T>)
    for (; r + kRows <= rows; r += kRows) {
      const T* from = x + r * n;
      T best[kRows], column[kRows];
      Same<T> at[kRows] = {};
      for (int64_t l = 0; l < kRows; ++l) best[l] = from[l * n];
      for (int64_t k = 1; k < n; ++k) {
        for (int64_t l = 0; l < kRows; ++l) column[l] = from[l * n + k];
        down<Max, T, Same<T>>(column, kRows, static_cast<Same<T>>(k), best, at);
      }
      for (int64_t l = 0; l < kRows; ++l) where[r + l] = at[l];
    }
  for (; r < rows; ++r) where[r] = in_row<Max>(x + r * n, n);
}

template <class Fn>
void choose_type(DType type, Fn&& f) {
  switch (type) {
    case DType::UInt8: return f(uint8_t{});
    case DType::Int8: return f(int8_t{});
    case DType::Int16: return f(int16_t{});
    case DType::Float32: return f(float{});
    case DType::Float64: return f(double{});
    case DType::Int32: return f(int32_t{});
    default: return f(int64_t{});
  }
}

}  // namespace

void arg_rows(bool max, DType type, const void* x, int64_t n, int64_t rows, int64_t* where) {
  choose_type(type, [&](auto t) {
    using T = decltype(t);
    if (max) rows_of<true>(static_cast<const T*>(x), n, rows, where);
    else rows_of<false>(static_cast<const T*>(x), n, rows, where);
  });
}
void arg_columns(bool max, DType type, const void* x, int64_t stride, int64_t rows, int64_t n, int64_t* where, void* best) {
  choose_type(type, [&](auto t) {
    using T = decltype(t);
    if (max) columns<true>(static_cast<const T*>(x), stride, rows, n, where, static_cast<T*>(best));
    else columns<false>(static_cast<const T*>(x), stride, rows, n, where, static_cast<T*>(best));
  });
}

}  // namespace fl::kernels::FL_ISA
