// What the *.simd.cpp files of linear algebra do with contiguous numbers.
#pragma once

#include <cstdint>

#include "base/vmath_basic.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
FL_VM T dot(const T* x, const T* y, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
// y -= factor x
template <class T>
FL_VM void subtract(T factor, const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] -= factor * x[i];
}

}  // namespace
}  // namespace fl::kernels::FL_ISA
