// Rows of 16-bit floats: widened as they are read and rounded as they are written, with one row of floats between.
#include <cstring>

#include "base/lanes.h"
#include "base/vmath.h"
#include "dispatch/half_vectors.h"
#include "ops/softmax/softmax.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kLanes = kVectorFloats;
int64_t whole(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// f(i, elements i ... of x) for vector after vector, the last one filled up with `rest`.
template <class S, class F>
inline __attribute__((always_inline)) void each_vector(const S* x, int64_t n, float rest, const F& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, widened<S>(reinterpret_cast<const char*>(x + i)));
  if (i == n) return;
  S last[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) last[l] = vm::narrow<S>(rest);
  std::memcpy(static_cast<void*>(last), x + i, static_cast<size_t>(n - i) * sizeof(S));
  f(i, widened<S>(reinterpret_cast<const char*>(last)));
}

template <class S>
inline __attribute__((always_inline)) void store(S* y, int64_t i, int64_t n, Vector v) {
  const auto made = narrowed<S>(v);
  if (i + kLanes <= n) std::memcpy(static_cast<void*>(y + i), &made, sizeof(made));
  else std::memcpy(static_cast<void*>(y + i), &made, static_cast<size_t>(n - i) * sizeof(S));
}
Vector load(const float* x) { return load_vector(reinterpret_cast<const char*>(x)); }

template <class S, class O>
void forward(const S* x, O* y, float* row, int64_t rows, int64_t n, bool log) {
  const int64_t end = whole(n);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    Vector most = Vector{} - vm::kInf<float>;
    each_vector(x, n, -vm::kInf<float>, [&](int64_t i, Vector v) __attribute__((always_inline)) {
      std::memcpy(row + i, &v, sizeof(v));
      most = v > most ? v : most;
    });
    float lane[kLanes];
    std::memcpy(lane, &most, sizeof(most));
    vm::fold_lanes<kLanes / 2>(lane, [](float a, float b) { return a > b ? a : b; });
    const float m = lane[0];
    if (log) {
      const float s = vm::sum_in_lanes<float>(end, [=](int64_t i) __attribute__((always_inline)) { return vm::exp(row[i] - m); });
      const float l = vm::log(s);
      for (int64_t i = 0; i < n; i += kLanes) store(y, i, n, (load(row + i) - m) - l);
    } else {
      const float s = vm::sum_in_lanes<float>(end, [=](int64_t i) __attribute__((always_inline)) { return row[i] = vm::exp(row[i] - m); });
      const float f = 1 / s;
      for (int64_t i = 0; i < n; i += kLanes) store(y, i, n, load(row + i) * f);
    }
  }
}

template <class S>
void backward(const S* dy, const S* y, S* dx, float* row, int64_t rows, int64_t n, bool log) {
  for (int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    Vector sums = {};
    if (log) {
      each_vector(dy, n, 0, [&](int64_t, Vector d) { sums += d; });
      each_vector(y, n, 0, [&](int64_t i, Vector v) { std::memcpy(row + i, &v, sizeof(v)); });
#pragma omp simd
      for (int64_t i = 0; i < whole(n); ++i) row[i] = vm::exp(row[i]);
    } else {
      each_vector(y, n, 0, [&](int64_t i, Vector v) { std::memcpy(row + i, &v, sizeof(v)); });
      each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { sums += d * load(row + i); });
    }
    float lane[kLanes];
    std::memcpy(lane, &sums, sizeof(sums));
    vm::fold_lanes<kLanes / 2>(lane, [](float a, float b) { return a + b; });
    const float s = lane[0];
    if (log) each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { store(dx, i, n, d - load(row + i) * s); });
    else each_vector(dy, n, 0, [&](int64_t i, Vector d) __attribute__((always_inline)) { store(dx, i, n, (d - s) * load(row + i)); });
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
