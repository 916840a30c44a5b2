// Rows of connectionist temporal classification: one element of a sequence, all states at once.
#pragma once

#include <cstdint>

#include "base/isa.h"

// to[s] = log(exp a[s] + exp b[s] + exp(c[s] + open[s])) + p[s]; an open way has 0, a closed one -infinity.
FL_SIMD_KERNEL(void, ctc_step, const double* a, const double* b, const double* c, const double* open, const double* p, double* to, int64_t n)
// What of the probability goes through each state: exp(alpha[s] + beta[s] + loss - p[s]), 0 where nothing does.
FL_SIMD_KERNEL(void, ctc_shares, const double* alpha, const double* beta, const double* p, double loss, double* to, int64_t n)
// dx[c] = (exp(p[c]) - shares[c]) * scale
FL_SIMD_KERNEL(void, ctc_slopes_f32, const float* p, const double* shares, double scale, float* dx, int64_t n)
FL_SIMD_KERNEL(void, ctc_slopes_f64, const double* p, const double* shares, double scale, double* dx, int64_t n)
