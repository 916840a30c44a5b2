#include "ops/index/bounds.h"

namespace fl::kernels::FL_ISA {
namespace {

// In lanes, since the steps of one minimum wait for each other.
template <class T>
void widen(const void* x_raw, int64_t n, int64_t* low, int64_t* high) {
  if (n == 0) return;
  constexpr int kLanes = 128 / sizeof(T);
  const T* x = static_cast<const T*>(x_raw);
  T least = x[0], most = x[0];
  int64_t done = 0;
  if (n >= 2 * kLanes) {
    T lower[kLanes], upper[kLanes];
    for (int l = 0; l < kLanes; ++l) lower[l] = upper[l] = x[l];
    for (done = kLanes; done + kLanes <= n; done += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) {
        const T v = x[done + l];
        lower[l] = v < lower[l] ? v : lower[l];
        upper[l] = v > upper[l] ? v : upper[l];
      }
    }
    for (int l = 0; l < kLanes; ++l) {
      least = lower[l] < least ? lower[l] : least;
      most = upper[l] > most ? upper[l] : most;
    }
  }
  for (; done < n; ++done) {
    least = x[done] < least ? x[done] : least;
    most = x[done] > most ? x[done] : most;
  }
  if (least < *low) *low = least;
  if (most > *high) *high = most;
}

constexpr int64_t kBlock = 512;

// Whether all of them are: v - least and size - 1 - v have no sign then. With least <= 0 <= size neither wraps round to none for another v.
template <class T>
bool within(const T* x, int64_t n, int64_t least, int64_t size) {
  uint64_t signs = 0;
#pragma omp simd reduction(| : signs)
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<uint64_t>(static_cast<int64_t>(x[i]));
    signs |= (v - static_cast<uint64_t>(least)) | (static_cast<uint64_t>(size) - 1 - v);
  }
  return signs >> 63 == 0;
}

template <class T>
int64_t outside(const T* x, int64_t n, int64_t size, int64_t ignored) {
  const auto misfit = [=](T v) { return (static_cast<uint64_t>(static_cast<int64_t>(v)) >= static_cast<uint64_t>(size)) & (v != ignored); };
  for (int64_t b = 0; b < n; b += kBlock) {
    const int64_t m = n - b < kBlock ? n - b : kBlock;
    if (within(x + b, m, 0, size)) continue;
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
bool all_within(const void* x, DType type, int64_t n, int64_t least, int64_t size) {
  return choose_type(type, [&](auto t) {
    for (int64_t b = 0; b < n; b += 8 * kBlock)
      if (!within(static_cast<const decltype(t)*>(x) + b, n - b < 8 * kBlock ? n - b : 8 * kBlock, least, size)) return false;
    return true;
  });
}
int64_t first_outside(const void* x, DType type, int64_t n, int64_t size, int64_t ignored) {
  return choose_type(type, [&](auto t) { return outside(static_cast<const decltype(t)*>(x), n, size, ignored); });
}

}  // namespace fl::kernels::FL_ISA
