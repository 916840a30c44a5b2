// Var: who writes this memory, and when. One per Storage.
//
// For autograd it is the version: an in-place write bumps it, and a saved tensor whose version moved
// refuses to be used. The bump records the writer, so that the error can name op and Python line.
// The dependency engine will use the same object as its resource tag.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/refcount.h"

namespace fl {

// A place in the user's Python program: an index into a table kept by the bindings; 0 is unknown.
using SourceId = uint32_t;

// Set by the bindings: the running Python line. Called with the GIL held or not at all.
extern SourceId (*current_source)();
// ... and what it says of one: "net.py:33, in forward (`h = x + 1`)", or nothing. Takes the GIL.
extern std::string (*describe_source)(SourceId);

class Var {
 public:
  // How many writes there were, and how many of them autograd is to notice: those through `x.data` have a Var of their own.
  uint32_t version() const { return static_cast<uint32_t>(count_.load(std::memory_order_acquire)); }
  uint32_t noticed() const { return static_cast<uint32_t>(count_.load(std::memory_order_acquire) >> 32); }
  void written_by(const char* op, bool notice = true) {
    if (notice) {
      writer_ = op;
      source_ = current_source ? current_source() : 0;
    }
    count_.fetch_add(notice ? (uint64_t{1} << 32) + 1 : 1, std::memory_order_acq_rel);
  }
  const char* writer() const { return writer_ ? writer_ : "an in-place operation"; }
  SourceId source() const { return source_; }

 private:
  std::atomic<uint64_t> count_{0};  // of noticed writes in the upper half, of all in the lower
  SourceId source_ = 0;
  const char* writer_ = nullptr;  // static text
};

// Of `x.data`, and of what is viewed or detached from it: who saved one of these notices writes through any of them, and nobody else does.
struct OwnVar final : RefCounted {
  FL_SMALL_OBJECT
  Var var;
};

}  // namespace fl
