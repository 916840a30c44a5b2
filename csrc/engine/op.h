// What the engine keeps of a pushed op, and the queue of those that may run.
#pragma once

#include <chrono>
#include <map>

#include "engine/engine.h"

namespace fl::engine {

// One resource of one op.
struct Access {
  Op* op = nullptr;
  Ref<Resource> resource;
  Access* next = nullptr;  // in the resource's queue
  uint8_t how = 0;

  bool writes() const { return how & (kWrite | kPartialWrite); }
  bool reads() const { return how & kRead; }
  bool clears() const { return (how & kWrite) && !reads(); }
};

enum class State : uint8_t { Waiting, Ready, Running, Done };

struct Op final : RefCounted {
  ~Op() override;
  // Each resource once, with all that is done to it.
  void use(std::span<const Use> uses);
  std::span<Access> accesses() { return {count_ <= kInline ? inline_ : more_.get(), count_}; }

  std::unique_ptr<Work> work;
  std::string name;
  uint64_t id = 0;
  SourceId source = 0;
  int priority = 0;
  uint32_t generation = 0;
  uint32_t waits = 0;  // for so many of its resources
  bool asynchronous = false, openmp = false;
  int parts = 1;       // of an asynchronous op 2: its function and its completion
  State state = State::Waiting;
  ErrorRef error;          // of the op itself, when it is done
  Op* members = nullptr;   // of a bulk: its ops, linked by `next`, which have no places in queues
  Op* next = nullptr;      // in a Ready, or in a bulk
  uint64_t ready_order = 0;
  Op *later = nullptr, *earlier = nullptr;  // among what is pending
  std::chrono::steady_clock::time_point started;

 private:
  static constexpr size_t kInline = 3;
  size_t count_ = 0;
  Access inline_[kInline];
  std::unique_ptr<Access[]> more_;
};

// Ops that may run: the highest priority first, and of one priority the first that came. Every kFair-th time the one that
// has been here longest goes, so that nobody waits for ever.
class Ready {
 public:
  static constexpr uint64_t kFair = 16;
  void add(Op* op);
  Op* take();  // null where there is none
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  struct Level {
    Op *first = nullptr, *last = nullptr;
  };
  std::map<int, Level, std::greater<int>> levels_;  // may be empty; some are kept
  size_t size_ = 0;
  uint64_t added_ = 0, taken_ = 0;
};

// Somebody who waits for `left` uses, all of them by ops up to `ticket`.
struct Waiter {
  uint64_t ticket;
  size_t left;
  bool reads;
  Waiter* next;
};

}  // namespace fl::engine
