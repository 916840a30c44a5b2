#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>

#include "base/at_load.h"
#include "base/error.h"
#include "base/fork_mutex.h"

// Note [Fork safety]
// A fork waits until no parallel region is under way, and regions wait for it (`regions`), so that what their workers
// hold and half wrote, in oneDNN or elsewhere, is never copied.
//
// libgomp's pool does not survive fork(): its threads exist only in the parent, and the first parallel
// region of a child that forked from a process with a live pool waits for them for ever. So a child runs
// with one thread: pthread_atfork sets `forked`, and every region, ours and oneDNN's (which gets its count from
// ours: Note [Entering oneDNN]), then sees a count of one and never enters libgomp's team code.

// Note [Workers that come late]
// The end of a region waits for every thread, also for one that another process keeps from its processor: it is woken a tenth
// of a millisecond later or more, while a loop over 100,000 elements takes a hundredth. So short regions note how long the
// calling thread waited after its own share, and while that is more than a team would spare, loops run on it alone, with the same
// bits. Each of these takes something off what was noted, so that the team is tried again. On two processors beside two busy
// processes `x + y` of 120,000 elements took 126 us; it takes 26 to 35, one thread alone 23. Loops inside of such a loop run where
// they are, and oneDNN is given one thread, as in a region: it sums in another order with two (`in_shared_loop`).

// GCC's OpenMP runtime is what oneDNN's library uses, and two runtimes in a process would be two pools. So the one
// parallel region that there is enters libgomp by name, as GCC's own code does for `#pragma omp parallel`, and the
// compiler is asked for `omp simd` alone: clang would call a runtime of its own (libomp).
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
void omp_set_num_threads(int n);
}

namespace fl {
namespace {

std::atomic<int> count{0};
std::atomic<bool> forked{false};
std::string origin;

// CPUs that the cgroup's quota allows (v2 cpu.max, then v1 cfs), or 0 where there is none.
int cgroup_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::max(1, static_cast<int>(std::atof(quota.c_str()) / period));
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota_us = 0;
  if (q >> quota_us && p >> period && quota_us > 0 && period > 0) return std::max(1, static_cast<int>(quota_us / period));
  return 0;
}

int find_count() {
  cpu_set_t set;
  int n = 1;
  std::ostringstream how;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n = std::max(1, CPU_COUNT(&set));
  how << "affinity " << n;
  if (const int quota = cgroup_quota()) {
    how << ", cgroup quota " << quota;
    n = std::min(n, quota);
  } else {
    how << ", no cgroup quota";
  }
  const char* over = std::getenv("FLAMBEAU_OVERSUBSCRIBE");
  for (const char* name : {"FLAMBEAU_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    const int asked = value ? std::atoi(value) : 0;
    if (asked > 0) {
      how << ", " << name << "=" << asked;
      const bool beyond = over && std::atoi(over) > 0 && name[0] == 'F';
      if (beyond) how << " though it may be more (FLAMBEAU_OVERSUBSCRIBE)";
      n = beyond ? asked : std::min(n, asked);
      break;
    }
  }
  origin = how.str();
  return n;
}

ForkGate regions;

// One thread's way through a region.
class Inside {
 public:
  // Whoever holds a mutex is waited for by the fork itself.
  Inside() { regions.enter(locks::held.ranks >= 1u << (static_cast<int>(LockRank::Recorder) + 1)); }
  ~Inside() { regions.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

struct Region {
  int64_t begin, total, ranges;
  detail::RangeFn fn;
  void* context;
  void* inherited;
  int64_t started_ns, own_done_ns;  // the calling thread's share
  CallMutex mutex;
  std::exception_ptr failure;  // the first one, guarded by mutex
};

constexpr int64_t kGrainNs = 6'000;    // about what callers take for a grain
constexpr int64_t kLateNs = 25'000;    // longer than a thread that slept takes to wake on an idle machine
constexpr int64_t kLatestNs = 256'000;  // no more than that is noted
constexpr int64_t kShortNs = 200'000;  // the ends of longer shares lie apart for other reasons
std::atomic<int64_t> lateness{0};       // of late

// One thread's ranges. Its team may be smaller than was asked for, so it may have several.
void run_share(void* data) {
  Region& region = *static_cast<Region*>(data);
  void* const before = std::exchange(region_context, region.inherited);
  for (int64_t r = omp_get_thread_num(); r < region.ranges; r += omp_get_num_threads()) {
    const int64_t b = region.begin + region.total * r / region.ranges;
    const int64_t e = region.begin + region.total * (r + 1) / region.ranges;
    try {
      if (b < e) region.fn(region.context, b, e);
    } catch (...) {
      const std::lock_guard lock(region.mutex);
      if (!region.failure) region.failure = std::current_exception();
    }
  }
  region_context = before;
  if (omp_get_thread_num() == 0) region.own_done_ns = now_ns();
}

int current() {
  int n = count.load(std::memory_order_relaxed);
  if (n) return n;
  static const int found = [] {
    const int m = find_count();
    pthread_atfork(nullptr, nullptr, [] {
      forked.store(true);
      count.store(1);
    });
    return m;
  }();
  int expected = 0;
  count.compare_exchange_strong(expected, found);
  return count.load();
}
FL_AT_LOAD(current())

}  // namespace

namespace {
FL_HOT_THREAD_LOCAL constinit int one_core = 0;  // how many OneCores live
FL_HOT_THREAD_LOCAL constinit int pool = 0;      // the threads of this thread's pool; 0: another library may have changed it
FL_HOT_THREAD_LOCAL constinit bool by_itself = false;  // this thread computes all ranges of a loop: Note [Workers that come late]

class ByItself {
 public:
  ByItself() { by_itself = true; }
  ~ByItself() { by_itself = false; }
  ByItself(const ByItself&) = delete;
  ByItself& operator=(const ByItself&) = delete;
};
}

FL_HOT_THREAD_LOCAL constinit void* region_context = nullptr;

int num_threads() { return one_core ? 1 : current(); }

OneCore::OneCore() { ++one_core; }
OneCore::~OneCore() { --one_core; }

void set_num_threads(int n) {
  if (n < 1) raise<ArgumentError>("set_num_threads: expects a positive integer, but n = ", n);
  current();
  if (forked.load()) n = 1;
  count.store(n);
}

OpenMPThreads::OpenMPThreads(int threads) : threads_(threads), before_(omp_get_max_threads()) {
  if (threads_ != before_) omp_set_num_threads(threads_);
  if (threads_ > 1 && !(threads_ == 2 && pool == 2)) {  // a pool of two stays what it is in regions of two
    quiet_.emplace();
    pool = 0;
  }
}
OpenMPThreads::~OpenMPThreads() {
  if (threads_ != before_) omp_set_num_threads(before_);
}

bool in_parallel_region() { return omp_in_parallel(); }
bool in_shared_loop() { return by_itself || omp_in_parallel(); }

std::string threads_origin() {
  current();
  if (forked.load()) return "1, because this process was forked";
  return origin;
}

namespace detail {

void note_lateness(int64_t ns) { lateness.store(ns, std::memory_order_relaxed); }

void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context) {
  const int64_t total = end - begin;
  const int threads = num_threads();
  const int64_t ranges = std::min<int64_t>(threads, (total + grain - 1) / grain);
  if (ranges <= 1 || in_shared_loop()) {
    fn(context, begin, end);
    return;
  }
  const int64_t late = lateness.load(std::memory_order_relaxed);
  if (late > kLateNs && late / kGrainNs > total / grain * (threads - 1) / threads) {
    const int64_t started = now_ns();
    {
      const ByItself loop;
      fn(context, begin, end);
    }
    // Callers whose grain is a single heavy item say too little: what took long should have been shared.
    note_lateness(now_ns() - started > kShortNs ? 0 : late - late / 64);
    return;
  }
  Region region{begin, total, ranges, fn, context, region_context, now_ns(), 0, {}, {}};
  // All threads, also where there are fewer ranges: libgomp ends the threads that a smaller team leaves out, and the
  // next larger one would have to start them again.
  {
    const Inside inside;
    std::optional<NoSignals> quiet;
    if (std::exchange(pool, threads) != threads) quiet.emplace();
    GOMP_parallel(&run_share, &region, static_cast<unsigned>(threads), 0);
  }
  if (region.own_done_ns - region.started_ns < kShortNs) note_lateness((3 * late + std::min(now_ns() - region.own_done_ns, kLatestNs)) / 4);
  if (region.failure) std::rethrow_exception(region.failure);
}

}  // namespace detail
}  // namespace fl
