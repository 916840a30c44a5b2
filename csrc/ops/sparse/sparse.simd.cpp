#include "ops/sparse/sparse.h"

#include <type_traits>

namespace fl::kernels::FL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kVecBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kVecBytes = 32;
#else
constexpr int64_t kVecBytes = 16;
#endif
// How many elements ahead a row of the dense matrix is asked for: nothing but the indices tells where the next one lies.
constexpr int64_t kAhead = 4, kLine = 64;

template <class T>
void ask(const T* from, int64_t n) {
  const char* p = reinterpret_cast<const char*>(from);
  for (int64_t b = 0; b < n * static_cast<int64_t>(sizeof(T)); b += kLine) __builtin_prefetch(p + b);
}

// N vectors of one row: their sums stay in registers while the row's elements [first, last) are walked. `end`: of all rows.
template <int N, class T>
void panel(const int64_t* col, const T* values, const T* dense, T* out, int64_t first, int64_t last, int64_t end, int64_t k) {
  typedef T Vec __attribute__((vector_size(kVecBytes)));
  typedef T Loose __attribute__((vector_size(kVecBytes), aligned(alignof(T)), may_alias));
  constexpr int64_t kLanes = kVecBytes / static_cast<int64_t>(sizeof(T));
  Vec sum[N] = {};
  for (int64_t i = first; i < last; ++i) {
    const T v = values[i];
    const T* from = dense + col[i] * k;
    if (i + kAhead < end) ask(dense + col[i + kAhead] * k, N * kLanes);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sum[n] += v * *reinterpret_cast<const Loose*>(from + n * kLanes);
  }
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) *reinterpret_cast<Loose*>(out + n * kLanes) = sum[n];
}

template <class T>
void rows(const int64_t* crow, const int64_t* col, const T* values, const T* dense, T* y, int64_t first, int64_t last, int64_t k) {
  constexpr int64_t kLanes = kVecBytes / static_cast<int64_t>(sizeof(T));
  const int64_t end = crow[last];
  for (int64_t r = first; r < last; ++r) {
    const int64_t from = crow[r], to = crow[r + 1];
    T* out = y + r * k;
    int64_t j = 0;
    const auto take = [&]<int N>(std::integral_constant<int, N>) {
      panel<N>(col, values, dense + j, out + j, from, to, end, k);
      j += N * kLanes;
    };
    while (j + 8 * kLanes <= k) take(std::integral_constant<int, 8>());
    if (j + 4 * kLanes <= k) take(std::integral_constant<int, 4>());
    if (j + 2 * kLanes <= k) take(std::integral_constant<int, 2>());
    if (j + kLanes <= k) take(std::integral_constant<int, 1>());
    if (j == k) continue;
    const int64_t left = k - j;
    T sum[kLanes] = {};
    for (int64_t i = from; i < to; ++i) {
      const T v = values[i];
      const T* x = dense + col[i] * k + j;
#pragma omp simd
      for (int64_t c = 0; c < left; ++c) sum[c] += v * x[c];
    }
    for (int64_t c = 0; c < left; ++c) out[j + c] = sum[c];
  }
}

template <class T>
void dots(const int64_t* crow, const int64_t* col, const T* a, const T* b, T* values, int64_t first, int64_t last, int64_t k) {
  for (int64_t r = first; r < last; ++r) {
    const T* x = a + r * k;
    for (int64_t i = crow[r]; i < crow[r + 1]; ++i) {
      const T* z = b + col[i] * k;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < k; ++c) sum += x[c] * z[c];
      values[i] = sum;
    }
  }
}

}  // namespace

void sparse_rows_f32(const int64_t* crow, const int64_t* col, const float* values, const float* dense, float* y, int64_t first, int64_t last, int64_t k) {
  rows(crow, col, values, dense, y, first, last, k);
}
void sparse_rows_f64(const int64_t* crow, const int64_t* col, const double* values, const double* dense, double* y, int64_t first, int64_t last, int64_t k) {
  rows(crow, col, values, dense, y, first, last, k);
}
void sparse_dots_f32(const int64_t* crow, const int64_t* col, const float* a, const float* b, float* values, int64_t first, int64_t last, int64_t k) {
  dots(crow, col, a, b, values, first, last, k);
}
void sparse_dots_f64(const int64_t* crow, const int64_t* col, const double* a, const double* b, double* values, int64_t first, int64_t last, int64_t k) {
  dots(crow, col, a, b, values, first, last, k);
}

}  // namespace fl::kernels::FL_ISA
