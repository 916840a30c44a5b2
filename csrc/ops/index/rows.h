// Sums of rows at indices, once per instruction set.
#pragma once

#include <cstdint>

#include "base/isa.h"

// y[i] += a * x[i] for i < n.
FL_SIMD_KERNEL(void, add_scaled_f32, int64_t n, float a, const float* x, float* y)
FL_SIMD_KERNEL(void, add_scaled_f64, int64_t n, double a, const double* x, double* y)
