// The inner loops of gemm: a register tile of kRows x (2 vectors), and packing into panels.
#include "ops/matmul/gemm.h"

#include <cstring>
#include <type_traits>
#include <utility>

namespace fl::kernels::FL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVecBytes = 64, kRows = 12;  // 24 accumulators of 32 registers
#elif defined(__AVX__)
constexpr int kVecBytes = 32, kRows = 6;  // 12 of 16
#else
constexpr int kVecBytes = 16, kRows = 6;
#endif

template <class T>
struct Vec {
  static constexpr int kLanes = kVecBytes / sizeof(T);
  typedef T Type __attribute__((vector_size(kVecBytes)));
  typedef T Loose __attribute__((vector_size(kVecBytes), aligned(alignof(T)), may_alias));
};
template <class T>
inline __attribute__((always_inline)) typename Vec<T>::Type load(const T* p) {
  return *reinterpret_cast<const typename Vec<T>::Loose*>(p);
}
template <class T>
inline __attribute__((always_inline)) void store(T* p, typename Vec<T>::Type v) {
  *reinterpret_cast<typename Vec<T>::Loose*>(p) = v;
}

// The first columns of a tile's rows, which lie in `rows`. One function for all tiles: with all the forms that the compiler makes of its loop
// it is several times as long as what computes a tile.
template <class T>
[[gnu::noinline]] void store_few(const GemmTile<T>& t, int m, int64_t cols, const T* rows, T* c, const T* bias_n, const T* bias_m) {
  for (int i = 0; i < m; ++i, rows += 2 * Vec<T>::kLanes, c += t.ldc) {
    const T add = bias_m ? bias_m[i] : T(0);
    for (int64_t j = 0; j < cols; ++j) {
      T v = t.alpha * rows[j];
      if (t.beta != 0) v += t.beta * c[j];
      if (bias_n) v += bias_n[j];
      c[j] = bias_m ? v + add : v;
    }
  }
}

// One register tile: R rows, cols <= 2 vectors.
template <class T, int R, bool kOffsets>
void micro(const GemmTile<T>& t, const T* a, const T* b, int64_t b_step, const int64_t* offsets, T* c, int64_t cols,
           const T* bias_n, const T* bias_m) {
  using V = typename Vec<T>::Type;
  constexpr int L = Vec<T>::kLanes;
  V acc[R][2];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
  const int64_t a_row = t.a_row, a_step = t.a_step, k = t.k;
  // Two groups of rows, each with its own base pointer, keep the address arithmetic to few registers.
  for (int64_t p = 0; p < k; ++p) {
    const T* row = kOffsets ? b + offsets[p] : b;
    const V b0 = load(row), b1 = load(row + L);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T s = a[i * a_row];
      acc[i][0] += s * b0;
      acc[i][1] += s * b1;
    }
    a += a_step;
    if (!kOffsets) b += b_step;
  }
  if (cols == 2 * L) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      T* out = c + i * t.ldc;
      V v0 = t.alpha * acc[i][0], v1 = t.alpha * acc[i][1];
      if (t.beta != 0) {
        v0 += t.beta * load(out);
        v1 += t.beta * load(out + L);
      }
      if (bias_n) {
        v0 += load(bias_n);
        v1 += load(bias_n + L);
      }
      if (bias_m) {
        v0 += bias_m[i];
        v1 += bias_m[i];
      }
      store(out, v0);
      store(out + L, v1);
    }
    return;
  }
  T spill[R][2 * L];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    store(spill[i], acc[i][0]);
    store(spill[i] + L, acc[i][1]);
  }
  store_few(t, R, cols, spill[0], c, bias_n, bias_m);
}

// Packed A: the row stride is one, so that broadcasts need one pointer.
template <class T, int R, bool kOffsets>
void micro_packed(const GemmTile<T>& t, const T* a, const T* b, int64_t b_step, const int64_t* offsets, T* c, int64_t cols,
                  const T* bias_n, const T* bias_m) {
  GemmTile<T> u = t;
  u.a_row = 1;
  u.a_step = kRows;
  micro<T, R, kOffsets>(u, a, b, b_step, offsets, c, cols, bias_n, bias_m);
}

template <class T>
using Micro = void (*)(const GemmTile<T>&, const T*, const T*, int64_t, const int64_t*, T*, int64_t, const T*, const T*);

template <class T, bool kOffsets, int R = 1>
Micro<T> pick(int rows) {
  if constexpr (R == kRows) {
    return &micro<T, R, kOffsets>;
  } else {
    return rows == R ? &micro<T, R, kOffsets> : pick<T, kOffsets, R + 1>(rows);
  }
}

template <class T>
void tile(const GemmTile<T>& t) {
  constexpr int kCols = 2 * Vec<T>::kLanes;
  const bool offsets = t.b_offsets != nullptr;
  const bool packed_a = t.a_row == 1 && t.a_step == kRows;
  const Micro<T> full = packed_a ? (offsets ? &micro_packed<T, kRows, true> : &micro_packed<T, kRows, false>)
                                 : (offsets ? &micro<T, kRows, true> : &micro<T, kRows, false>);
  const int rest = static_cast<int>(t.m % kRows);
  const Micro<T> last = rest ? (offsets ? pick<T, true>(rest) : pick<T, false>(rest)) : full;
  for (int64_t j = 0, panel_j = 0; j < t.n; j += kCols, ++panel_j) {
    const int64_t cols = t.n - j < kCols ? t.n - j : kCols;
    const bool spare = cols < kCols && t.b_last;
    const T* b = spare ? t.b_last : t.b + panel_j * t.b_panel;
    const int64_t b_step = spare ? kCols : t.b_step;
    const T* bias_n = t.bias_n ? t.bias_n + j : nullptr;
    const T* a = t.a;
    for (int64_t i = 0; i < t.m; i += kRows, a += t.a_panel)
      (t.m - i >= kRows ? full : last)(t, a, b, b_step, t.b_offsets, t.c + i * t.ldc + j, cols, bias_n,
                                       t.bias_m ? t.bias_m + i : nullptr);
  }
}

template <class T, int N, bool kDense>
void products_of_columns(const SmallProducts<T>& s) {
  for (int64_t t = 0; t < s.count; ++t) {
    const T *a = s.a + t * s.a_next, *const b = s.b + t * s.b_next;
    T* c = s.c + t * s.c_next;
    for (int64_t i = 0; i < s.m; ++i, a += s.a_row, c += s.c_row) {
      T sum[N] = {};
      for (int64_t p = 0; p < s.k; ++p) {
        const T v = a[p * s.a_col], *const row = b + p * s.b_row;
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) sum[j] += v * row[kDense ? j : j * s.b_col];
      }
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) c[j] = sum[j];
    }
  }
}

// Rows of K elements, one behind the other, by one column.
template <class T, int K>
void products_of_short_rows(int64_t m, const T* a, const T* x, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < m; ++i) {
    T sum = 0;
#pragma GCC unroll 4
    for (int p = 0; p < K; ++p) sum += a[i * K + p] * x[p];
    y[i] = sum;
  }
}

template <class T, int N = 1>
void small_products(const SmallProducts<T>& s) {
  if (s.dots()) {
    for (int64_t t = 0; t < s.count; ++t)
      for (int64_t i = 0; i < s.m; ++i) {
        const T *const a = s.a + t * s.a_next + i * s.a_row, *const b = s.b + t * s.b_next;
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t p = 0; p < s.k; ++p) sum += a[p] * b[p];
        s.c[t * s.c_next + i * s.c_row] = sum;
      }
    return;
  }
  if (s.count == 1 && s.n == 1 && s.a_col == 1 && s.a_row == s.k && s.b_row == 1 && s.c_row == 1) {
    if (s.k == 2) return products_of_short_rows<T, 2>(s.m, s.a, s.b, s.c);
    if (s.k == 3) return products_of_short_rows<T, 3>(s.m, s.a, s.b, s.c);
    if (s.k == 4) return products_of_short_rows<T, 4>(s.m, s.a, s.b, s.c);
  }
  if constexpr (N < 8)
    if (s.n != N) return small_products<T, N + 1>(s);
  s.b_col == 1 ? products_of_columns<T, N, true>(s) : products_of_columns<T, N, false>(s);
}

// Squares of 32-byte vectors are transposed in registers: eight floats or four doubles a side.
inline __attribute__((always_inline)) void transpose_square(const float* src, int64_t row, float* dst, int64_t width) {
  typedef float V __attribute__((vector_size(32)));
  typedef float U __attribute__((vector_size(32), aligned(4), may_alias));
  V r[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = *reinterpret_cast<const U*>(src + i * row);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 8; h += 4)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      r[h + 2 * i] = __builtin_shufflevector(s[h + i], s[h + 2 + i], 0, 1, 8, 9, 4, 5, 12, 13);
      r[h + 2 * i + 1] = __builtin_shufflevector(s[h + i], s[h + 2 + i], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<U*>(dst + i * width) = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<U*>(dst + (i + 4) * width) = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
inline __attribute__((always_inline)) void transpose_square(const double* src, int64_t row, double* dst, int64_t width) {
  typedef double V __attribute__((vector_size(32)));
  typedef double U __attribute__((vector_size(32), aligned(8), may_alias));
  V r[4], s[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = *reinterpret_cast<const U*>(src + i * row);
  s[0] = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6);
  s[1] = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
  s[2] = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6);
  s[3] = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    *reinterpret_cast<U*>(dst + i * width) = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 4, 5);
    *reinterpret_cast<U*>(dst + (i + 2) * width) = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 6, 7);
  }
}

template <class T>
void pack(const T* src, int64_t row, int64_t step, int64_t n, int64_t k, int64_t width, T* dst) {
  constexpr int S = 32 / sizeof(T);
  if (row == 1) {
    constexpr int kCols = 2 * Vec<T>::kLanes, L = Vec<T>::kLanes;
    if (n == kCols && width == kCols) {
      for (int64_t p = 0; p < k; ++p) {
        store(dst + p * kCols, load(src + p * step));
        store(dst + p * kCols + L, load(src + p * step + L));
      }
      return;
    }
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < n; ++i) dst[p * width + i] = src[p * step + i];
      for (int64_t i = n; i < width; ++i) dst[p * width + i] = 0;
    }
    return;
  }
  int64_t i = 0;
  if (step == 1) {
    for (; i + S <= n; i += S) {
      int64_t p = 0;
      for (; p + S <= k; p += S) transpose_square(src + i * row + p, row, dst + p * width + i, width);
      for (; p < k; ++p)
        for (int j = 0; j < S; ++j) dst[p * width + i + j] = src[(i + j) * row + p];
    }
    if (n - i == 6) {
      const T* s = src + i * row;
      for (int64_t p = 0; p < k; ++p)
#pragma GCC unroll 6
        for (int j = 0; j < 6; ++j) dst[p * width + i + j] = s[j * row + p];
      i = n;
    }
  }
  for (; i < n; ++i)
    for (int64_t p = 0; p < k; ++p) dst[p * width + i] = src[i * row + p * step];
  if (i < width)
    for (int64_t p = 0; p < k; ++p) std::memset(dst + p * width + i, 0, static_cast<size_t>(width - i) * sizeof(T));
}

// Sums of neighbours: of the lanes of a, then of those of b.
template <class T, int... I>
inline __attribute__((always_inline)) void add_neighbours(const typename Vec<T>::Type& a, const typename Vec<T>::Type& b, typename Vec<T>::Type& out, std::integer_sequence<int, I...>) {
  out = __builtin_shufflevector(a, b, (2 * I)...) + __builtin_shufflevector(a, b, (2 * I + 1)...);
}
template <class T>
inline __attribute__((always_inline)) void add_neighbours(const typename Vec<T>::Type& a, const typename Vec<T>::Type& b, typename Vec<T>::Type& out) {
  add_neighbours<T>(a, b, out, std::make_integer_sequence<int, Vec<T>::kLanes>());
}
template <class T>
T total(typename Vec<T>::Type v) {
#pragma GCC unroll 4
  for (int n = Vec<T>::kLanes; n > 1; n /= 2) add_neighbours<T>(v, v, v);
  return v[0];
}

// Products of as many short rows as a vector has lanes by x. Sums are made of neighbours, then of neighbours of these, as `total` does, so that a row has the bits
// that it has alone. What a last vector reads behind its row, in the next one, is taken for 0; `last` is read element by element.
template <class T, int R>
void gemv_short_rows(int64_t k, const T* a, int64_t lda, const T* x, T* y, bool last) {
  using V = typename Vec<T>::Type;
  constexpr int L = Vec<T>::kLanes;
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Bits Mask __attribute__((vector_size(kVecBytes)));
  V acc[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) acc[i] = V{};
  int64_t p = 0;
  for (; p + L <= k; p += L) {
    const V v = load(x + p);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i] += load(a + i * lda + p) * v;
  }
  if (p < k) {
    T rest[L] = {};
    Mask mask = {};
    for (int64_t q = p; q < k; ++q) rest[q - p] = x[q], mask[q - p] = -1;
    const V v = load(rest);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const T* from = a + i * lda + p;
      T few[L];
      if (last) {
        for (int64_t q = 0; q < L; ++q) few[q] = q < k - p ? from[q] : T(0);
        from = few;
      }
      acc[i] += reinterpret_cast<V>(reinterpret_cast<Mask>(load(from)) & mask) * v;
    }
  }
  if constexpr (R == L) {
#pragma GCC unroll 4
    for (int n = R; n > 1; n /= 2)
#pragma GCC unroll 8
      for (int i = 0; i < n / 2; ++i) add_neighbours<T>(acc[2 * i], acc[2 * i + 1], acc[i]);
    store(y, acc[0]);
  } else {
    for (int i = 0; i < R; ++i) y[i] = total<T>(acc[i]);
  }
}

template <class T, int R>
void gemv_rows_block(int64_t k, const T* a, int64_t lda, const T* x, T* y) {
  using V = typename Vec<T>::Type;
  constexpr int L = Vec<T>::kLanes;
  V acc[R][2];
  for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
  int64_t p = 0;
  for (; p + 2 * L <= k; p += 2 * L) {
    const V x0 = load(x + p), x1 = load(x + p + L);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      acc[i][0] += load(a + i * lda + p) * x0;
      acc[i][1] += load(a + i * lda + p + L) * x1;
    }
  }
  for (int i = 0; i < R; ++i) {
    T s = total<T>(acc[i][0] + acc[i][1]);
    for (int64_t q = p; q < k; ++q) s += a[i * lda + q] * x[q];
    y[i] = s;
  }
}

// Four rows at a time, so that sums are loaded and stored once for them.
template <class T>
void sum_rows(int64_t n, int64_t k, const T* a, int64_t step, const T* x, int64_t row, T* y) {
  for (int64_t j = 0; j < n; ++j) y[j] = 0;
  int64_t p = 0;
  for (; p + 4 <= k; p += 4, a += 4 * step, x += 4 * row) {
    const T a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] += a0 * x[j] + a1 * x[row + j] + a2 * x[2 * row + j] + a3 * x[3 * row + j];
  }
  for (; p < k; ++p, a += step, x += row) {
    const T s = *a;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] += s * x[j];
  }
}

template <class T>
T dot(int64_t k, const T* a, const T* x) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t p = 0; p < k; ++p) sum += a[p] * x[p];
  return sum;
}

template <class T>
void gemv_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y) {
  constexpr int L = Vec<T>::kLanes;
  int64_t i = 0;
  if (k < 8 * L) {
    const int64_t behind = lda > 0 ? (L + lda - 1) / lda : m;  // rows from whose end on a vector might leave the matrix
    for (; i + L <= m - behind; i += L) gemv_short_rows<T, L>(k, a + i * lda, lda, x, y + i, false);
    for (; i < m; ++i) gemv_short_rows<T, 1>(k, a + i * lda, lda, x, y + i, true);
    return;
  }
  for (; i + 4 <= m; i += 4) gemv_rows_block<T, 4>(k, a + i * lda, lda, x, y + i);
  for (; i < m; ++i) gemv_rows_block<T, 1>(k, a + i * lda, lda, x, y + i);
}

// Whole rows of b pass by, four at a time, over a strip of y that stays in the first-level cache.
template <class T>
void gemv_cols(int64_t n, int64_t k, const T* b, int64_t ldb, const T* x, T* y) {
  constexpr int64_t kStrip = 8192 / sizeof(T);
  for (int64_t j0 = 0; j0 < n; j0 += kStrip) {
    const int64_t len = n - j0 < kStrip ? n - j0 : kStrip;
    T* __restrict to = y + j0;
    for (int64_t j = 0; j < len; ++j) to[j] = 0;
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const T* r0 = b + p * ldb + j0;
      const T *r1 = r0 + ldb, *r2 = r1 + ldb, *r3 = r2 + ldb;
      const T x0 = x[p], x1 = x[p + 1], x2 = x[p + 2], x3 = x[p + 3];
#pragma omp simd
      for (int64_t j = 0; j < len; ++j) to[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j]);
    }
    for (; p < k; ++p) {
      const T* r0 = b + p * ldb + j0;
#pragma omp simd
      for (int64_t j = 0; j < len; ++j) to[j] += x[p] * r0[j];
    }
  }
}

}  // namespace

PanelSizes gemm_panel_sizes() { return {kRows, 2 * Vec<float>::kLanes, kRows, 2 * Vec<double>::kLanes}; }
void small_products_f32(const SmallProducts<float>& s) { small_products(s); }
void small_products_f64(const SmallProducts<double>& s) { small_products(s); }
void gemm_tile_f32(const GemmTile<float>& t) { tile(t); }
void gemm_tile_f64(const GemmTile<double>& t) { tile(t); }
void gemm_pack_f32(const float* s, int64_t row, int64_t step, int64_t n, int64_t k, int64_t w, float* d) { pack(s, row, step, n, k, w, d); }
void gemm_pack_f64(const double* s, int64_t row, int64_t step, int64_t n, int64_t k, int64_t w, double* d) { pack(s, row, step, n, k, w, d); }
void sum_rows_u32(int64_t n, int64_t k, const uint32_t* a, int64_t step, const uint32_t* x, int64_t row, uint32_t* y) { sum_rows(n, k, a, step, x, row, y); }
void sum_rows_u64(int64_t n, int64_t k, const uint64_t* a, int64_t step, const uint64_t* x, int64_t row, uint64_t* y) { sum_rows(n, k, a, step, x, row, y); }
uint32_t dot_u32(int64_t k, const uint32_t* a, const uint32_t* x) { return dot(k, a, x); }
uint64_t dot_u64(int64_t k, const uint64_t* a, const uint64_t* x) { return dot(k, a, x); }
void gemv_rows_f32(int64_t m, int64_t k, const float* a, int64_t lda, const float* x, float* y) { gemv_rows(m, k, a, lda, x, y); }
void gemv_rows_f64(int64_t m, int64_t k, const double* a, int64_t lda, const double* x, double* y) { gemv_rows(m, k, a, lda, x, y); }
void gemv_cols_f32(int64_t n, int64_t k, const float* b, int64_t ldb, const float* x, float* y) { gemv_cols(n, k, b, ldb, x, y); }
void gemv_cols_f64(int64_t n, int64_t k, const double* b, int64_t ldb, const double* x, double* y) { gemv_cols(n, k, b, ldb, x, y); }

}  // namespace fl::kernels::FL_ISA
