// What register steps are made of, for files that are compiled once per instruction set. See dispatch/registers.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/isa.h"
#include "dispatch/registers.h"

namespace fl::kernels::FL_ISA {

#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
constexpr int kVectorFloats = kVector / 4;
using Vector = float __attribute__((vector_size(kVector)));

#define FL_REGISTERS                                                                                                                       \
  [[maybe_unused]] Vector v0, [[maybe_unused]] Vector v1, [[maybe_unused]] Vector v2, [[maybe_unused]] Vector v3, [[maybe_unused]] Vector v4, \
      [[maybe_unused]] Vector v5, [[maybe_unused]] Vector v6, [[maybe_unused]] Vector v7, [[maybe_unused]] const RegisterStep* step_, [[maybe_unused]] int64_t at_
using RegisterFn = void (*)(Vector, Vector, Vector, Vector, Vector, Vector, Vector, Vector, const RegisterStep*, int64_t);
#define FL_NEXT_STEP return reinterpret_cast<RegisterFn>(step_[1].run)(v0, v1, v2, v3, v4, v5, v6, v7, step_ + 1, at_)

// `op(v, k)` for the eight vectors; k bytes into the block.
#define FL_EACH_REGISTER(op)                                                                                  \
  v0 = op(v0, 0 * kVector), v1 = op(v1, 1 * kVector), v2 = op(v2, 2 * kVector), v3 = op(v3, 3 * kVector), \
  v4 = op(v4, 4 * kVector), v5 = op(v5, 5 * kVector), v6 = op(v6, 6 * kVector), v7 = op(v7, 7 * kVector)

inline RegisterStep::Run opaque(RegisterFn f) { return reinterpret_cast<RegisterStep::Run>(f); }

inline Vector load_vector(const char* from) {
  Vector v;
  std::memcpy(&v, from, kVector);
  return v;
}
// Where the elements of a type lie that stand `at` bytes of floats behind the first.
template <class S>
constexpr int64_t bytes_of(int64_t at) { return at >> (sizeof(S) == 2 ? 1 : 0); }
template <class S>
const char* read_at(const RegisterStep* step, int k, int64_t at) { return step->in[k] + (bytes_of<S>(at) & step->keep[k]); }

}  // namespace fl::kernels::FL_ISA
