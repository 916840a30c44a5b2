#include "base/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <unordered_set>

#include "base/fork_mutex.h"

namespace fl::profile {

constinit std::atomic<bool> recording{false};
uint32_t (*current_stack)() = nullptr;

namespace {

struct Buffer {
  ForkMutex mutex{LockRank::RecordingBuffer};
  std::atomic<uint64_t> recording{0};
  int64_t thread = 0;
  int64_t open = -1;  // the innermost event that runs
  int32_t depth = 0;
  bool backward = false;
  std::vector<Event> events;
  std::vector<int64_t> shapes;
};

ForkMutex mutex(LockRank::Recording);  // guards what follows, and comes before a buffer's
std::vector<std::shared_ptr<Buffer>> buffers;
std::atomic<int> wishes{0};  // bits: shapes, memory, stack
std::atomic<uint64_t> number{0};
std::atomic<int64_t> count{0}, lost{0}, limit{0};

ForkMutex names_mutex(LockRank::RecordingNames);
auto* const names = new std::unordered_set<std::string>();  // never freed: threads may outlive static objects

thread_local std::shared_ptr<Buffer> own;
thread_local bool again = false;

Buffer& buffer() {
  if (!own) {
    own = std::make_shared<Buffer>();
    own->thread = syscall(SYS_gettid);
  }
  return *own;
}

}  // namespace

Options options() {
  const int w = wishes.load(std::memory_order_relaxed);
  return {limit.load(std::memory_order_relaxed), (w & 1) != 0, (w & 2) != 0, (w & 4) != 0};
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void clear() {
  std::lock_guard lock(mutex);
  number.fetch_add(1);
  for (auto& b : buffers) {
    std::lock_guard inner(b->mutex);
    b->events = {};
    b->shapes = {};
    b->recording = 0;
  }
  buffers.clear();
  count = 0;
  lost = 0;
}

void start(const Options& options) {
  clear();
  wishes = (options.shapes ? 1 : 0) | (options.memory ? 2 : 0) | (options.stack ? 4 : 0);
  limit = options.limit;
  recording = true;
}

void stop() { recording = false; }
int64_t dropped() { return lost; }

const char* interned(std::string_view name) {
  std::lock_guard lock(names_mutex);
  return names->emplace(name).first->c_str();
}

Handle begin(Kind kind, const char* name, uint32_t stack, int64_t allocated, const std::vector<int64_t>* shapes) {
  Buffer& b = buffer();
  const uint64_t current = number.load(std::memory_order_acquire);
  if (b.recording != current) {  // only this thread makes it current
    std::lock_guard lock(mutex);
    std::lock_guard inner(b.mutex);
    b.recording = number.load();
    b.open = -1;
    b.depth = 0;
    b.backward = false;
    b.events.clear();
    b.shapes.clear();
    buffers.push_back(own);
  }
  std::lock_guard lock(b.mutex);
  Handle h{b.recording, -1, b.open, true, b.backward};
  if (kind == Kind::Backward) b.backward = true;
  const int32_t depth = b.depth++;
  if (count.fetch_add(1, std::memory_order_relaxed) >= limit.load(std::memory_order_relaxed)) {
    count.fetch_sub(1, std::memory_order_relaxed);
    lost.fetch_add(1, std::memory_order_relaxed);
    return h;
  }
  h.index = static_cast<int64_t>(b.events.size());
  Event& e = b.events.emplace_back();
  e.name = name;
  e.kind = kind;
  e.parent = b.open;
  e.depth = depth;
  e.backward = b.backward;
  e.stack = stack;
  e.allocated_before = allocated;
  if (shapes && b.shapes.size() < UINT32_MAX - shapes->size()) {
    e.shapes = static_cast<uint32_t>(b.shapes.size() + 1);
    b.shapes.insert(b.shapes.end(), shapes->begin(), shapes->end());
  }
  b.open = h.index;
  e.start_ns = now_ns();
  return h;
}

void end(const Handle& h, const Event& measured, bool failed) {
  if (!h.open || !own) return;
  const int64_t now = now_ns();
  Buffer& b = *own;
  std::lock_guard lock(b.mutex);
  if (b.recording != h.recording) return;
  if (h.index < 0) {
    b.backward = h.backward;
    if (b.depth > 0) --b.depth;
    return;
  }
  const auto event = [&](int64_t i) -> Event& { return b.events[static_cast<size_t>(i)]; };
  int64_t at = b.open;
  while (at > h.index) at = event(at).parent;
  if (at != h.index) return;  // ended with an outer one
  for (at = b.open; at != h.index; at = event(at).parent) event(at).end_ns = now;
  Event& e = event(h.index);
  b.open = h.parent;
  b.backward = h.backward;
  b.depth = e.depth;
  e.end_ns = now;
  if (measured.name) e.name = measured.name;
  e.in_bytes = measured.in_bytes;
  e.out_bytes = measured.out_bytes;
  e.flops = measured.flops;
  e.node = measured.node;
  e.sequence = measured.sequence;
  e.allocated = measured.allocated;
  e.failed = failed;
  e.dtype = measured.dtype;
}

std::vector<ThreadEvents> collect() {
  std::vector<ThreadEvents> out;
  std::lock_guard lock(mutex);
  for (auto& b : buffers) {
    std::lock_guard inner(b->mutex);
    if (b->recording == number) out.push_back({b->thread, b->events, b->shapes});
  }
  return out;
}

void call_again() { again = true; }
bool enter() {
  const bool first = !again;
  again = false;
  return first;
}
void called() { again = false; }

}  // namespace fl::profile
