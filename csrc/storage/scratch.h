// Memory for as long as a kernel runs.
//
// Note [Scratch memory]
// What a kernel needs for itself (packed copies of operands, partial sums, oneDNN's scratchpads) comes from the allocator, unless its thread has
// room: bytes that nobody uses before the kernel is done. A program that is run again has all of its arena from the first op on, of which each op
// uses a part; it offers the gaps in the rest. So scratch memory is never handed on, and belongs to the thread that took it.
#pragma once

#include <array>
#include <vector>

#include "storage/storage.h"

namespace fl {

class ScratchRoom {
 public:
  struct Gap {
    size_t offset, size_bytes;  // the offset is a multiple of 64
  };
  static constexpr size_t kMost = 8;  // gaps of a room

  ScratchRoom();
  ~ScratchRoom();
  ScratchRoom(const ScratchRoom&) = delete;
  ScratchRoom& operator=(const ScratchRoom&) = delete;

  // From now on this thread's scratch memory is in the first of these gaps in which it fits. What was taken before has to be back; otherwise nothing
  // is offered. The gaps have to live on.
  void offer(void* base, const std::vector<Gap>& gaps);

  static Ref<Storage> take_here(size_t size_bytes);  // null where this thread has no room for them
  static void give_back(void* room);                 // a piece of it

 private:
  ScratchRoom* const before_;
  char* base_ = nullptr;
  const std::vector<Gap>* gaps_ = nullptr;
  std::array<size_t, kMost> used_{};  // bytes of each gap
  size_t pieces_ = 0;
};

// Not initialised. Throws OutOfMemory.
inline Ref<Storage> scratch_bytes(size_t size_bytes) {
  if (Ref<Storage> here = ScratchRoom::take_here(size_bytes)) return here;
  return Storage::allocate_now(size_bytes, Device{});
}

}  // namespace fl
