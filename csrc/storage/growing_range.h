// Memory that lies together: what is taken next lies directly behind what was taken last, so that blocks of different requests
// become one when they are freed. No address space is reserved for it (a limit of that would count it): the range begins far
// below what the kernel hands out next, which goes downwards, and where something lies in the way another one is begun.
//
//     first_ ... kernel's way:      [ taken | taken | window ]  ........ free addresses ........  [ others' mappings ]
//                                                   ^ top_   ^ mapped_
#pragma once

#include <cstddef>

#include "storage/huge_pages.h"

namespace fl {

class GrowingRange {
 public:
  static constexpr size_t kWindow = HugePages::kWindow;  // of address space, mapped at once: what is not touched is not there

  explicit GrowingRange(HugePages& huge) : huge_(huge) {}

  // `size_bytes` directly behind `end`, the end of what was taken last. False where that can not be had.
  bool extend(const char* end, size_t size_bytes);
  // `size_bytes` at the range's end, or where a new range begins. Null where there are no addresses for one.
  char* take(size_t size_bytes);
  // Any pages that were taken (sizes are multiples of HugePages::kPage).
  void give_back(char* p, size_t size_bytes);

 private:
  bool map_until(char* end);
  bool begin(size_t size_bytes);

  HugePages& huge_;
  char* top_ = nullptr;     // the end of what was taken
  char* mapped_ = nullptr;  // ... and of what is mapped
};

}  // namespace fl
