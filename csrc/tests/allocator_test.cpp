// The caching allocator over a RawMemory that counts and can run dry.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <utility>

#include "base/error.h"
#include "storage/allocator.h"
#include "storage/guarded.h"
#include "storage/prepared.h"
#include "storage/scratch.h"
#include "storage/storage.h"
#include "tests/check.h"

namespace fl {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct FakeMemory final : RawMemory {
  explicit FakeMemory(size_t limit = ~size_t{0}) : limit_bytes(limit) {}
  ~FakeMemory() override { CHECK_EQ(held_bytes, size_t{0}); }
  void* take(size_t size_bytes) override {
    if (held_bytes + size_bytes > limit_bytes) return nullptr;
    held_bytes += size_bytes;
    ++takes;
    void* p = std::malloc(size_bytes);
    sizes[p] = size_bytes;
    return p;
  }
  void give_back(void* p, size_t size_bytes) override {
    CHECK_EQ(sizes.at(p), size_bytes);
    sizes.erase(p);
    held_bytes -= size_bytes;
    std::free(p);
  }
  size_t available() override { return held_bytes < room_bytes ? room_bytes - held_bytes : 0; }
  size_t limit_bytes, held_bytes = 0;
  size_t room_bytes = ~size_t{0};  // what it says; it gives more
  int takes = 0;
  std::map<void*, size_t> sizes;
};

char* at(CachingAllocator::Block* b) { return static_cast<char*>(CachingAllocator::address(b)); }

TEST(allocator_lends_a_segment) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* arena = alloc.allocate_apart(800 * kMiB);
  char* const place = at(arena);
  alloc.lend(arena);
  alloc.free(arena);
  CHECK_EQ(raw.takes, 1);
  auto* a = alloc.allocate(3 * kMiB);  // far smaller, and cut from it all the same
  auto* b = alloc.allocate(600 * kMiB);
  CHECK_EQ(raw.takes, 1);
  auto* c = alloc.allocate(400 * kMiB);  // no room there
  CHECK_EQ(raw.takes, 2);
  for (auto* block : {b, a, c}) alloc.free(block);
  arena = alloc.allocate_apart(800 * kMiB);
  CHECK(at(arena) == place);
  CHECK_EQ(raw.takes, 2);
  CHECK_EQ(raw.held_bytes, 800 * kMiB);  // what was taken besides has gone
  alloc.free(arena);
  CHECK_EQ(raw.held_bytes, size_t{0});  // as it was not lent
}

TEST(allocator_does_not_wait_for_what_lives_in_a_lent_segment) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* arena = alloc.allocate_apart(100 * kMiB);
  alloc.lend(arena);
  alloc.free(arena);
  auto* kept = alloc.allocate(5 * kMiB);
  auto* other = alloc.allocate(7 * kMiB);
  alloc.free(other);
  arena = alloc.allocate_apart(100 * kMiB);
  CHECK_EQ(raw.held_bytes, 200 * kMiB);
  alloc.free(kept);
  CHECK_EQ(raw.held_bytes, 100 * kMiB);  // the lent one left with it
  alloc.lend(arena);
  alloc.free(arena);
  auto* larger = alloc.allocate_apart(150 * kMiB);  // what is lent is too small, and is not kept beside it
  CHECK_EQ(raw.held_bytes, 150 * kMiB);
  alloc.lend(larger);
  alloc.free(larger);
  auto* smaller = alloc.allocate_apart(20 * kMiB);  // or far too large
  CHECK_EQ(raw.held_bytes, 20 * kMiB);
  alloc.free(smaller);
}

TEST(allocator_splits_a_segment) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(1);
  auto* b = alloc.allocate(513);
  CHECK_EQ(CachingAllocator::size_of(a), size_t{512});
  CHECK_EQ(CachingAllocator::size_of(b), size_t{1024});
  CHECK(at(b) == at(a) + 512);
  CHECK_EQ(raw.takes, 1);
  const AllocatorStats s = alloc.stats();
  CHECK_EQ(s.allocated, size_t{1536});
  CHECK_EQ(s.reserved, CachingAllocator::kSegment);
  CHECK_EQ(s.allocations, size_t{2});
  alloc.free(a);
  alloc.free(b);
}

TEST(allocator_merges_neighbours_in_every_order) {
  const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (auto& order : orders) {
    FakeMemory raw;
    CachingAllocator alloc(raw);
    CachingAllocator::Block* b[3];
    for (auto& block : b) block = alloc.allocate(4096);
    char* first = at(b[0]);
    for (int i : order) alloc.free(b[i]);
    auto* whole = alloc.allocate(CachingAllocator::kSmall);  // only fits where they became one again
    CHECK(at(whole) == first);
    CHECK_EQ(raw.takes, 1);
    alloc.free(whole);
    CHECK_EQ(alloc.stats().allocated, size_t{0});
    alloc.empty_cache();
    CHECK_EQ(alloc.stats().reserved, size_t{0});
    CHECK_EQ(raw.held_bytes, size_t{0});
  }
}

TEST(allocator_reuses_the_best_fit) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* large = alloc.allocate(8 * kMiB);
  auto* medium = alloc.allocate(4 * kMiB);
  char* where = at(medium);
  alloc.free(large);
  alloc.free(medium);
  auto* again = alloc.allocate(3 * kMiB);
  CHECK(at(again) == where);
  CHECK_EQ(raw.takes, 2);
  alloc.free(again);
}

// One piece of real addresses from which it hands out one behind the other, and which remembers what of it is taken.
struct JoiningMemory final : RawMemory {
  ~JoiningMemory() override { CHECK_EQ(held(), size_t{0}); }
  void* take(size_t size_bytes) override { return other.take(size_bytes); }
  bool joins() const override { return true; }
  bool extend(void* end, size_t size_bytes) override {
    if (end != place + top || blocked) return false;
    return taken(size_bytes) != nullptr;
  }
  void* take_joined(size_t size_bytes) override {
    if (blocked) top += kMiB * 2;  // something lies in the way
    blocked = false;
    return taken(size_bytes);
  }
  void give_back(void* p, size_t size_bytes) override {
    const auto at = static_cast<size_t>(static_cast<char*>(p) - place);
    if (static_cast<char*>(p) < place || at >= sizeof(pages) * 2 * kMiB) return other.give_back(p, size_bytes);
    CHECK_EQ(at % (2 * kMiB), size_t{0});
    CHECK_EQ(size_bytes % (2 * kMiB), size_t{0});
    for (size_t i = at; i < at + size_bytes; i += 2 * kMiB) CHECK(std::exchange(pages[i / (2 * kMiB)], false));
    if (at + size_bytes == top) top = at;
  }
  size_t held() const { return static_cast<size_t>(std::count(std::begin(pages), std::end(pages), true)) * 2 * kMiB; }
  void* taken(size_t size_bytes) {
    if (top + size_bytes > sizeof(pages) * 2 * kMiB || held() + size_bytes > limit_bytes) return nullptr;
    char* const p = place + top;
    for (; p + size_bytes > place + top; top += 2 * kMiB) CHECK(!std::exchange(pages[top / (2 * kMiB)], true));
    return p;
  }
  char* const place = reinterpret_cast<char*>(size_t{1} << 40);  // nothing is read there
  size_t top = 0, limit_bytes = ~size_t{0};
  bool blocked = false;
  bool pages[400] = {};
  FakeMemory other;
};

TEST(allocator_joins_what_was_taken_one_behind_the_other) {
  JoiningMemory raw;
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(5 * kMiB);
  auto* b = alloc.allocate(7 * kMiB);
  auto* c = alloc.allocate(2 * kMiB);
  CHECK(at(b) == at(a) + 5 * kMiB);  // the rest of the 6 MiB that were taken is its beginning
  CHECK_EQ(raw.held(), 14 * kMiB);
  CHECK_EQ(alloc.stats().segments, size_t{1});
  alloc.free(a);
  alloc.free(b);
  auto* both = alloc.allocate(12 * kMiB);
  CHECK(at(both) == raw.place);
  CHECK_EQ(raw.held(), 14 * kMiB);
  alloc.free(c);
  auto* longer = alloc.allocate(9 * kMiB);  // what is free at the end, and 8 more
  CHECK(at(longer) == raw.place + 12 * kMiB);
  CHECK_EQ(raw.held(), 22 * kMiB);
  CHECK_EQ(alloc.stats().reserved, 22 * kMiB);
  CHECK_EQ(alloc.stats().segments, size_t{1});
  raw.blocked = true;
  auto* beyond = alloc.allocate(4 * kMiB);
  CHECK(at(beyond) == raw.place + 24 * kMiB);
  CHECK_EQ(alloc.stats().segments, size_t{2});
  auto* stream = alloc.allocate(4 * kMiB, 5);  // another stream's is no neighbour
  CHECK_EQ(alloc.stats().segments, size_t{3});
  for (auto* block : {beyond, stream, both, longer}) alloc.free(block);
  auto* whole = alloc.allocate(21 * kMiB);
  CHECK(at(whole) == raw.place);
  alloc.free(whole);
  alloc.empty_cache();
  CHECK_EQ(raw.held(), size_t{0});
  CHECK_EQ(alloc.stats().segments, size_t{0});
  CHECK_EQ(alloc.stats().reserved, size_t{0});
}

TEST(allocator_gives_back_what_is_free_between_used_blocks) {
  JoiningMemory raw;
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(3 * kMiB);
  auto* b = alloc.allocate(9 * kMiB);  // 3..12
  auto* c = alloc.allocate(3 * kMiB);  // 12..15
  auto* d = alloc.allocate(3 * kMiB);  // 15..18
  alloc.free(b);
  alloc.free(d);
  alloc.empty_cache();  // 4..12 and 16..18
  CHECK_EQ(raw.held(), 8 * kMiB);
  CHECK_EQ(alloc.stats().reserved, 8 * kMiB);
  CHECK_EQ(alloc.stats().segments, size_t{2});
  d = alloc.allocate(2 * kMiB);  // joined to what is left of it
  CHECK(at(d) == raw.place + 15 * kMiB);
  CHECK_EQ(raw.held(), 10 * kMiB);
  alloc.free(a);
  alloc.empty_cache();
  CHECK_EQ(raw.held(), 6 * kMiB);
  CHECK_EQ(alloc.stats().segments, size_t{1});
  alloc.free(c);
  alloc.free(d);
  alloc.empty_cache();
  CHECK_EQ(raw.held(), size_t{0});
  a = alloc.allocate(3 * kMiB);
  CHECK(at(a) == raw.place + 12 * kMiB);
  alloc.free(a);
}

TEST(allocator_cuts_no_small_piece_from_a_huge_block) {
  JoiningMemory raw;
  CachingAllocator alloc(raw);
  auto* weight = alloc.allocate(400 * kMiB);
  char* const where = at(weight);
  alloc.free(weight);
  auto* half = alloc.allocate(150 * kMiB);
  auto* few = alloc.allocate(10 * kMiB);
  CHECK_EQ(raw.other.takes, 2);
  CHECK(at(few) == raw.place);
  weight = alloc.allocate(300 * kMiB);
  auto* rest = alloc.allocate(50 * kMiB);  // half of what is left of it
  CHECK(at(weight) == where && at(rest) == where + 300 * kMiB);
  CHECK_EQ(raw.other.takes, 2);
  for (auto* block : {half, few, weight, rest}) alloc.free(block);
}

TEST(allocator_joins_under_random_requests) {
  JoiningMemory raw;
  raw.limit_bytes = 60 * kMiB;
  CachingAllocator alloc(raw);
  std::mt19937 random(7);
  std::map<char*, std::pair<CachingAllocator::Block*, size_t>> live;
  for (int i = 0; i < 30000; ++i) {
    if (random() % 500 == 0) alloc.empty_cache();
    raw.blocked = random() % 100 == 0 && raw.top < 700 * kMiB;
    if (live.size() > 12 || (!live.empty() && random() % 2)) {
      auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      alloc.free(it->second.first);
      live.erase(it);
      continue;
    }
    const size_t size = kMiB + 1 + random() % (9 * kMiB);
    CachingAllocator::Block* block = nullptr;
    try {
      block = alloc.allocate(size);
    } catch (const OutOfMemory&) {
      continue;
    }
    const auto next = live.lower_bound(at(block));
    CHECK(next == live.end() || at(block) + size <= next->first);
    CHECK(next == live.begin() || std::prev(next)->first + std::prev(next)->second.second <= at(block));
    for (char* p = at(block); p < at(block) + size; p += kMiB) CHECK(raw.pages[static_cast<size_t>(p - raw.place) / (2 * kMiB)]);
    live.emplace(at(block), std::pair(block, size));
    CHECK_EQ(alloc.stats().reserved, raw.held());
  }
  for (auto& [p, block] : live) alloc.free(block.first);
  alloc.empty_cache();
  CHECK_EQ(raw.held(), size_t{0});
  CHECK_EQ(alloc.stats().segments, size_t{0});
}

TEST(allocator_keeps_streams_apart) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(4096, 1);
  char* where = at(a);
  alloc.free(a);
  auto* other = alloc.allocate(4096, 2);
  CHECK(at(other) != where);
  auto* same = alloc.allocate(4096, 1);
  CHECK(at(same) == where);
  alloc.free(other);
  alloc.free(same);
}

TEST(allocator_statistics_are_bytes) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(3 * kMiB);
  CHECK_EQ(alloc.stats().allocated, 3 * kMiB);
  CHECK_EQ(alloc.stats().reserved, 4 * kMiB);
  auto* b = alloc.allocate(0);
  CHECK_EQ(alloc.stats().allocated, 3 * kMiB + 512);
  alloc.free(a);
  CHECK_EQ(alloc.stats().allocated, size_t{512});
  CHECK_EQ(alloc.stats().peak_allocated, 3 * kMiB + 512);
  alloc.reset_peak();
  CHECK_EQ(alloc.stats().peak_allocated, size_t{512});
  alloc.empty_cache();
  CHECK_EQ(alloc.stats().reserved, 2 * kMiB);  // the segment that b lives in stays
  CHECK_EQ(alloc.stats().segments, size_t{1});
  alloc.free(b);
  CHECK_EQ(alloc.stats().frees, size_t{2});
}

TEST(allocator_counts_what_was_asked_for_whatever_block_it_found) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* larger = alloc.allocate(9 * kMiB + 100 * 1024);
  alloc.free(larger);
  auto* a = alloc.allocate(9 * kMiB);  // the rest is not worth cutting off
  CHECK_EQ(raw.takes, 1);
  CHECK_EQ(alloc.stats().allocated, 9 * kMiB);
  CHECK_EQ(alloc.stats().peak_allocated, 9 * kMiB + 100 * 1024);
  alloc.reset_peak();
  CHECK_EQ(alloc.stats().peak_allocated, 9 * kMiB);
  auto* b = alloc.allocate(5 * kMiB);  // a segment of 6 MiB, whole
  CHECK_EQ(alloc.stats().allocated, 14 * kMiB);
  alloc.free(a);
  alloc.free(b);
  CHECK_EQ(alloc.stats().allocated, size_t{0});
}

TEST(allocator_gives_its_cache_back_before_it_fails) {
  FakeMemory raw(8 * kMiB);
  CachingAllocator alloc(raw);
  auto* a = alloc.allocate(6 * kMiB);
  alloc.free(a);
  auto* b = alloc.allocate(8 * kMiB);  // fits only without the cached 6 MiB
  CHECK_EQ(alloc.stats().retries, size_t{1});
  CHECK_EQ(raw.held_bytes, 8 * kMiB);
  CHECK_THROWS(alloc.allocate(2 * kMiB), OutOfMemory, "2097152 bytes were asked for; 8388608 bytes are in use");
  CHECK_THROWS(alloc.allocate(~size_t{0} - 5), OutOfMemory, "out of memory");
  alloc.free(b);
  b = alloc.allocate(2 * kMiB);  // and it works again
  alloc.free(b);
}

TEST(allocator_remembers_the_lines_of_large_blocks) {
  static SourceId line = 0;
  struct Saved {
    SourceId (*before)() = std::exchange(current_source, [] { return line; });
    ~Saved() { current_source = before; }
  } saved;
  FakeMemory raw;
  CachingAllocator alloc(raw);
  line = 7;
  auto* a = alloc.allocate(2 * kMiB);
  auto* b = alloc.allocate(3 * kMiB);
  auto* small = alloc.allocate(100);
  line = 9;
  auto* c = alloc.allocate(4 * kMiB);
  CHECK(CachingAllocator::is_named(a) && !CachingAllocator::is_named(small));
  std::vector<MemoryOwner> owners = alloc.owners();
  CHECK_EQ(owners.size(), size_t{2});
  CHECK_EQ(owners[0].made_at, SourceId{7});
  CHECK_EQ(owners[0].bytes, 5 * kMiB);
  CHECK_EQ(owners[0].blocks, size_t{2});
  CHECK_EQ(owners[1].bytes, 4 * kMiB);
  alloc.free(b);  // from the middle of the list
  owners = alloc.owners();
  CHECK_EQ(owners[0].made_at, SourceId{9});
  CHECK_EQ(owners[1].blocks, size_t{1});
  alloc.free(c);
  alloc.free(a);
  CHECK(alloc.owners().empty());
  alloc.name_all(true);
  auto* named = alloc.allocate(100);
  alloc.name_all(false);
  CHECK_EQ(alloc.owners().at(0).bytes, size_t{512});
  alloc.free(named);
  alloc.free(small);
  CHECK(alloc.owners().empty());
}

TEST(allocator_stress_on_threads) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  test::on_threads(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::vector<std::pair<CachingAllocator::Block*, size_t>> live;
    for (int i = 0; i < 3000; ++i) {
      if (live.size() > 40 || (!live.empty() && random() % 3 == 0)) {
        const size_t k = random() % live.size();
        auto [block, size] = live[k];
        const char* p = at(block);
        CHECK_EQ(p[0], static_cast<char>(t));
        CHECK_EQ(p[size - 1], static_cast<char>(t));
        alloc.free(block);
        live[k] = live.back();
        live.pop_back();
      } else {
        const size_t size = 1 + random() % (random() % 10 ? 20000 : 3 * kMiB);
        auto* block = alloc.allocate(size, static_cast<int64_t>(random() % 2));
        at(block)[0] = at(block)[size - 1] = static_cast<char>(t);
        live.emplace_back(block, size);
      }
    }
    for (auto& [block, size] : live) alloc.free(block);
  });
  CHECK_EQ(alloc.stats().allocated, size_t{0});
  CHECK_EQ(alloc.stats().allocations, alloc.stats().frees);
  alloc.empty_cache();
  CHECK_EQ(alloc.stats().segments, size_t{0});
}

TEST(allocator_gives_back_what_is_cached_before_it_takes_more_than_there_is) {
  FakeMemory raw;
  CachingAllocator alloc(raw);
  auto* live = alloc.allocate(20 * kMiB);
  alloc.free(alloc.allocate(30 * kMiB));
  CHECK_EQ(raw.held_bytes, 50 * kMiB);
  raw.room_bytes = 100 * kMiB;
  auto* fits = alloc.allocate(40 * kMiB);  // 10 MiB left: more than a sixteenth of 50
  CHECK_EQ(raw.held_bytes, 90 * kMiB);
  CHECK_EQ(alloc.stats().retries, size_t{0});
  auto* more = alloc.allocate(36 * kMiB);
  CHECK_EQ(raw.held_bytes, 96 * kMiB);  // without the 30 that were cached
  CHECK_EQ(alloc.stats().retries, size_t{1});
  for (auto* block : {live, fits, more}) alloc.free(block);
  alloc.empty_cache();
}

TEST(host_memory_is_available) {
  CHECK(available_memory() > 16 * kMiB);
  CHECK(available_memory() < size_t{1} << 50);
}

Ref<Storage> filled(size_t size_bytes, char value) {
  auto s = Storage::allocate(size_bytes, Device{});
  std::memset(s->data(), value, size_bytes);
  return s;
}

TEST(prepared_bytes_are_kept_from_the_second_use_until_the_next_write) {
  const size_t before = prepared_stats().bytes;
  int made = 0;
  {
    const auto source = filled(1000, 1);
    const auto use = [&](const std::string& form) {
      return prepared(*source, source->data(), form, [&] {
        ++made;
        return filled(2000, 2);
      });
    };
    CHECK(!use("a"));
    const auto kept = use("a");
    CHECK(kept && made == 1);
    CHECK(use("a").get() == kept.get() && made == 1);
    CHECK(!use("b") && use("b").get() != kept.get() && made == 2);
    CHECK_EQ(prepared_stats().bytes, before + 4000);
    source->written_by("test");
    CHECK_EQ(prepared_stats().bytes, before);
    CHECK(!use("a"));
    CHECK(use("a") && made == 3);
    CHECK(prepared(*source, source->data(), "c", [] { return filled(8, 0); }, true));
    for (size_t at = 0; at < 50; ++at)
      for (int i = 0; i < 2; ++i) (void)prepared(*source, static_cast<char*>(source->data()) + at, "view", [] { return filled(8, 0); });
    CHECK_EQ(prepared_stats().bytes, before + 2000 + 8 + 50 * 8);  // views of one storage do not push each other out
    drop_prepared();
    CHECK_EQ(prepared_stats().bytes, before);
    CHECK(use("a") && made == 4);
  }
  CHECK_EQ(prepared_stats().bytes, before);
}

TEST(prepared_bytes_are_not_kept_where_others_can_write) {
  const auto keeps = [](Storage& s) {
    const auto use = [&] { return prepared(s, s.data(), "form", [&] { return filled(8, 0); }); };
    return (use(), use() && use());
  };
  char bytes[8] = {};
  CHECK(!keeps(*Storage::borrow(bytes, 8, Device{}, nullptr, nullptr, true)));
  const auto s = filled(8, 1);
  CHECK(keeps(*s));
  const size_t with = prepared_stats().bytes;
  s->lend();
  CHECK(prepared_stats().bytes < with);
  CHECK(!keeps(*s));
  s->take_back();
  CHECK(keeps(*s));
  s->expose();
  CHECK(!keeps(*s));
}

TEST(prepared_bytes_by_several_threads) {
  const auto source = filled(64, 3);
  test::on_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      const auto p = prepared(*source, source->data(), i % 7 == 0 ? "x" : "y", [&] { return filled(64, 4); });
      if (p) CHECK_EQ(static_cast<char*>(p->data())[63], 4);
      if (t == 0 && i % 50 == 0) source->written_by("test");
      if (t == 1 && i % 90 == 0) drop_prepared();
      if (t == 2 && i % 70 == 0) source->lend(), source->take_back();
    }
  });
}

TEST(storage_counts_listed_blocks_as_free) {
  const size_t before = host_stats().allocated;
  {
    std::vector<Ref<Storage>> held;
    for (int i = 0; i < 200; ++i) held.push_back(Storage::allocate(16, Device{}));
    CHECK_EQ(host_stats().allocated, before + 200 * 512);
  }
  CHECK_EQ(host_stats().allocated, before);
}

TEST(storage_freed_by_another_thread) {
  const size_t before = host_stats().allocated;
  std::vector<Ref<Storage>> held(400);
  test::on_threads(4, [&](int t) {
    for (size_t i = 0; i < 100; ++i) held[static_cast<size_t>(t) * 100 + i] = Storage::allocate(64, Device{});
  });
  test::on_threads(4, [&](int t) {
    for (size_t i = 0; i < 100; ++i) held[static_cast<size_t>((t + 1) % 4) * 100 + i] = nullptr;
  });
  CHECK_EQ(host_stats().allocated, before);
}

TEST(storage_borrowed_memory_is_dropped_once) {
  static int dropped = 0;
  char bytes[8] = {};
  {
    const auto s = Storage::borrow(bytes, 8, Device{}, bytes, [](void*) { ++dropped; }, false);
    CHECK(!s->writable());
    CHECK_THROWS((s->grow(16), 0), ArgumentError, "resize_");
    const auto second = s;
  }
  CHECK_EQ(dropped, 1);
}

TEST(storage_grows_and_keeps_its_bytes) {
  const auto s = Storage::allocate(100, Device{});
  std::memset(s->data(), 7, 100);
  s->grow(5000);
  CHECK_EQ(s->size_bytes(), size_t{5000});
  CHECK_EQ(static_cast<char*>(s->data())[99], 7);
}

TEST(guarded_blocks_end_at_a_page) {
  for (const auto side : {GuardedMemory::End, GuardedMemory::Begin}) {
    GuardedMemory memory(side);
    CachingAllocator allocator(memory);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{12}, size_t{64}, size_t{512}, size_t{4096}, size_t{4100}, size_t{100'000}}) {
      auto* block = allocator.allocate(size);
      auto* p = static_cast<unsigned char*>(CachingAllocator::address(block));
      const auto at = reinterpret_cast<uintptr_t>(p);
      CHECK_EQ((side == GuardedMemory::End ? at + size : at) % 4096, 0u);
      if (size) p[0] = p[size - 1] = 1;
      CHECK_EQ(allocator.stats().allocated, size);
      allocator.free(block);
    }
    CHECK_EQ(allocator.stats().reserved, 0u);
  }
}

TEST(scratch_memory_lies_in_the_first_gap_that_has_room) {
  alignas(64) static char arena[1024];
  const std::vector<ScratchRoom::Gap> gaps = {{0, 128}, {256, 512}};
  CHECK(!ScratchRoom::take_here(1));
  ScratchRoom room;
  CHECK(!ScratchRoom::take_here(1));
  room.offer(arena, gaps);
  const auto offset = [](const Ref<Storage>& piece) { return static_cast<char*>(piece->data()) - arena; };
  {
    const Ref<Storage> small = ScratchRoom::take_here(100), large = ScratchRoom::take_here(129), more = ScratchRoom::take_here(320);
    CHECK_EQ(offset(small), 0);
    CHECK_EQ(offset(large), 256);
    CHECK_EQ(offset(more), 448);
    CHECK(!ScratchRoom::take_here(1));
    {
      ScratchRoom inner;  // of what runs within: it has its own, or none
      CHECK(!ScratchRoom::take_here(1));
    }
    const Ref<Storage> other = scratch_bytes(64);
    CHECK(offset(other) < 0 || offset(other) >= 1024);
    room.offer(arena, gaps);
    CHECK(!ScratchRoom::take_here(1));  // not before all is back
  }
  room.offer(arena, gaps);
  CHECK_EQ(offset(ScratchRoom::take_here(512)), 256);
  CHECK_EQ(offset(ScratchRoom::take_here(128)), 0);  // what is back is there again
}

TEST(blocks_of_the_c_library_go_back_to_it) {
  MallocMemory memory;
  CachingAllocator allocator(memory);
  auto* first = allocator.allocate(100);
  CHECK_EQ(reinterpret_cast<uintptr_t>(CachingAllocator::address(first)) % 64, 0u);
  CHECK_EQ(allocator.stats().allocated, 100u);
  allocator.free(first);
  CHECK_EQ(allocator.stats().reserved, 0u);
}

}  // namespace
}  // namespace fl
