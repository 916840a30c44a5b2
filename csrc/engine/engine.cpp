// Queues: what waits for what, and what becomes of errors. Threads are in run.cpp.
#include "engine/engine.h"

#include "engine/scheduler.h"

namespace fl::engine {

Hooks hooks;

namespace {

FL_HOT_THREAD_LOCAL constinit Bulk* current_bulk = nullptr;

}  // namespace

// ---- the mutex

void Scheduler::Lock::lock() {
  lock_.lock();
  if (s_.generation_ != locks::fork_generation()) [[unlikely]] s_.start_anew();
}

void Scheduler::Lock::unlock() {
  size_t wakes[kLanes] = {};
  for (int i = 0; i < kLanes; ++i)
    if (s_.lanes_[i]->to_wake) wakes[i] = std::exchange(s_.lanes_[i]->to_wake, 0);
  const bool waiters = std::exchange(s_.wake_waiters_, false);
  lock_.unlock();
  for (int i = 0; i < kLanes; ++i)
    for (size_t n = wakes[i]; n > 0; --n) s_.wake_[i].notify_one();
  if (waiters) s_.changed_.notify_all();
  ops_.clear();
  errors_.clear();
}

bool Scheduler::Lock::flush() {
  bool any = s_.wake_waiters_ || !ops_.empty() || !errors_.empty();
  for (const auto& lane : s_.lanes_) any = any || lane->to_wake;
  if (!any) return false;
  unlock();
  lock();
  return true;
}

// The parent's threads are not here, and what they held is left where it lies: nobody may run or drop it.
void Scheduler::start_anew() {
  for (Bulk* bulk = bulks_; bulk; bulk = bulk->next_)  // what was collected, but not entered yet
    for (Op* op = bulk->first_; op; op = op->next)
      for (Access& access : op->accesses())
        if (access.writes()) {
          touch(*access.resource);
          ++access.resource->writes_;
        }
  generation_ = locks::fork_generation();
  for (auto& lane : lanes_) new (&lane) std::optional<Lane>(std::in_place);
  new (&watchdog_) std::optional<std::thread>();
  new (&unreported_) std::vector<ErrorRef>();
  first_ = last_ = nullptr;
  waiters_ = nullptr;
  bulks_ = nullptr;
  forgotten_ = 0;
  stats_ = {};
  wake_waiters_ = false;
  finishing_ = nullptr;
}

// Before anything of a resource is looked at. In a child, what was to be written will not be.
void Scheduler::touch(Resource& r) {
  if (r.generation_ == generation_) [[likely]] return;
  if (r.writes_ > 0) {
    auto lost = std::make_shared<ErrorRecord>();
    lost->op = "fork";
    lost->what = text(r.writes_, r.writes_ == 1 ? " write" : " writes", " of '", r.name_, "' had not ended when this process was forked");
    r.error_ = std::move(lost);
  }
  r.generation_ = generation_;
  r.first_ = r.last_ = nullptr;
  r.waiters_ = nullptr;
  r.readers_ = 0;
  r.writing_ = false;
  r.reads_ = r.writes_ = 0;
}

// ---- queues

void Scheduler::grant(Access& access) {
  Resource& r = *access.resource;
  if (access.writes()) r.writing_ = true;
  else ++r.readers_;
  if (--access.op->waits == 0) make_ready(access.op);
}

void Scheduler::enter(Op* op) {
  op->id = ++last_id_;
  op->generation = generation_;
  op->earlier = last_;
  (last_ ? last_->later : first_) = op;
  last_ = op;
  ++stats_.pending;
  op->waits = 1 + static_cast<uint32_t>(op->accesses().size());
  for (Access& access : op->accesses()) {
    Resource& r = *access.resource;
    touch(r);
    ++(access.writes() ? r.writes_ : r.reads_);
    if (!r.first_ && !r.writing_ && (!access.writes() || r.readers_ == 0)) {
      grant(access);
    } else {
      (r.last_ ? r.last_->next : r.first_) = &access;
      r.last_ = &access;
    }
  }
  if (--op->waits == 0) make_ready(op);
}

void Scheduler::count_down(Waiter* waiter, uint64_t id, bool write) {
  for (; waiter; waiter = waiter->next)
    if (id <= waiter->ticket && (write || waiter->reads) && --waiter->left == 0) wake_waiters_ = true;
}

void Scheduler::leave(Access& access) {
  Resource& r = *access.resource;
  if (access.writes()) {
    r.writing_ = false;
    --r.writes_;
  } else {
    --r.readers_;
    --r.reads_;
  }
  count_down(r.waiters_, access.op->id, access.writes());
  while (Access* next = r.first_) {
    if (r.writing_ || (next->writes() && r.readers_ > 0)) break;
    r.first_ = next->next;
    if (!r.first_) r.last_ = nullptr;
    grant(*next);
  }
}

// The error that keeps an op from being run: of something that it reads.
ErrorRef Scheduler::inherited(Op& op) {
  for (Access& access : op.accesses())
    if (access.reads() && access.resource->error_) return inherit(*access.resource->error_, op, access.resource->name_);
  return nullptr;
}

// What an op has left behind in its resources.
void Scheduler::settle(Op& op, ErrorRef error, Lock& lock) {
  for (Access& access : op.accesses()) {
    if (!access.writes()) continue;
    Resource& r = *access.resource;
    r.version_.fetch_add(1, std::memory_order_acq_rel);
    if (error ? !r.error_ || access.how & kWrite : access.clears()) {
      lock.later(r.error_);
      r.error_ = error;
    }
  }
  ++stats_.completed;
  if (error) {
    ++(error->chain.empty() ? stats_.failed : stats_.skipped);
    if (error->chain.empty()) {
      if (unreported_.size() < kMaxUnreported) unreported_.push_back(error);
      else ++forgotten_;
    }
  }
  op.error = std::move(error);
}

void Scheduler::end(Op* op, Lock& lock) {
  op->state = State::Done;
  for (Access& access : op->accesses()) leave(access);
  (op->earlier ? op->earlier->later : first_) = op->later;
  (op->later ? op->later->earlier : last_) = op->earlier;
  --stats_.pending;
  count_down(waiters_, op->id, true);
  if (mode() == Mode::Naive) wake_waiters_ = true;
  lock.later(op);
}

void Scheduler::end_part(Op* op, ErrorRef error, Lock& lock) {
  if (op->generation != generation_) return;  // the op of a parent, which ends there
  if (error && !op->error) op->error = std::move(error);
  if (--op->parts > 0) return;
  --stats_.running;
  if (!op->members) settle(*op, std::move(op->error), lock);
  end(op, lock);
}

void Scheduler::finish(Op* op, ErrorRef error) {
  Lock lock(*this);
  end_part(op, std::move(error), lock);
}

ErrorRef Scheduler::error_of(Resource& resource) {
  const Lock lock(*this);
  touch(resource);
  return resource.error_;
}

// ---- pushing

void Scheduler::push(Ref<Op> op) {
  const Mode now = [&] {
    Lock lock(*this);
    if (closed_) raise<EngineError>("push: the engine is shut down; nothing can be pushed while the program ends");
    const Mode m = mode();
    ++stats_.pushed;
    if (m == Mode::Null) {
      ++last_id_, ++stats_.completed;
      for (Access& access : op->accesses())
        if (access.writes()) access.resource->version_.fetch_add(1, std::memory_order_acq_rel);
      return m;
    }
    if (m == Mode::Threaded) {  // before anything is entered, since it may fail
      Lane& lane = *lanes_[op->openmp ? kOpenMP : kCores];
      if (lane.threads.empty()) start_threads(op->openmp ? kOpenMP : kCores, op->openmp ? 1 : static_cast<size_t>(workers()));
    }
    Bulk* bulk = m == Mode::Threaded && !in_op() ? current_bulk : nullptr;
    if (bulk && bulk->generation_ != generation_) bulk = nullptr;  // of the parent of this process
    if (bulk && !op->asynchronous && !op->openmp && op->priority == 0) {
      Op* member = op.detach();
      member->id = ++last_id_;
      (bulk->last_ ? bulk->last_->next : bulk->first_) = member;
      bulk->last_ = member;
      if (++bulk->count_ >= bulk->limit_) enter_bulk(*bulk);
      return m;
    }
    if (bulk) enter_bulk(*bulk);
    Op* entered = m == Mode::Naive ? Ref<Op>(op).detach() : op.detach();
    enter(entered);
    return m;
  }();
  if (now == Mode::Naive && !in_op()) drive(std::move(op));
}

// The collected ops become one: it uses what any of them does, and they run one after another.
void Scheduler::enter_bulk(Bulk& bulk) {
  if (!bulk.first_) return;
  Op* op = bulk.first_;
  if (bulk.count_ > 1) {
    std::vector<Use> uses;
    for (Op* member = bulk.first_; member; member = member->next)
      for (Access& access : member->accesses()) uses.push_back({access.resource.get(), access.how});
    op = new Op;
    op->name = text("bulk of ", bulk.count_, " ops");
    op->source = bulk.first_->source;
    op->use(uses);
    op->members = bulk.first_;
    ++stats_.bulks;
  }
  bulk.first_ = bulk.last_ = nullptr;
  bulk.count_ = 0;
  enter(op);
}

void Scheduler::enter_bulks() {
  for (Bulk* bulk = bulks_; bulk; bulk = bulk->next_) enter_bulk(*bulk);
}

void Scheduler::open(Bulk& bulk) {
  const Lock lock(*this);
  if (bulk.outer_ && bulk.outer_->generation_ == generation_) enter_bulk(*bulk.outer_);  // comes before
  bulk.generation_ = generation_;
  bulk.next_ = bulks_;
  if (bulks_) bulks_->previous_ = &bulk;
  bulks_ = &bulk;
}

void Scheduler::close(Bulk& bulk) {
  const Lock lock(*this);
  if (bulk.generation_ != generation_) return;
  enter_bulk(bulk);
  (bulk.previous_ ? bulk.previous_->next_ : bulks_) = bulk.next_;
  if (bulk.next_) bulk.next_->previous_ = bulk.previous_;
}

Bulk::Bulk(int limit) : limit_(static_cast<size_t>(limit)), outer_(current_bulk) {
  if (limit < 1) raise<ArgumentError>("bulk: n = ", limit, "; expected at least 1");
  scheduler.open(*this);
  current_bulk = this;
}

Bulk::~Bulk() {
  current_bulk = outer_;
  scheduler.close(*this);
}

bool Bulk::on_own_thread() const { return current_bulk == this; }

// ---- the public side

ErrorRef Resource::error() { return scheduler.error_of(*this); }

Completion::Completion(Ref<Op> op) : op_(std::move(op)) {}

Completion::~Completion() {
  if (called_.load()) return;
  try {
    scheduler.finish(op_.get(), refusal_of(*op_, "its completion was dropped before it was called"));
  } catch (...) {  // no memory for the text: the op stays pending, and the watchdog names it
  }
}

void Completion::finish(std::exception_ptr error) {
  if (called_.exchange(true)) raise<EngineError>("on_complete: op '", op_->name, "' (#", op_->id, ") was completed before; expected one call");
  scheduler.finish(op_.get(), error ? failure_of(*op_, std::move(error)) : nullptr);
}

void Completion::cancel() {
  if (!called_.exchange(true)) scheduler.finish(op_.get(), nullptr);
}

void push_work(std::unique_ptr<Work> work, bool asynchronous, std::span<const Use> uses, Options options) {
  auto op = make_ref<Op>();
  op->use(uses);
  op->work = std::move(work);
  op->name = std::move(options.name);
  op->source = current_source ? current_source() : 0;
  op->priority = options.priority;
  op->asynchronous = asynchronous;
  op->parts = asynchronous ? 2 : 1;
  op->openmp = options.openmp;
  scheduler.push(std::move(op));
}

void wait_for(Resource& resource, bool reads) {
  scheduler.wait(&resource, reads);
  if (ErrorRef error = resource.error()) {
    error->reported->store(true);
    throw OpError(std::move(error));
  }
}
void wait_all() {
  scheduler.wait(nullptr, true);
  scheduler.wait_for_failures();
}
void set_mode(Mode mode) { scheduler.set_mode(mode); }
void set_workers(int workers) { scheduler.set_workers(workers); }
Mode mode() { return scheduler.mode(); }
int workers() { return scheduler.workers(); }
Stats stats() { return scheduler.stats(); }
void set_watchdog(double seconds) { scheduler.set_watchdog(seconds); }
std::string pending_report() { return scheduler.report(); }
void join_workers() { scheduler.join_workers(); }
void shut_down() { scheduler.shut_down(); }

}  // namespace fl::engine
