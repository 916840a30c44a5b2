// The caching allocator: one class for every device, over a small RawMemory interface.
//
// Sizes are rounded to 512 bytes. Blocks are cut from segments obtained from RawMemory, split on allocation, merged with their
// free neighbours on release, and kept for the next request. Before a segment is taken that the machine (or the control group)
// has no room for, what is cached is given back: the system promises more than it has, so it would not refuse, and
// kill later. Each stream has its own pool, so that a block is
// never reused by another stream while work on the first is pending.
//
//   segment  [ used 1024 | free 512 | used 2048 | ........ free ........ ]
//              Block <-> Block <-> Block <-> Block      (address order, linked)
//
// Note [Three kinds of blocks]
// Small ones (up to 1 MiB) are cut from segments of 2 MiB. Large ones come from one segment that grows at its end, where the
// memory can do that: the steps of a program ask for other sizes than those before (activations, then moments of an optimizer,
// then activations again), and what has been freed only serves them where it lies together. Huge ones (from 64 MiB) are
// segments of their own, of which no one gets a piece who wants less than half: the gradient of a large weight is freed and
// wanted again at each step, and activations in its place would have it live twice. By what is held over what is asked
// for at the most, in training: 1.16 to 0.98 (ResNet-50), 1.19 to 1.0 (MobileNetV2), 1.25 to 1.01 (VGG-19), 1.21 to 1.0 (a
// Llama of 134 M parameters); huge blocks in the growing segment give 1.18 for VGG-19.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "engine/var.h"

namespace fl {

// Where segments come from. Returns null where there is no memory left.
struct RawMemory {
  virtual ~RawMemory() = default;
  virtual void* take(size_t size_bytes) = 0;
  virtual void give_back(void* p, size_t size_bytes) = 0;
  // True: what was taken one behind the other is one piece, and any whole kSegments of it may be given back.
  virtual bool joins() const { return false; }
  // More of it behind `end`; false where something else lies there.
  virtual bool extend(void* /*end*/, size_t /*size_bytes*/) { return false; }
  // Where it can be extended.
  virtual void* take_joined(size_t size_bytes) { return take(size_bytes); }
  // True: every block is memory of its own, of exactly the size that was asked for, and goes back at once.
  virtual bool exact() const { return false; }
  // How much can be taken before something is swapped out or killed. Asked for seldom: it may read files.
  virtual size_t available() { return SIZE_MAX; }
  // Called now and then, when large blocks are reused: time for what was put off.
  virtual void improve() {}
};

// Live blocks of one line of the user's program.
struct MemoryOwner {
  SourceId made_at = 0;
  size_t bytes = 0, blocks = 0;
};

struct AllocatorStats {  // bytes, and counts since the start
  // What live blocks were asked for, rounded to 512: a block that is not worth cutting counts as if it had been cut, so that the
  // same program has the same figures whatever ran before it.
  size_t allocated = 0, peak_allocated = 0;
  size_t reserved = 0, peak_reserved = 0;    // in segments
  size_t allocations = 0, frees = 0, segments = 0, retries = 0;
};

class CachingAllocator {
 public:
  static constexpr size_t kRound = 512;
  static constexpr size_t kSmall = size_t{1} << 20;
  static constexpr size_t kSegment = size_t{2} << 20;
  static constexpr size_t kHuge = size_t{64} << 20;

  explicit CachingAllocator(RawMemory& raw) : raw_(raw), exact_(raw.exact()) {}
  ~CachingAllocator();

  struct Block;
  // Throws OutOfMemory, with what is held and by which lines, after giving cached segments back and trying again.
  Block* allocate(size_t size_bytes, int64_t stream = 0) { return allocate(size_bytes, stream, false); }
  // In a segment of its own, which is not cached: what it leaves behind would be far larger than what is asked for next. Cached
  // segments go back to the system, and one that was lent and is whole again is taken.
  Block* allocate_apart(size_t size_bytes, int64_t stream = 0) { return allocate(size_bytes, stream, true); }
  // Has a segment of its own be cut for whoever asks once it is freed, until allocate_apart() wants it again: what went back to the
  // system would have to be cleared anew. Where it is not whole by then, because something in it lives on, another takes
  // its place, and it goes back with the last of what is in it.
  void lend(Block* block);
  void free(Block* block) noexcept;
  static void* address(const Block* block);
  static size_t size_of(const Block* block);

  bool caches() const { return !exact_; }
  // Which lines made the live blocks of at least kSmall bytes, whose cost hides that of remembering it; those that many
  // bytes were made at first. While name_all() is on, smaller ones that are made are remembered, too.
  std::vector<MemoryOwner> owners();
  void name_all(bool on) { name_all_.store(on, std::memory_order_relaxed); }
  bool names_all() const { return name_all_.load(std::memory_order_relaxed); }
  static bool is_named(const Block* block);

  void empty_cache();
  // As allocations do: for who uses the same memory again and again without asking for it.
  void improve() {
    std::lock_guard lock(mutex_);
    raw_.improve();
  }
  AllocatorStats stats();
  void reset_peak();

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeSet = std::set<Block*, Smaller>;
  enum Kind : uint8_t { Small, Large, Huge };
  using Pool = std::array<FreeSet, 3>;  // what is free, by kind
  static Kind kind_of(size_t rounded) { return rounded <= kSmall ? Small : rounded < kHuge ? Large : Huge; }
  Block* allocate(size_t size_bytes, int64_t stream, bool apart);
  static Block* find(Pool& pool, size_t rounded);
  Block* take(size_t size_bytes, int64_t stream, Kind kind);
  Block* grow(Pool& pool, size_t rounded, int64_t stream);
  void count_taken(size_t size_bytes);
  Block* allocate_locked(size_t size_bytes, size_t rounded, int64_t stream, bool apart);
  [[noreturn]] void raise_out_of_memory(size_t size_bytes, size_t cached_before);
  Block* take_lent(FreeSet& set, size_t rounded);
  void cut(Block* block, size_t rounded, FreeSet& set);
  Block* absorb(Block* left, Block* right) noexcept;
  Block* new_segment(Pool& pool, size_t rounded, int64_t stream, Kind kind);
  void give_back(Block* segment) noexcept;
  size_t give_back_part(Pool& pool, FreeSet::iterator& it);
  size_t release_cached();
  bool no_room(size_t size_bytes);
  size_t cached() const { return stats_.reserved - in_blocks_; }

  RawMemory& raw_;
  const bool exact_;
  ForkMutex mutex_{LockRank::Allocator};
  std::map<int64_t, Pool> pools_;
  Block* last_ = nullptr;  // of the segment that grows; null where another is to be begun
  AllocatorStats stats_;
  size_t in_blocks_ = 0;  // bytes of live blocks
  size_t cached_before_ = 0;  // the last time that a segment was wanted
  bool lent_leave_ = false;  // what was lent is not waited for any more
  Block* named_ = nullptr;  // live blocks whose lines are known, the latest first
  std::atomic<bool> name_all_{false};
};

// The host's allocator, fronted by a per-thread list of 512-byte blocks.
CachingAllocator& host_allocator();
AllocatorStats host_stats();
// Bytes that this process can still take: the machine's, or its control group's where that has less.
size_t available_memory();

}  // namespace fl
