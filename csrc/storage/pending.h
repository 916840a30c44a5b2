// Bytes that are not there yet.
//
// Note [Pending bytes]
// While a thread records (Note [Recording ops], graph/recorder.h), an op makes outputs without bytes and is noted instead of
// run. Nobody needs to know, since everybody who wants bytes asks Storage::data() (or RawBytes), and these settle the
// recording first. A storage is then
//
//     promised   its bytes are allocated when they are first asked for, or just before a recorded op writes them
//     pending    a recorded op will write them: asking for them runs what was recorded, on any thread
//
// and both at first. While a thread runs what was recorded (`settling_here`), its kernels get the bytes as they are; so do
// the threads of its parallel regions.
// An op that failed leaves its recording behind at what it should have written: whoever asks for that gets the error.
//
// A storage may also be hollow: pending for ever, since what it would hold is elsewhere (Note [Hollow tensors], bindings/hollow.h).
#pragma once

#include <utility>

#include "base/parallel.h"
#include "base/refcount.h"

namespace fl {

// What writes pending bytes.
class Recording : public RefCounted {
 public:
  // Runs what was recorded, or throws what came of it when it was run.
  virtual void settle() = 0;
  // Of the region that is going on: no two in a process are alike.
  uint64_t region() const { return region_; }
  // Whether values that are not computed yet are checked when they are, as those of indices; else who checks them settles.
  bool checks_later() const { return checks_later_; }
  bool check_later(bool on) {
    unchecked_ |= on;
    return std::exchange(checks_later_, on);
  }

 protected:
  bool checks_later_ = false, unchecked_ = false;  // now; something that is recorded
  uint64_t region_ = 0;
};

// The calling thread's, while it records; null while it runs what was recorded.
extern FL_HOT_THREAD_LOCAL constinit Recording* recorder_here;
// What the calling thread is running, or the thread in whose parallel region it is.
inline Recording* settling_here() { return static_cast<Recording*>(region_context); }

class Storage;
// Settles what other threads recorded and will read the bytes. Set by the recorder.
extern void (*settle_readers_of)(Storage&);
// To be called before bytes are written that anybody may have seen.
void before_write(Storage& storage);

}  // namespace fl
