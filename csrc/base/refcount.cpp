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

// Small objects taken less given back by the threads that had it, one at a time. It is never freed and its sum outlives its
// threads, so that all counters together are right at any moment: while a thread ends, and in the child of a fork.
struct alignas(64) Counter {
  std::atomic<int64_t> live{0};
  std::atomic<bool> taken{true};
  Counter* next = nullptr;

  // Its thread alone changes it.
  void add(int64_t n) { live.store(live.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
};

constinit Counter nobodys;  // of threads that have no other: before their first object, and after their end
constinit std::atomic<Counter*> counters{&nobodys};

Counter* take_counter() {
  for (Counter* c = counters.load(); c; c = c->next)
    if (!c->taken.load(std::memory_order_relaxed) && !c->taken.exchange(true)) return c;
  auto* fresh = new (std::nothrow) Counter;
  if (!fresh) return &nobodys;
  fresh->next = counters.load();
  while (!counters.compare_exchange_weak(fresh->next, fresh)) {
  }
  return fresh;
}

struct FreeLists {
  Counter* counter = &nobodys;
  Block* head[kClasses] = {};
  uint32_t count[kClasses] = {};
};

// Trivially destructible on purpose: it must stay usable while other thread-local objects are destroyed.
FL_HOT_THREAD_LOCAL FreeLists lists;

struct ThreadState {
  ThreadState() { lists.counter = take_counter(); }
  ~ThreadState() {
    Counter* mine = std::exchange(lists.counter, &nobodys);
    if (mine != &nobodys) mine->taken.store(false);
    for (size_t k = 0; k < kClasses; ++k) {
      while (Block* block = lists.head[k]) {
        lists.head[k] = block->next;
        std::free(block);
      }
      lists.count[k] = kKeep;  // whatever is freed after this goes straight to free()
    }
  }
};

// Every thread has a counter, also one that only frees, and gives its blocks back when it ends.
void enter_thread() {
  static thread_local ThreadState state;
  (void)state;
}

// Where the thread may have ended, as far as C++ goes.
void count_anywhere(int64_t n) {
  if (lists.counter == &nobodys) nobodys.live.fetch_add(n, std::memory_order_relaxed);
  else lists.counter->add(n);
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

int64_t live_objects() {
  int64_t sum = 0;
  for (const Counter* c = counters.load(); c; c = c->next) sum += c->live.load(std::memory_order_relaxed);
  return sum;
}

void* small_alloc(size_t size_bytes) {
  const size_t k = (size_bytes - 1) / kStep;
  if (k < kClasses) {
    if (Block* block = lists.head[k]) {
      lists.head[k] = block->next;
      --lists.count[k];
      lists.counter->add(1);
      return block;
    }
    if (kKeep) size_bytes = (k + 1) * kStep;
  }
  enter_thread();  // every thread comes by here with its first object
  void* p = std::malloc(size_bytes);
  if (!p) throw std::bad_alloc();
  count_anywhere(1);
  return p;
}

void* uncounted_alloc(size_t size_bytes) {
  void* block = small_alloc(size_bytes);
  count_anywhere(-1);
  return block;
}

void uncounted_free(void* block, size_t size_bytes) noexcept {
  small_free(block, size_bytes);
  count_anywhere(1);
}

void small_free(void* block, size_t size_bytes) noexcept {
  const size_t k = (size_bytes - 1) / kStep;
  if (k >= kClasses || lists.count[k] == kKeep) {
    enter_thread();
    count_anywhere(-1);
    return std::free(block);
  }
  if (!lists.head[k]) enter_thread();
  lists.counter->add(-1);
  auto* b = static_cast<Block*>(block);
  b->next = lists.head[k];
  lists.head[k] = b;
  ++lists.count[k];
}

}  // namespace fl
