// How many small objects (tensors, storages, nodes) are alive, for tests that nothing stays behind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fl {

// Taken less given back by all threads. Nobody pays for it but by an addition.
int64_t live_objects();
// The allocator's own records are no objects: their number depends on how memory was cut up before.
void* uncounted_alloc(size_t size_bytes);
void uncounted_free(void* block, size_t size_bytes) noexcept;

}  // namespace fl
