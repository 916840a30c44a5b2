#include "ops/index/bounds.h"

namespace fl::kernels::FL_ISA {
namespace {

template <class T>
void widen(const void* x_raw, int64_t n, int64_t* low, int64_t* high) {
  if (n == 0) return;
  const T* x = static_cast<const T*>(x_raw);
  T least = x[0], most = x[0];
#pragma omp simd reduction(min : least) reduction(max : most)
  for (int64_t i = 0; i < n; ++i) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  if (least < *low) *low = least;
  if (most > *high) *high = most;
}

}  // namespace

void widen_bounds(const void* x, DType type, int64_t n, int64_t* low, int64_t* high) {
  switch (type) {
    case DType::UInt8: return widen<uint8_t>(x, n, low, high);
    case DType::Int8: return widen<int8_t>(x, n, low, high);
    case DType::Int16: return widen<int16_t>(x, n, low, high);
    case DType::Int32: return widen<int32_t>(x, n, low, high);
    default: return widen<int64_t>(x, n, low, high);
  }
}

}  // namespace fl::kernels::FL_ISA
