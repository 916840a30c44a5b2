// Rows that are put together at indices, once per instruction set.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {
enum class Combine { Sum, Prod, Max, Min };
}  // namespace fl

// y[i] = how(y[i], x[i]) for i < n; what is no number stays.
FL_SIMD_KERNEL(void, combine_row_f32, fl::Combine how, int64_t n, const float* x, float* y)
FL_SIMD_KERNEL(void, combine_row_f64, fl::Combine how, int64_t n, const double* x, double* y)
// y[i] += a * x[i] for i < n.
FL_SIMD_KERNEL(void, add_scaled_f32, int64_t n, float a, const float* x, float* y)
FL_SIMD_KERNEL(void, add_scaled_f64, int64_t n, double a, const double* x, double* y)
FL_SIMD_KERNEL(void, add_scaled_f16, int64_t n, float a, const fl::Float16* x, fl::Float16* y)
FL_SIMD_KERNEL(void, add_scaled_bf16, int64_t n, float a, const fl::BFloat16* x, fl::BFloat16* y)
// y[i] /= count[i] where that is above 1, for i < n: sums become means.
FL_SIMD_KERNEL(void, divide_counted_f32, int64_t n, const float* count, float* y)
FL_SIMD_KERNEL(void, divide_counted_f64, int64_t n, const double* count, double* y)
// y[i] /= value for i < n.
FL_SIMD_KERNEL(void, divide_row_f32, int64_t n, float value, float* y)
FL_SIMD_KERNEL(void, divide_row_f64, int64_t n, double value, double* y)
// y[i] = value for i < n.
FL_SIMD_KERNEL(void, fill_row_u32, int64_t n, uint32_t value, uint32_t* y)
FL_SIMD_KERNEL(void, fill_row_u64, int64_t n, uint64_t value, uint64_t* y)
