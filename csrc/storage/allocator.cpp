#include "storage/allocator.h"

#include <algorithm>

#include "base/at_load.h"
#include "base/error.h"
#include "base/live_objects.h"
#include "base/refcount.h"
#include "storage/host_memory.h"

namespace fl {

struct CachingAllocator::Block {
  static void* operator new(size_t bytes) { return uncounted_alloc(bytes); }
  static void operator delete(void* block, size_t bytes) noexcept { uncounted_free(block, bytes); }
  char* address = nullptr;
  size_t size = 0;
  size_t asked = 0;  // rounded, where blocks are
  int64_t stream = 0;
  Block* prev = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  Block* named_before = nullptr;  // neighbours in the list of those whose lines are known
  Block* named_after = nullptr;
  SourceId made_at = 0;
  bool used = false;
  Kind kind = Small;   // in which of the pool's sets it is while it is free
  bool apart = false;  // a segment that goes back to the system when it is freed
  bool lent = false;   // part of a segment that was apart, and is wanted back
  FreeSet::node_type place;  // in that set, while it is in use: it is put back without memory for that

  // Throws bad_alloc.
  static std::unique_ptr<Block> make(size_t size_bytes, int64_t stream, Kind kind) {
    std::unique_ptr<Block> block(new Block);
    block->size = size_bytes;
    block->stream = stream;
    block->kind = kind;
    FreeSet set;
    block->place = set.extract(set.insert(block.get()).first);
    return block;
  }
};

bool CachingAllocator::Smaller::operator()(const Block* a, const Block* b) const {
  return a->size != b->size ? a->size < b->size : a->address < b->address;
}

void* CachingAllocator::address(const Block* block) { return block->address; }
size_t CachingAllocator::size_of(const Block* block) { return block->size; }

CachingAllocator::~CachingAllocator() { release_cached(); }

// The smallest that is large enough. Of a huge block nobody gets less than half: Note [Three kinds of blocks].
CachingAllocator::Block* CachingAllocator::find(Pool& pool, size_t rounded) {
  Block key;
  key.size = rounded;
  FreeSet* from = nullptr;
  FreeSet::iterator found;
  for (FreeSet* set : {&pool[Large], &pool[Huge]}) {
    if (rounded <= kSmall) set = &pool[Small];
    auto it = set->lower_bound(&key);
    if (it == set->end() || ((*it)->kind == Huge && (*it)->size / 2 > rounded) || (from && (*found)->size <= (*it)->size)) continue;
    from = set, found = it;
  }
  if (!from) return nullptr;
  Block* block = *found;
  block->place = from->extract(found);
  return block;
}

CachingAllocator::Block* CachingAllocator::new_segment(Pool& pool, size_t rounded, int64_t stream, Kind kind) {
  const size_t size = kind == Small ? kSegment : (rounded + kSegment - 1) / kSegment * kSegment;
  const auto get = [&] { return kind == Large && raw_.joins() ? grow(pool, rounded, stream) : take(size, stream, kind); };
  cached_before_ = cached();
  if (no_room(size) && release_cached()) ++stats_.retries;
  Block* block = get();
  if (!block && release_cached()) {
    ++stats_.retries;
    block = get();
  }
  return block;
}

void CachingAllocator::count_taken(size_t size_bytes) {
  stats_.reserved += size_bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
}

CachingAllocator::Block* CachingAllocator::take(size_t size_bytes, int64_t stream, Kind kind) {
  std::unique_ptr<Block> block = Block::make(size_bytes, stream, kind);
  block->address = static_cast<char*>(raw_.take(size_bytes));
  if (!block->address) return nullptr;
  count_taken(size_bytes);
  ++stats_.segments;
  return block.release();
}

// A block behind all others of the segment that grows; the last of them is part of it if it is free.
CachingAllocator::Block* CachingAllocator::grow(Pool& pool, size_t rounded, int64_t stream) {
  const auto whole = [](size_t bytes) { return (bytes + kSegment - 1) / kSegment * kSegment; };
  Block* const last = last_ && last_->stream == stream ? last_ : nullptr;
  if (last && !last->used) {
    const size_t more = whole(rounded - last->size);
    if (raw_.extend(last->address + last->size, more)) {
      last->place = pool[Large].extract(last);
      last->size += more;
      count_taken(more);
      return last;
    }
  }
  const size_t size = whole(rounded);
  std::unique_ptr<Block> block = Block::make(size, stream, Large);
  if (last && raw_.extend(last->address + last->size, size)) {
    block->address = last->address + last->size;
    block->prev = last;
    last->next = block.get();
  } else {
    block->address = static_cast<char*>(raw_.take_joined(size));
    if (!block->address) return nullptr;
    ++stats_.segments;
  }
  count_taken(size);
  last_ = block.get();
  return block.release();
}

// What is behind the first `rounded` bytes becomes a block of its own. Where there is no memory for that it stays whole.
void CachingAllocator::cut(Block* block, size_t rounded, FreeSet& set) try {
  Block* tail = Block::make(block->size - rounded, block->stream, block->kind).release();
  tail->address = block->address + rounded;
  tail->lent = block->lent;
  tail->prev = block;
  tail->next = block->next;
  if (tail->next) tail->next->prev = tail;
  block->next = tail;
  block->size = rounded;
  if (last_ == block) last_ = tail;
  set.insert(std::move(tail->place));
} catch (const std::bad_alloc&) {
}

// The right one disappears into the left one.
CachingAllocator::Block* CachingAllocator::absorb(Block* left, Block* right) noexcept {
  left->size += right->size;
  left->next = right->next;
  if (right->next) right->next->prev = left;
  if (last_ == right) last_ = left;
  delete right;
  return left;
}

// True iff segments are cached and what is left after `size_bytes` more would be less than a sixteenth of what is held.
bool CachingAllocator::no_room(size_t size_bytes) {
  if (cached() < kSegment) return false;
  const size_t left = raw_.available();
  return left < size_bytes || left - size_bytes < stats_.reserved / 16;
}

// Texts of lines need Python's lock, which nobody waits for under one of ours: Note [Locks].
void CachingAllocator::raise_out_of_memory(size_t size_bytes, size_t cached_before) {
  const AllocatorStats now = stats();
  struct Line {
    std::string where;
    size_t bytes, blocks;
  };
  std::vector<Line> lines;
  std::vector<MemoryOwner> most = locks::any_held() ? std::vector<MemoryOwner>() : owners();
  if (most.size() > 100) most.resize(100);
  for (const MemoryOwner& owner : most) {  // calls of one line are different places
    std::string where = describe_source ? describe_source(owner.made_at) : "";
    if (where.empty()) where = "an unknown line";
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.where == where; });
    if (line == lines.end()) line = lines.insert(line, Line{std::move(where), 0, 0});
    line->bytes += owner.bytes, line->blocks += owner.blocks;
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  if (lines.size() > 5) lines.resize(5);
  std::string owned = lines.empty() ? "" : "; the most is held by what these lines made:";
  for (const Line& line : lines)
    owned += text("\n  ", line.bytes, " bytes in ", line.blocks, line.blocks == 1 ? " block" : " blocks", ", made at ", line.where);
  raise<OutOfMemory>("out of memory (DefaultCPUAllocator: can't allocate memory): ", size_bytes, " bytes were asked for; ", now.allocated, " bytes are in use and ", cached_before,
                     " were cached and given back before trying again", owned);
}

CachingAllocator::Block* CachingAllocator::allocate(size_t size_bytes, int64_t stream, bool apart) {
  if (size_bytes > (size_t{1} << 62)) raise<OutOfMemory>("out of memory (DefaultCPUAllocator: can't allocate memory): ", size_bytes, " bytes were asked for");
  const size_t rounded = std::max(kRound, (size_bytes + kRound - 1) / kRound * kRound);
  // Before the lock is taken: asking for the line may run Python's collector, which frees tensors.
  const SourceId line = (rounded >= kSmall || names_all()) && current_source ? current_source() : 0;
  Block* block = nullptr;
  size_t cached_before = 0;
  {
    std::lock_guard lock(mutex_);
    block = allocate_locked(size_bytes, rounded, stream, apart);
    cached_before = cached_before_;
    if (block && line) {
      block->made_at = line;
      block->named_before = nullptr;
      block->named_after = named_;
      if (named_) named_->named_before = block;
      named_ = block;
    }
  }
  if (!block) raise_out_of_memory(size_bytes, cached_before);
  return block;
}

CachingAllocator::Block* CachingAllocator::allocate_locked(size_t size_bytes, size_t rounded, int64_t stream, bool apart) {
  Pool& pool = pools_[stream];
  Block* block = nullptr;
  if (exact_) {
    block = take(size_bytes, stream, Large);
  } else if (apart) {
    block = take_lent(pool[Large], rounded);
    release_cached();
    if (!block) block = take(std::max(rounded, kSegment), stream, Large);
  } else if (!(block = find(pool, rounded))) {
    block = new_segment(pool, rounded, stream, kind_of(rounded));
  } else if (block->kind != Small) {
    raw_.improve();
  }
  if (!block) return nullptr;
  block->apart = exact_ || apart;
  if (!block->apart && block->size - rounded >= (block->kind == Small ? kRound : kSmall)) cut(block, rounded, pool[block->kind]);
  block->used = true;
  block->asked = exact_ ? size_bytes : rounded;
  in_blocks_ += block->size;
  stats_.allocated += block->asked;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  ++stats_.allocations;
  return block;
}

void CachingAllocator::lend(Block* block) {
  std::lock_guard lock(mutex_);
  if (exact_ || !block->apart) return;
  block->apart = false;
  block->lent = true;
  lent_leave_ = false;
}

// A lent segment that is whole, and not much more than what is wanted.
CachingAllocator::Block* CachingAllocator::take_lent(FreeSet& set, size_t rounded) {
  Block key;
  key.size = rounded;
  for (auto it = set.lower_bound(&key); it != set.end() && (*it)->size <= rounded + rounded / 4 + kSegment; ++it) {
    Block* block = *it;
    if (!block->lent || block->prev || block->next) continue;
    block->place = set.extract(it);
    block->lent = false;
    return block;
  }
  lent_leave_ = true;
  return nullptr;
}

bool CachingAllocator::is_named(const Block* block) { return block->made_at != 0; }

std::vector<MemoryOwner> CachingAllocator::owners() {
  std::map<SourceId, MemoryOwner> by_line;
  {
    std::lock_guard lock(mutex_);
    for (const Block* block = named_; block; block = block->named_after) {
      MemoryOwner& owner = by_line[block->made_at];
      owner.made_at = block->made_at;
      owner.bytes += block->asked;
      ++owner.blocks;
    }
  }
  std::vector<MemoryOwner> out;
  for (const auto& [line, owner] : by_line) out.push_back(owner);
  std::sort(out.begin(), out.end(), [](const MemoryOwner& a, const MemoryOwner& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.made_at < b.made_at;
  });
  return out;
}

void CachingAllocator::free(Block* block) noexcept {
  std::lock_guard lock(mutex_);
  in_blocks_ -= block->size;
  stats_.allocated -= block->asked;
  ++stats_.frees;
  block->used = false;
  if (block->made_at) {
    block->made_at = 0;
    (block->named_before ? block->named_before->named_after : named_) = block->named_after;
    if (block->named_after) block->named_after->named_before = block->named_before;
  }
  if (block->apart) {
    give_back(block);
    return;
  }
  FreeSet& set = pools_[block->stream][block->kind];
  if (Block* next = block->next; next && !next->used) {
    set.erase(next);
    absorb(block, next);
  }
  if (Block* prev = block->prev; prev && !prev->used) {
    prev->place = set.extract(prev);
    block = absorb(prev, block);
  }
  if (block->lent && lent_leave_ && !block->prev && !block->next) {
    give_back(block);
    return;
  }
  set.insert(std::move(block->place));
}

void CachingAllocator::give_back(Block* segment) noexcept {
  raw_.give_back(segment->address, segment->size);
  stats_.reserved -= segment->size;
  --stats_.segments;
  if (last_ == segment) last_ = nullptr;
  delete segment;
}

// What can go of a free block: all of it where it is a segment, and whole kSegments where its neighbours are used and the memory
// joins. `it` goes on to the next block.
//
//     | used |  free                              | used |       one segment
//     | used | left |  given back ... |   right    | used |       two; the edges are of whole kSegments
size_t CachingAllocator::give_back_part(Pool& pool, FreeSet::iterator& it) {
  Block* block = *it;
  FreeSet& set = pool[block->kind];
  if (!block->prev && !block->next) {
    const size_t released = block->size;
    it = set.erase(it);
    give_back(block);
    return released;
  }
  if (!raw_.joins() || block->kind == Small) {
    ++it;
    return 0;
  }
  Block *const before = block->prev, *const behind = block->next;
  const auto begin = reinterpret_cast<uintptr_t>(block->address), end = begin + block->size;
  const uintptr_t from = before ? (begin + kSegment - 1) / kSegment * kSegment : begin, to = behind ? end / kSegment * kSegment : end;
  if (from >= to) {
    ++it;
    return 0;
  }
  std::unique_ptr<Block> right;
  if (to < end) {
    right = Block::make(end - to, block->stream, block->kind);
    right->address = block->address + (to - begin);
    right->lent = block->lent;
    right->next = behind;
  }
  auto node = set.extract(it++);
  raw_.give_back(block->address + (from - begin), to - from);
  stats_.reserved -= to - from;
  if (before && behind) ++stats_.segments;
  if (behind) behind->prev = right.get();
  if (before) before->next = from > begin ? block : nullptr;
  if (last_ == block) last_ = from > begin ? block : before;
  if (right) set.insert(std::move(right->place)), right.release();
  if (from > begin) {
    block->size = from - begin;
    block->next = nullptr;
    set.insert(std::move(node));
  } else {
    delete block;
  }
  return to - from;
}

size_t CachingAllocator::release_cached() {
  size_t released = 0;
  for (auto& [stream, pool] : pools_)
    for (FreeSet& set : pool)
      for (auto it = set.begin(); it != set.end();) released += give_back_part(pool, it);
  return released;
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  release_cached();
}

AllocatorStats CachingAllocator::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

CachingAllocator& host_allocator() {
  // Never destroyed: tensors held by static objects may outlive every destructor.
  static CachingAllocator& allocator = *new CachingAllocator(host_memory());
  return allocator;
}
FL_AT_LOAD(host_allocator())

}  // namespace fl
