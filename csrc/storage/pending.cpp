#include "storage/pending.h"

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "storage/storage.h"

namespace fl {

FL_HOT_THREAD_LOCAL constinit Recording* recorder_here = nullptr;
void (*settle_readers_of)(Storage&) = nullptr;

// What was recorded reads the bytes as they are now, and nobody can be asked to wait.
void Storage::settle_all_readers() {
  if (recorder_here) recorder_here->settle();
  before_write(*this);
}

void before_write(Storage& storage) {
  if (storage.readers().load(std::memory_order_acquire) && settle_readers_of) [[unlikely]] settle_readers_of(storage);
}

namespace {

ForkMutex mutex(LockRank::Pending);  // of every storage's `pending_`

}  // namespace

Ref<Storage> Storage::promise(size_t size_bytes, Device device, uint64_t region) {
  if (device.kind != DeviceKind::CPU) return allocate_now(size_bytes, device);
  auto storage = make_ref<Storage>();
  storage->size_bytes_ = size_bytes;
  storage->device_ = device;
  storage->region_ = region;
  storage->attention_.store(kPromised, std::memory_order_release);
  return storage;
}

Ref<Storage> Storage::hollow(size_t size_bytes, Device device, Ref<Recording> instead) {
  auto storage = make_ref<Storage>();
  storage->size_bytes_ = size_bytes;
  storage->device_ = device;
  storage->pending_here_.store(instead.get(), std::memory_order_release);
  storage->pending_ = std::move(instead);
  storage->attention_.store(kPending | kHollow, std::memory_order_release);
  return storage;
}

void Storage::set_pending(Ref<Recording> recording, uint32_t place) {
  {
    const std::lock_guard lock(mutex);
    pending_here_.store(recording.get(), std::memory_order_release);
    std::swap(pending_, recording);
    place_ = place;
  }
  attention_.fetch_or(kPending, std::memory_order_acq_rel);
}

void Storage::end_pending(const Recording* of) {
  Ref<Recording> old;
  const std::lock_guard lock(mutex);
  if (pending_.get() != of) return;
  attention_.fetch_and(static_cast<uint8_t>(~kPending), std::memory_order_acq_rel);
  pending_here_.store(nullptr, std::memory_order_release);
  std::swap(pending_, old);
}

void Storage::settle_pending() const {
  auto& self = const_cast<Storage&>(*this);
  if (is_pending() && !(settling_here() && pending_in(settling_here()))) {
    Ref<Recording> recording;
    {
      const std::lock_guard lock(mutex);
      recording = pending_;
    }
    if (recording) recording->settle();
  }
  if (attention_.load(std::memory_order_acquire) & kPromised) self.provide();
}

void Storage::provide() {
  Ref<Storage> fresh = allocate_now(size_bytes_, device_);
  const std::lock_guard lock(mutex);
  if (!(attention_.load(std::memory_order_acquire) & kPromised)) return;  // somebody else was first
  std::swap(data_, fresh->data_);
  std::swap(owner_, fresh->owner_);
  std::swap(drop_, fresh->drop_);
  attention_.fetch_and(static_cast<uint8_t>(~kPromised), std::memory_order_acq_rel);
}

void Storage::adopt(Storage& other) {
  const std::lock_guard lock(mutex);
  std::swap(data_, other.data_);
  std::swap(owner_, other.owner_);
  std::swap(drop_, other.drop_);
  Deferred* mine = deferred_.exchange(other.deferred_.load());
  other.deferred_.store(mine);
  attention_.fetch_and(static_cast<uint8_t>(~(kPromised | kDeferred)), std::memory_order_acq_rel);
  if (deferred_.load()) attention_.fetch_or(kDeferred, std::memory_order_acq_rel);
  other.attention_.store(mine ? kDeferred : 0);
}

void Storage::attend() const {
  settle();
  if (deferred_.load(std::memory_order_acquire)) make_plain();
}

bool Storage::shared_outside() const {
  if (attention_.load(std::memory_order_acquire) & (kPromised | kHollow)) return false;
  return !ours() || lent_.load(std::memory_order_acquire) > 0 || exposed_.load(std::memory_order_acquire);
}

}  // namespace fl
