// One row of floats against rows of 16-bit floats, which are widened as they are read: attention of few queries, as when a text is continued.
#include "dispatch/half_rows.h"
#include "ops/attention/attention.h"

namespace fl::kernels::FL_ISA {
namespace {

// Kept apart by rows, so that a row's product does not depend on which others there are.
template <int Count, class S>
inline __attribute__((always_inline)) void dots_of(const float* x, const S* rows, int64_t n, float* out) {
  Vector sums[Count] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector v = load_floats(x + i);
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) sums[r] += v * widened_at(rows + r * n + i);
  }
  for (int r = 0; r < Count; ++r) {
    float s = sum_of(sums[r]);
    for (int64_t j = i; j < n; ++j) s += x[j] * vm::wide(rows[r * n + j]);
    out[r] = s;
  }
}

template <class S>
void dots(const float* x, const S* rows, int64_t count, int64_t n, float* out) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) dots_of<4>(x, rows + r * n, n, out + r);
  for (; r < count; ++r) dots_of<1>(x, rows + r * n, n, out + r);
}

template <int Vectors, class S>
inline __attribute__((always_inline)) void sums_of(const float* x, const S* rows, int64_t count, int64_t n, float* out, bool add) {
  Vector sums[Vectors];
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) sums[v] = add ? load_floats(out + v * kLanes) : Vector{};
  for (int64_t r = 0; r < count; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[v] += x[r] * widened_at(rows + r * n + v * kLanes);
  }
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) store_floats(out + v * kLanes, sums[v]);
}

template <class S>
void sums(const float* x, const S* rows, int64_t count, int64_t n, float* out, bool add) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) sums_of<4>(x, rows + i, count, n, out + i, add);
  for (; i + kLanes <= n; i += kLanes) sums_of<1>(x, rows + i, count, n, out + i, add);
  for (; i < n; ++i) {
    float s = add ? out[i] : 0;
    for (int64_t r = 0; r < count; ++r) s += x[r] * vm::wide(rows[r * n + i]);
    out[i] = s;
  }
}

}  // namespace

#define FL_DEFINE(S, suffix)                                                                                                              \
  void attention_row_dots_##suffix(const float* x, const S* rows, int64_t count, int64_t n, float* out) { dots(x, rows, count, n, out); } \
  void attention_row_sums_##suffix(const float* x, const S* rows, int64_t count, int64_t n, float* out, bool add) {                       \
    sums(x, rows, count, n, out, add);                                                                                                    \
  }
FL_DEFINE(BFloat16, bf16)
FL_DEFINE(Float16, f16)

}  // namespace fl::kernels::FL_ISA
