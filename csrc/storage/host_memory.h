// The host's memory: segments of anonymous pages, and how much of them the machine has left.
#pragma once

#include "storage/allocator.h"

namespace fl {

RawMemory& host_memory();

}  // namespace fl
