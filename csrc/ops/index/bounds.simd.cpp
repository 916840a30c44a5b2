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

template <class T>
int64_t outside(const T* x, int64_t n, int64_t size, int64_t ignored) {
  const auto misfit = [=](T v) { return (static_cast<uint64_t>(static_cast<int64_t>(v)) >= static_cast<uint64_t>(size)) & (v != ignored); };
  constexpr int64_t kBlock = 512;
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t m = n - b < kBlock ? n - b : kBlock;
    int64_t found = 0;
#pragma omp simd reduction(| : found)
    for (int64_t i = 0; i < m; ++i) found |= misfit(x[b + i]) ? 1 : 0;
    if (!found) continue;
    for (int64_t i = b;; ++i)
      if (misfit(x[i])) return i;
  }
  return n;
}

template <class Fn>
auto choose_type(DType type, Fn&& f) {
  switch (type) {
    case DType::UInt8: return f(uint8_t{});
    case DType::Int8: return f(int8_t{});
    case DType::Int16: return f(int16_t{});
    case DType::Int32: return f(int32_t{});
    default: return f(int64_t{});
  }
}

}  // namespace

void widen_bounds(const void* x, DType type, int64_t n, int64_t* low, int64_t* high) {
  choose_type(type, [&](auto t) { widen<decltype(t)>(x, n, low, high); });
}
int64_t first_outside(const void* x, DType type, int64_t n, int64_t size, int64_t ignored) {
  return choose_type(type, [&](auto t) { return outside(static_cast<const decltype(t)*>(x), n, size, ignored); });
}

}  // namespace fl::kernels::FL_ISA
