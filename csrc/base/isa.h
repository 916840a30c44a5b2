// Kernels compiled once per instruction set. A file named *.simd.cpp is compiled for each of base
// (portable), v3 (AVX2, FMA, F16C) and v4 (AVX-512), with FL_ISA set to that name; it opens
// `namespace fl::kernels::FL_ISA {`. A header declares such a function once:
//
//   FL_SIMD_KERNEL(void, softmax_rows, const float* x, float* y, int64_t rows, int64_t n)
//
// which gives fl::kernels::softmax_rows, a pointer to the best version for this processor.
//
// Note [Nothing is made at load by kernels]
// Whatever is not a constant is made when the library is loaded, on every processor, also in files that are compiled for instructions which it
// lacks. So kernels know the versions of their own instruction set alone, and no pointers; their tables are `constinit`. A test looks at the
// object files (tests/packaging/test_instruction_sets.py).
#pragma once

#ifdef FL_ISA
#define FL_ONE_ISA 1
#else
#define FL_ISA base
#endif

namespace fl {

enum class Isa { Base, V3, V4 };
// The best instruction set that both this build and this processor have; FLAMBEAU_ISA=base|v3|v4 lowers it.
Isa isa();
const char* isa_name();

template <class F>
F pick_isa(F base, F v3, F v4) {
  switch (isa()) {
    case Isa::V4: return v4;
    case Isa::V3: return v3;
    default: return base;
  }
}

}  // namespace fl

// FL_HAS_BASE, FL_HAS_V3 and FL_HAS_V4 come from the build: which versions exist.
#if FL_ONE_ISA
#define FL_SIMD_KERNEL(ret, name, ...)       \
  namespace fl::kernels {                    \
  namespace FL_ISA { ret name(__VA_ARGS__); } \
  }
#elif FL_HAS_V3 && FL_HAS_V4 && FL_HAS_BASE
#define FL_SIMD_KERNEL(ret, name, ...)                                                    \
  namespace fl::kernels {                                                                 \
  namespace base { ret name(__VA_ARGS__); }                                               \
  namespace v3 { ret name(__VA_ARGS__); }                                                 \
  namespace v4 { ret name(__VA_ARGS__); }                                                 \
  inline ret (*const name)(__VA_ARGS__) = ::fl::pick_isa(&base::name, &v3::name, &v4::name); \
  }
#elif FL_HAS_V3
#define FL_SIMD_KERNEL(ret, name, ...)                    \
  namespace fl::kernels {                                 \
  namespace v3 { ret name(__VA_ARGS__); }                 \
  inline ret (*const name)(__VA_ARGS__) = &v3::name;      \
  }
#elif FL_HAS_V4
#define FL_SIMD_KERNEL(ret, name, ...)                    \
  namespace fl::kernels {                                 \
  namespace v4 { ret name(__VA_ARGS__); }                 \
  inline ret (*const name)(__VA_ARGS__) = &v4::name;      \
  }
#else
#define FL_SIMD_KERNEL(ret, name, ...)                    \
  namespace fl::kernels {                                 \
  namespace base { ret name(__VA_ARGS__); }               \
  inline ret (*const name)(__VA_ARGS__) = &base::name;    \
  }
#endif
