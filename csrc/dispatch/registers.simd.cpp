// How a program of register steps begins and ends.
#include "dispatch/register_steps.h"

#include "dispatch/half_vectors.h"

namespace fl::kernels::FL_ISA {
namespace {

// Past the caches.
template <class V>
void stream_vector(char* to, V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(v));
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(v));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(v));
#endif
  std::memcpy(to, &v, sizeof(V));
}

template <class S>
struct Memory {
  static void load(FL_REGISTERS) {
    const char* const from = read_at<S>(step_, 0, at_);
#define FL_LOAD(v, k) widened<S>(from + bytes_of<S>(k))
    FL_EACH_REGISTER(FL_LOAD);
#undef FL_LOAD
    FL_NEXT_STEP;
  }
  static void store(FL_REGISTERS) {
    char* const to = step_->out + bytes_of<S>(at_);
#if FL_BFLOAT_PAIRS
    if constexpr (std::is_same_v<S, BFloat16>)
      if (no_nan(v0, v1) && no_nan(v2, v3) && no_nan(v4, v5) && no_nan(v6, v7)) {
        constexpr int64_t pair = sizeof(BFloatPair);  // an array of them would go by the stack
        store_pair(to, bfloat_pair(v0, v1));
        store_pair(to + pair, bfloat_pair(v2, v3));
        store_pair(to + 2 * pair, bfloat_pair(v4, v5));
        store_pair(to + 3 * pair, bfloat_pair(v6, v7));
        FL_NEXT_STEP;
      }
#endif
    auto put = [to](Vector v, int64_t k) {
      const Narrow<S> made = narrowed<S>(v);
      std::memcpy(to + bytes_of<S>(k), &made, sizeof(made));
      return v;
    };
    FL_EACH_REGISTER(put);
    FL_NEXT_STEP;
  }
  static void stream(FL_REGISTERS) {
    char* const to = step_->out + bytes_of<S>(at_);
    auto put = [to](Vector v, int64_t k) {
      stream_vector(to + bytes_of<S>(k), narrowed<S>(v));
      return v;
    };
    FL_EACH_REGISTER(put);
    FL_NEXT_STEP;
  }
  static void round(FL_REGISTERS) {
    auto rounded = [](Vector v, int64_t) {
      if constexpr (std::is_same_v<S, BFloat16>) return reinterpret_cast<Vector>(bfloat_bits(v) << 16);
      const Narrow<S> made = narrowed<S>(v);
      return widened<S>(reinterpret_cast<const char*>(&made));
    };
    FL_EACH_REGISTER(rounded);
    FL_NEXT_STEP;
  }
  static RegisterEnds::Memory runs() { return {opaque(load), opaque(store), opaque(stream), opaque(round)}; }
};

void end(FL_REGISTERS) {}

}  // namespace

RegisterEnds register_ends() {
  return {{Memory<float>::runs(), Memory<BFloat16>::runs(), Memory<Float16>::runs()}, opaque(end), 8 * kVector, kVector};
}

void run_registers(const RegisterStep* steps, int64_t bytes, const Ahead* ahead, int n) {
  constexpr int64_t block = 8 * kVector, line = 64;
  const auto first = reinterpret_cast<RegisterFn>(steps->run);
  const Vector v = {};
  struct Lines {
    const char *next, *stop;
    int64_t step;
  } lines[kMostAhead];
  for (int i = 0; i < n; ++i) lines[i] = {ahead[i].from, ahead[i].from, (ahead[i].bytes * block + bytes - 1) / bytes};
  for (int64_t at = 0; at < bytes; at += block) {
    for (Lines* l = lines; l < lines + n; ++l)
      for (l->stop += l->step; l->next < l->stop; l->next += line) __builtin_prefetch(l->next);
    first(v, v, v, v, v, v, v, v, steps, at);
  }
#if defined(__AVX__)
  _mm256_zeroupper();  // compilers expect it of whoever took vectors as arguments, and those jump away
#endif
}

}  // namespace fl::kernels::FL_ISA
