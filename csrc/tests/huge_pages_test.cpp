// Where huge pages are asked for, over a kernel that says what each costs.
#include "storage/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "storage/allocator.h"
#include "storage/growing_range.h"
#include "tests/check.h"

namespace fl {
namespace {

constexpr size_t kPage = HugePages::kPage;
constexpr int64_t kCheap = 200'000, kDear = 4'000'000;

struct FakePages final : HugePages::System {
  int64_t now_ns() override { return now; }
  void advise(char* p, size_t size_bytes, bool huge) override {
    for (size_t at = 0; at < size_bytes; at += kPage) huge_advice[p + at] = huge;
  }
  int64_t touch_ns(char* page) override {
    CHECK(huge_advice.at(page));
    const int64_t took = static_cast<int>(touched.size()) < cheap_left ? kCheap : kDear;
    touched.push_back(page);
    now += took;
    return took;
  }
  std::optional<int64_t> collapse_ns(char* page) override {
    CHECK(huge_advice.at(page));  // the kernel refuses it otherwise
    if (!can_collapse) return {};
    collapsed.push_back(page);
    now += collapse_cost;
    return collapse_cost;
  }
  size_t huge(char* p, size_t pages) const {
    size_t n = 0;
    for (size_t i = 0; i < pages; ++i) n += huge_advice.at(p + i * kPage);
    return n;
  }
  int64_t now = 1;
  int64_t collapse_cost = kDear;
  int cheap_left = 1 << 30;  // how many cheap pages there are
  bool can_collapse = true;
  std::map<char*, bool> huge_advice;
  std::vector<char*> touched, collapsed;
};

char* address(size_t page) { return reinterpret_cast<char*>(page * kPage); }  // nothing is read there

TEST(huge_pages_where_they_are_cheap) {
  FakePages kernel;
  HugePages pages(kernel);
  pages.cover(address(100), 40 * kPage);
  CHECK_EQ(kernel.huge(address(100), 40), size_t{40});
  CHECK_EQ(kernel.touched.size(), size_t{5});  // one of eight
  kernel.now += int64_t{1} << 50;
  pages.improve();
  CHECK(kernel.collapsed.empty());
}

TEST(huge_pages_touch_a_bounded_part) {
  FakePages kernel;
  HugePages pages(kernel);
  pages.cover(address(0), 4096 * kPage);
  CHECK_EQ(kernel.touched.size(), HugePages::kTouched / HugePages::kWindow);
  CHECK_EQ(kernel.huge(address(0), 4096), size_t{4096});
}

TEST(huge_pages_end_at_the_first_dear_one) {
  FakePages kernel;
  kernel.cheap_left = 2;
  HugePages pages(kernel);
  pages.cover(address(100), 40 * kPage);
  CHECK_EQ(kernel.touched.size(), size_t{3});
  CHECK_EQ(kernel.huge(address(100), 40), size_t{17});  // two windows, and the dear one itself
  // Another segment asks for none before the pause is over.
  pages.cover(address(200), 10 * kPage);
  CHECK_EQ(kernel.huge(address(200), 10), size_t{0});
  kernel.now += HugePages::kShare * kDear;
  pages.cover(address(300), 10 * kPage);
  CHECK_EQ(kernel.touched.size(), size_t{4});
  CHECK_EQ(kernel.huge(address(300), 10), size_t{1});
  // ... and one whose last page is the dear one has nothing small.
  kernel.now += HugePages::kShare * kDear;
  pages.cover(address(400), kPage);
  CHECK_EQ(kernel.huge(address(400), 1), size_t{1});
}

TEST(huge_pages_are_put_together_later) {
  FakePages kernel;
  kernel.cheap_left = 0;
  HugePages pages(kernel);
  const int64_t start = kernel.now;
  pages.cover(address(100), 5 * kPage);
  pages.improve();
  CHECK(kernel.collapsed.empty());  // too early
  for (int calls = 0; calls < 100'000; ++calls, kernel.now += 100'000) pages.improve();
  CHECK_EQ(kernel.collapsed.size(), size_t{4});
  CHECK_EQ(std::set<char*>(kernel.collapsed.begin(), kernel.collapsed.end()).size(), size_t{4});
  CHECK_EQ(kernel.huge(address(100), 5), size_t{5});
  // All of it together took no more than its share.
  const int64_t spent = kDear * 5;
  CHECK(spent * HugePages::kShare <= kernel.now - start + HugePages::kShare * kDear);
}

TEST(huge_pages_forget_what_is_given_back) {
  FakePages kernel;
  kernel.cheap_left = 0;
  HugePages pages(kernel);
  pages.cover(address(100), 5 * kPage);
  pages.cover(address(200), 5 * kPage);
  pages.forget(address(100), 5 * kPage);
  for (int k = 0; k < 20; ++k, kernel.now += HugePages::kShare * kDear) pages.improve();
  CHECK_EQ(kernel.collapsed.size(), size_t{5});
  for (char* page : kernel.collapsed) CHECK(page >= address(200) && page < address(205));
}

TEST(huge_pages_of_a_kernel_that_can_not_put_them_together) {
  FakePages kernel;
  kernel.cheap_left = 0;
  kernel.can_collapse = false;
  HugePages pages(kernel);
  pages.cover(address(100), 5 * kPage);
  kernel.now += HugePages::kShare * kDear;
  pages.improve();
  kernel.can_collapse = true;
  kernel.now += HugePages::kShare * kDear;
  pages.improve();
  CHECK(kernel.collapsed.empty());
}

TEST(huge_pages_of_a_range_of_which_pieces_go_back) {
  FakePages kernel;
  kernel.cheap_left = 0;
  HugePages pages(kernel);
  pages.cover(address(100), 10 * kPage);  // the first is touched, and dear
  pages.forget(address(98), 5 * kPage);   // 101 and 102
  pages.forget(address(105), 2 * kPage);
  pages.forget(address(109), 4 * kPage);
  for (int i = 0; i < 20; ++i) {
    kernel.now += HugePages::kShare * kDear;
    pages.improve();
  }
  CHECK(kernel.collapsed == (std::vector<char*>{address(103), address(104), address(107), address(108)}));
}

TEST(growing_range) {
  FakePages kernel;
  HugePages pages(kernel);
  GrowingRange range(pages);
  CHECK(!range.extend(nullptr, kPage));
  char* const p = range.take(2 * kPage);
  CHECK(p && reinterpret_cast<uintptr_t>(p) % kPage == 0);
  p[0] = p[2 * kPage - 1] = 1;
  CHECK(range.extend(p + 2 * kPage, 12 * kPage));
  p[14 * kPage - 1] = 2;
  CHECK(!range.extend(p + 2 * kPage, kPage));  // not its end any more
  range.give_back(p + 3 * kPage, 4 * kPage);
  CHECK_EQ(p[2 * kPage - 1], 1);
  range.give_back(p + 7 * kPage, 7 * kPage);
  CHECK(range.take(kPage) == p + 7 * kPage);
  CHECK_EQ(p[7 * kPage], 0);  // anew from the kernel
  void* const way = mmap(p + 15 * kPage, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(way == p + 15 * kPage);
  range.give_back(p + 7 * kPage, kPage);
  CHECK(range.take(8 * kPage) == p + 7 * kPage);
  CHECK(!range.extend(p + 15 * kPage, kPage));
  char* const other = range.take(kPage);
  CHECK(other && other != p + 15 * kPage);
  other[0] = 1;
  range.give_back(p, 3 * kPage);
  range.give_back(p + 7 * kPage, 8 * kPage);
  range.give_back(other, kPage);
  munmap(way, kPage);
}

struct CountingMemory final : RawMemory {
  void* take(size_t size_bytes) override { return std::malloc(size_bytes); }
  void give_back(void* p, size_t) override { std::free(p); }
  void improve() override { ++improved; }
  int improved = 0;
};

TEST(allocator_leaves_time_for_what_was_put_off_when_large_blocks_are_reused) {
  CountingMemory raw;
  CachingAllocator alloc(raw);
  alloc.free(alloc.allocate(size_t{5} << 20));
  alloc.free(alloc.allocate(100));
  alloc.free(alloc.allocate(100));
  CHECK_EQ(raw.improved, 0);
  alloc.free(alloc.allocate(size_t{5} << 20));
  CHECK_EQ(raw.improved, 1);
}

}  // namespace
}  // namespace fl
