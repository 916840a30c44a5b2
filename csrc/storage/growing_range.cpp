#include "storage/growing_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace fl {

namespace {

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0  // an old C library: the address is a wish, and what came instead is looked at
#endif

bool map_at(char* p, size_t size_bytes) {
  void* got = mmap(p, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == p) return true;
  if (got != MAP_FAILED) munmap(got, size_bytes);
  return false;
}

size_t machine_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : size_t{1} << 34;
}

}  // namespace

bool GrowingRange::map_until(char* end) {
  if (end <= mapped_) return true;
  const size_t wanted = static_cast<size_t>(end - mapped_), window = (wanted + kWindow - 1) / kWindow * kWindow;
  for (const size_t size : {window, wanted}) {  // where addresses are scarce, no more than that
    if (!map_at(mapped_, size)) continue;
    huge_.cover(mapped_, size);
    mapped_ += size;
    return true;
  }
  return false;
}

// Twice what the machine has is free there now; nothing is kept of it.
bool GrowingRange::begin(size_t size_bytes) {
  const size_t wanted = std::max(2 * machine_bytes(), 2 * size_bytes);
  void* p = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, wanted);
  constexpr uintptr_t kPage = HugePages::kPage;
  top_ = mapped_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + kPage - 1) / kPage * kPage);
  return map_until(top_ + size_bytes);
}

bool GrowingRange::extend(const char* end, size_t size_bytes) {
  if (!top_ || end != top_ || !map_until(top_ + size_bytes)) return false;
  top_ += size_bytes;
  return true;
}

char* GrowingRange::take(size_t size_bytes) {
  if (!top_ || !map_until(top_ + size_bytes)) {
    if (top_ && mapped_ > top_) give_back(top_, 0);
    if (!begin(size_bytes)) return nullptr;
  }
  char* const p = top_;
  top_ += size_bytes;
  return p;
}

void GrowingRange::give_back(char* p, size_t size_bytes) {
  char* end = p + size_bytes;
  if (end == top_) top_ = p, end = std::exchange(mapped_, p);
  if (end == p) return;
  huge_.forget(p, static_cast<size_t>(end - p));
  munmap(p, static_cast<size_t>(end - p));
}

}  // namespace fl
