// The caching allocator: one class for every device, over a small RawMemory interface.
//
// Sizes are rounded to 512 bytes. Blocks are cut from segments obtained from RawMemory (2 MiB segments for
// blocks up to 1 MiB, larger ones rounded to 2 MiB otherwise), split on allocation, merged with their free
// neighbours on release, and kept for the next request. Before a segment is taken that the machine (or the control group)
// has no room for, cached segments are given back: the system promises more than it has, so it would not refuse, and
// kill later. Each stream has its own pool, so that a block is
// never reused by another stream while work on the first is pending.
//
//   segment  [ used 1024 | free 512 | used 2048 | ........ free ........ ]
//              Block <-> Block <-> Block <-> Block      (address order, linked)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/fork_mutex.h"

namespace fl {

// Where segments come from. Returns null where there is no memory left.
struct RawMemory {
  virtual ~RawMemory() = default;
  virtual void* take(size_t size_bytes) = 0;
  virtual void give_back(void* p, size_t size_bytes) = 0;
  // True: every block is memory of its own, of exactly the size that was asked for, and goes back at once.
  virtual bool exact() const { return false; }
  // How much can be taken before something is swapped out or killed. Asked for seldom: it may read files.
  virtual size_t available() { return SIZE_MAX; }
  // Called now and then, when large blocks are reused: time for what was put off.
  virtual void improve() {}
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

  explicit CachingAllocator(RawMemory& raw) : raw_(raw), exact_(raw.exact()) {}
  ~CachingAllocator();

  struct Block;
  // Throws OutOfMemory, with what is held, after giving cached segments back and trying again.
  Block* allocate(size_t size_bytes, int64_t stream = 0);
  void free(Block* block) noexcept;
  static void* address(const Block* block);
  static size_t size_of(const Block* block);

  bool caches() const { return !exact_; }
  void empty_cache();
  AllocatorStats stats();
  void reset_peak();

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeSet = std::set<Block*, Smaller>;
  struct Pool {
    FreeSet small, large;
  };
  Block* find(FreeSet& set, size_t rounded);
  Block* take(size_t size_bytes, int64_t stream, bool small);
  static void cut(Block* block, size_t rounded, FreeSet& set);
  Block* new_segment(size_t rounded, int64_t stream);
  size_t release_segments();
  bool no_room(size_t size_bytes);
  size_t cached() const { return stats_.reserved - in_blocks_; }

  RawMemory& raw_;
  const bool exact_;
  ForkMutex mutex_{LockRank::Allocator};
  std::map<int64_t, Pool> pools_;
  AllocatorStats stats_;
  size_t in_blocks_ = 0;  // bytes of live blocks
};

// The host's allocator, fronted by a per-thread list of 512-byte blocks.
CachingAllocator& host_allocator();
AllocatorStats host_stats();
// Bytes that this process can still take: the machine's, or its control group's where that has less.
size_t available_memory();

}  // namespace fl
