#include "storage/layout.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "storage/storage.h"
#include "storage/transpose.h"

namespace fl {
namespace {

ForkMutex mutex(LockRank::Layout);  // of every storage's `deferred_`; held while bytes are reordered
ForkCondition written;
std::atomic<int64_t> reorders{0};

LayoutMode initial_mode() {
  const char* s = std::getenv("FLAMBEAU_LAYOUT");
  return s && std::strcmp(s, "plain") == 0 ? LayoutMode::Plain : LayoutMode::Deferred;
}
std::atomic<LayoutMode> mode{initial_mode()};

}  // namespace

LayoutMode layout_mode() { return mode.load(std::memory_order_relaxed); }
void set_layout_mode(LayoutMode m) { mode.store(m, std::memory_order_relaxed); }
int64_t layout_reorders() { return reorders.load(std::memory_order_relaxed); }
void count_reorder() { reorders.fetch_add(1, std::memory_order_relaxed); }

void transpose_bytes(const void* from, void* to, int64_t batch, int64_t rows, int64_t cols, size_t item) {
  constexpr int64_t kBand = 16;
  const int64_t bands = (rows + kBand - 1) / kBand;
  parallel_work(batch * bands, kBand * cols, 32768, [&](int64_t b0, int64_t b1) {
    while (b0 < b1) {  // neighbouring bands of one matrix together
      const int64_t i = b0 / bands, first = b0 % bands, count = std::min(b1 - b0, bands - first), r = first * kBand;
      const auto* source = static_cast<const char*>(from) + static_cast<size_t>(i * rows * cols + r * cols) * item;
      auto* target = static_cast<char*>(to) + static_cast<size_t>(i * rows * cols + r) * item;
      kernels::transpose_block(source, cols, target, rows, std::min(rows - r, count * kBand), cols, item);
      b0 += count;
    }
  });
}

namespace {

// Image by image through a buffer that stays in a cache. False, with nothing done, where that would leave threads idle or an image is large.
bool transpose_in_place(void* bytes, const ChannelsLast& l, Device device) {
  constexpr int64_t kCached = int64_t{1} << 20;
  const int64_t image = l.s * l.c * static_cast<int64_t>(l.item), threads = std::min<int64_t>(num_threads(), l.n * image / 65536 + 1);
  if (image > kCached || l.n < threads) return false;
  const Ref<Storage> buffers = Storage::allocate_now(static_cast<size_t>(threads * image), device);
  parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      char* const buffer = static_cast<char*>(buffers->data()) + t * image;
      for (int64_t i = l.n * t / threads; i < l.n * (t + 1) / threads; ++i) {
        char* const at = static_cast<char*>(bytes) + i * image;
        kernels::transpose_block(at, l.c, buffer, l.s, l.s, l.c, l.item);
        std::memcpy(at, buffer, static_cast<size_t>(image));
      }
    }
  });
  return true;
}

void copy_bytes(void* to, const void* from, size_t size_bytes) {
  parallel_for(0, static_cast<int64_t>(size_bytes), 262144, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

struct Storage::Deferred {
  ChannelsLast layout;
  bool now = true;            // the bytes still lie that way
  int holders = 0;            // RawBytes of them
  int writers = 0;            // ... that write
  uint32_t generation = locks::fork_generation();  // of the process whose holders were counted
  Ref<Storage> retired;       // the bytes that holders see, once data() has others
};

// A fork leaves the other threads behind, and with them the holders that they were.
Storage::Deferred* Storage::deferred_here() const {
  Deferred* d = deferred_.load(std::memory_order_acquire);
  if (d && d->generation != locks::fork_generation()) [[unlikely]] {
    d->generation = locks::fork_generation();
    d->holders = d->writers = 0;
    if (!d->now) {
      const_cast<Storage*>(this)->end_deferred();
      return nullptr;
    }
  }
  return d;
}

void Storage::defer(const ChannelsLast& layout) {
  settle();
  deferred_.store(new Deferred{.layout = layout, .retired = {}}, std::memory_order_release);
  attention_.fetch_or(kDeferred, std::memory_order_acq_rel);
}
// Under the layout's lock.
void Storage::end_deferred() {
  delete deferred_.exchange(nullptr, std::memory_order_acq_rel);
  attention_.fetch_and(static_cast<uint8_t>(~kDeferred), std::memory_order_acq_rel);
}

void Storage::forget_deferred() { delete deferred_.load(std::memory_order_relaxed); }

void Storage::make_plain() const {
  auto& self = const_cast<Storage&>(*this);
  std::unique_lock lock(mutex);
  Deferred* d = nullptr;
  written.wait(lock, [&] {
    d = deferred_here();
    return !d || !d->now || d->writers == 0;
  });
  if (!d || !d->now) return;
  const ChannelsLast& l = d->layout;
  count_reorder();
  // A part of other memory (a program's arena) goes with that alone: the bytes stay where they are. Elsewhere new memory is faster by a fifth.
  const bool stay = d->holders == 0 && !owned();
  if (stay && transpose_in_place(data_, l, device_)) {
    self.end_deferred();
    return;
  }
  Ref<Storage> other = allocate_now(size_bytes_, device_);
  transpose_bytes(data_, other->data_, l.n, l.s, l.c, l.item);
  if (stay) {
    copy_bytes(data_, other->data_, size_bytes_);
    self.end_deferred();
    return;
  }
  std::swap(self.data_, other->data_);
  std::swap(self.owner_, other->owner_);
  std::swap(self.drop_, other->drop_);
  d->now = false;
  if (d->holders > 0) {
    d->retired = std::move(other);
  } else {
    self.end_deferred();
  }
}

RawBytes::RawBytes(Storage& storage, Use use) : use_(use) {
  storage.settle();
  if (storage.deferred_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex);
    if (Storage::Deferred* d = storage.deferred_here(); d && d->now) {
      ++d->holders;
      if (use == Write) ++d->writers;
      storage_ = Ref<Storage>::share(&storage);
      layout_ = d->layout;
      data_ = storage.data_;  // under the lock: data() may swap it afterwards
      return;
    }
  }
  data_ = storage.data_;  // row-major by now, and for good
}

RawBytes& RawBytes::operator=(RawBytes&& other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(data_, other.data_);
  std::swap(layout_, other.layout_);
  std::swap(use_, other.use_);
  return *this;
}

RawBytes::~RawBytes() {
  if (!storage_) return;
  Ref<Storage> retired;  // freed after the lock
  const std::lock_guard lock(mutex);
  Storage::Deferred* d = storage_->deferred_here();
  if (!d || d->holders == 0) return;  // taken before a fork
  if (use_ == Write && --d->writers == 0) written.notify_all();
  if (--d->holders > 0 || d->now) return;
  retired = std::move(d->retired);
  storage_->end_deferred();
}

}  // namespace fl
