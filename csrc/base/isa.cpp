#include "base/isa.h"

#include <cstdlib>
#include <cstring>

#include "base/at_load.h"

namespace fl {
namespace {

Isa find_isa() {
  Isa best = Isa::Base;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  best = v4 ? Isa::V4 : v3 ? Isa::V3 : Isa::Base;
  if (const char* asked = std::getenv("FLAMBEAU_ISA")) {
    if (!std::strcmp(asked, "base")) best = Isa::Base;
    if (!std::strcmp(asked, "v3") && best == Isa::V4) best = Isa::V3;
  }
#endif
#if !FL_HAS_V4
  if (best == Isa::V4) best = Isa::V3;
#endif
#if !FL_HAS_V3
  if (best == Isa::V3) best = Isa::Base;
#endif
  return best;
}

}  // namespace

Isa isa() {
  static const Isa found = find_isa();
  return found;
}
FL_AT_LOAD(isa())

const char* isa_name() {
  switch (isa()) {
    case Isa::V4: return "x86-64-v4 (AVX-512)";
    case Isa::V3: return "x86-64-v3 (AVX2, FMA)";
    default: return "baseline";
  }
}

}  // namespace fl
