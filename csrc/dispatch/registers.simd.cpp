// How a program of register steps begins and ends.
#include "dispatch/register_steps.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "dispatch/registers.h"

namespace fl::kernels::FL_ISA {
namespace {

void load(FL_REGISTERS) {
  const char* from = read_at(step_, 0, at_);
#define FL_LOAD(v, k) load_vector(from + k)
  FL_EACH_REGISTER(FL_LOAD);
#undef FL_LOAD
  FL_NEXT_STEP;
}

void store(FL_REGISTERS) {
  char* to = step_->out + at_;
#define FL_STORE(v, k) (std::memcpy(to + k, &v, kVector), v)
  FL_EACH_REGISTER(FL_STORE);
#undef FL_STORE
  FL_NEXT_STEP;
}

// Past the caches.
Vector streamed(char* to, Vector v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float*>(to), v);
#elif defined(__AVX__)
  _mm256_stream_ps(reinterpret_cast<float*>(to), v);
#elif defined(__SSE2__)
  _mm_stream_ps(reinterpret_cast<float*>(to), v);
#else
  std::memcpy(to, &v, kVector);
#endif
  return v;
}

void stream(FL_REGISTERS) {
  char* to = step_->out + at_;
#define FL_STREAM(v, k) streamed(to + k, v)
  FL_EACH_REGISTER(FL_STREAM);
#undef FL_STREAM
  FL_NEXT_STEP;
}

void end(FL_REGISTERS) {}

}  // namespace

RegisterEnds register_ends() { return {opaque(load), opaque(store), opaque(stream), opaque(end), 8 * kVector, kVector}; }

void run_registers(const RegisterStep* steps, int64_t bytes) {
  const auto first = reinterpret_cast<RegisterFn>(steps->run);
  const Vector v = {};
  for (int64_t at = 0; at < bytes; at += 8 * kVector) first(v, v, v, v, v, v, v, v, steps, at);
#if defined(__AVX__)
  _mm256_zeroupper();  // compilers expect it of whoever took vectors as arguments, and those jump away
#endif
}

}  // namespace fl::kernels::FL_ISA
