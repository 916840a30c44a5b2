// Contiguous conversions, fills and copies past the caches. Seven types convert directly; bool reads as uint8 and writes as x != 0; the two
// 16-bit floats go through a tile of floats.
#include "dispatch/convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/element.h"
#include "dispatch/half_vectors.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace fl::kernels::FL_ISA {
namespace {

constexpr int64_t kTile = 512;

template <class To, class From>
void plain(To* dst, const From* src, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    // The least of a byte and 1: conversions of comparisons are not vectorized.
    if constexpr (std::is_same_v<From, Truth>) dst[i] = static_cast<To>(src[i].byte > 1 ? 1 : src[i].byte);
    else dst[i] = static_cast<To>(src[i]);
  }
}

// Through int64, so that negative numbers wrap in narrow and unsigned types on every processor.
template <class To, class From>
void float_to_int(To* dst, const From* src, int64_t n) {
  using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<To>(static_cast<Wide>(src[i]));
}

// Processors without AVX-512 have no conversion between int64 and double. 1.5 * 2^52 plus a whole number of up to 51 bits has that number in its
// lower bits. Other numbers are converted one by one, with those around them.
#if defined(__AVX2__) && !defined(__AVX512DQ__)
constexpr double kWholes = 0x1.8p52;
constexpr int64_t kBlock = 64;

void to_int64(int64_t* dst, const double* src, int64_t n) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    int far = 0;
#pragma omp simd reduction(| : far)
    for (int64_t j = i; j < i + m; ++j) far |= __builtin_fabs(src[j]) < 0x1p51 ? 0 : 1;
    if (far) {
      for (int64_t j = i; j < i + m; ++j) dst[j] = static_cast<int64_t>(src[j]);
      continue;
    }
#pragma omp simd
    for (int64_t j = i; j < i + m; ++j) dst[j] = __builtin_bit_cast(int64_t, __builtin_trunc(src[j]) + kWholes) - __builtin_bit_cast(int64_t, kWholes);
  }
}

void to_double(double* dst, const int64_t* src, int64_t n) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    uint64_t far = 0;
#pragma omp simd reduction(| : far)
    for (int64_t j = i; j < i + m; ++j) far |= (static_cast<uint64_t>(src[j]) + (uint64_t{1} << 51)) >> 52;
    if (far) {
      for (int64_t j = i; j < i + m; ++j) dst[j] = static_cast<double>(src[j]);
      continue;
    }
#pragma omp simd
    for (int64_t j = i; j < i + m; ++j) dst[j] = __builtin_bit_cast(double, src[j] + __builtin_bit_cast(int64_t, kWholes)) - kWholes;
  }
}
#endif

template <class From>
void to_bool(uint8_t* dst, const From* src, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dst[i] = src[i] != 0;
}

template <class S>
void from_half(float* dst, const S* src, int64_t n) {
  int64_t i = 0;
  for (; i + kVectorFloats <= n; i += kVectorFloats) {
    const Vector v = widened<S>(reinterpret_cast<const char*>(src + i));
    std::memcpy(dst + i, &v, kVector);
  }
  for (; i < n; ++i) dst[i] = vm::wide(src[i]);
}

template <class S>
void to_half(S* dst, const float* src, int64_t n) {
  int64_t i = 0;
  auto vector = [src](int64_t at) { return load_vector(reinterpret_cast<const char*>(src + at)); };
  auto narrow = [&](int64_t at) {
    const auto v = narrowed<S>(vector(at));
    std::memcpy(static_cast<void*>(dst + at), &v, sizeof(v));
  };
#if FL_BFLOAT_PAIRS
  if constexpr (std::is_same_v<S, BFloat16>)
    for (; i + 2 * kVectorFloats <= n; i += 2 * kVectorFloats) {
      const Vector a = vector(i), b = vector(i + kVectorFloats);
      if (no_nan(a, b)) {
        store_pair(dst + i, bfloat_pair(a, b));
      } else {
        narrow(i);
        narrow(i + kVectorFloats);
      }
    }
#endif
  for (; i + kVectorFloats <= n; i += kVectorFloats) narrow(i);
  for (; i < n; ++i) dst[i] = vm::narrow<S>(src[i]);
}

template <class From>
void from_plain(void* dst, DType to, const From* src, int64_t n) {
  constexpr bool real = std::is_floating_point_v<From>;
  auto integer = [&](auto* out) {
    if constexpr (real) float_to_int(out, src, n);
    else plain(out, src, n);
  };
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  if constexpr (std::is_same_v<From, double>)
    if (to == DType::Int64) return to_int64(static_cast<int64_t*>(dst), src, n);
  if constexpr (std::is_same_v<From, int64_t>)
    if (to == DType::Float64) return to_double(static_cast<double*>(dst), src, n);
#endif
  switch (to) {
    case DType::Bool: return to_bool(static_cast<uint8_t*>(dst), src, n);
    case DType::UInt8: return integer(static_cast<uint8_t*>(dst));
    case DType::Int8: return integer(static_cast<int8_t*>(dst));
    case DType::Int16: return integer(static_cast<int16_t*>(dst));
    case DType::Int32: return integer(static_cast<int32_t*>(dst));
    case DType::Int64: return integer(static_cast<int64_t*>(dst));
    case DType::Float32: return plain(static_cast<float*>(dst), src, n);
    case DType::Float64: return plain(static_cast<double*>(dst), src, n);
    default: break;
  }
  float tile[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = std::min(kTile, n - i);
    const float* values = tile;
    if constexpr (std::is_same_v<From, float>) values = src + i;
    else plain(tile, src + i, m);
    if (to == DType::Float16) to_half(static_cast<Float16*>(dst) + i, values, m);
    else to_half(static_cast<BFloat16*>(dst) + i, values, m);
  }
}

struct Pair {
  uint64_t half[2];
};

template <class U>
void fill(void* dst, const void* value, int64_t n) {
  U v;
  std::memcpy(&v, value, sizeof(U));
  U* d = static_cast<U*>(dst);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) d[i] = v;
}

// f(T{}), T being an element of so many bytes.
template <class F>
void of_size(size_t item_bytes, F&& f) {
  switch (item_bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 16: return f(Pair{});
    default: return f(uint64_t{});
  }
}

template <class U>
void reverse(void* dst, const void* src, int64_t n) {
  U* d = static_cast<U*>(dst);
  const U* s = static_cast<const U*>(src);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) d[i] = s[-i];
}

template <class U>
void rows_of(void* dst, const void* src, int64_t step, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) fill<U>(static_cast<U*>(dst) + r * n, static_cast<const char*>(src) + r * step, n);
}

}  // namespace

void fill_rows(void* dst, size_t item_bytes, const void* src, int64_t step, int64_t rows, int64_t n) {
  of_size(item_bytes, [&](auto item) { rows_of<decltype(item)>(dst, src, step, rows, n); });
}

void fill_loop(void* dst, size_t item_bytes, const void* value, int64_t n) {
  of_size(item_bytes, [&](auto item) { fill<decltype(item)>(dst, value, n); });
}

void reverse_loop(void* dst, const void* src, size_t item_bytes, int64_t n) {
  of_size(item_bytes, [&](auto item) { reverse<decltype(item)>(dst, src, n); });
}

void every_second_loop(void* dst, const void* src, size_t item_bytes, int64_t n) {
  of_size(item_bytes, [&]<class T>(T) {
    T* __restrict to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(src);
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  });
}

void ramp_floats(double* dst, double a, double step, int64_t first, int64_t n) {
  constexpr int64_t kMost = 1 << 20;  // counts that 32 bits hold, which every processor converts in vectors
  for (int64_t i = 0; i < n; i += kMost) {
    const auto m = static_cast<int32_t>(std::min(kMost, n - i));
    const auto from = static_cast<double>(first + i);
    // Two loops, so that no processor joins product and sum.
#pragma omp simd
    for (int32_t j = 0; j < m; ++j) dst[i + j] = (from + static_cast<double>(j)) * step;
#pragma omp simd
    for (int32_t j = 0; j < m; ++j) dst[i + j] += a;
  }
}

void ramp_ints(uint64_t* dst, uint64_t a, uint64_t step, uint64_t first, int64_t n) {
  uint64_t v = a + first * step;
  for (int64_t i = 0; i < n; ++i, v += step) dst[i] = v;
}

void flip_loop(uint8_t* dst, const uint8_t* src, bool truths, int64_t n) {
  if (truths) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] == 0;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) dst[i] = static_cast<uint8_t>(~src[i]);
  }
}

void stream_loop(void* dst, const void* src, size_t bytes) {
#if defined(__SSE2__)
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  const size_t head = std::min(bytes, -reinterpret_cast<size_t>(d) & 63);  // up to a whole line
  if (head != 0) std::memcpy(d, s, head);
  size_t i = head;
#if defined(__AVX512F__)
  for (; i + 64 <= bytes; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i), _mm512_loadu_si512(s + i));
#else
  for (; i + 64 <= bytes; i += 64)
    for (size_t j = i; j < i + 64; j += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(d + j), _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + j)));
#endif
  if (i < bytes) std::memcpy(d + i, s + i, bytes - i);
#else
  std::memcpy(dst, src, bytes);
#endif
}

void stream_end() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

void convert_loop(void* dst, DType to, const void* src, DType from, int64_t n) {
  switch (from) {
    case DType::Bool: return from_plain(dst, to, static_cast<const Truth*>(src), n);
    case DType::UInt8: return from_plain(dst, to, static_cast<const uint8_t*>(src), n);
    case DType::Int8: return from_plain(dst, to, static_cast<const int8_t*>(src), n);
    case DType::Int16: return from_plain(dst, to, static_cast<const int16_t*>(src), n);
    case DType::Int32: return from_plain(dst, to, static_cast<const int32_t*>(src), n);
    case DType::Int64: return from_plain(dst, to, static_cast<const int64_t*>(src), n);
    case DType::Float32: return from_plain(dst, to, static_cast<const float*>(src), n);
    case DType::Float64: return from_plain(dst, to, static_cast<const double*>(src), n);
    default: break;
  }
  if (to == DType::Float32) {
    if (from == DType::Float16) from_half(static_cast<float*>(dst), static_cast<const Float16*>(src), n);
    else from_half(static_cast<float*>(dst), static_cast<const BFloat16*>(src), n);
    return;
  }
  float tile[kTile];
  for (int64_t i = 0; i < n; i += kTile) {
    const int64_t m = std::min(kTile, n - i);
    if (from == DType::Float16) from_half(tile, static_cast<const Float16*>(src) + i, m);
    else from_half(tile, static_cast<const BFloat16*>(src) + i, m);
    from_plain(static_cast<char*>(dst) + i * static_cast<int64_t>(item_size(to)), to, tile, m);
  }
}

}  // namespace fl::kernels::FL_ISA
