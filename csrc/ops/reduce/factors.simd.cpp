// By eight products at once, whatever the instruction set: the same in all.
#include "ops/reduce/factors.h"

namespace fl::kernels::FL_ISA {

Factors factors_of(const double* v, int64_t n) {
  constexpr int kLanes = 8;
  double products[kLanes];
  int64_t zeros[kLanes];
  for (int k = 0; k < kLanes; ++k) products[k] = 1, zeros[k] = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int k = 0; k < kLanes; ++k) {
      const double x = v[i + k];
      products[k] *= x == 0 ? 1.0 : x;
      zeros[k] += x == 0 ? 1 : 0;
    }
  }
  Factors all;
  for (int k = 0; k < kLanes; ++k) all.take({products[k], zeros[k]});
  for (; i < n; ++i) all.take(v[i] == 0 ? Factors{1, 1} : Factors{v[i], 0});
  return all;
}

void other_factors(double* v, int64_t n, const Factors& all, double dy) {
  const double whole = dy * all.product;
  if (all.zeros == 0) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) v[i] = whole / v[i];
  } else {
    const double at_zero = all.zeros == 1 ? whole : 0.0;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) v[i] = v[i] == 0 ? at_zero : 0.0;
  }
}

}  // namespace fl::kernels::FL_ISA
