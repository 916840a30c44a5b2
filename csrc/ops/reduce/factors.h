// What the gradient of a product needs: the other factors of each.
#pragma once

#include <cstdint>

#include "base/isa.h"

namespace fl {

// The product of the factors that are not 0, and how many are 0.
struct Factors {
  double product = 1;
  int64_t zeros = 0;
  void take(const Factors& other) {
    product *= other.product;
    zeros += other.zeros;
  }
};

}  // namespace fl

FL_SIMD_KERNEL(Factors, factors_of, const double* v, int64_t n)
// v[i] = dy times the product of all factors but v[i], which is one of them.
FL_SIMD_KERNEL(void, other_factors, double* v, int64_t n, const Factors& all, double dy)
