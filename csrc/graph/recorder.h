// The recorder: what ops become on a thread that records.
//
// Note [Recording ops]
// A generated wrapper does its checks, its shapes and types and its autograd node as always. Where it would call its kernel it
// asks whether the thread records, and if so appends a node here: the op, its arguments, the outputs, which have no bytes yet.
// So errors come at the same line with the same text, and whatever does not come this way reads bytes, which runs what was
// recorded first (Note [Pending bytes]). Nothing can be stale, because nothing is remembered from one recording to the next.
//
// What was recorded runs in the order in which it was recorded, but for
//   * nodes that nobody can see: their outputs have no owner, and no node that runs reads them;
//   * nodes that were put together (dispatch/chain.h).
// A buffer is one storage. It is let go after its last node, so memory is held as in eager mode, or shorter.
//
// What would not stay as it is until it is read is not put off: an op that takes bytes that others may write without asking us
// (NumPy's, DLPack's, shared memory) runs at once, after all before it; where a program is to be made of the recording it gets a copy
// of such bytes instead, as long as it does not write them. Draws take their place in the generator's sequence
// when they are recorded. A recording belongs to the thread that makes it and may be settled by any; its lock is held meanwhile.
//
// Note [Calls that are taken below autograd]
// A recorder with a Taker keeps nothing: each op is handed on when it is noted, with tensors as they were given and outputs that have no bytes
// yet, and the Taker puts something into these. Python's `torch.utils._python_dispatch.TorchDispatchMode` is such a one. It sees what
// kernels see, those of backward included: after autograd, checks, shapes and types. Ops on the meta device, which are not recorded, are handed on, too.
//
// Views, constructors and results whose size follows from values have no outputs before they run. They are handed on whole, before
// anything is made, where the Taker wants all calls or an argument: what comes back is the result (`handed_on`).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "graph/tape.h"
#include "storage/pending.h"
#include "tensor/tensor.h"

namespace fl::graph {

inline bool recording() { return recorder_here != nullptr; }

// A call that was handed on: the one node of a tape, and its values as they were given.
struct TakenCall {
  Tape tape;
  std::vector<Tensor> given;
};
class Taker {
 public:
  virtual ~Taker() = default;
  virtual void take(TakenCall call) = 0;
  // Whether it wants all calls, or those with this argument, whole; then their results.
  virtual bool wants_all() = 0;
  virtual bool wants(const Tensor& x) = 0;
  virtual std::vector<Tensor> make(TakenCall call) = 0;
};

class Recorder;
// An argument of a call, which it refers to: what is done with arguments is a function for each type of them, not for each list of types.
class Argument {
 public:
  template <class T>
  Argument(const T& value) : value_(&value), type_(&type<T>) {}

 private:
  friend class Recorder;
  struct Type {
    void (*settle_others)(Recorder& recorder, const void* value);
    bool (*wanted)(Recorder& recorder, const void* value);
    void (*add)(Recorder& recorder, const void* value);
  };
  template <class T>
  static const Type type;

  const void* value_;
  const Type* type_;
};
using Arguments = std::span<const Argument>;

class Recorder final : public Recording {
 public:
  Recorder();
  ~Recorder() override;
  static Recorder& here() { return *static_cast<Recorder*>(recorder_here); }
  void settle() override;
  // Forgets what was recorded. What it would have written has no values; who asked for it gives them.
  void discard();

  void record(const OpInfo& op, std::initializer_list<const Tensor*> outs, Arguments arguments);
  bool wanted(Arguments arguments);
  std::vector<Tensor> hand_on(const OpInfo& op, Arguments arguments);
  // From now on calls are its: Note [Calls that are taken below autograd].
  void hand_to(Taker* taker) { taker_ = taker; }
  bool takes() const { return taker_ != nullptr; }
  // Other threads may run what is recorded: who looks at it holds this meanwhile.
  ForkMutex& mutex() { return mutex_; }
  // What has been recorded and not run yet, for who shows or keeps it.
  const Tape& tape() const { return tape_; }
  bool is_input(uint32_t buffer) const { return buffers_[buffer].input; }
  bool is_owned(uint32_t buffer) const { return buffers_[buffer].storage && buffers_[buffer].storage->owners() > 0; }
  size_t n_buffers() const { return buffers_.size(); }
  // What it was where it was recorded: of a copy, the storage that was copied.
  // How often the recorder itself holds memory that others may write.
  int64_t originals(const Storage& s) const {
    return std::count_if(buffers_.begin(), buffers_.end(), [&](const Buffer& b) { return b.original.get() == &s; });
  }
  Storage& storage(uint32_t buffer) const { return buffers_[buffer].original ? *buffers_[buffer].original : *buffers_[buffer].storage; }
  // Whether what was copied is still as each of its readers saw it.
  bool copies_hold() const;
  // The generators that were asked for draws, in order; null is the thread's own.
  const std::vector<Ref<Generator>>& drawn_from() const { return drawn_from_; }
  // A value was read, or an op could not be put off, since the region began; where.
  struct Interruption {
    bool happened = false;
    const char* what = "";
    SourceId source = 0;
  };
  const Interruption& interruption() const { return interruption_; }  // the first
  const Interruption& latest_interruption() const { return latest_; }
  uint64_t interruptions() const { return interruptions_; }
  void interrupted(const char* what);
  // Between watch() and watched_gradients() what happens to tensors beside ops is noted.
  void watch() { watched_ = true, differentiated_ = false; }
  bool watched() const { return watched_; }
  // Whether a backward ran since watch().
  void differentiate() { differentiated_ = true; }
  bool differentiated() const { return differentiated_; }
  void changed(const Tensor& x, const char* what);
  void gradient(const Tensor& x, const Tensor& grad, bool looked);
  // The gradients of tensors that somebody still has: what they were before the region, where that mattered. Other changes of
  // such tensors are an interruption.
  struct Gradient {
    Tensor of, before;
    bool looked;  // before it was replaced
  };
  std::vector<Gradient> watched_gradients();
  // The least budget of the regions that are going on: Note [Computed again], graph/recompute.h.
  void limit(double budget) { budget_ = std::min(budget_, budget); }
  void enter_region();
  void leave_region();
  // What came of the region, or of the last one: ops that were recorded, and bytes of results that never went to memory.
  struct Worth {
    uint64_t ops = 0, spared = 0;
  };
  Worth worth() const { return worth_; }

  // Whether a buffer of it is this storage, with bytes of before.
  bool reads(const Storage& storage);

 private:
  friend class Argument;
  struct Buffer {
    Storage* storage;         // held by the values
    uint32_t value;           // the first of its values; the others follow by `next_`
    bool input;               // had bytes before
    bool written = false;     // by a node
    uint32_t last = 0;        // node that uses it
    uint32_t ends_too = kNone;
    Ref<Storage> copy = nullptr, original = nullptr;  // `storage` is a copy of memory that others may write
  };
  // Whoever else has an argument pending computes it first.
  void settle_others(const Tensor& x) {
    if (x.defined() && x.storage().is_pending() && !x.storage().pending_in(this) && !x.storage().is_hollow()) x.storage().settle();
  }
  void settle_others(const Operand& x) {
    if (x.is_tensor()) settle_others(x.tensor());
  }
  void settle_others(TensorList xs) {
    for (const Tensor& x : xs) settle_others(x);
  }
  void settle_others(const std::vector<Tensor>& xs) { settle_others(TensorList(xs)); }
  template <class T>
  void settle_others(const T&) {}

  bool wants(const Tensor& x) { return x.defined() && taker_->wants(x); }
  bool wants(const Operand& x) { return x.is_tensor() && wants(x.tensor()); }
  bool wants(TensorList xs) {
    return std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return wants(x); });
  }
  bool wants(const std::vector<Tensor>& xs) { return wants(TensorList(xs)); }
  template <class T>
  bool wants(const T&) {
    return false;
  }

  TakenCall taken();
  void begin(const OpInfo& op);
  void finish(std::initializer_list<const Tensor*> outs);

  void add(const Tensor& x);
  void add(const Operand& x);
  void add(TensorList xs);
  void add(const std::vector<Tensor>& xs) { add(TensorList(xs)); }
  void add(int64_t v) { tape_.boxes.emplace_back(Box::Kind::Int, v); }
  void add(double v) { tape_.boxes.emplace_back(v); }
  void add(bool v) { tape_.boxes.emplace_back(Box::Kind::Bool, v); }
  void add(Scalar v);
  void add(IntList v);
  void add(const Dims& v) { add(IntList(v)); }
  void add(std::string_view v);
  void add(DType v) { tape_.boxes.emplace_back(Box::Kind::Type, static_cast<int64_t>(v)); }
  void add(Device v) { tape_.boxes.emplace_back(Box::Kind::Place, static_cast<int64_t>(v.kind) << 32 | static_cast<uint8_t>(v.index)); }
  void add(Generator* v);
  template <class T>
  void add(const std::optional<T>& v) {
    if (v) add(*v);
    else tape_.boxes.emplace_back();
  }

  template <class F>
  void locked(F&& f);
  void run();
  void drop_part();
  void compute_again();
  uint32_t value(const Tensor& x);
  uint32_t buffer(Storage& storage);
  // Whether the argument that comes next is read alone: a copy of it may stand for bytes that others share.
  bool may_copy() const {
    const auto& node = tape_.nodes.back();
    return watched_ && !(node.op->writes >> (tape_.boxes.size() - node.args) & 1);
  }
  void let_go(Buffer& buffer);
  void clear();

  ForkMutex mutex_{LockRank::Recorder};
  Tape tape_;
  std::vector<Buffer> buffers_;
  std::vector<Ref<Generator>> drawn_from_;
  Taker* taker_ = nullptr;
  std::vector<Tensor> given_;  // the values of a call that will be handed on
  Interruption interruption_, latest_;
  uint64_t interruptions_ = 0;  // ever
  Worth worth_;
  struct Change {
    Tensor tensor;
    const char* what;
    SourceId source;
  };
  std::vector<Change> changes_;
  std::vector<Gradient> gradients_;
  bool watched_ = false, differentiated_ = false;
  double budget_ = 1;
  std::vector<char> wanted_, runs_;
  std::vector<uint32_t> ends_;  // per node the last buffer that it is the last to use; the others follow by Buffer::ends_too
  std::unordered_map<const Storage*, uint32_t> inputs_;  // concrete storages to buffers
  bool whole_ = true;      // the last node has all that belongs to it
  bool draws_ = true;     // draws take their place in the generator's sequence when they are noted
  bool at_once_ = false;  // the node that is being appended reads what others may write
};

// What all recorders did since the start.
struct Stats {
  int64_t recorded = 0;  // ops
  int64_t pruned = 0;    // ... that nobody wanted
  int64_t joined = 0;    // ... that ran together with others
  int64_t passes = 0;    // in how many passes over memory
  int64_t settled = 0;   // how often something recorded was run
};
Stats stats();

// Begins and ends recording on this thread; scopes nest, and what was recorded is settled at the end of the outermost.
void begin_recording(double budget = 1);
void end_recording();
// Whether this thread is in one.
bool in_region();
// A recorder that takes calls ends: no region goes back to it.
void forget(const Recorder& taking);
// Of the region that this thread is in or left last.
Recorder::Worth worth();
// Runs what this thread recorded so far, if it records.
void settle_here();
// Notes that Python is told something that depends on values, so that what follows may, too.
inline void note_read(const char* what) {
  if (recorder_here) [[unlikely]] static_cast<Recorder*>(recorder_here)->interrupted(what);
}
// Notes that something which Python sees of a tensor is being changed, and not by an op: its history, its memory, its size.
inline void note_change(const Tensor& x, const char* what) {
  if (recorder_here) [[unlikely]] static_cast<Recorder*>(recorder_here)->changed(x, what);
}
// ... and that x.grad, which is `grad`, is looked at, or is being replaced whatever it is.
inline void note_gradient(const Tensor& x, const Tensor& grad, bool looked) {
  if (recorder_here) [[unlikely]] static_cast<Recorder*>(recorder_here)->gradient(x, grad, looked);
}
// ... and that a backward runs.
inline void note_backward() {
  if (recorder_here) [[unlikely]] static_cast<Recorder*>(recorder_here)->differentiate();
}
// What a program needs of autograd, which lies above it and sets this.
struct Autograd {
  Tensor (*grad)(const Tensor& x);
  Tensor (*replace)(const Tensor& x, Tensor grad);  // x.grad; returns what it was
  const char* (*spent)(const Tensor& x);  // the name of x's history, where a backward has used it up; otherwise null
  void (*set_spent)(const Tensor& x, const char* name);
  bool (*wants)(const Tensor& x);  // a gradient
  bool (*made)(const Tensor& x);   // by ops that a gradient goes on through
};
extern const Autograd* autograd;
// While it lives the thread does not record.
class Pause {
 public:
  Pause() : paused_(std::exchange(recorder_here, nullptr)) {}
  ~Pause() { recorder_here = paused_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Recording* paused_;
};

template <class T>
const Argument::Type Argument::type = {
    [](Recorder& recorder, const void* value) { recorder.settle_others(*static_cast<const T*>(value)); },
    [](Recorder& recorder, const void* value) { return recorder.wants(*static_cast<const T*>(value)); },
    [](Recorder& recorder, const void* value) { recorder.add(*static_cast<const T*>(value)); },
};

// Called by generated wrappers; `meta`: there is nothing to compute.
void record_arguments(const OpInfo& op, bool meta, std::initializer_list<const Tensor*> outs, Arguments arguments);
template <class... Args>
[[gnu::cold, gnu::noinline]] void record(const OpInfo& op, bool meta, std::initializer_list<const Tensor*> outs, const Args&... args) {
  const std::array<Argument, sizeof...(Args)> arguments{args...};
  record_arguments(op, meta, outs, arguments);
}
// Whether a call is handed on whole; then `y` is its result, one tensor or a list.
bool hand_on_arguments(const OpInfo& op, Tensor& y, Arguments arguments);
bool hand_on_arguments(const OpInfo& op, std::vector<Tensor>& y, Arguments arguments);
template <class Result, class... Args>
[[gnu::cold, gnu::noinline]] bool handed_on(const OpInfo& op, Result& y, const Args&... args) {
  const std::array<Argument, sizeof...(Args)> arguments{args...};
  return hand_on_arguments(op, y, arguments);
}
// The result of the call where it is handed on, which `handed` says, else what `make` makes.
template <class Make, class... Args>
[[gnu::cold, gnu::noinline]] auto or_handed_on(bool& handed, const OpInfo& op, const Make& make, const Args&... args) {
  decltype(make()) y;
  handed = handed_on(op, y, args...);
  return handed ? std::move(y) : make();
}
// What a kernel that makes its outputs would make, without bytes: `make` is called with tensors on meta.
Tensor meta_like(const Tensor& x);
Tensor promised_like(const Tensor& meta);

}  // namespace fl::graph
