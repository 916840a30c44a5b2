// Gradients of products along columns, in double.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl::kernels {

constexpr int64_t kProductColumns = 256;  // side by side at most

}  // namespace fl::kernels

// x and what is made of it are [n, m] elements of a float type, rows `stride` apart; m <= kProductColumns.
// dx[i, j] = dy[j] times the product of the other factors of column j, also where some are 0.
FL_SIMD_KERNEL(void, other_products, DType dtype, const double* dy, const void* x, void* dx, int64_t n, int64_t stride, int64_t m)
// The gradient of running products: dx[k] = (product of x[i], i < k) s[k], where s[k] = dy[k] + x[k + 1] s[k + 1] runs backwards into `room`, [n, m].
FL_SIMD_KERNEL(void, running_product_gradient, DType dtype, const void* dy, const void* x, void* dx, int64_t n, int64_t stride, int64_t m, double* room)
