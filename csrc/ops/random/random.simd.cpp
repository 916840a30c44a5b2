#include "ops/random/random.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/element.h"
#include "base/vmath_angles.h"

namespace fl::kernels::FL_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif
typedef uint64_t Lanes __attribute__((vector_size(8 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));

// Of the lower halves of the lanes. Compilers do not find the instruction that reads these alone.
inline Lanes product(Lanes a, Lanes b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(_mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Lanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Lanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Philox4x32-10 on n counters from `first` on, the same function as base/philox.h: put(i, words 0 to 3 of counters i,
// i + 1, ..), each word in the lower half of its lane. What the upper halves hold is never read.
template <class Put>
[[gnu::always_inline]] inline void over_counters(int n, uint64_t seed, uint64_t offset, uint64_t first, const Put& put) {
  Lanes step = {};
  for (int j = 0; j < kLanes; ++j) step[j] = static_cast<uint64_t>(j);
  const Lanes zero = {}, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
  for (int i = 0; i < n; i += kLanes) {
    const Lanes index = step + (first + static_cast<uint64_t>(i));
    Lanes c0 = index, c1 = index >> 32, c2 = zero + offset, c3 = zero + (offset >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const Lanes p0 = product(m0, c0), p1 = product(m1, c2);
      c0 = (p1 >> 32) ^ c1 ^ (zero + k0);
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ (zero + k1);
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    put(i, c0, c1, c2, c3);
  }
}

void put_words(uint32_t* out, Lanes lanes) {
  const Words words = __builtin_convertvector(lanes, Words);
  std::memcpy(out, &words, sizeof(words));
}

// In whole vectors of all instruction sets, so that no element is computed in another way than in a full chunk.
int whole_vectors(int64_t count, int most) { return static_cast<int>(std::min<int64_t>((count + 15) / 16 * 16, most)); }

}  // namespace

// Word w of counter c at out[256 w + c].
void random_bits(uint32_t* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count) {
  constexpr int n = 256;
  over_counters(whole_vectors(count, n), seed, offset, static_cast<uint64_t>(chunk) * n, [&](int i, Lanes c0, Lanes c1, Lanes c2, Lanes c3) {
    put_words(out + i, c0);
    put_words(out + n + i, c1);
    put_words(out + 2 * n + i, c2);
    put_words(out + 3 * n + i, c3);
  });
}

void random_wide(uint64_t* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count) {
  constexpr int n = 1024;
  over_counters(whole_vectors(count, n), seed, offset, static_cast<uint64_t>(chunk) * n, [&](int i, Lanes c0, Lanes c1, Lanes, Lanes) {
    const Lanes wide = c0 << 32 | (c1 & 0xffffffffu);
    std::memcpy(out + i, &wide, sizeof(wide));
  });
}

void random_uniform(float* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count) {
  alignas(64) uint32_t bits[1024];
  random_bits(bits, seed, offset, chunk, count);
  const int n = whole_vectors(count, 1024);
#pragma omp simd
  for (int i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<int32_t>(bits[i] >> 8)) * 0x1p-24f;
}

// Box and Muller (1958): two normals from two uniforms, the first of which is in (0, 1].
void random_normal(float* out, uint64_t seed, uint64_t offset, int64_t chunk, int64_t count) {
  alignas(64) uint32_t bits[1024];
  random_bits(bits, seed, offset, chunk, count);
  const int n = whole_vectors(count, 256);
  for (int half = 0; half < (count > 512 ? 2 : 1); ++half) {
    const uint32_t* a = bits + 512 * half;
    const uint32_t* b = a + 256;
    float* x = out + 512 * half;
    float* y = x + 256;
#pragma omp simd
    for (int i = 0; i < n; ++i) {
      const float u = static_cast<float>(static_cast<int32_t>(a[i] >> 8) + 1) * 0x1p-24f;
      const float angle = static_cast<float>(static_cast<int32_t>(b[i] >> 8)) * (0x1p-24f * 6.283185307179586f);
      const float radius = vm::sqrt(-2.0f * vm::log(u));
      const auto [sine, cosine] = vm::sincos_lane(angle);  // rightly rounded, so that all instruction sets draw the same
      x[i] = radius * static_cast<float>(cosine);
      y[i] = radius * static_cast<float>(sine);
    }
  }
}

namespace {

template <class S>
int64_t count_positive(const S* weights, int64_t n) {
  constexpr int64_t kBlock = 1 << 20;  // counted in 32 bits
  int64_t positive = 0;
  for (int64_t from = 0; from < n; from += kBlock) {
    const int64_t to = from + kBlock < n ? from + kBlock : n;
    int32_t good = 0, more = 0;
#pragma omp simd reduction(+ : good, more)
    for (int64_t i = from; i < to; ++i) {
      const auto w = vm::wide(weights[i]);
      const bool finite = w - w == 0;
      good += w >= 0 ? finite : 0;
      more += w > 0 ? 1 : 0;
    }
    if (good != to - from) return -1;
    positive += more;
  }
  return positive;
}

}  // namespace

int64_t positive_weights(DType dtype, const void* weights, int64_t n) {
  switch (dtype) {
    case DType::Float64: return count_positive(static_cast<const double*>(weights), n);
    case DType::BFloat16: return count_positive(static_cast<const BFloat16*>(weights), n);
    case DType::Float16: return count_positive(static_cast<const Float16*>(weights), n);
    default: return count_positive(static_cast<const float*>(weights), n);
  }
}

}  // namespace fl::kernels::FL_ISA
