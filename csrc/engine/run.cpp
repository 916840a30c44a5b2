// Threads: who runs ops, who waits for them, and how all of it ends.
#include <cxxabi.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "base/parallel.h"
#include "engine/scheduler.h"

namespace fl::engine {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);  // how long a signal may go unnoticed by who waits
constexpr int kMaxReported = 64;

FL_HOT_THREAD_LOCAL constinit Op* running = nullptr;

void refuse_in_op(const char* what) {
  if (in_op())
    raise<EngineError>(what, ": inside of op '", running->name, "' (#", running->id,
                       ") of the engine, which would keep a thread from running what is waited for; list what the op needs in its reads");
}

// An exception by which a thread is ended can not be kept.
template <class F>
ErrorRef error_from(const Op& op, const F& f) {
  try {
    f();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return failure_of(op, std::current_exception());
  }
  return nullptr;
}

// A thread, when it has begun: who starts it from Python keeps the GIL until then, so that nobody forks meanwhile.
template <class F>
std::thread begun_thread(F f) {
  struct Begun {
    std::atomic<bool> now{false};
  };
  const auto begun = std::make_shared<Begun>();
  std::thread thread([f, begun] {
    if (hooks.begin_thread) hooks.begin_thread();
    begun->now = true;
    begun->now.notify_one();
    f();
    if (hooks.end_thread) hooks.end_thread();
  });
  begun->now.wait(false);
  return thread;
}

}  // namespace

Scheduler& scheduler = *new Scheduler;

Scheduler::Scheduler() {
  for (auto& lane : lanes_) lane.emplace();
  generation_ = locks::fork_generation();
  workers_ = std::clamp(num_threads(), 2, 16);
}

Running::Running(Op* op) : before_(std::exchange(running, op)) {}
Running::~Running() { running = before_; }
bool in_op() { return running && running->generation == locks::fork_generation(); }

// ---- threads

void Scheduler::make_ready(Op* op) {
  Lane& lane = *lanes_[op->openmp ? kOpenMP : kCores];
  lane.ready.add(op);
  if (mode() == Mode::Naive) wake_waiters_ = true;
  else if (lane.idle > lane.woken && lane.ready.size() > lane.woken + (finishing_ == &lane ? 1 : 0)) ++lane.woken, ++lane.to_wake;
}

Op* Scheduler::take_any() {
  for (auto& lane : lanes_)
    if (Op* op = lane->ready.take()) return op;
  return nullptr;
}

void Scheduler::start_threads(int lane, size_t count) {
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto& threads = lanes_[lane]->threads;
  try {
    while (threads.size() < count) threads.push_back(begun_thread([this, lane, batch = lanes_[lane]->batch] { work(lane, batch); }));
  } catch (const std::exception&) {  // fewer will do
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (threads.empty()) raise<EngineError>("push: the system lets no thread be started");
}

void Scheduler::work(int number, uint64_t batch) {
  std::optional<OneCore> one;
  if (number == kCores) one.emplace();
  Lane& lane = *lanes_[number];
  Lock lock(*this);
  const uint32_t generation = generation_;
  while (generation_ == generation) {
    if (Op* op = lane.ready.take()) {
      run(op, lock);
      continue;
    }
    if (lane.batch != batch) return;
    if (lock.flush()) continue;
    ++lane.idle;
    wake_[number].wait(lock.native(), [woken = false]() mutable { return std::exchange(woken, true); });
    --lane.idle;
    if (lane.woken) --lane.woken;
  }
}

// With the mutex held before and after.
void Scheduler::run(Op* op, Lock& lock) {
  Ref<Op> keep = Ref<Op>::share(op);
  op->state = State::Running;
  op->started = std::chrono::steady_clock::now();
  ++stats_.running;
  ErrorRef error = op->members ? nullptr : inherited(*op);
  if (error) op->parts = 1;
  lock.unlock();
  {
    const Running now(op);
    if (op->members) {
      run_members(op);
    } else if (!error) {
      const Ref<Completion> completion = op->asynchronous ? make_ref<Completion>(keep) : nullptr;
      error = error_from(*op, [&] { op->work->run(completion); });
      if (error && completion) completion->cancel();
    }
    op->work.reset();
  }
  lock.lock();
  lock.later(keep.detach());
  finishing_ = &*lanes_[op->openmp ? kOpenMP : kCores];
  end_part(op, std::move(error), lock);
  finishing_ = nullptr;
}

void Scheduler::run_members(Op* op) {
  for (Op* member = op->members; member; member = member->next) {
    member->generation = op->generation;
    ErrorRef error;
    {
      const Lock lock(*this);
      if (op->generation != generation_) return;
      error = inherited(*member);
    }
    if (!error) {
      const Running now(member);
      error = error_from(*member, [&] { member->work->run(nullptr); });
    }
    member->work.reset();
    Lock lock(*this);
    if (op->generation != generation_) return;
    settle(*member, std::move(error), lock);
  }
}

// ---- waiting

template <class Done>
void Scheduler::wait_until(Lock& lock, const Done& done) {
  const uint32_t generation = generation_;
  while (!done()) {
    const bool naive = mode() == Mode::Naive;
    if (Op* op = naive ? take_any() : nullptr) {
      run(op, lock);
      continue;
    }
    if (lock.flush()) continue;
    const auto ready = [&] { return done() || (naive && (!lanes_[kCores]->ready.empty() || !lanes_[kOpenMP]->ready.empty())); };
    if (changed_.wait_for(lock.native(), kPoll, ready) || !hooks.poll) continue;
    lock.unlock();
    hooks.poll();
    lock.lock();
    if (generation_ != generation) raise<EngineError>("wait: this process was forked while it waited; what the parent's ops write is not here");
  }
}

// Whether nothing is left to wait for; always true where it may block.
bool Scheduler::wait_for_uses(Resource* resource, bool reads, bool may_block) {
  Lock lock(*this);
  enter_bulks();
  if (resource) touch(*resource);
  const size_t left = resource ? resource->writes_ + (reads ? resource->reads_ : 0) : stats_.pending;
  if (!left) return true;
  if (!may_block) return false;
  Waiter*& first = resource ? resource->waiters_ : waiters_;
  Waiter waiter{last_id_, left, reads, first};
  first = &waiter;
  struct Leaves {
    Lock& lock;
    Waiter *&first, *waiter;
    ~Leaves() {
      if (!lock.native().owns_lock()) lock.lock();  // the poll threw
      for (Waiter** w = &first; *w; w = &(*w)->next)
        if (*w == waiter) {
          *w = waiter->next;
          return;
        }
    }
  } const leaves{lock, first, &waiter};
  wait_until(lock, [&] { return waiter.left == 0; });
  return true;
}

void Scheduler::wait(Resource* resource, bool reads) {
  refuse_in_op("wait");
  if (wait_for_uses(resource, reads, false)) return;
  const Blocking blocking;
  wait_for_uses(resource, reads, true);
}

// After a wait for everything.
void Scheduler::wait_for_failures() {
  std::vector<ErrorRef> found;
  uint64_t more;
  {
    const Lock lock(*this);
    found.swap(unreported_);
    more = std::exchange(forgotten_, 0);
  }
  std::erase_if(found, [](const ErrorRef& e) { return e->reported->exchange(true); });
  if (!found.empty() || more) throw OpErrors(std::move(found), more);
}

// Of a push in naive mode: runs ops until this one is over, and then whatever it has pushed.
void Scheduler::drive(Ref<Op> op) {
  ErrorRef error;
  {
    const Blocking blocking;
    Lock lock(*this);
    wait_until(lock, [&] { return op->state == State::Done; });
    while (Op* next = take_any()) run(next, lock);
    error = op->error;
  }
  if (!error) return;
  error->reported->store(true);
  throw OpError(std::move(error));
}

// ---- changes that want nothing to be pending

// Calls `then` under the mutex when nothing is pending.
template <class Then>
void Scheduler::drain(const Then& then) {
  for (;;) {
    wait(nullptr, true);
    const Lock lock(*this);
    enter_bulks();
    if (stats_.pending) continue;
    then();
    return;
  }
}

void Scheduler::set_mode(Mode mode) {
  drain([&] { mode_ = mode; });
}

void Scheduler::set_workers(int workers) {
  if (workers < 1 || workers > 1024) raise<ArgumentError>("set_workers: workers = ", workers, "; expected 1 to 1024");
  join_workers();
  workers_ = workers;
}

void Scheduler::join_workers() {
  std::vector<std::thread> old;
  drain([&] {
    for (auto& lane : lanes_) {
      ++lane->batch;
      for (std::thread& t : lane->threads) old.push_back(std::move(t));
      lane->threads.clear();
      lane->woken = lane->to_wake = lane->idle;
    }
  });
  const Blocking blocking;
  for (std::thread& t : old) t.join();
}

void Scheduler::shut_down() {
  {
    const Lock lock(*this);
    if (closed_) return;
  }
  try {
    drain([&] { closed_ = true; });
  } catch (...) {
    {
      const Lock lock(*this);
      closed_ = true;
    }
    std::fprintf(stderr, "flambeau.engine: the program ends with work pending\n%s", report().c_str());
    throw;
  }
  set_watchdog(0);
  join_workers();
  print_unreported();
}

void Scheduler::print_unreported() {
  std::vector<ErrorRef> errors;
  {
    const Lock lock(*this);
    errors.swap(unreported_);
  }
  std::erase_if(errors, [](const ErrorRef& e) { return e->reported->exchange(true); });
  if (errors.empty()) return;
  std::fprintf(stderr, "flambeau.engine: nobody waited for what these ops should have written\n");
  for (const ErrorRef& e : errors) std::fprintf(stderr, "  %s\n", describe(*e).c_str());
}

// ---- looking

Stats Scheduler::stats() {
  const Lock lock(*this);
  Stats s = stats_;
  s.ready = lanes_[kCores]->ready.size() + lanes_[kOpenMP]->ready.size();
  return s;
}

// Each pending op and what it waits for, under the mutex. The lines of the pushes are looked up later: that may take the GIL.
std::string Scheduler::pending_text(std::vector<std::pair<uint64_t, SourceId>>& sources) {
  const auto now = std::chrono::steady_clock::now();
  std::string out;
  int listed = 0;
  for (Op* op = first_; op; op = op->later, ++listed) {
    if (listed == kMaxReported) {
      out += text("  and ", stats_.pending - kMaxReported, " more\n");
      break;
    }
    if (op->source) sources.push_back({op->id, op->source});
    out += text("  op '", op->name, "' (#", op->id, ") ");
    if (op->state == State::Running) {
      const double seconds = std::chrono::duration<double>(now - op->started).count();
      out += text(op->asynchronous ? "waits for its completion, started " : "runs, started ", seconds, " s ago\n");
    } else if (op->state == State::Ready) {
      out += "waits for a thread\n";
    } else {
      const char* before = "waits for ";
      for (Access& mine : op->accesses())
        for (Op* other = first_; other != op; other = other->later)
          for (Access& theirs : other->accesses()) {
            if (theirs.resource.get() != mine.resource.get() || !(theirs.writes() || mine.writes())) continue;
            const std::string& name = mine.resource->name();
            out += text(before, name.empty() ? "something" : "'" + name + "'", ", which op '", other->name, "' (#", other->id,
                        theirs.writes() ? ") writes" : ") reads");
            before = "; for ";
          }
      out += '\n';
    }
  }
  return out;
}

std::string Scheduler::report() {
  std::vector<std::pair<uint64_t, SourceId>> sources;
  std::string out;
  {
    const Lock lock(*this);
    out = pending_text(sources);
  }
  for (const auto& [id, source] : sources)
    if (const std::string where = hooks.describe_source ? hooks.describe_source(source) : ""; !where.empty())
      out += text("  #", id, " was pushed at ", where, "\n");
  return out;
}

void Scheduler::set_watchdog(double seconds) {
  if (!(seconds >= 0) || seconds > 1e6) raise<ArgumentError>("set_watchdog: seconds = ", seconds, "; expected 0 (never) to 1e6");
  std::optional<std::thread> old;
  {
    const Lock lock(*this);
    ++watchdog_batch_;
    old.swap(watchdog_);
    if (seconds > 0) watchdog_.emplace(begun_thread([this, batch = watchdog_batch_, seconds] { watch(batch, seconds); }));
  }
  watchdog_wakes_.notify_all();
  if (!old) return;
  const Blocking blocking;
  old->join();
}

void Scheduler::watch(uint64_t batch, double seconds) {
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  Lock lock(*this);
  uint64_t seen = stats_.completed;
  while (watchdog_batch_ == batch) {
    if (watchdog_wakes_.wait_for(lock.native(), time, [&] { return watchdog_batch_ != batch; })) return;
    if (stats_.pending && stats_.completed == seen) {
      std::vector<std::pair<uint64_t, SourceId>> sources;
      const std::string now = pending_text(sources);
      const size_t pending = stats_.pending;
      lock.unlock();
      // At once, since looking up lines may wait for the GIL, which whoever hangs may have.
      std::fprintf(stderr, "flambeau.engine: no op has ended for %g s, %zu pending\n%s", seconds, pending, now.c_str());
      for (const auto& [id, source] : sources)
        if (hooks.describe_source)
          std::fprintf(stderr, "  #%llu was pushed at %s\n", static_cast<unsigned long long>(id), hooks.describe_source(source).c_str());
      lock.lock();
    }
    seen = stats_.completed;
  }
}

}  // namespace fl::engine
