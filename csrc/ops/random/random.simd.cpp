#include "ops/random/random.h"

#include "base/vmath.h"

namespace fl::kernels::FL_ISA {

// Philox4x32-10 on 256 counters at once, word w of counter c at out[256 w + c]. Same function as
// base/philox.h, written so that the compiler vectorises over the counters.
void random_bits(uint32_t* out, uint64_t seed, uint64_t offset, int64_t chunk) {
  constexpr int n = 256;
  alignas(64) uint32_t c0[n], c1[n], c2[n], c3[n];
  const uint64_t first = static_cast<uint64_t>(chunk) * n;
  for (int i = 0; i < n; ++i) {
    const uint64_t index = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(index);
    c1[i] = static_cast<uint32_t>(index >> 32);
    c2[i] = static_cast<uint32_t>(offset);
    c3[i] = static_cast<uint32_t>(offset >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < n; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
      const uint32_t h0 = static_cast<uint32_t>(p0 >> 32), h1 = static_cast<uint32_t>(p1 >> 32);
      c0[i] = h1 ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = h0 ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < n; ++i) {
    out[i] = c0[i];
    out[n + i] = c1[i];
    out[2 * n + i] = c2[i];
    out[3 * n + i] = c3[i];
  }
}

void random_uniform(float* out, uint64_t seed, uint64_t offset, int64_t chunk) {
  alignas(64) uint32_t bits[1024];
  random_bits(bits, seed, offset, chunk);
#pragma omp simd
  for (int i = 0; i < 1024; ++i) out[i] = static_cast<float>(static_cast<int32_t>(bits[i] >> 8)) * 0x1p-24f;
}

// Box and Muller (1958): two normals from two uniforms, the first of which is in (0, 1].
void random_normal(float* out, uint64_t seed, uint64_t offset, int64_t chunk) {
  alignas(64) uint32_t bits[1024];
  random_bits(bits, seed, offset, chunk);
  for (int half = 0; half < 2; ++half) {
    const uint32_t* a = bits + 512 * half;
    const uint32_t* b = a + 256;
    float* x = out + 512 * half;
    float* y = x + 256;
#pragma omp simd
    for (int i = 0; i < 256; ++i) {
      const float u = static_cast<float>(static_cast<int32_t>(a[i] >> 8) + 1) * 0x1p-24f;
      const float angle = static_cast<float>(static_cast<int32_t>(b[i] >> 8)) * (0x1p-24f * 6.283185307179586f);
      const float radius = vm::sqrt(-2.0f * vm::log(u));
      x[i] = radius * vm::cos(angle);
      y[i] = radius * vm::sin(angle);
    }
  }
}

}  // namespace fl::kernels::FL_ISA
