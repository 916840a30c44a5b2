#include "storage/scratch.h"

namespace fl {

namespace {
constexpr size_t kRound = 64;
thread_local ScratchRoom* room_here = nullptr;
}  // namespace

ScratchRoom::ScratchRoom() : before_(room_here) { room_here = this; }
ScratchRoom::~ScratchRoom() { room_here = before_; }

void ScratchRoom::offer(void* base, const std::vector<Gap>& gaps) {
  base_ = static_cast<char*>(base);
  gaps_ = pieces_ == 0 ? &gaps : nullptr;
  used_ = {};
}

Ref<Storage> ScratchRoom::take_here(size_t size_bytes) {
  ScratchRoom* const room = room_here;
  if (!room || !room->gaps_) return nullptr;
  for (size_t i = 0; i < room->gaps_->size() && i < kMost; ++i) {
    const Gap& gap = (*room->gaps_)[i];
    size_t& used = room->used_[i];
    if (used > gap.size_bytes || size_bytes > gap.size_bytes - used) continue;
    Ref<Storage> piece = Storage::borrow(room->base_ + gap.offset + used, size_bytes, Device{}, room, give_back, true);
    used += (size_bytes + kRound - 1) / kRound * kRound;
    ++room->pieces_;
    return piece;
  }
  return nullptr;
}

void ScratchRoom::give_back(void* room) {
  auto* const r = static_cast<ScratchRoom*>(room);
  if (--r->pieces_ == 0) r->used_ = {};
}

}  // namespace fl
