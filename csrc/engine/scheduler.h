// The engine's state: one per process, never destroyed, so that threads may outlive the end of main().
#pragma once

#include <optional>
#include <thread>

#include "base/fork_mutex.h"
#include "engine/op.h"

namespace fl::engine {

class Scheduler {
 public:
  Scheduler();

  void push(Ref<Op> op);
  // One part of an op is over.
  void finish(Op* op, ErrorRef error);
  void wait(Resource* resource, bool reads);
  void wait_for_failures();
  ErrorRef error_of(Resource& resource);

  void set_mode(Mode mode);
  void set_workers(int workers);
  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  int workers() const { return workers_.load(std::memory_order_relaxed); }
  void open(Bulk& bulk);
  void close(Bulk& bulk);
  Stats stats();
  std::string report();
  void set_watchdog(double seconds);
  void join_workers();
  void shut_down();

 private:
  // The mutex, and what is done once it is free again: waking threads, and dropping what is the user's.
  class Lock {
   public:
    explicit Lock(Scheduler& s) : s_(s), lock_(s.mutex_, std::defer_lock) { lock(); }
    ~Lock() {
      if (lock_.owns_lock()) unlock();
    }
    void lock();
    void unlock();
    std::unique_lock<ForkMutex>& native() { return lock_; }
    // Does what was put off. Whether there was something: then things may have changed.
    bool flush();
    void later(Op* op) { ops_.push_back(Ref<Op>::adopt(op)); }
    void later(ErrorRef& error) {
      if (error) errors_.push_back(std::move(error));
    }

   private:
    Scheduler& s_;
    std::unique_lock<ForkMutex> lock_;
    std::vector<Ref<Op>> ops_;
    std::vector<ErrorRef> errors_;
  };
  struct Lane {
    Lane() {}  // not left to the compiler: clang could not make one before Scheduler is complete
    Ready ready;
    std::vector<std::thread> threads;
    size_t idle = 0, woken = 0;  // threads that sleep, and how many of them were told to wake
    size_t to_wake = 0;          // once the mutex is free
    uint64_t batch = 0;          // of threads: those of an earlier one end
  };
  enum { kCores, kOpenMP, kLanes };

  void start_anew();  // in a forked child
  void touch(Resource& r);
  void enter(Op* op);
  void enter_bulk(Bulk& bulk);
  void enter_bulks();
  void grant(Access& access);
  void leave(Access& access);
  void make_ready(Op* op);
  ErrorRef inherited(Op& op);
  void settle(Op& op, ErrorRef error, Lock& lock);
  void end_part(Op* op, ErrorRef error, Lock& lock);
  void end(Op* op, Lock& lock);
  void count_down(Waiter* first, uint64_t id, bool write);

  void start_threads(int lane, size_t count);
  void work(int lane, uint64_t batch);
  Op* take_any();
  void run(Op* op, Lock& lock);
  void run_members(Op* op);
  template <class Done>
  void wait_until(Lock& lock, const Done& done);
  void drive(Ref<Op> op);
  template <class Then>
  void drain(const Then& then);
  bool wait_for_uses(Resource* resource, bool reads, bool may_block);
  void watch(uint64_t batch, double seconds);
  std::string pending_text(std::vector<std::pair<uint64_t, SourceId>>& sources);
  void print_unreported();

  ForkMutex mutex_{LockRank::Engine};
  ForkCondition changed_;  // a waiter's count is 0, or something may run in naive mode
  ForkCondition wake_[kLanes], watchdog_wakes_;
  // All that follows is guarded by mutex_, but for what is atomic.
  std::atomic<Mode> mode_{Mode::Threaded};
  std::atomic<int> workers_{0};
  std::optional<Lane> lanes_[kLanes];
  Op *first_ = nullptr, *last_ = nullptr;  // what is pending; one reference each
  uint64_t last_id_ = 0;
  Waiter* waiters_ = nullptr;
  Bulk* bulks_ = nullptr;
  std::vector<ErrorRef> unreported_;
  uint64_t forgotten_ = 0;  // failures beyond kMaxUnreported
  static constexpr size_t kMaxUnreported = 1024;
  Stats stats_{};
  bool wake_waiters_ = false, closed_ = false;
  Lane* finishing_ = nullptr;  // a thread of this lane will look for another op at once
  uint32_t generation_ = 0;
  double watchdog_seconds_ = 0;
  uint64_t watchdog_batch_ = 0;
  std::optional<std::thread> watchdog_;
};
extern Scheduler& scheduler;

// Lets others go on while this thread may wait for long. Not under the mutex.
class Blocking {
 public:
  Blocking() : state_(hooks.begin_blocking ? hooks.begin_blocking() : nullptr) {}
  ~Blocking() noexcept(false) {
    if (hooks.end_blocking) hooks.end_blocking(state_);
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

 private:
  void* state_;
};

// The op that this thread runs.
class Running {
 public:
  explicit Running(Op* op);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Op* before_;
};

// What a failed op leaves behind, with the exception that is being handled as its cause.
ErrorRef failure_of(const Op& op, std::exception_ptr cause);
ErrorRef refusal_of(const Op& op, std::string what);
// A further op was skipped.
ErrorRef inherit(const ErrorRecord& error, const Op& op, const std::string& through);

}  // namespace fl::engine
