// The loops of scans, once per instruction set.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl::kernels {

enum class Scan : uint8_t { Sum, Product, LogSumExp, Max, Min };

constexpr int64_t kScanColumns = 256;  // side by side at most
constexpr int64_t kScanRows = 8;
constexpr int64_t kScanFewRows = 2;  // up to here one by one

}  // namespace fl::kernels

// Scans [n, m] elements at `in` along n, rows `stride` apart, into the same places of `out`, from the end with
// `backward`. Max and Min write the positions of what they keep to `index`, which others leave alone. m <= kScanColumns.
FL_SIMD_KERNEL(void, scan_columns, Scan scan, DType dtype, const void* in, void* out, int64_t* index, int64_t n, int64_t stride, int64_t m, bool backward)

// Scans `rows` rows of n elements each along n. rows <= kScanRows.
FL_SIMD_KERNEL(void, scan_rows, Scan scan, DType dtype, const void* in, void* out, int64_t* index, int64_t n, int64_t rows, bool backward)

// Running sums of rows of n pairs of Float32 or Float64. rows <= kScanRows.
FL_SIMD_KERNEL(void, sum_rows_of_pairs, DType dtype, const void* in, void* out, int64_t n, int64_t rows, bool backward)
