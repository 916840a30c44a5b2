#include "ops/index/rows.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
void add_scaled(int64_t n, T a, const T* x, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

void add_scaled_f32(int64_t n, float a, const float* x, float* y) { add_scaled(n, a, x, y); }
void add_scaled_f64(int64_t n, double a, const double* x, double* y) { add_scaled(n, a, x, y); }

}  // namespace fl::kernels::FL_ISA
