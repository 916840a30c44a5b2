// Vectors of 16-bit floats as vectors of floats and back: vm::wide and vm::narrow, for files that are compiled once per instruction set.
#pragma once

#include <cstring>
#include <type_traits>

#include "base/element.h"
#include "base/vmath_basic.h"
#include "dispatch/register_steps.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace fl::kernels::FL_ISA {
namespace {

using HalfVector = uint16_t __attribute__((vector_size(kVector / 2)));
using Bits = uint32_t __attribute__((vector_size(kVector)));

// vm::wide and vm::narrow of vectors.
template <class S>
Vector widened(const char* from) {
  if constexpr (std::is_same_v<S, float>) return load_vector(from);
  else if constexpr (std::is_same_v<S, BFloat16>) {
    HalfVector narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
#if defined(__AVX512F__)  // GCC makes two halves of it
    return reinterpret_cast<Vector>(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(narrow)), 16));
#else
    return reinterpret_cast<Vector>(__builtin_convertvector(narrow, Bits) << 16);
#endif
  }
#if defined(__AVX512F__)
  else if constexpr (std::is_same_v<S, Float16>) return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
  else if constexpr (std::is_same_v<S, Float16>) return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#endif
  else {
    S narrow[kVectorFloats];
    std::memcpy(narrow, from, sizeof(narrow));
    float wide[kVectorFloats];
#pragma omp simd
    for (int i = 0; i < kVectorFloats; ++i) wide[i] = vm::wide(narrow[i]);
    return load_vector(reinterpret_cast<const char*>(wide));
  }
}

template <class S>
using Narrow = std::conditional_t<std::is_same_v<S, float>, Vector, HalfVector>;

inline Bits bfloat_bits(Vector v) {
  const Bits u = reinterpret_cast<Bits>(v), nan = (u >> 16) | 0x40, rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return v == v ? rounded : nan;
}

template <class S>
Narrow<S> narrowed(Vector v) {
  Narrow<S> made;
  if constexpr (std::is_same_v<S, float>) made = v;
  else if constexpr (std::is_same_v<S, BFloat16>) made = __builtin_convertvector(bfloat_bits(v), HalfVector);
#if defined(__AVX512F__)
  else if constexpr (std::is_same_v<S, Float16>) made = reinterpret_cast<Narrow<S>>(_mm512_maskz_cvtps_ph(0xffff, v, 0));
#elif defined(__F16C__)
  else if constexpr (std::is_same_v<S, Float16>) made = reinterpret_cast<Narrow<S>>(_mm256_cvtps_ph(v, 0));
#endif
  else {
    float wide[kVectorFloats];
    std::memcpy(wide, &v, kVector);
    S narrow[kVectorFloats];
#pragma omp simd
    for (int i = 0; i < kVectorFloats; ++i) narrow[i] = vm::narrow<S>(wide[i]);
    std::memcpy(&made, narrow, sizeof(made));
  }
  return made;
}

// narrowed() of two vectors at once, which must not hold NaN: what they are rounded to has its bits in the higher halves.
#if defined(__AVX512BW__) || defined(__AVX2__)
#define FL_BFLOAT_PAIRS 1
#endif
#if defined(__AVX512BW__)
using BFloatPair = __m512i;
inline BFloatPair bfloat_pair(Vector a, Vector b) {
  const auto rounded = [](Vector v) {
    const Bits u = reinterpret_cast<Bits>(v);
    return reinterpret_cast<__m512i>(u + 0x7fff + ((u >> 16) & 1));
  };
  alignas(64) static constexpr uint16_t kHigher[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                       33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(rounded(a), _mm512_load_si512(kHigher), rounded(b));
}

inline void store_pair(void* to, BFloatPair pair) { _mm512_storeu_si512(to, pair); }
inline bool no_nan(Vector a, Vector b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) == 0; }
#elif defined(__AVX2__)
using BFloatPair = __m256i;
inline BFloatPair bfloat_pair(Vector a, Vector b) {
  const auto rounded = [](Vector v) {
    const Bits u = reinterpret_cast<Bits>(v);
    return reinterpret_cast<__m256i>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  };
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded(a), rounded(b)), 0xd8);  // packed within halves of 128 bits
}

inline void store_pair(void* to, BFloatPair pair) { _mm256_storeu_si256(static_cast<__m256i*>(to), pair); }
inline bool no_nan(Vector a, Vector b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) == 0; }
#endif

}  // namespace
}  // namespace fl::kernels::FL_ISA
