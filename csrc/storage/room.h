// Room for what has no bytes of its own.
#pragma once

#include "base/error.h"
#include "storage/allocator.h"

namespace fl {

// Raises OutOfMemory where n tensors do not fit into memory, before one is made: views need no storage, so that nothing else would refuse 2**59 of them.
inline void check_room_for_views(const char* op, int64_t n) {
  constexpr size_t kView = 512;  // bytes, with what Python has of it
  constexpr int64_t kFew = int64_t{1} << 20;
  if (n <= kFew) return;
  if (const size_t left = available_memory(); static_cast<size_t>(n) > left / kView)
    raise<OutOfMemory>("out of memory: ", op, " would make ", n, " tensors of some ", kView, " bytes each; ", left, " bytes are left");
}

}  // namespace fl
