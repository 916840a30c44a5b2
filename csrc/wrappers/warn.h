// Warnings of the core, which the bindings make Python's.
#pragma once

#include "base/fork_mutex.h"

namespace fl {

// Issues a UserWarning; may throw, where warnings are errors. Null: nobody listens.
extern void (*warn)(const char* text);

// Not where a recorded call is checked again, which happens under a mutex: it warned when it was recorded.
inline void warn_of_lost_parts() {
  if (warn && !locks::any_held()) warn("casting complex values to real ones discards the imaginary part; use .real to say so");
}

}  // namespace fl
