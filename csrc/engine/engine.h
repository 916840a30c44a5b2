// The dependency engine: ops that say what they read and write, run in an order that respects it.
//
//     push(f, {read(x), write(y)})        f runs when every earlier write of x and every earlier use of y is over
//
// It knows nothing of tensors: a Resource may stand for memory, a generator, scratch space, a file.
//
// Note [Engine]
// * Two ops conflict iff they share a resource and at least one of them writes it. Conflicting ops run in the order of
//   their pushes and never overlap; others in any order. Priorities choose among ops that could run now, no more.
// * One mutex guards all queues, and a push enters those of all its resources under it. So pushes have a total order,
//   and two threads that copy x to y and y to x can not wait for each other.
// * Nothing of the user's is run, made or dropped under that mutex: it may be Python's.
// * A wait takes no place in a queue: it counts the earlier uses that are left. An op may not wait.
// * A pending op owns what it uses. Who drops a Resource needs to know nothing of the ops.
// * An error stays with what the op should have written, is inherited by ops that read that, which are skipped, and goes
//   when an op that does not read the resource has written all of it.
// * In a forked child no op is pending. What the ops of the parent would have written has an error there.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/refcount.h"
#include "engine/var.h"

namespace fl::engine {

struct Op;
struct Access;
struct Waiter;

// What went wrong, for good.
struct ErrorRecord {
  struct Step {  // an op that was skipped, since it read what was not there
    std::string op, through;  // `through`: the name of what it read
    uint64_t id;
    SourceId source;
  };
  std::string op;
  uint64_t id = 0;
  SourceId source = 0;
  std::string what;
  std::exception_ptr cause;  // null where the engine itself has refused to run the op
  std::vector<Step> chain;   // the first kMaxChain ones, from the failure on
  uint64_t more = 0;         // how many steps were left out
  std::shared_ptr<std::atomic<bool>> reported = std::make_shared<std::atomic<bool>>(false);  // of the failure, whoever inherits it
  static constexpr size_t kMaxChain = 16;
};
using ErrorRef = std::shared_ptr<const ErrorRecord>;
// One line for the failure, and one for each step.
std::string describe(const ErrorRecord& error);

struct EngineError : Error {
  using Error::Error;
};
struct OpError : EngineError {
  explicit OpError(ErrorRef r) : EngineError(describe(*r)), record(std::move(r)) {}
  ErrorRef record;
};
struct OpErrors : EngineError {
  OpErrors(std::vector<ErrorRef> all, uint64_t more);  // `more`: failures of which no record was kept
  std::vector<ErrorRef> records;
};

// What ops read and write.
class Resource final : public RefCounted {
 public:
  explicit Resource(std::string name = {}) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  // How many writes are over.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  ErrorRef error();

 private:
  friend class Scheduler;
  const std::string name_;
  std::atomic<uint64_t> version_{0};
  // Guarded by the engine's mutex.
  Access *first_ = nullptr, *last_ = nullptr;  // uses that may not run yet, in the order of their pushes
  Waiter* waiters_ = nullptr;
  uint32_t readers_ = 0;  // of the uses that may run: readers, or one writer
  bool writing_ = false;
  size_t reads_ = 0, writes_ = 0;  // all uses that are not over
  uint32_t generation_ = 0;        // of the process that entered them
  ErrorRef error_;
};

enum How : uint8_t {
  kRead = 1,
  kWrite = 2,         // of the whole: an error of before is gone afterwards, unless the op reads it as well
  kPartialWrite = 4,  // what was there before is still needed
};
struct Use {
  Resource* resource;
  uint8_t how;
};
inline Use read(const Ref<Resource>& r) { return {r.get(), kRead}; }
inline Use write(const Ref<Resource>& r) { return {r.get(), kWrite}; }
inline Use partial_write(const Ref<Resource>& r) { return {r.get(), kPartialWrite}; }

struct Options {
  int priority = 0;   // higher ones first
  bool openmp = false;  // runs loops on all cores; one such op at a time. Others run theirs on the thread they are given
  std::string name = "op";
};

// Tells the engine that what an asynchronous op has started is over, from any thread. One that is dropped has failed. The op
// is over when its function has returned as well.
class Completion final : public RefCounted {
 public:
  explicit Completion(Ref<Op> op);
  ~Completion() override;
  // Either of them, once: the second call throws EngineError.
  void done() { finish(nullptr); }
  void fail(std::exception_ptr error) { finish(std::move(error)); }

 private:
  friend class Scheduler;
  void cancel();  // the function has failed: nobody needs to call
  void finish(std::exception_ptr error);
  Ref<Op> op_;
  std::atomic<bool> called_{false};
};

class Work {
 public:
  virtual ~Work() = default;
  // `completion`: of an asynchronous op; null else.
  virtual void run(const Ref<Completion>& completion) = 0;
};
void push_work(std::unique_ptr<Work> work, bool asynchronous, std::span<const Use> uses, Options options);

namespace detail {
template <class F, bool asynchronous>
struct WorkOf final : Work {
  explicit WorkOf(F f) : function(std::move(f)) {}
  void run(const Ref<Completion>& completion) override {
    if constexpr (asynchronous) function(completion);
    else function();
  }
  F function;
};
}  // namespace detail

template <class F>
void push(F f, std::initializer_list<Use> uses, Options options = {}) {
  push_work(std::make_unique<detail::WorkOf<F, false>>(std::move(f)), false, {uses.begin(), uses.size()}, std::move(options));
}
// f(const Ref<Completion>&): what it uses is free when f has returned and the completion was called.
template <class F>
void push_async(F f, std::initializer_list<Use> uses, Options options = {}) {
  push_work(std::make_unique<detail::WorkOf<F, true>>(std::move(f)), true, {uses.begin(), uses.size()}, std::move(options));
}

// Until the writes that were pushed before are over; with `reads` the reads, too. Throws OpError where there is an error.
void wait_for(Resource& resource, bool reads = false);
// Until all that was pushed before is over. Throws OpErrors for the failures that nobody has been told of.
void wait_all();

enum class Mode : uint8_t {
  Threaded,
  Naive,  // a push runs the op, and throws its error
  Null,   // a push runs nothing, and counts
};
// Both wait for everything that is pending.
void set_mode(Mode mode);
void set_workers(int workers);  // 1 or more
Mode mode();
int workers();
bool in_op();  // whether the calling thread runs one

// While it is open on a thread, up to `limit` ordinary ops of that thread become one op. They keep their own errors.
// Any wait, of any thread, and any other push of the thread hand over what has been collected.
class Bulk {
 public:
  explicit Bulk(int limit);
  ~Bulk();
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;
  bool on_own_thread() const;

 private:
  friend class Scheduler;
  const size_t limit_;
  size_t count_ = 0;
  Op *first_ = nullptr, *last_ = nullptr;
  Bulk* const outer_;  // of this thread
  Bulk *next_ = nullptr, *previous_ = nullptr;  // of all threads
  uint32_t generation_;
};

struct Stats {
  uint64_t pushed, completed, failed, skipped, bulks;
  size_t pending, ready, running;
};
Stats stats();

// Prints what is pending, and what that waits for, when no op has ended for so long. 0: never.
void set_watchdog(double seconds);
std::string pending_report();

// Ends the threads when nothing is pending any more; the next push starts them again.
void join_workers();
// The same for good: later pushes throw. Prints failures that nobody was told of.
void shut_down();

// ---- set by the bindings
struct Hooks {
  void (*poll)() = nullptr;              // called now and then by who waits; may throw
  void* (*begin_blocking)() = nullptr;   // around what may take long; the result goes to end_blocking
  void (*end_blocking)(void*) = nullptr;
  void (*begin_thread)() = nullptr;  // on a thread of the engine's, while who starts it waits
  void (*end_thread)() = nullptr;
  std::string (*describe_source)(SourceId) = nullptr;
};
extern Hooks hooks;

}  // namespace fl::engine
