#include "storage/host_memory.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/at_load.h"
#include "storage/growing_range.h"
#include "storage/guarded.h"
#include "storage/huge_pages.h"

namespace fl {

namespace {

// The number after `name` in a file of lines "name number", or of one number if there is no name.
std::optional<size_t> number_in(const char* path, std::string_view name = {}) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    size_t at = name.size();
    while (at < line.size() && line[at] == ' ') ++at;
    size_t value = 0;
    if (std::from_chars(line.data() + at, line.data() + line.size(), value).ec == std::errc()) return value;
    return {};  // "max"
  }
  return {};
}

// What a control group's limit leaves, if it has one. Pages of files count as its memory but are dropped when it is needed.
std::optional<size_t> left_by_limit(const char* limit_file, const char* use_file, const char* stat_file, std::string_view files) {
  const auto limit = number_in(limit_file), used = number_in(use_file);
  if (!limit || !used) return {};
  const size_t droppable = number_in(stat_file, files).value_or(0), held = *used > droppable ? *used - droppable : 0;
  return *limit > held ? *limit - held : 0;
}

// The kernel's huge pages. Times are the thread's own, so that a busy machine does not make memory look dear.
struct KernelPages final : HugePages::System {
  int64_t now_ns() override { return read(CLOCK_MONOTONIC); }
  void advise(char* p, size_t size_bytes, bool huge) override { madvise(p, size_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); }
  int64_t touch_ns(char* page) override {
    const int64_t start = read(CLOCK_THREAD_CPUTIME_ID);
    *static_cast<volatile char*>(page) = 0;  // fresh memory: it is 0 already
    return read(CLOCK_THREAD_CPUTIME_ID) - start;
  }
  std::optional<int64_t> collapse_ns(char* page) override {
    constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; the C library may be older
    const int64_t start = read(CLOCK_THREAD_CPUTIME_ID);
    if (madvise(page, HugePages::kPage, kCollapse) != 0 && errno == EINVAL) return {};
    return read(CLOCK_THREAD_CPUTIME_ID) - start;
  }

 private:
  static int64_t read(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
  }
};

// Anonymous pages, aligned to 2 MiB. Segments of more than that may lie in huge pages.
struct HostMemory final : RawMemory {
  void* take(size_t size_bytes) override {
    constexpr size_t kAlign = CachingAllocator::kSegment;
    static_assert(kAlign == HugePages::kPage);
    void* p = mmap(nullptr, size_bytes + kAlign, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    char* raw = static_cast<char*>(p);
    char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(raw) + kAlign - 1) / kAlign * kAlign);
    if (aligned > raw) munmap(raw, static_cast<size_t>(aligned - raw));
    if (const size_t tail = static_cast<size_t>(raw + kAlign - aligned)) munmap(aligned + size_bytes, tail);
    if (size_bytes > kAlign) huge_.cover(aligned, size_bytes);
    return aligned;
  }
  bool joins() const override { return true; }
  bool extend(void* end, size_t size_bytes) override { return range_.extend(static_cast<char*>(end), size_bytes); }
  void* take_joined(size_t size_bytes) override {
    void* p = range_.take(size_bytes);
    return p ? p : take(size_bytes);  // where addresses are limited, pieces lie apart
  }
  void give_back(void* p, size_t size_bytes) override { range_.give_back(static_cast<char*>(p), size_bytes); }
  size_t available() override { return available_memory(); }
  void improve() override { huge_.improve(); }

 private:
  KernelPages pages_;
  HugePages huge_{pages_};
  GrowingRange range_{huge_};
};

// The C library gives what is free at the end of its heap back to the system, and what it takes in a mapping of its own, as soon as these are above
// 128 KiB; the limits rise to twice, and to once, the largest mapping that was ever freed. In a process whose large memory comes from malloc that
// happens by itself. Tensors' does not, so that NumPy's arrays, which do, were mapped and cleared page by page for every batch of a DataLoader. One free block
// of the most that counts says what those processes say; no page of it is touched, and whoever sets MALLOC_TRIM_THRESHOLD_ or its like is left alone.
void raise_limits_of_malloc() {
#if defined(__GLIBC__)
  void* volatile block = std::malloc((4 * sizeof(long) - 1) << 20);  // DEFAULT_MMAP_THRESHOLD_MAX of glibc is 4 MiB times that
  std::free(block);
#endif
}
FL_AT_LOAD(raise_limits_of_malloc())

}  // namespace

size_t available_memory() {
  size_t left = SIZE_MAX;
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
  for (const auto& limited : {left_by_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file "),
                              left_by_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                            "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file ")})
    if (limited) left = std::min(left, *limited);
  return left;
}

RawMemory& host_memory() {
  // Never destroyed, as its allocator.
  static RawMemory& memory = []() -> RawMemory& {
    const char* asked = std::getenv("FLAMBEAU_ALLOCATOR");
    const std::string_view kind = asked ? asked : "";
    if (kind == "guard") return *new GuardedMemory(GuardedMemory::End);
    if (kind == "guard-front") return *new GuardedMemory(GuardedMemory::Begin);
    if (kind == "malloc") return *new MallocMemory;
    return *new HostMemory;
  }();
  return memory;
}
FL_AT_LOAD(host_memory())

}  // namespace fl
