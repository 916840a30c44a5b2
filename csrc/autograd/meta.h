// What autograd keeps for one tensor, and the questions everybody asks of it.
//
// Note [Ownership of the graph]
//
//     tensor y --meta.grad_fn--> Node --edges--> Node --edges--> AccumulateGrad --weak--> leaf
//                                 |                                   ^
//                                 +--saved--> alias of x (no grad_fn) +--meta.accumulator-- leaf
//
// Every arrow but the weak one owns. Nothing below a node points back to the tensor that owns the node:
// a saved tensor is kept as an alias without grad_fn, plus an edge for an input, and a leaf is reached weakly.
// So a graph has no cycles and goes with its last tensor, at once. That holds for a leaf, too, which got a history
// by a write, or whose .grad has one, after it was saved.
//
// Note [Hooks of a leaf that has gone]
// A leaf that nobody holds needs no gradient, and its AccumulateGrad adds to nothing. Its hooks are still to be called, by the
// graphs that it is in. So a leaf with hooks leaves what it has (hooks, .grad, a share of its memory) to a new tensor, which
// the AccumulateGrad owns and WeakTensors lead to from then on. The heir goes with the graph.
//
// Python can make cycles of its own: a node owns hooks, and the context of a custom function. The garbage collector
// is told of them: Note [The Python object of a tensor].
#pragma once

#include "autograd/node.h"

namespace fl {

// Sink of a leaf: adds what arrives to its .grad.
class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(Ref<WeakTensor> leaf);
  const char* name() const override { return "AccumulateGrad"; }
  void apply(BackwardCall& call) override;
  Tensor variable() { return leaf_->lock(); }
  Tensor hooked(Tensor grad);  // what the leaf's hooks make of a gradient
  Tensor zeros();              // like the leaf; undefined where it is gone
  bool is_leaf() const override { return true; }

  TensorImpl* heir() const { return heir_.load(std::memory_order_acquire); }
  void adopt(Ref<TensorImpl> heir) { heir_.store(heir.detach(), std::memory_order_release); }  // once
  ~AccumulateGrad() override {
    if (TensorImpl* mine = heir()) mine->release();
  }

 private:
  std::atomic<TensorImpl*> heir_{nullptr};  // owned; see above
  Ref<WeakTensor> leaf_;
};

// (id, hook); changed under the leaf's mutex and with the GIL.
using LeafHooks = std::vector<std::pair<uint64_t, Ref<TensorHook>>>;

struct AutogradMeta final : AutogradMetaBase {
  ~AutogradMeta() override {
    if (weak) weak->point_to(nullptr);
    if (AccumulateGrad* sink = accumulator.load(std::memory_order_acquire)) sink->release();
  }
  void bequeath(TensorImpl& dying) noexcept override;
  Tensor grad;
  Ref<Node> grad_fn;
  uint32_t output_nr = 0;
  uint32_t view_version = 0;  // of a view: the storage version for which grad_fn is right
  bool retains_grad = false;
  bool visited = false;  // Note [Two passes of the collector]
  std::atomic<AccumulateGrad*> accumulator{nullptr};  // owned; once made it stays
  Ref<WeakTensor> weak;
  LeafHooks hooks, post_accumulate;
  // Guards grad, the hooks and the making of the accumulator.
  ForkMutex& mutex() { return leaf_locks.of(this); }
};

// What hangs from a tensor's history.
struct GraphSize {
  size_t nodes = 0, bytes = 0;
  SourceId made_at = 0;
  std::vector<std::pair<SourceId, size_t>> lines;  // and how many nodes each made, the most first
};
GraphSize graph_size(const Tensor& x);

struct SavedHooks;

// Whether ops are recorded is `grad`. In inference_mode (Note [Where memory was made]) none are, whatever grad mode is asked for; both change
// through the two calls.
struct ThreadModes {
  bool grad = true;
  bool asked_grad = true;
  bool autocast = false;  // of the op that is called next; see wrappers/autocast.h
  SavedHooks* saved_hooks = nullptr;  // of the innermost saved_tensors_hooks; see Note [Saved tensors]
  const TensorImpl* given = nullptr;  // Note [Gradients that are given up]
  const Tensor* out = nullptr;        // Note [Results in the caller's memory]
};
extern FL_HOT_THREAD_LOCAL constinit ThreadModes current_modes;
inline ThreadModes& thread_modes() { return current_modes; }
inline bool grad_enabled() { return thread_modes().grad; }
inline bool inference_mode() { return birth_here.inference; }
// Both return what was asked for before.
inline bool set_grad_mode(bool on) {
  ThreadModes& modes = thread_modes();
  modes.grad = on && !inference_mode();
  return std::exchange(modes.asked_grad, on);
}
inline bool set_inference_mode(bool on) {
  ThreadModes& modes = thread_modes();
  modes.grad = modes.asked_grad && !on;
  return std::exchange(birth_here.inference, on);
}

struct WithGrad {
  bool saved;
  explicit WithGrad(bool on) : saved(set_grad_mode(on)) {}
  WithGrad(const WithGrad&) = delete;
  WithGrad& operator=(const WithGrad&) = delete;
  ~WithGrad() { set_grad_mode(saved); }
};
struct NoGrad : WithGrad {
  NoGrad() : WithGrad(false) {}
};

// Note [Results in the caller's memory]
// `add(x, y, out=z)` computes as `add(x, y)` does; the first result of z's shape and type on the way is made in z's memory. As a rule that
// is the result of the call, and nothing is left to do; else it was a step on the way, and the result is copied. So z is offered only
// where nothing that is read lies in its memory, where no gradient is recorded, and in rows (csrc/bindings/args.cpp). What may be made with channels last
// gets a storage of its own over z's bytes, which alone is deferred, and is put into rows before anybody sees it.
class OfferOut {
 public:
  explicit OfferOut(const Tensor* out) : before_(std::exchange(thread_modes().out, out)) {}
  OfferOut(const OfferOut&) = delete;
  OfferOut& operator=(const OfferOut&) = delete;
  ~OfferOut() { thread_modes().out = before_; }

 private:
  const Tensor* before_;
};

// Note [Gradients that are given up]
// Most gradients are seen by the node that they were handed to alone, and there an op reads them once. Where that op goes element by
// element it writes its result over them: no memory is taken, and what the gradient left in the cache is used. A node that
// reads its gradient in one such op says so around it (the generator finds these nodes), and the op takes it if nobody else owns
// the tensor or its bytes. Nothing is given while a second derivative is recorded, nor in a recording, which plans its memory itself.
inline bool is_unseen(const Tensor& x) {
  return x.ref()->use_count() == 1 && x.storage().owners() == 1 && !x.storage().shared_outside();
}
class Giving {
 public:
  explicit Giving(const Tensor& grad, int reads = 1) {
    if (reads == 1 && !grad_enabled() && grad.defined() && is_unseen(grad)) thread_modes().given = grad.impl();
  }
  Giving(const Giving&) = delete;
  Giving& operator=(const Giving&) = delete;
  ~Giving() { thread_modes().given = nullptr; }
};

struct WithoutAutocast {
  bool saved = std::exchange(thread_modes().autocast, false);
  WithoutAutocast() = default;
  WithoutAutocast(const WithoutAutocast&) = delete;
  ~WithoutAutocast() { thread_modes().autocast = saved; }
};

// Whether t shares its history with its base; not after either got other memory (`x.data = y`). Hollow tensors have a storage each, and are known
// by the Var that base and views share.
inline bool shares_memory(const TensorImpl& t, const TensorImpl& base) {
  return t.storage.get() == base.storage.get() || (t.storage->is_hollow() && base.storage->is_hollow() && t.own_var && t.own_var.get() == base.own_var.get());
}
inline bool follows_base(const TensorImpl& t) { return t.view_tracks_base && shares_memory(t, *t.base); }
inline bool requires_grad(const TensorImpl& t) { return t.requires_grad || (follows_base(t) && t.base->requires_grad); }
inline bool requires_grad(const Tensor& t) { return t.defined() && requires_grad(*t.impl()); }

inline AutogradMeta* meta_of(const Tensor& t) { return static_cast<AutogradMeta*>(t.impl()->meta.get()); }
AutogradMeta& ensure_meta(const Tensor& t);
WeakTensor& weak_of(const Tensor& t);

// The node that made t (null for a leaf). For a view whose base was written to, a fresh one.
Ref<Node> grad_fn(const Tensor& t);
inline bool is_leaf(const Tensor& t) { return !grad_fn(t); }
// t.grad, which others may replace meanwhile.
Tensor gradient_of(const Tensor& t);
[[nodiscard]] Tensor replace_gradient(const Tensor& t, Tensor grad);  // returns the old one, for after all locks
// Adds to t.grad; `grad` has t's shape and type.
void accumulate_grad(const Tensor& t, Tensor grad);
// Where t's gradient goes: its grad_fn, or its accumulator, or nowhere.
Edge gradient_edge(const Tensor& t);
// The edge to what `node` made as its output `nr`, for who saved it: also where it is part of a larger tensor by now.
Edge edge_of_result(Node& node, uint32_t nr);
// Makes `node` the producer of t, as output `nr`.
void set_history(const Tensor& t, Ref<Node> node, uint32_t nr = 0);
// Makes t a tensor whose history is not known: a backward through it raises, and says why.
void lose_history(const Tensor& t, std::string why);
// Makes leaf t (not) require grad; raises AutogradError for integers or non-leaves.
void set_requires_grad(const Tensor& t, bool on);

// Marks `view`, which shares x's storage, as a view that autograd follows.
void track_view(const Tensor& view, const Tensor& x);
// The same of what a class of tensors returned as a view of x, which it need not be. `view`: what it is as a view of x's memory.
void track_returned(const Tensor& returned, const Tensor& view, const Tensor& x);
void track_returned(const std::vector<Tensor>& returned, const std::vector<Tensor>& views, const Tensor& x);
// x's memory in a tensor that is no view of it and has x's gradient: who may not write to a leaf in place may write to this.
Tensor stand_in(const Tensor& x);

// In-place writes: raises before anything is changed where the write is not allowed...
// `one_value`: it makes all elements equal, so that it is the same how many of them lie at one place.
void check_inplace(const char* op, const Tensor& x, bool one_value = false);
// ... and that x may have a history of it...
// Throws outside of inference_mode for x from inside of it.
void check_inference(const char* op, const Tensor& x);
void check_rebase(const char* op, const Tensor& x);
// ...then bump_version() notes the write...
// ...and makes `node` the history of x and, through its base, of every view of it.
// `self`: which of the edges is x's own.
void rebase_history(const Tensor& x, Ref<Node> node, size_t self = 0);
// Gives x the shape of a view that was made of it, and its history: what `unsqueeze_` does to a tensor that requires grad.
void become_view(const Tensor& x, const Tensor& view);
// The same without a history of the change: x stays the view of its base, if it is one, and its gradient comes in the shape that its node made.
void reshape_in_place(const Tensor& x, const Tensor& view);
// x is about to have these sizes and this type, of which its node knows nothing: what arrives there is given the shape and the type of before, or refused.
void expect_gradient(const Tensor& x, const Dims& sizes, DType dtype);

// Runs the graph backwards from `roots`. Without `inputs` leaves accumulate into .grad and the result is
// empty; with them the gradients of exactly these tensors are returned (undefined where unreachable), or
// accumulated into their .grad if `accumulate`. Without `leaf_hooks` those of returned leaves do not run: what is returned is a part, and who
// adds the parts up runs them.
std::vector<Tensor> run_backward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, bool retain_graph,
                                 bool create_graph, const std::vector<Tensor>& inputs, bool accumulate, bool allow_unused, bool leaf_hooks = true);
// Whether the innermost backward that runs on this thread leaves the graph for another one.
bool keeps_graph();
// Whether it, or one around it, computes gradients of inputs that were asked for alone.
bool runs_for_inputs();
// Whether the graph of the roots leads to a leaf other than these, at which a gradient may still be asked for.
bool reaches_others(const std::vector<Tensor>& roots, const std::vector<Tensor>& leaves);

// The gradients of `first` when first() runs, those of `second` when second() does: Note [A backward in two parts] in backward.cpp. Both
// are undefined where unreachable; hooks of leaves do not run. Holds the graph until the second part.
class Backward;
class SplitBackward {
 public:
  SplitBackward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, const std::vector<Tensor>& first, const std::vector<Tensor>& second);
  ~SplitBackward();
  std::vector<Tensor> first();
  std::vector<Tensor> second();

 private:
  enum class State : uint8_t { New, Busy, Halfway };
  void go(State from, State to);
  std::unique_ptr<Backward> backward_;
  const size_t first_;
  std::atomic<State> state_{State::New};
};

}  // namespace fl
