// Memory that shows every access beyond its ends. By pages: each block has its own, between two that nobody may touch.
//
//     FLAMBEAU_ALLOCATOR=guard         [ protected | ..... block ][ protected ]     reads and writes past the end
//     FLAMBEAU_ALLOCATOR=guard-front   [ protected ][ block ..... | protected ]     ... and before the beginning
//
// A block is aligned as far as its size is (an odd number of bytes not at all), and to 64 bytes at most; so it ends
// exactly where a page does. It goes back to the system when it is freed, so later uses are found, too. Any program
// and any test runs with it, slowly; each block costs at least two pages and three of the kernel's 65,530 mappings.
//
//     FLAMBEAU_ALLOCATOR=malloc        each block from the C library, for AddressSanitizer or valgrind to watch
#pragma once

#include "storage/allocator.h"

namespace fl {

class GuardedMemory final : public RawMemory {
 public:
  enum Side { Begin, End };
  explicit GuardedMemory(Side side) : side_(side) {}
  void* take(size_t size_bytes) override;
  void give_back(void* p, size_t size_bytes) override;
  bool exact() const override { return true; }

 private:
  const Side side_;
};

class MallocMemory final : public RawMemory {
 public:
  void* take(size_t size_bytes) override;
  void give_back(void* p, size_t size_bytes) override;
  bool exact() const override { return true; }
};

}  // namespace fl
