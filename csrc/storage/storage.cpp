#include "storage/storage.h"

#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "storage/allocator.h"
#include "storage/prepared.h"
#include "storage/scratch.h"

// Note [Small blocks]
// Tensors of up to 512 bytes are the ones whose cost is overhead. Their blocks are kept in a list per
// thread, in front of the allocator and its lock. A listed block counts as cached, not as allocated:
// each thread publishes how many it holds, and host_stats() subtracts them.

namespace fl {

FL_HOT_THREAD_LOCAL constinit Birth birth_here;

namespace {

constexpr int kFront = 64;

struct Front;
ForkMutex fronts_mutex{LockRank::Fronts};
Front* fronts = nullptr;

struct Front {
  CachingAllocator::Block* blocks[kFront];
  std::atomic<int> count{0};
  Front* next = nullptr;
  Front** link = nullptr;

  Front() {
    std::lock_guard lock(fronts_mutex);
    next = fronts;
    link = &fronts;
    if (next) next->link = &next;
    fronts = this;
  }
  ~Front();
};

FL_HOT_THREAD_LOCAL Front* front = nullptr;
thread_local bool front_gone = false;

Front::~Front() {
  {
    std::lock_guard lock(fronts_mutex);
    *link = next;
    if (next) next->link = link;
  }
  front = nullptr;
  front_gone = true;
  for (int i = 0; i < count; ++i) host_allocator().free(blocks[i]);
}

// Null where there is no memory for one, too.
Front* open_front() noexcept {
  if (front_gone || !host_allocator().caches()) return nullptr;
  static thread_local std::unique_ptr<Front> mine;  // on the heap: thread-local space is scarce
  if (!mine) mine.reset(new (std::nothrow) Front);
  return front = mine.get();
}

CachingAllocator::Block* take_block(size_t size_bytes) {
  if (size_bytes <= CachingAllocator::kRound && front && !host_allocator().names_all()) {
    const int n = front->count.load(std::memory_order_relaxed);
    if (n > 0) {
      front->count.store(n - 1, std::memory_order_relaxed);
      return front->blocks[n - 1];
    }
  }
  return host_allocator().allocate(size_bytes);
}

void drop_block(CachingAllocator::Block* block) {
  if (CachingAllocator::size_of(block) == CachingAllocator::kRound && !CachingAllocator::is_named(block)) {
    if (Front* f = front ? front : open_front()) {
      const int n = f->count.load(std::memory_order_relaxed);
      if (n < kFront) {
        f->blocks[n] = block;
        f->count.store(n + 1, std::memory_order_relaxed);
        return;
      }
    }
  }
  host_allocator().free(block);
}

void drop_host_block(void* block) { drop_block(static_cast<CachingAllocator::Block*>(block)); }
void drop_part(void* whole) { (void)Ref<Storage>::adopt(static_cast<Storage*>(whole)); }

}  // namespace

AllocatorStats host_stats() {
  AllocatorStats stats = host_allocator().stats();
  std::lock_guard lock(fronts_mutex);
  for (Front* f = fronts; f; f = f->next) stats.allocated -= static_cast<size_t>(f->count.load()) * CachingAllocator::kRound;
  return stats;
}

Ref<Storage> Storage::allocate_now(size_t size_bytes, Device device, bool apart) {
  require_device(device);
  auto storage = make_ref<Storage>();
  storage->size_bytes_ = size_bytes;
  storage->device_ = device;
  if (device.kind == DeviceKind::CPU) {
    const auto take = [&] { return apart ? host_allocator().allocate_apart(size_bytes) : take_block(size_bytes); };
    CachingAllocator::Block* block;
    try {
      block = take();
    } catch (const OutOfMemory&) {
      drop_prepared();
      block = take();
    }
    storage->data_ = CachingAllocator::address(block);
    storage->owner_ = block;
    storage->drop_ = drop_host_block;
  }
  return storage;
}

Ref<Storage> Storage::borrow(void* data, size_t size_bytes, Device device, void* owner, void (*drop)(void*), bool writable) {
  auto storage = make_ref<Storage>();
  storage->data_ = data;
  storage->size_bytes_ = size_bytes;
  storage->device_ = device;
  storage->owner_ = owner;
  storage->drop_ = drop;
  storage->writable_ = writable;
  if (recorder_here) storage->region_ = recorder_here->region();
  return storage;
}

Storage::~Storage() {
  if (deferred_.load(std::memory_order_relaxed)) forget_deferred();
  if (prepared_.load(std::memory_order_relaxed)) forget_prepared();
  if (owned()) drop_host_block(owner_);
  else if (drop_ == ScratchRoom::give_back) ScratchRoom::give_back(owner_);  // now: the room is gone when locks are
  else if (drop_) locks::when_unlocked(owner_, drop_);  // it may want the GIL: Note [Locks]
}

static std::atomic<uint64_t> numbers{0};  // that were given

uint64_t Storage::number() {
  uint64_t mine = number_so_far();
  if (mine == 0) {
    const uint64_t next = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number_.compare_exchange_strong(mine, next, std::memory_order_relaxed)) return next;
  }
  return mine;
}

void Storage::lend_when_gone() const {
  if (owned()) host_allocator().lend(static_cast<CachingAllocator::Block*>(owner_));
}

bool Storage::owned() const { return drop_ == drop_host_block; }
bool Storage::ours() const { return owned() || drop_ == drop_part; }

Ref<Storage> Storage::part_of(const Ref<Storage>& whole, size_t offset, size_t size_bytes) {
  whole->retain();
  return borrow(static_cast<char*>(whole->data()) + offset, size_bytes, whole->device(), whole.get(), drop_part, true);
}

void Storage::grow(size_t size_bytes) {
  if (size_bytes <= size_bytes_) return;
  (void)data();
  before_write(*this);
  if (device_.kind == DeviceKind::CPU) {
    if (!ours())
      raise<ArgumentError>("resize_: the memory belongs to somebody else (NumPy, DLPack or other processes) and can not grow; clone() it first");
    if (lent_.load(std::memory_order_relaxed) > 0)
      raise<ArgumentError>("resize_: a NumPy array, buffer or DLPack export shares the memory, which would have to move to grow from ", size_bytes_,
                           " to ", size_bytes, " bytes; delete the export or clone() the tensor first");
    auto* block = take_block(size_bytes);
    std::memcpy(CachingAllocator::address(block), data_, size_bytes_);
    drop_(owner_);
    owner_ = block;
    drop_ = drop_host_block;
    data_ = CachingAllocator::address(block);
  }
  size_bytes_ = size_bytes;
}

void Storage::move_to(void* data, void* owner, void (*drop)(void*)) {
  const void* bytes = this->data();  // computed, and in row-major order
  before_write(*this);
  if (lent_.load(std::memory_order_relaxed) > 0)
    raise<ArgumentError>("share_memory_: a NumPy array, buffer or DLPack export shares the ", size_bytes_,
                         " bytes, which would have to move; delete the export or clone() the tensor first");
  std::memcpy(data, bytes, size_bytes_);
  if (prepared_.load(std::memory_order_acquire)) forget_prepared();
  void* const old = std::exchange(owner_, owner);
  void (*const drop_old)(void*) = std::exchange(drop_, drop);
  data_ = data;
  writable_ = true;
  if (drop_old == drop_host_block) drop_host_block(old);
  else if (drop_old) locks::when_unlocked(old, drop_old);
}

}  // namespace fl
