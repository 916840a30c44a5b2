// The caching allocator over a RawMemory that counts and can run dry.
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "base/error.h"
#include "storage/allocator.h"
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
  size_t limit_bytes, held_bytes = 0;
  int takes = 0;
  std::map<void*, size_t> sizes;
};

char* at(CachingAllocator::Block* b) { return static_cast<char*>(CachingAllocator::address(b)); }

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

}  // namespace
}  // namespace fl
