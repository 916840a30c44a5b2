#include "base/refcount.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "base/live_objects.h"
#include "base/sanitized.h"

namespace fl {
namespace {

constexpr size_t kStep = 32;
constexpr size_t kClasses = 16;     // up to 512 bytes
constexpr uint32_t kKeep = kAddressSanitizer ? 0 : 1024;  // blocks kept per class and thread

struct Block {
  Block* next;
};

struct FreeLists {
  int64_t live = 0;  // small objects taken less given back by this thread
  Block* head[kClasses] = {};
  uint32_t count[kClasses] = {};
};

// Trivially destructible on purpose: it must stay usable while other thread-local objects are destroyed.
FL_HOT_THREAD_LOCAL FreeLists lists;

std::atomic<int64_t> live_of_ended{0};

struct ThreadExit {
  ~ThreadExit() {
    live_of_ended.fetch_add(std::exchange(lists.live, 0), std::memory_order_relaxed);
    for (size_t k = 0; k < kClasses; ++k) {
      while (Block* block = lists.head[k]) {
        lists.head[k] = block->next;
        std::free(block);
      }
      lists.count[k] = kKeep;  // whatever is freed after this goes straight to free()
    }
  }
};

// Every thread whose lists hold something gives them back, also one that only frees.
void register_exit() {
  static thread_local ThreadExit at_exit;
  (void)at_exit;
}

// Note [Freeing deep chains]
// Dropping the last of a chain of 100,000 nodes, or of tensors that are each other's .grad, would recurse 100,000 deep.
// Instead the first destroy_flat() on a thread owns a queue, and what dies while it works is queued there. All kinds
// share the queue, since a chain may pass through nodes, tensors and lent memory in turn.
// A result and its node are the usual chain, so a few need no memory.
class Dying {
 public:
  // False: there is no memory to note it.
  bool push(RefCounted* object) noexcept try {
    if (count_ < kFew) few_[count_++] = object;
    else rest_.push_back(object);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
  RefCounted* pop() {
    if (!rest_.empty()) {
      RefCounted* last = rest_.back();
      rest_.pop_back();
      return last;
    }
    return count_ ? few_[--count_] : nullptr;
  }

 private:
  static constexpr int kFew = 8;
  int count_ = 0;
  RefCounted* few_[kFew];
  std::vector<RefCounted*> rest_;
};
FL_HOT_THREAD_LOCAL Dying* dying = nullptr;

}  // namespace

void RefCounted::destroy_flat() noexcept {
  if (dying) {
    if (!dying->push(this)) delete this;  // on this stack, after all
    return;
  }
  Dying mine;
  dying = &mine;
  for (RefCounted* object = this; object; object = mine.pop()) delete object;
  dying = nullptr;
}

int64_t live_objects() { return live_of_ended.load(std::memory_order_relaxed) + lists.live; }

void* small_alloc(size_t size_bytes) {
  ++lists.live;
  const size_t k = (size_bytes - 1) / kStep;
  if (k < kClasses) {
    if (Block* block = lists.head[k]) {
      lists.head[k] = block->next;
      --lists.count[k];
      return block;
    }
    if (kKeep) size_bytes = (k + 1) * kStep;
    register_exit();  // every thread comes by here with its first object
  }
  if (void* p = std::malloc(size_bytes)) return p;
  throw std::bad_alloc();
}

void* uncounted_alloc(size_t size_bytes) {
  void* block = small_alloc(size_bytes);
  --lists.live;
  return block;
}

void uncounted_free(void* block, size_t size_bytes) noexcept {
  ++lists.live;
  small_free(block, size_bytes);
}

void small_free(void* block, size_t size_bytes) noexcept {
  --lists.live;
  const size_t k = (size_bytes - 1) / kStep;
  if (k < kClasses && lists.count[k] != kKeep) {
    auto* b = static_cast<Block*>(block);
    if (!lists.head[k]) register_exit();
    b->next = lists.head[k];
    lists.head[k] = b;
    ++lists.count[k];
    return;
  }
  std::free(block);
}

}  // namespace fl
