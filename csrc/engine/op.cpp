#include "engine/op.h"

#include <algorithm>

namespace fl::engine {

void Op::use(std::span<const Use> uses) {
  Use few[8];
  std::unique_ptr<Use[]> many;
  Use* sorted = few;
  if (uses.size() > std::size(few)) sorted = (many = std::make_unique<Use[]>(uses.size())).get();
  std::copy(uses.begin(), uses.end(), sorted);
  std::sort(sorted, sorted + uses.size(), [](const Use& a, const Use& b) { return std::less<>()(a.resource, b.resource); });
  for (size_t i = 0; i < uses.size(); ++i) {
    if (count_ && sorted[count_ - 1].resource == sorted[i].resource) sorted[count_ - 1].how |= sorted[i].how;
    else sorted[count_++] = sorted[i];
  }
  if (count_ > kInline) more_ = std::make_unique<Access[]>(count_);
  Access* out = accesses().data();
  for (size_t i = 0; i < count_; ++i) {
    out[i].op = this;
    out[i].resource = Ref<Resource>::share(sorted[i].resource);
    out[i].how = sorted[i].how;
  }
}

Op::~Op() {
  while (Op* member = members) {
    members = member->next;
    member->release();
  }
}

void Ready::add(Op* op) {
  op->state = State::Ready;
  op->next = nullptr;
  op->ready_order = added_++;
  Level& level = levels_[op->priority];
  (level.last ? level.last->next : level.first) = op;
  level.last = op;
  ++size_;
}

Op* Ready::take() {
  if (!size_) return nullptr;
  auto chosen = levels_.end();
  const bool oldest = ++taken_ % kFair == 0;
  for (auto it = levels_.begin(); it != levels_.end(); ++it) {
    if (!it->second.first) continue;
    if (chosen == levels_.end() || it->second.first->ready_order < chosen->second.first->ready_order) chosen = it;
    if (!oldest) break;
  }
  Level& level = chosen->second;
  Op* op = level.first;
  level.first = op->next;
  if (!level.first) level.last = nullptr;
  op->next = nullptr;
  --size_;
  if (!level.first && levels_.size() > 64) levels_.erase(chosen);
  return op;
}

}  // namespace fl::engine
