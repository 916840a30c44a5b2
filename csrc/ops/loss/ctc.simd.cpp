#include "ops/loss/ctc.h"

#include "base/vmath.h"

namespace fl::kernels::FL_ISA {
namespace {

constexpr double kNever = -__builtin_inf();

template <class T>
void slopes(const T* p, const double* shares, double scale, T* dx, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) dx[c] = static_cast<T>(scale * (vm::exp(static_cast<double>(p[c])) - shares[c]));
}

}  // namespace

void ctc_step(const double* a, const double* b, const double* c, const double* open, const double* p, double* to, int64_t n) {
#pragma omp simd
  for (int64_t s = 0; s < n; ++s) {
    const double third = c[s] + open[s];
    double top = a[s] > b[s] ? a[s] : b[s];
    top = third > top ? third : top;
    const double from = top == kNever ? 0.0 : top;
    const double sum = vm::exp(a[s] - from) + vm::exp(b[s] - from) + vm::exp(third - from);
    to[s] = (sum == 0 ? kNever : from + vm::log(sum)) + p[s];
  }
}

void ctc_shares(const double* alpha, const double* beta, const double* p, double loss, double* to, int64_t n) {
#pragma omp simd
  for (int64_t s = 0; s < n; ++s) {
    const double both = alpha[s] + beta[s], share = vm::exp(both + loss - p[s]);
    to[s] = both == kNever ? 0.0 : share;
  }
}

void ctc_slopes_f32(const float* p, const double* shares, double scale, float* dx, int64_t n) { slopes(p, shares, scale, dx, n); }
void ctc_slopes_f64(const double* p, const double* shares, double scale, double* dx, int64_t n) { slopes(p, shares, scale, dx, n); }

}  // namespace fl::kernels::FL_ISA
