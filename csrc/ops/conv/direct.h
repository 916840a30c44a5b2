// Inner loops: of weight gradients (forward and data gradients use gemm's tile with offsets), of sums of shifted planes, and of depthwise volumes.
#pragma once

#include <cstdint>

#include "base/isa.h"

// dw[i * ldw + k] += sum over images g and q < n of dy[g * dy_image + i * dy_row + q] * x[g * x_image + offsets[k] + q]
// for i < rows, k < taps. n is a multiple of 16.
FL_SIMD_KERNEL(void, conv_dots_f32, int64_t images, const float* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const float* x,
               int64_t x_image, const int64_t* offsets, int64_t taps, int64_t n, float* dw, int64_t ldw)
FL_SIMD_KERNEL(void, conv_dots_f64, int64_t images, const double* dy, int64_t dy_image, int64_t dy_row, int64_t rows, const double* x,
               int64_t x_image, const int64_t* offsets, int64_t taps, int64_t n, double* dw, int64_t ldw)
// y[r * y_row + j] += x[r * x_row + j] for r < rows, j < n.
FL_SIMD_KERNEL(void, add_rows_f32, int64_t rows, int64_t n, const float* x, int64_t x_row, float* y, int64_t y_row)
// y[j] = first + sum over k < taps of w[k] * x[offsets[k] + j] for j < n. Up to a vector behind what is asked for is read.
FL_SIMD_KERNEL(void, sum_taps_f32, int64_t n, const float* w, const int64_t* offsets, int64_t taps, const float* x, float first, float* y)
// lanes[16 k + j % 16] += dy[j] * x[offsets[k] + j] for k < taps, j < n.
FL_SIMD_KERNEL(void, add_products_f32, int64_t n, const float* dy, const int64_t* offsets, int64_t taps, const float* x, float* lanes)
