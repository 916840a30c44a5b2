// The mutexes of the core: ForkMutex, and what is built from it.
//
// Note [Locks]
// A child that was forked while another thread held a mutex could never take it, and what the mutex guards would be
// half written. So every mutex that outlives a call is a ForkMutex. It enters itself in a list when it is made; a
// handler of fork() takes all of them, in the order of their ranks, and parent and child release them.
//
// One thread takes mutexes in the order of LockRank, and never waits for a second one of a rank (TryLock). Then fork() can wait for all of them,
// whatever the others do. Builds with FLAMBEAU_CHECK_LOCKS (those for sanitizers and core_tests) insist.
//
// Who holds a ForkMutex must not wait for the GIL: fork() waits for the mutex, and whoever forks from Python has the
// GIL. What somebody else's memory or objects need when they go (they may be Python's) is therefore not done while a
// mutex is held: when_unlocked() puts it off until the thread has released its last one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/refcount.h"

namespace fl {

// The outermost first.
enum class LockRank : uint8_t {
  Accumulation,    // one thread at a time adds to a leaf's gradient
  Recorder,        // Note [Recording ops]; held while recorded ops run
  PrimitiveCache,  // oneDNN's primitives
  Pending,         // Note [Pending bytes]
  Leaf,            // gradient and accumulator of a leaf
  WeakTensor,
  Recording,       // the profiler's list of buffers
  RecordingBuffer,
  RecordingNames,
  Generator,
  Layout,          // Note [Deferred layout]
  Prepared,        // Note [Prepared bytes]
  Fronts,          // Note [Small blocks]
  Allocator,
  Engine,          // Note [Engine]
  LapackThreads,   // how many threads NumPy's LAPACK takes
  Count
};

namespace locks {

struct Later;  // what waits for the thread's last mutex
struct Held {
  uint32_t ranks = 0;   // bit r: a mutex of rank r
  uint32_t gates = 0;   // how often it has entered one
  Later* later = nullptr;
};
extern FL_HOT_THREAD_LOCAL constinit Held held;

inline bool any_held() { return (held.ranks | held.gates) != 0; }
// Calls drop(what), now or once this thread holds no mutex.
void when_unlocked(void* what, void (*drop)(void*));
void do_later();
[[noreturn]] void wrong_order(LockRank wanted);
// How many forks lie between the first process and this one.
uint32_t fork_generation();

}  // namespace locks

class ForkMutex {
 public:
  explicit ForkMutex(LockRank rank);
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;

  void lock() {
#if FL_CHECK_LOCKS
    if (locks::held.ranks >= bit() || (locks::held.gates && rank_ <= LockRank::Recorder)) locks::wrong_order(rank_);
#endif
    mutex_.lock();
    locks::held.ranks |= bit();
  }
  void unlock() {
    mutex_.unlock();
    locks::held.ranks &= ~bit();
    if (locks::held.later) [[unlikely]] locks::do_later();
  }

 private:
  friend class ForkCondition;
  friend class TryLock;
  friend struct ForkHandlers;
  uint32_t bit() const { return uint32_t{1} << static_cast<int>(rank_); }

  std::mutex mutex_;
  const LockRank rank_;
  ForkMutex* next_ = nullptr;  // of the same rank
  ForkMutex* previous_ = nullptr;
};

// A mutex that the thread does not wait for, since it may hold one of the same rank, or a later one: two threads that want each other's go on.
class TryLock {
 public:
  explicit TryLock(ForkMutex& mutex) : mutex_(mutex), held_before_(locks::held.ranks), owns_(mutex.mutex_.try_lock()) {
    if (owns_) locks::held.ranks |= mutex.bit();
  }
  ~TryLock() {
    if (!owns_) return;
    mutex_.mutex_.unlock();
    locks::held.ranks = held_before_;
    if (locks::held.later) locks::do_later();
  }
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;
  bool owns() const { return owns_; }

 private:
  ForkMutex& mutex_;
  const uint32_t held_before_;
  const bool owns_;
};

// Waiting for what a ForkMutex guards. In a child nobody waits: it starts anew.
class ForkCondition {
 public:
  ForkCondition();
  ~ForkCondition();
  ForkCondition(const ForkCondition&) = delete;
  ForkCondition& operator=(const ForkCondition&) = delete;

  template <class Predicate>
  void wait(std::unique_lock<ForkMutex>& lock, Predicate until) {
    std::unique_lock<std::mutex> bare(lock.mutex()->mutex_, std::adopt_lock);
    condition_.wait(bare, until);
    bare.release();
  }
  // The same for a limited time; whether `until` holds.
  template <class Predicate>
  bool wait_for(std::unique_lock<ForkMutex>& lock, std::chrono::nanoseconds time, Predicate until) {
    std::unique_lock<std::mutex> bare(lock.mutex()->mutex_, std::adopt_lock);
    const bool held = condition_.wait_for(bare, time, until);
    bare.release();
    return held;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  friend struct ForkHandlers;
  std::condition_variable condition_;
  ForkCondition* next_ = nullptr;
  ForkCondition* previous_ = nullptr;
};

// The mutex of one call, for the threads that share its work. It lies on the stack of who waits for them.
class CallMutex {
 public:
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  static void* operator new(size_t) = delete;

 private:
  std::mutex mutex_;
};

// Mutexes for objects that are made too often to enter one each in a list: an object's is the one that its address
// picks. A thread holds one of a rank only, so that two objects may share one.
template <LockRank rank, size_t count>
class StripedMutex {
 public:
  ForkMutex& of(const void* object) {
    const auto mixed = (reinterpret_cast<uintptr_t>(object) >> 5) * 0x9e3779b97f4a7c15ull;
    return stripes_[(mixed >> 32) % count];
  }

 private:
  struct alignas(64) Stripe : ForkMutex {
    Stripe() : ForkMutex(rank) {}
  };
  Stripe stripes_[count];
};

// A room that any number of threads may be in at once, and that is empty whenever the process forks: for libraries that have
// locks of their own. A thread enters with nothing locked below LockRank::Recorder, and may enter again.
class ForkGate {
 public:
  ForkGate();
  ~ForkGate();
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;

  // `awaited`: somebody who is inside may wait for this thread, which then must not wait for a fork.
  void enter(bool awaited) {
    inside_.fetch_add(1);
    if (closed_.load() && !awaited && !locks::held.gates) [[unlikely]] enter_later();
    ++locks::held.gates;
  }
  void leave() {
    go();
    --locks::held.gates;
    if (locks::held.later) [[unlikely]] locks::do_later();
  }
  // When the process exits, and what the room guards is about to be destroyed: who comes waits for ever, but for the calling thread, which waits
  // until the others have left, two seconds at most.
  void close_for_exit();

 private:
  friend struct ForkHandlers;
  void enter_later();
  void go() {
    if (inside_.fetch_sub(1) == 1 && closed_.load()) [[unlikely]] inside_.notify_all();
  }
  void close();  // waits until nobody is inside
  std::atomic<int> inside_{0};
  std::atomic<bool> closed_{false};
  std::atomic<const void*> last_{nullptr};  // the thread that may come in though it was closed for exit: its `held`
  ForkGate* next_ = nullptr;
  ForkGate* previous_ = nullptr;
};

}  // namespace fl
