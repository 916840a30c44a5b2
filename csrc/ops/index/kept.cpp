#include "ops/index/kept.h"

#include <atomic>

#include "base/error.h"
#include "base/parallel.h"
#include "ops/index/bounds.h"

namespace fl::kernels {

bool all_lie_within(const Tensor& indices, int64_t least, int64_t size) {
  const char* data = static_cast<const char*>(indices.data());
  std::atomic<bool> all{true};
  parallel_for(0, indices.numel(), 32768, [&](int64_t begin, int64_t end) {
    if (!all_within(data + begin * static_cast<int64_t>(indices.item_bytes()), indices.dtype(), end - begin, least, size)) all.store(false, std::memory_order_relaxed);
  });
  return all;
}

void require_kept(const char* op, const Tensor& indices, int64_t size) {
  if (all_lie_within(indices, 0, size)) return;
  int64_t low = 0, high = -1;
  widen_bounds(indices.data(), indices.dtype(), indices.numel(), &low, &high);
  raise<IndexError>(op, ": an index became ", low < 0 ? low : high, " after the forward pass; expected 0 <= index < ", size);
}

}  // namespace fl::kernels
