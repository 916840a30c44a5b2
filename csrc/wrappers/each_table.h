// FL_EACH(add) declares kernels::each_add, the loops of `add` for this processor.
#pragma once

#include "base/isa.h"
#include "dispatch/each.h"

#if FL_HAS_V3 && FL_HAS_V4 && FL_HAS_BASE
#define FL_EACH(name)                                          \
  namespace fl::kernels {                                      \
  namespace base { extern const EachKernel table_##name; }     \
  namespace v3 { extern const EachKernel table_##name; }       \
  namespace v4 { extern const EachKernel table_##name; }       \
  inline const EachKernel& each_##name = *::fl::pick_isa(&base::table_##name, &v3::table_##name, &v4::table_##name); \
  }
#else
#if FL_HAS_V3
#define FL_ONLY_ISA v3
#elif FL_HAS_V4
#define FL_ONLY_ISA v4
#else
#define FL_ONLY_ISA base
#endif
#define FL_EACH(name)                                              \
  namespace fl::kernels {                                          \
  namespace FL_ONLY_ISA { extern const EachKernel table_##name; }  \
  inline const EachKernel& each_##name = FL_ONLY_ISA::table_##name; \
  }
#endif
