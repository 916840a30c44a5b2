// Rows of 16-bit floats: widened as they are read and rounded as they are written, with one row of floats between.
#include "base/vmath.h"
#include "dispatch/half_rows.h"
#include "ops/softmax/softmax.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class S, class O>
void forward(const S* x, O* y, float* row, int64_t rows, int64_t n, bool log) {
  const int64_t end = whole_vectors(n);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    Vector most = Vector{} - vm::kInf<float>;
    each_vector(x, n, -vm::kInf<float>, [&](int64_t i, Vector v) __attribute__((always_inline)) {
      store_floats(row + i, v);
      most = v > most ? v : most;
    });
    const float m = folded(most, [](float a, float b) { return a > b ? a : b; });
    if (log) {
      const float s = vm::sum_in_lanes<float>(end, [=](int64_t i) __attribute__((always_inline)) { return vm::exp(row[i] - m); });
      const float l = vm::log(s);
      for (int64_t i = 0; i < n; i += kLanes) store_at(y, i, n, (load_floats(row + i) - m) - l);
    } else {
      const float s = vm::sum_in_lanes<float>(end, [=](int64_t i) __attribute__((always_inline)) { return row[i] = vm::exp(row[i] - m); });
      const float f = 1 / s;
      for (int64_t i = 0; i < n; i += kLanes) store_at(y, i, n, load_floats(row + i) * f);
    }
  }
}

template <class S>
void backward(const S* dy, const S* y, S* dx, float* row, int64_t rows, int64_t n, bool log) {
  for (int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    Vector sums = {};
    if (log) {
      each_vector(dy, n, 0, [&](int64_t, Vector d) { sums += d; });
      each_vector(y, n, 0, [&](int64_t i, Vector v) { store_floats(row + i, v); });
#pragma omp simd
      for (int64_t i = 0; i < whole_vectors(n); ++i) row[i] = vm::exp(row[i]);
    } else {
      each_vector(y, n, 0, [&](int64_t i, Vector v) { store_floats(row + i, v); });
      each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { sums += d * load_floats(row + i); });
    }
    const float s = sum_of(sums);
    if (log) each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { store_at(dx, i, n, d - load_floats(row + i) * s); });
    else each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { store_at(dx, i, n, (d - s) * load_floats(row + i)); });
  }
}

}  // namespace

#define FL_DEFINE(S, suffix)                                                                                                             \
  void softmax_rows_##suffix(const S* x, S* y, float* row, int64_t rows, int64_t n, bool log) { forward(x, y, row, rows, n, log); }      \
  void softmax_wide_rows_##suffix(const S* x, float* y, float* row, int64_t rows, int64_t n, bool log) { forward(x, y, row, rows, n, log); } \
  void softmax_rows_backward_##suffix(const S* dy, const S* y, S* dx, float* row, int64_t rows, int64_t n, bool log) {                   \
    backward(dy, y, dx, row, rows, n, log);                                                                                              \
  }
FL_DEFINE(BFloat16, bf16)
FL_DEFINE(Float16, f16)

}  // namespace fl::kernels::FL_ISA
