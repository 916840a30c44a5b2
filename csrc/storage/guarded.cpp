#include "storage/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace fl {
namespace {

const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

constexpr size_t kAlign = 64;

size_t whole_pages(size_t size_bytes) { return (size_bytes + page - 1) / page * page; }

}  // namespace

void* GuardedMemory::take(size_t size_bytes) {
  const size_t inner = whole_pages(size_bytes);
  void* p = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(p) + page;
  if (inner && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(p, inner + 2 * page);
    return nullptr;
  }
    if (side_ == Begin) return first;
  const size_t aligned = size_bytes % kAlign ? size_bytes & -size_bytes : kAlign;
  return first + (inner - size_bytes) / aligned * aligned;
}

void GuardedMemory::give_back(void* p, size_t size_bytes) {
  const size_t inner = whole_pages(size_bytes);
  char* first = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(p) / page * page);
  if (side_ == End && inner) first = static_cast<char*>(p) + size_bytes - inner;
  munmap(first - page, inner + 2 * page);
}

void* MallocMemory::take(size_t size_bytes) {
  void* p = nullptr;
  return posix_memalign(&p, kAlign, size_bytes) == 0 ? p : nullptr;
}

void MallocMemory::give_back(void* p, size_t) { std::free(p); }

}  // namespace fl
