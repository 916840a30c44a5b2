#include "graph/recorder.h"

#include <algorithm>
#include <cstring>

#include "base/at_load.h"
#include "base/error.h"
#include "graph/recompute.h"

namespace fl::graph {
namespace {

ForkMutex all_mutex(LockRank::Pending);  // of the list
auto& all_recorders = *new std::vector<Recorder*>;

std::atomic<uint64_t> regions{0};
thread_local int depth = 0;
thread_local Recording* outer = nullptr;  // what the outermost region is in
thread_local Ref<Recorder> mine;  // kept, with the room that it has

struct {
  std::atomic<int64_t> recorded{0}, pruned{0}, joined{0}, passes{0}, settled{0};
} counts;

// What an op that failed leaves behind.
class Failure final : public Recording {
 public:
  explicit Failure(std::exception_ptr error) : error_(std::move(error)) {}
  void settle() override { std::rethrow_exception(error_); }

 private:
  std::exception_ptr error_;
};

// A file that is mapped is not copied.
constexpr size_t kMostCopied = size_t{256} << 20;

Ref<Storage> copied(const Storage& storage) {
  if (storage.size_bytes() > kMostCopied || storage.lies_deferred() || storage.is_pending()) return nullptr;
  const Pause pause;
  Ref<Storage> copy = Storage::allocate_now(storage.size_bytes(), Device{});
  if (storage.size_bytes()) std::memcpy(copy->data(), storage.bytes_now(), storage.size_bytes());
  return copy;
}

bool same_bytes(const Storage& copy, const Storage& now) {
  return copy.size_bytes() == now.size_bytes() && std::memcmp(copy.bytes_now(), now.bytes_now(), copy.size_bytes()) == 0;
}

void settle_readers(Storage& storage) {
  std::vector<Ref<Recorder>> readers;
  {
    const std::lock_guard lock(all_mutex);
    for (Recorder* r : all_recorders)
      if (r != recorder_here && r != settling_here() && r->try_retain()) readers.push_back(Ref<Recorder>::adopt(r));
  }
  for (auto& r : readers)
    if (r->reads(storage)) r->settle();
}
[[maybe_unused]] const bool hooked = (settle_readers_of = settle_readers, true);

}  // namespace

Recorder::Recorder() {
  hold_weakly();
  const std::lock_guard lock(all_mutex);
  all_recorders.push_back(this);
}

Recorder::~Recorder() {
  const std::lock_guard lock(all_mutex);
  std::erase(all_recorders, this);
}

// Marks the thread as the one that runs a recording.
class Settling {
 public:
  explicit Settling(Recorder& r) : recorder_(r), recording_(std::exchange(region_context, static_cast<Recording*>(&r))), outer_(std::exchange(top_, this)) {}
  ~Settling() {
    region_context = recording_;
    top_ = outer_;
  }
  // Whether this thread is in the middle of that one.
  static bool runs(const Recorder& r) {
    for (const Settling* s = top_; s; s = s->outer_)
      if (&s->recorder_ == &r) return true;
    return false;
  }

 private:
  static FL_HOT_THREAD_LOCAL constinit Settling* top_;
  Recorder& recorder_;
  void* const recording_;
  Settling* const outer_;
  const Pause pause_;
};
FL_HOT_THREAD_LOCAL constinit Settling* Settling::top_ = nullptr;

// Note [Threads that write what others read]
// Who records a write has run before what others recorded of the old bytes, and who records a read what others will write. So a recording that
// runs meets nothing that is pending elsewhere, unless threads write the same memory without waiting for each other. Then either order
// will do, but two that waited for each other's mutex would wait for ever: a thread that holds one takes another where it is free, and
// goes on with the bytes as they are where it is not.
template <class F>
void Recorder::locked(F&& f) {
  constexpr uint32_t kHeld = uint32_t{1} << static_cast<int>(LockRank::Recorder);  // a recorder's, or a program's
  if (!settling_here() && !(locks::held.ranks & kHeld)) {
    const std::lock_guard lock(mutex_);
    return f();
  }
  if (Settling::runs(*this)) return;
  if (const TryLock lock(mutex_); lock.owns()) f();
}

bool Recorder::reads(const Storage& storage) {
  bool found = false;
  locked([&] { found = inputs_.contains(&storage); });
  return found;
}

Stats stats() {
  return {counts.recorded.load(), counts.pruned.load(), counts.joined.load(), counts.passes.load(), counts.settled.load()};
}

// ---- appending

void Recorder::record(const OpInfo& op, std::initializer_list<const Tensor*> outs, Arguments arguments) {
  for (const Argument& a : arguments) a.type_->settle_others(*this, a.value_);
  {
    const std::lock_guard lock(mutex_);
    begin(op);
    for (const Argument& a : arguments) a.type_->add(*this, a.value_);
    finish(outs);
  }
  if (taker_) [[unlikely]] return taker_->take(taken());
  if (at_once_) {
    interrupted("it uses memory that NumPy or another library shares");
    settle();
  }
}

bool Recorder::wanted(Arguments arguments) {
  if (!taker_) return false;
  return taker_->wants_all() || std::any_of(arguments.begin(), arguments.end(), [&](const Argument& a) { return a.type_->wanted(*this, a.value_); });
}

std::vector<Tensor> Recorder::hand_on(const OpInfo& op, Arguments arguments) {
  {
    const std::lock_guard lock(mutex_);
    draws_ = false;  // who answers the call does
    begin(op);
    for (const Argument& a : arguments) a.type_->add(*this, a.value_);
    finish({});
    draws_ = true;
  }
  return taker_->make(taken());
}

void Recorder::begin(const OpInfo& op) {
  drop_part();
  whole_ = false;
  const auto here = static_cast<uint32_t>(tape_.values.size());
  tape_.nodes.push_back({&op, static_cast<uint32_t>(tape_.boxes.size()), 0, here, here, here, current_source ? current_source() : 0});
  at_once_ = false;
}

void Recorder::finish(std::initializer_list<const Tensor*> outs) {
  NodeRecord& node = tape_.nodes.back();
  const auto index = static_cast<uint32_t>(tape_.nodes.size() - 1);
  node.n_args = static_cast<uint32_t>(tape_.boxes.size()) - node.args;
  node.outs = static_cast<uint32_t>(tape_.values.size());
  for (const Tensor* y : outs) value(*y);
  node.last = static_cast<uint32_t>(tape_.values.size());
  tape_.for_written(node, [&](uint32_t v) {
    Buffer& b = buffers_[tape_.buffer_of[v]];
    if (!b.written && !b.storage->is_hollow()) b.storage->set_pending(Ref<Recording>::share(this), tape_.buffer_of[v]);
    b.written = true;
  });
  for (uint32_t v = node.first; v < node.last; ++v)
    if (tape_.buffer_of[v] != kNone) buffers_[tape_.buffer_of[v]].last = index;
  whole_ = true;
}

// Of a node whose recording threw: there was no memory.
void Recorder::drop_part() {
  if (!std::exchange(whole_, true)) tape_.nodes.pop_back();
}

TakenCall Recorder::taken() {
  const std::lock_guard lock(mutex_);
  TakenCall call{tape_, std::exchange(given_, {})};
  clear();
  return call;
}

uint32_t Recorder::value(const Tensor& x) {
  const auto v = static_cast<uint32_t>(tape_.values.size());
  if (taker_) given_.push_back(x);
  if (!x.defined()) {
    tape_.values.emplace_back();
    tape_.buffer_of.push_back(kNone);
    tape_.next.push_back(kNone);
    return v;
  }
  Storage& storage = x.storage();
  const uint32_t b = buffer(storage);
  tape_.values.push_back(alias(x));
  if (buffers_[b].copy) [[unlikely]] tape_.values.back().impl()->storage = buffers_[b].copy;
  buffers_[b].storage->hold_for_recording();
  tape_.buffer_of.push_back(b);
  tape_.next.push_back(buffers_[b].value);
  buffers_[b].value = v;
  return v;
}

uint32_t Recorder::buffer(Storage& storage) {
  if (storage.pending_in(this))  // the place may be another thread's by now
    if (const uint32_t place = storage.place(); place < buffers_.size() && buffers_[place].storage == &storage) return place;
  if (const auto found = inputs_.find(&storage); found != inputs_.end()) {
    const Buffer& known = buffers_[found->second];
    if (!known.copy || (may_copy() && same_bytes(*known.copy, storage))) return found->second;
  }
  const auto b = static_cast<uint32_t>(buffers_.size());
  Buffer fresh{&storage, kNone, !storage.is_promised()};
  if (fresh.input) {
    if (storage.shared_outside()) {
      if (may_copy()) fresh.copy = copied(storage);
      if (fresh.copy) {
        fresh.original = Ref<Storage>::share(&storage);
        fresh.storage = fresh.copy.get();
      } else {
        at_once_ = true;
      }
    }
    fresh.storage->readers().fetch_add(1, std::memory_order_acq_rel);
  }
  inputs_[&storage] = b;
  buffers_.push_back(std::move(fresh));
  return b;
}

bool Recorder::copies_hold() const {
  return std::all_of(buffers_.begin(), buffers_.end(), [](const Buffer& b) { return !b.copy || same_bytes(*b.copy, *b.original); });
}

void Recorder::add(const Tensor& x) {
  if (x.defined()) tape_.boxes.emplace_back(Box::Kind::Tensor, value(x));
  else tape_.boxes.emplace_back();
}
void Recorder::add(const Operand& x) {
  if (x.is_tensor()) add(x.tensor());
  else add(x.number());
}
void Recorder::add(TensorList xs) {
  const auto first = static_cast<int64_t>(tape_.values.size());
  for (const Tensor& x : xs) value(x);
  tape_.boxes.emplace_back(Box::Kind::Tensors, first, static_cast<uint32_t>(xs.size()));
}
void Recorder::add(Scalar v) {
  if (v.is_complex()) {
    const int64_t parts[] = {std::bit_cast<int64_t>(v.as_double()), std::bit_cast<int64_t>(v.imaginary())};
    tape_.boxes.emplace_back(Box::Kind::Complex, static_cast<int64_t>(tape_.ints.size()), 2);
    tape_.ints.insert(tape_.ints.end(), parts, parts + 2);
  } else if (v.is_float()) tape_.boxes.emplace_back(v.as_double());
  else tape_.boxes.emplace_back(v.kind() == Scalar::Kind::Bool ? Box::Kind::Bool : Box::Kind::Int, v.as_int());
}
void Recorder::add(IntList v) {
  tape_.boxes.emplace_back(Box::Kind::Ints, static_cast<int64_t>(tape_.ints.size()), static_cast<uint32_t>(v.size()));
  tape_.ints.insert(tape_.ints.end(), v.begin(), v.end());
}
void Recorder::add(std::string_view v) {
  tape_.boxes.emplace_back(Box::Kind::Text, static_cast<int64_t>(tape_.text.size()), static_cast<uint32_t>(v.size()));
  tape_.text += v;
}
void Recorder::add(Generator* v) {
  if (!draws_) return tape_.boxes.push_back({});
  const auto [seed, offset] = generator_or_default(v).next();
  auto draw = make_ref<Generator>();
  draw->set_state(seed, offset);
  tape_.boxes.emplace_back(Box::Kind::Draw, static_cast<int64_t>(tape_.generators.size()));
  tape_.generators.push_back(std::move(draw));
  drawn_from_.push_back(Ref<Generator>::share(v));
}

// ---- running

// Nothing recorded uses it any more.
void Recorder::let_go(Buffer& buffer) {
  if (!buffer.storage) return;
  if (buffer.written) buffer.storage->end_pending(this);
  if (buffer.input) buffer.storage->readers().fetch_sub(1, std::memory_order_acq_rel);
  for (uint32_t v = buffer.value; v != kNone; v = tape_.next[v]) {
    buffer.storage->drop_for_recording();
    tape_.values[v] = Tensor();
  }
  buffer.storage = nullptr;
  buffer.copy = buffer.original = nullptr;
}

void Recorder::clear() {
  for (Buffer& b : buffers_) let_go(b);
  tape_.clear();
  buffers_.clear();
  drawn_from_.clear();
  inputs_.clear();
  unchecked_ = checks_later_;
}

void Recorder::interrupted(const char* what) {
  ++interruptions_;
  latest_ = {true, what, current_source ? current_source() : 0};
  if (!interruption_.happened) interruption_ = latest_;
}

void Recorder::changed(const Tensor& x, const char* what) {
  if (watched_) changes_.push_back({x, what, current_source ? current_source() : 0});
}

void Recorder::gradient(const Tensor& x, const Tensor& grad, bool looked) {
  if (!watched_) return;
  for (const Gradient& g : gradients_)
    if (g.of.same(x)) return;  // what it was at first is what counts
  gradients_.push_back({x, looked ? grad : Tensor(), looked});  // one that nobody looked at goes
}

std::vector<Recorder::Gradient> Recorder::watched_gradients() {
  watched_ = false;
  std::vector<Gradient> gradients = std::exchange(gradients_, {});
  const std::vector<Change> changes = std::exchange(changes_, {});
  std::unordered_map<const TensorImpl*, uint32_t> ours;
  for (const Change& c : changes) ++ours[c.tensor.impl()];
  for (const Gradient& g : gradients) ++ours[g.of.impl()];
  auto lives_on = [&](const Tensor& x) { return x.impl()->use_count() > ours[x.impl()]; };
  for (const Change& c : changes)
    if (lives_on(c.tensor) && !interruption_.happened) interruption_ = {true, c.what, c.source};
  std::erase_if(gradients, [&](const Gradient& g) { return !lives_on(g.of); });
  return gradients;
}

void Recorder::enter_region() {
  region_ = regions.fetch_add(1, std::memory_order_relaxed) + 1;
  interruption_ = {};
  worth_ = {};
  budget_ = 1;
  checks_later_ = unchecked_ = false;  // nothing is recorded yet
}

void Recorder::leave_region() {
  watched_ = false;
  changes_.clear();
  gradients_.clear();
}

// Note [Computed again], graph/recompute.h
void Recorder::compute_again() {
  std::vector<Room> rooms;
  for (const Buffer& b : buffers_) {
    const bool own = !b.input && b.written && b.storage->owners() == 0;
    rooms.push_back({b.storage->size_bytes(), own, own});
  }
  const auto known = static_cast<uint32_t>(buffers_.size());
  Tape tape = tape_;  // so that nothing has changed where there is no memory for it
  std::vector<Ref<Storage>> fresh;
  for (const size_t size_bytes : recompute(tape, std::move(rooms), budget_)) fresh.push_back(Storage::promise(size_bytes, Device{}, region()));
  buffers_.reserve(known + fresh.size());

  for (const Ref<Storage>& storage : fresh) {
    storage->set_pending(Ref<Recording>::share(this), static_cast<uint32_t>(buffers_.size()));
    buffers_.push_back({storage.get(), kNone, false, true});
  }
  for (Buffer& b : buffers_) b.value = kNone;
  for (uint32_t v = 0; v < tape.values.size(); ++v) {
    if (!tape.values[v].defined()) continue;
    const uint32_t b = tape.buffer_of[v];
    const bool old = v < tape_.values.size();
    if (!old || tape_.buffer_of[v] != b) {
      if (old) buffers_[tape_.buffer_of[v]].storage->drop_for_recording();
      if (b >= known) tape.values[v].impl()->storage = fresh[b - known];
      buffers_[b].storage->hold_for_recording();
    }
    tape.next[v] = std::exchange(buffers_[b].value, v);
  }
  for (uint32_t k = 0; k < tape.nodes.size(); ++k)
    for (uint32_t v = tape.nodes[k].first; v < tape.nodes[k].last; ++v)
      if (tape.buffer_of[v] != kNone) buffers_[tape.buffer_of[v]].last = k;
  std::swap(tape_, tape);
}

void Recorder::settle() {
  const Ref<Recorder> alive = Ref<Recorder>::share(this);
  locked([&] { run(); });
}

void Recorder::run() {
  drop_part();
  if (tape_.nodes.empty()) return;
  interrupted(recorder_here == this ? "a value was read" : "another thread read a value");
  if (budget_ < 1) compute_again();
  const Settling settling(*this);
  const auto n = static_cast<uint32_t>(tape_.nodes.size());
  ++counts.settled;
  counts.recorded += n;
  worth_.ops += n;
  auto spare = [&](const NodeRecord& node) {
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (const Tensor& y = tape_.values[v]; y.defined()) worth_.spared += static_cast<uint64_t>(y.numel()) * item_size(y.dtype());
  };

  wanted_.assign(buffers_.size(), 0);
  ends_.assign(n, kNone);
  for (uint32_t b = 0; b < buffers_.size(); ++b) {
    wanted_[b] = buffers_[b].storage->owners() > 0;
    buffers_[b].ends_too = std::exchange(ends_[buffers_[b].last], b);
  }
  tape_.find_needed(wanted_, runs_, unchecked_);
  auto use = [&](uint32_t b) { return Tape::Use{buffers_[b].last, buffers_[b].input || buffers_[b].storage->owners() > 0}; };
  uint32_t k = 0;
  try {
    for (uint32_t done = 1; k < n; k += done) {
      done = 1;
      if (runs_[k]) {
        const NodeRecord& node = tape_.nodes[k];
        if (unchecked_ && node.op->check && !node.op->each) node.op->check(tape_.frame_of(node));
        if (!node.op->each)
          for (uint32_t v = node.first; v < node.last; ++v)
            if (tape_.buffer_of[v] != kNone) buffers_[tape_.buffer_of[v]].storage->settle();
        done = static_cast<uint32_t>(tape_.run_some(k, tape_.nodes.size(), runs_, use, [] {}));
        if (done > 1) {
          ++counts.passes;
          for (uint32_t j = k; j < k + done; ++j) counts.joined += runs_[j];
          for (uint32_t j = k; j + 1 < k + done; ++j)
            if (runs_[j]) spare(tape_.nodes[j]);
        }
      }
      for (uint32_t j = k; j < k + done; ++j) {
        if (!runs_[j]) {
          ++counts.pruned;
          spare(tape_.nodes[j]);
        }
        if (runs_[j]) tape_.for_overwritten(tape_.nodes[j], [&](uint32_t v) { tape_.values[v].storage().rewritten(); });
        for (uint32_t b = ends_[j]; b != kNone; b = buffers_[b].ends_too) let_go(buffers_[b]);
      }
    }
  } catch (...) {
    const auto failure = make_ref<Failure>(std::current_exception());
    for (; k < n; ++k)
      tape_.for_written(tape_.nodes[k], [&](uint32_t v) {
        Buffer& buffer = buffers_[tape_.buffer_of[v]];
        if (!buffer.storage || buffer.input) return;
        buffer.storage->set_pending(failure, 0);
        buffer.written = false;  // so that it stays pending
      });
    clear();
    throw;
  }
  clear();
}

void Recorder::discard() {
  const std::lock_guard lock(mutex_);
  drop_part();
  clear();
}

// ---- scopes

void begin_recording(double budget) {
  if (depth++ == 0) {
    if (!mine) mine = make_ref<Recorder>();
    mine->enter_region();
    outer = std::exchange(recorder_here, mine.get());
  }
  mine->limit(budget);
}

void end_recording() {
  if (depth == 0) raise<ArgumentError>("lazy: a region ends on a thread on which none has begun; expected the thread that entered it");
  if (--depth > 0) return;
  const Ref<Recorder> recorder = mine;
  Recording* const before = std::exchange(outer, nullptr);
  if (recorder_here == recorder.get()) recorder_here = before;  // otherwise calls are taken that began later, and go on
  recorder->leave_region();
  recorder->settle();
}

bool in_region() { return depth > 0; }

void forget(const Recorder& taking) {
  if (outer == &taking) outer = nullptr;
}

Recorder::Worth worth() { return mine ? mine->worth() : Recorder::Worth{}; }

void settle_here() {
  if (recorder_here) recorder_here->settle();
}

// ---- what generated wrappers call

void record_arguments(const OpInfo& op, bool meta, std::initializer_list<const Tensor*> outs, Arguments arguments) {
  Recorder& here = Recorder::here();
  if (!meta || here.takes()) here.record(op, outs, arguments);
}

bool hand_on_arguments(const OpInfo& op, std::vector<Tensor>& y, Arguments arguments) {
  Recorder& here = Recorder::here();
  if (!here.wanted(arguments)) return false;
  y = here.hand_on(op, arguments);
  return true;
}
bool hand_on_arguments(const OpInfo& op, Tensor& y, Arguments arguments) {
  std::vector<Tensor> made;
  if (!hand_on_arguments(op, made, arguments)) return false;
  if (made.size() != 1) raise<ArgumentError>(op.name, ": __torch_dispatch__ returned ", made.size(), " tensors; expected one");
  y = std::move(made[0]);
  return true;
}

// ---- outputs that a kernel makes

Tensor meta_like(const Tensor& x) {
  if (!x.defined()) return x;
  return empty_strided(x.sizes(), x.strides(), x.dtype(), Device{DeviceKind::Meta});
}

Tensor promised_like(const Tensor& meta) { return empty_strided(meta.sizes(), meta.strides(), meta.dtype()); }

void adopt(const Tensor& out, Tensor made) {
  const bool whole = made.storage().use_count() == 1 && made.ref()->use_count() == 1 && made.offset() == 0 && out.offset() == 0 &&
                     made.storage().size_bytes() == out.storage().size_bytes() && made.strides() == out.strides() && !made.storage().shared_outside();
  if (whole) out.storage().adopt(made.storage());
  else copy_elements(out, made);
}

const Autograd* autograd = nullptr;
const OpInfo* all_ops = nullptr;

OpInfo::OpInfo(const char* n, const char* id, const char* s, const char* k, uint64_t w, int o, void (*r)(const Frame&),
               void (*ch)(const Frame&), void (*e)(const Frame&, EachCall, void*), int over_o, int over_a, bool t, int when)
    : name(n), ident(id), signature(s), kinds(k), writes(w), outs(o), run(r), each(e), check(ch), over_out(over_o), over_arg(over_a), trusts(t),
      writes_when(when), next(all_ops) {
  all_ops = this;
}

OpInfo::OpInfo(const char* n, const char* id, const char* s)
    : name(n), ident(id), signature(s), kinds(""), writes(0), outs(0), run(nullptr), each(nullptr), check(nullptr), over_out(-1), over_arg(-1), trusts(false), writes_when(-1) {}

const OpInfo* find_op(std::string_view ident) {
  for (const OpInfo* op = all_ops; op; op = op->next)
    if (ident == op->ident) return op;
  return nullptr;
}

}  // namespace fl::graph
