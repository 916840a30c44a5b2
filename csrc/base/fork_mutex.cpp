#include "base/fork_mutex.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <type_traits>

namespace fl {
namespace {

constexpr int kRanks = static_cast<int>(LockRank::Count);

// What the handlers of fork() go through. There before any constructor runs and after every destructor has run.
struct Entered {
  std::mutex mutex;  // guards what follows; held from before a fork to after it
  bool handled = false;
  ForkMutex* mutexes[kRanks] = {};
  ForkCondition* conditions = nullptr;
  ForkGate* gates = nullptr;
};
constinit Entered all;

std::atomic<uint32_t> generation{0};

template <class T>
void link(T*& first, T* item, T*(T::*next), T*(T::*previous)) {
  item->*next = first;
  if (first) first->*previous = item;
  first = item;
}
template <class T>
void unlink(T*& first, T* item, T*(T::*next), T*(T::*previous)) {
  (item->*previous ? item->*previous->*next : first) = item->*next;
  if (item->*next) item->*next->*previous = item->*previous;
}

}  // namespace

struct ForkHandlers {
  static void add(ForkMutex* m) { link(all.mutexes[static_cast<int>(m->rank_)], m, &ForkMutex::next_, &ForkMutex::previous_); }
  static void remove(ForkMutex* m) { unlink(all.mutexes[static_cast<int>(m->rank_)], m, &ForkMutex::next_, &ForkMutex::previous_); }
  static void add(ForkCondition* c) { link(all.conditions, c, &ForkCondition::next_, &ForkCondition::previous_); }
  static void remove(ForkCondition* c) { unlink(all.conditions, c, &ForkCondition::next_, &ForkCondition::previous_); }
  static void add(ForkGate* g) { link(all.gates, g, &ForkGate::next_, &ForkGate::previous_); }
  static void remove(ForkGate* g) { unlink(all.gates, g, &ForkGate::next_, &ForkGate::previous_); }

  // What holds one of the first two ranks enters a gate, and what is inside of one takes the mutexes below.
  static void before() {
    all.mutex.lock();
    constexpr int kOutside = static_cast<int>(LockRank::Recorder) + 1;
    for (int r = 0; r < kOutside; ++r) take(static_cast<LockRank>(r));
    for (ForkGate* g = all.gates; g; g = g->next_) g->close();
    for (int r = kOutside; r < kRanks; ++r) take(static_cast<LockRank>(r));
  }
  static void in_parent() {
    release();
    for (ForkGate* g = all.gates; g; g = g->next_) open(*g);
    all.mutex.unlock();
  }
  static void in_child() {
    generation.fetch_add(1);
    release();
    for (ForkCondition* c = all.conditions; c; c = c->next_) new (&c->condition_) std::condition_variable;
    for (ForkGate* g = all.gates; g; g = g->next_) {
      // Who else was inside (somebody awaited may have come in while the gate closed) is not in this process.
      g->inside_.store(static_cast<int>(locks::held.gates));
      open(*g);
    }
    all.mutex.unlock();
  }

 private:
  static void take(LockRank rank) {
    for (ForkMutex* m = all.mutexes[static_cast<int>(rank)]; m; m = m->next_) m->mutex_.lock();
  }
  static void release() {
    for (int r = kRanks; r-- > 0;)
      for (ForkMutex* m = all.mutexes[r]; m; m = m->next_) m->mutex_.unlock();
  }
  static void open(ForkGate& g) {
    g.closed_.store(false);
    g.closed_.notify_all();
  }
};

namespace {

template <class T>
void enlist(T& item) {
  const std::lock_guard lock(all.mutex);
  if (!all.handled) all.handled = pthread_atfork(ForkHandlers::before, ForkHandlers::in_parent, ForkHandlers::in_child) == 0;
  ForkHandlers::add(&item);
}
template <class T>
void forget(T& item) {
  const std::lock_guard lock(all.mutex);
  ForkHandlers::remove(&item);
}

}  // namespace

ForkMutex::ForkMutex(LockRank rank) : rank_(rank) { enlist(*this); }
ForkMutex::~ForkMutex() { forget(*this); }
ForkCondition::ForkCondition() { enlist(*this); }
ForkCondition::~ForkCondition() { forget(*this); }
ForkGate::ForkGate() { enlist(*this); }
ForkGate::~ForkGate() { forget(*this); }

void ForkGate::enter_later() {
  if (last_.load() == &locks::held) return;
  do {
    go();
    closed_.wait(true);
    inside_.fetch_add(1);
  } while (closed_.load());
}

void ForkGate::close() {
  closed_.store(true);
  while (const int n = inside_.load()) inside_.wait(n);
}

void ForkGate::close_for_exit() {
  last_.store(&locks::held);
  closed_.store(true);
  for (int ms = 0; ms < 2000 && inside_.load() != 0; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

namespace locks {

FL_HOT_THREAD_LOCAL constinit Held held;

struct Later {
  FL_SMALL_OBJECT
  void* what;
  void (*drop)(void*);
  Later* next;
};

void when_unlocked(void* what, void (*drop)(void*)) {
  if (!any_held()) return drop(what);
  try {
    held.later = new Later{what, drop, held.later};
  } catch (const std::bad_alloc&) {  // without memory to note it, it stays for ever
  }
}

void do_later() {
  while (Later* first = any_held() ? nullptr : held.later) {  // what is dropped may drop more
    held.later = first->next;
    first->drop(first->what);
    delete first;
  }
}

void wrong_order(LockRank wanted) {
  std::fprintf(stderr, "flambeau: a mutex of rank %d is taken while those of ranks 0x%x are held; see Note [Locks] in csrc/base/fork_mutex.h\n",
               static_cast<int>(wanted), held.ranks);
  std::abort();
}

uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace locks
}  // namespace fl
