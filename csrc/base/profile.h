// The recorder behind flambeau.profiler: what ran on which thread, from when to when.
//
// Note [Recording]
// Whoever wants to be seen (generated op wrappers, backward, optimizers, Python's ranges and modules) asks
// on() first: one relaxed load, false unless a profile runs. Every thread appends to a buffer of its own, under
// the buffer's own lock, which nobody else wants until the buffers are collected. An event is appended when it
// begins, so that a parent always stands before its children, and gets its end later. The number of events of a
// recording is bounded; what goes beyond is counted as dropped, and its children hang from the nearest event
// that was kept. A recording has a number: what began in an earlier one finds another number and is left alone.
// Events of a thread nest: one that is ended takes what is still open inside of it along, since Python may leave
// ranges in another order than it entered them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fl::profile {

enum class Kind : uint8_t { Op, Backward, Optimizer, Range, Module };

struct Options {
  int64_t limit = 1'000'000;  // events, of all threads together
  bool shapes = false, memory = false, stack = false;
};

// Python reads these as bytes: EVENT in src/flambeau/profiler/_events.py is the same list.
struct Event {
  const char* name = nullptr;  // text that is never freed
  int64_t start_ns = 0, end_ns = -1;  // -1: not ended
  int64_t in_bytes = 0, out_bytes = 0;
  double flops = 0;
  const void* node = nullptr;  // of a forward op the node that it made, of a backward event the node that ran
  uint64_t sequence = 0;       // the node's number
  int64_t allocated_before = -1, allocated = -1;  // by the allocator; -1: not asked for
  int64_t parent = -1;         // index in the same buffer
  uint32_t shapes = 0;         // 1 + where the shapes begin; 0: none
  uint32_t stack = 0;          // of Python calls, a number of the bindings'; 0: none
  int32_t depth = 0;
  Kind kind = Kind::Op;
  bool backward = false, failed = false;
  uint8_t dtype = 0;           // 1 + the element type that was computed in; 0: none
};
static_assert(sizeof(Event) == 104);

extern std::atomic<bool> recording;
inline bool on() { return recording.load(std::memory_order_relaxed); }
Options options();

// Starts anew: what was recorded before is dropped. start() of a running recording goes on with an empty one.
void start(const Options& options);
void stop();
void clear();
int64_t dropped();
int64_t now_ns();

// Set by the bindings: the number of the Python calls that run, for events of recordings that want it.
extern uint32_t (*current_stack)();
inline uint32_t stack_now() { return options().stack && current_stack ? current_stack() : 0; }

// Text that lives as long as the program.
const char* interned(std::string_view name);

// An event of this thread, from begin() to end(). Not for another thread to end.
struct Handle {
  uint64_t recording = 0;
  int64_t index = -1;         // -1: dropped
  int64_t parent = -1;        // what was open before
  bool open = false, backward = false;
};
Handle begin(Kind kind, const char* name, uint32_t stack = 0, int64_t allocated = -1, const std::vector<int64_t>* shapes = nullptr);
void end(const Handle& handle, const Event& measured, bool failed);  // a name that is measured takes the place of the first

struct ThreadEvents {
  int64_t thread;
  std::vector<Event> events;
  std::vector<int64_t> shapes;
};
std::vector<ThreadEvents> collect();

// Note [Calling again]: a wrapper that finds a recording calls itself inside of an event. enter() tells it which
// call it is: true the first time, false the second.
void call_again();
bool enter();
void called();

}  // namespace fl::profile
