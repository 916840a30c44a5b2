#include "ops/index/kept.h"

#include <algorithm>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "ops/index/bounds.h"

namespace fl::kernels {

void require_kept(const char* op, const Tensor& indices, int64_t size) {
  const char* data = static_cast<const char*>(indices.data());
  int64_t low = 0, high = -1;
  CallMutex merging;
  parallel_for(0, indices.numel(), 32768, [&](int64_t begin, int64_t end) {
    int64_t least = 0, most = -1;
    widen_bounds(data + begin * static_cast<int64_t>(indices.item_bytes()), indices.dtype(), end - begin, &least, &most);
    const std::lock_guard lock(merging);
    low = std::min(low, least), high = std::max(high, most);
  });
  if (low < 0 || high >= size)
    raise<IndexError>(op, ": an index became ", low < 0 ? low : high, " after the forward pass; expected 0 <= index < ", size);
}

}  // namespace fl::kernels
