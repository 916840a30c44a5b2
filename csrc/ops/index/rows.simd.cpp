#include "ops/index/rows.h"

#include "base/element.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
void add_scaled(int64_t n, Computed<T> a, const T* x, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = vm::narrow<T>(vm::wide(y[i]) + a * vm::wide(x[i]));
}

template <class T>
void fill_row(int64_t n, T value, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = value;
}

template <class T>
void divide_counted(int64_t n, const T* count, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] /= count[i] > 1 ? count[i] : T(1);
}

template <class T>
void divide_row(int64_t n, T value, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] /= value;
}

template <class T, class F>
FL_VM void each(int64_t n, const T* x, T* y, F f) {
  for (int64_t i = 0; i < n; ++i) y[i] = f(y[i], x[i]);
}
template <class T>
void combine_row(Combine how, int64_t n, const T* x, T* y) {
  switch (how) {
    case Combine::Sum: return each(n, x, y, [](T a, T b) { return a + b; });
    case Combine::Prod: return each(n, x, y, [](T a, T b) { return a * b; });
    case Combine::Max: return each(n, x, y, [](T a, T b) { return (a > b) | (a != a) ? a : b; });
    case Combine::Min: return each(n, x, y, [](T a, T b) { return (a < b) | (a != a) ? a : b; });
  }
}

}  // namespace

void combine_row_f32(Combine how, int64_t n, const float* x, float* y) { combine_row(how, n, x, y); }
void combine_row_f64(Combine how, int64_t n, const double* x, double* y) { combine_row(how, n, x, y); }
void add_scaled_f32(int64_t n, float a, const float* x, float* y) { add_scaled(n, a, x, y); }
void add_scaled_f64(int64_t n, double a, const double* x, double* y) { add_scaled(n, a, x, y); }
void add_scaled_f16(int64_t n, float a, const Float16* x, Float16* y) { add_scaled(n, a, x, y); }
void add_scaled_bf16(int64_t n, float a, const BFloat16* x, BFloat16* y) { add_scaled(n, a, x, y); }
void fill_row_u32(int64_t n, uint32_t value, uint32_t* y) { fill_row(n, value, y); }
void fill_row_u64(int64_t n, uint64_t value, uint64_t* y) { fill_row(n, value, y); }
void divide_counted_f32(int64_t n, const float* count, float* y) { divide_counted(n, count, y); }
void divide_row_f32(int64_t n, float value, float* y) { divide_row(n, value, y); }
void divide_row_f64(int64_t n, double value, double* y) { divide_row(n, value, y); }
void divide_counted_f64(int64_t n, const double* count, double* y) { divide_counted(n, count, y); }

}  // namespace fl::kernels::FL_ISA
