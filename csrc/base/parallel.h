// One OpenMP pool, shared with oneDNN, and how many threads it has.
//
// Count = min(affinity, floor(cgroup quota), FLAMBEAU_NUM_THREADS or OMP_NUM_THREADS), at least 1. With
// FLAMBEAU_OVERSUBSCRIBE=1 it is FLAMBEAU_NUM_THREADS even where there are fewer processors, as after
// set_num_threads(): that is for tests of what many threads do.
// See Note [Fork safety] in parallel.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "base/refcount.h"
#include "base/signals.h"

namespace fl {

int num_threads();
void set_num_threads(int n);  // throws ArgumentError for n < 1
bool in_parallel_region();
// Whether the calling thread computes a range of a parallel loop: in a region, or by itself where a team would come too late. What would
// be cut otherwise for other threads is cut for one alike, so that the bits do not depend on who was late.
bool in_shared_loop();

// What the threads of a region take over from the thread that made it, while it lasts: an address whose meaning the layers above know.
extern FL_HOT_THREAD_LOCAL constinit void* region_context;

// While it lives, num_threads() is 1 for the calling thread, whose loops then run where they are called.
class OneCore {
 public:
  OneCore();
  ~OneCore();
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
};

// OpenMP's own count for the calling thread, which other libraries of ours ask for, is `threads` while this lives. Where they may make the
// thread's pool grow, it gets no signals meanwhile: Note [Signals and borrowed stack pointers].
class OpenMPThreads {
 public:
  explicit OpenMPThreads(int threads);
  ~OpenMPThreads();
  OpenMPThreads(const OpenMPThreads&) = delete;
  OpenMPThreads& operator=(const OpenMPThreads&) = delete;
  int threads() const { return threads_; }

 private:
  int threads_, before_;
  std::optional<NoSignals> quiet_;
};

// How the count was found, for `flambeau info`.
std::string threads_origin();

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context);
void note_lateness(int64_t ns);  // of a region's last thread: Note [Workers that come late] in parallel.cpp
}  // namespace detail

// Splits [begin, end) into at most num_threads() contiguous ranges of at least `grain` each and calls
// f(range_begin, range_end) on them; on this thread alone when one range is left. The split must not
// change results: reductions cut their input into fixed chunks first and loop over chunks.
// An exception in f is rethrown on the calling thread.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (end <= begin) return;
  if (end - begin <= grain) {
    f(begin, end);
    return;
  }
  using Body = std::remove_reference_t<F>;
  auto call = [](void* context, int64_t b, int64_t e) { (*static_cast<Body*>(context))(b, e); };
  detail::parallel_run(begin, end, grain, call, const_cast<std::remove_const_t<Body>*>(&f));
}

// The same over n items of `work` each, where a range should have at least `least` in all. A heavy item counts for the grains that it is worth: loops
// that seem short may run on one thread (Note [Workers that come late] in parallel.cpp).
template <class F>
void parallel_work(int64_t n, int64_t work, int64_t least, F&& f) {
  work = work > 0 ? work : 1;
  if (work < 2 * least) return parallel_for(0, n, work < least ? least / work : 1, f);
  if (n == 1) return f(0, 1);  // outside of a region, so that it may have its own
  const int64_t grains = work / least;
  parallel_for(0, n * grains, 1, [&](int64_t begin, int64_t end) {
    const int64_t from = (begin + grains - 1) / grains, to = (end + grains - 1) / grains;
    if (from < to) f(from, to);
  });
}

}  // namespace fl
