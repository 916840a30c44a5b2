// Running the graph backwards.
//
// One call works on its own thread, without the GIL, with its own table of pending gradients, so several
// threads may run at once, and a hook or custom function may call backward again.
//
//   count how many gradients each reachable node will get  ->  heap of ready nodes, latest first  ->
//   take one, run it, hand its results to the nodes at its edges, push those that became ready
//
// Note [A backward in two parts]
// What some tensors want (a stage's inputs) may be asked for first, and what others want (its parameters) later: pipelines
// put the second part where a rank would wait. A node that lies on paths to the first runs at once, for the edges on such
// paths; if it has edges that lead to the others alone, it stays with the gradients that it got and runs for these
// edges in the second part, as do all nodes below them. A node that has one formula for several gradients, hooks, or a
// body in Python runs once, in the first part, and only what it gave is handed on later. Nodes of one thread run in the
// order of their numbers in either part, so sums have the order, and the bits, that they have in one go.
//
// Note [Gradients that are 0]
// The derivative of a ReLU is constant nearly everywhere, and so its own derivative by the ReLU's input is 0: not nothing, since who asks
// for a second derivative gets zeros, as in PyTorch. No tensor is made for it and no node computes with it: that something is 0 goes along
// the edges, and whoever asked for the gradient of a tensor, or owns a leaf, gets zeros where nothing else came.
//
// Note [Gradients of parts]
// The gradient of x[i] by x is one of x's size that is 0 elsewhere. Where a program takes x apart (a loop over time, experts of a mixture, halves of
// channels) the sum of n such gradients would cost n times x. The first one is made so; what comes later is added to its part of what is there already,
// if nobody else sees that: by a view of it (`adds` in the op table).
#include <algorithm>
#include <unordered_map>

#include "autograd/meta.h"
#include "autograd/recorded.h"
#include "autograd/sparse.h"
#include "base/error.h"
#include "graph/recorder.h"
#include "op/add.h"
#include "op/any.h"
#include "op/cast.h"
#include "op/clone.h"
#include "op/contiguous_copy.h"
#include "op/isnan.h"
#include "op/ones_like.h"
#include "op/permute.h"
#include "op/real.h"
#include "op/zeros.h"
#include "op/zeros_like.h"

namespace fl {
namespace {

// Note [A backward in two parts]
constexpr uint8_t kNow = 1, kLater = 2;

struct Pending {
  Node* node = nullptr;
  int waiting = 0;     // gradients still to come
  bool seen = false;   // by the counting pass
  uint8_t wanted = kNow;  // lies on a path to an input that was asked for: bits of kNow and kLater
  bool target = false;  // a leaf that was asked to accumulate
  bool zero = false;    // a gradient that is 0 came: Note [Gradients that are 0]
  bool whole = true;    // of one that waits: ran for all its edges at once, and what some of them get later is in `grads`
  uint64_t zeros = 0;   // ... and which of them are 0
  std::vector<Tensor> grads;
  std::unique_ptr<std::vector<uint32_t>> versions;  // of `grads`, where they wait for the second part
  std::vector<std::pair<uint32_t, size_t>> captures;  // gradient nr -> which input asked for it
};

// Node -> Pending by open addressing: a chain of small ops spends its time here.
class NodeTable {
 public:
  NodeTable() : slots_(64, -1) {}
  Pending& operator[](Node* node) {
    const int at = find(node);
    if (slots_[at] >= 0) return *entries_[slots_[at]];
    if (entries_.size() * 2 >= slots_.size()) {
      grow();
      return (*this)[node];
    }
    slots_[at] = static_cast<int>(entries_.size());
    entries_.push_back(std::make_unique<Pending>());
    entries_.back()->node = node;
    return *entries_.back();
  }
  Pending* get(Node* node) {
    const int at = find(node);
    return slots_[at] >= 0 ? entries_[slots_[at]].get() : nullptr;
  }
  std::vector<std::unique_ptr<Pending>>& entries() { return entries_; }

 private:
  int find(Node* node) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(node) >> 5) * 0x9E3779B97F4A7C15ull >> 20 & mask;
    while (slots_[at] >= 0 && entries_[slots_[at]]->node != node) at = (at + 1) & mask;
    return static_cast<int>(at);
  }
  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < entries_.size(); ++i) slots_[find(entries_[i]->node)] = static_cast<int>(i);
  }
  std::vector<int> slots_;
  std::vector<std::unique_ptr<Pending>> entries_;
};

struct Later {
  bool operator()(const Pending* a, const Pending* b) const { return a->node->sequence < b->node->sequence; }
};

// sum += grad, in place when nobody else can see `sum`.
void add_to(Tensor& sum, Tensor grad) {
  if (!sum.defined()) {
    sum = std::move(grad);
    return;
  }
  if (is_sparse(sum) || is_sparse(grad)) [[unlikely]] {
    if (grad_enabled() || is_sparse(sum) || !is_unseen(sum) || !sum.is_contiguous() || !sparse_sum_into(sum, grad)) sum = sparse_sum(sum, grad);
    return;
  }
  if (!grad_enabled() && is_unseen(sum) && sum.is_contiguous() && sum.sizes() == grad.sizes() && sum.dtype() == grad.dtype())
    op::add_(sum, grad);
  else
    sum = op::add(sum, grad);
}

// Lists of hooks are copied: a hook may register others, as may other threads.
template <class List>
List copy_of(const Node& node, List NodeHooks::*list) {
  const std::lock_guard lock(node.mutex());
  return node.hooks()->*list;
}
LeafHooks copy_of(const Tensor& leaf, LeafHooks AutogradMeta::*list) {
  AutogradMeta& meta = *meta_of(leaf);
  if (!meta.hooked.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(meta.mutex());
  return meta.*list;
}

Tensor run_hook(TensorHook& hook, Tensor grad) {
  Tensor changed = hook.call(grad);
  if (!changed.defined()) return grad;
  check_hook_result(hook.name(), changed, grad);
  return changed;
}

// Axes in the order in which x lies in memory, the outermost first; none where that is the order of its axes, or x is not dense.
Dims order_in_memory(const Tensor& x) {
  if (x.is_contiguous() || !is_dense(x)) return {};
  Dims order;
  for (int i = 0; i < x.ndim(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.strides()[static_cast<int>(a)] > x.strides()[static_cast<int>(b)]; });
  return order;
}

// A gradient that only the leaf sees, g itself where nobody else does, and that lies as the leaf does: programs flatten it with view().
Tensor owned(Tensor g, const Tensor& leaf) {
  const Dims order = order_in_memory(leaf);
  if (order.empty()) {
    if (!g.is_contiguous()) return op::contiguous_copy(g);
    return is_unseen(g) ? g : op::clone(g);
  }
  const bool unseen = is_unseen(g);
  Dims back(order);
  for (int i = 0; i < order.size(); ++i) back[static_cast<int>(order[i])] = i;
  const Tensor turned = op::permute(g, order);
  if (turned.is_contiguous() && unseen) return g;
  return op::permute(turned.is_contiguous() ? op::clone(turned) : op::contiguous_copy(turned), back);
}

// One thread at a time adds to a leaf.
StripedMutex<LockRank::Accumulation, 16> accumulation_locks;

// apply() as an event of the profiler.
[[gnu::cold]] void apply_recorded(Node& node, BackwardCall& call) {
  profile::TensorEvent event(profile::Kind::Backward, profile::interned(node.name()));
  event.input(call.in);
  event.begin();
  event.node(&node, node.sequence);
  node.apply(call);
  event.output(call.out);
  event.done();
}

// In anomaly mode: raises for the first node that makes NaN, and names its forward call.
[[gnu::cold]] void refuse_nan(const Node& node, const BackwardCall& call) {
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (!call.out[i].defined()) continue;
    const Tensor g = is_sparse(call.out[i]) ? sparse_parts(call.out[i])->values : call.out[i];
    if (g.is_meta() || !is_inexact(g.dtype())) continue;
    NoGrad off;
    if (!*op::any(op::isnan(g)).data<Truth>()) continue;
    const uint32_t stack = node.hooks() ? node.hooks()->made_at : 0;
    const std::string where = stack && describe_stack ? describe_stack(stack) : "";
    raise<AutogradError>("Function '", node.name(), "' returned nan values in its ", i, "th output", where.empty() ? "" : "; the forward call was at\n", where);
  }
}

thread_local std::string backward_note;

// Says in whose backward an error happened, and which line of the forward pass that belongs to, unless the error names it itself.
[[gnu::cold]] void note_failure(const Node& node, std::string_view error) {
  const std::string where = place_text("", node.made_at);
  if (where.empty() || error.find(where) != std::string_view::npos) backward_note.clear();
  else backward_note = text("in the backward of ", node.name(), ", whose forward was at ", where);
}

[[gnu::cold, gnu::noinline]] void refuse_sparse(const Node& node, const Tensor& grad) {
  raise<AutogradError>(node.name(), ": got a sparse gradient of shape ", grad.sizes(),
                       ", which only leaves, products, quotients, sums and clones go on with; make the embedding's weight a leaf, or pass sparse=False");
}

// What the backward that runs on this thread does: whether it keeps the graph, and whether it or one around it is restricted to inputs.
struct Running {
  bool keeps = false, restricted = false;
};
thread_local Running running;

class Runs {
 public:
  Runs(bool keeps, bool restricted) : before_(std::exchange(running, {keeps, running.restricted || restricted})) {}
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
  ~Runs() { running = before_; }

 private:
  const Running before_;
};

}  // namespace

bool keeps_graph() { return running.keeps; }
bool runs_for_inputs() { return running.restricted; }
std::string take_backward_note() { return std::exchange(backward_note, {}); }

class Backward {
 public:
  struct Options {
    bool retain = false;
    bool accumulate = false;  // into the inputs' .grad
    bool leaf_hooks = true;
    bool restricted = true;  // to what the inputs want; else all leaves accumulate
  };

  // The inputs from `later` on are those of the second part.
  Backward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, const std::vector<Tensor>& inputs, size_t later, Options options)
      : options_(options), restricted_(options.restricted), split_(later < inputs.size()), zero_(inputs.size()) {
    for (const Tensor& x : inputs) forms_.push_back({x.sizes(), x.dtype(), x.device()});
    for (size_t i = 0; i < roots.size(); ++i) {
      starts_.push_back(gradient_edge(roots[i]));
      const Edge& edge = starts_.back();
      Pending& p = table_[edge.fn.get()];
      if (p.grads.size() < edge.fn->outputs) p.grads.resize(edge.fn->outputs);
      add_to(p.grads[edge.nr], std::move(grads[i]));
    }
    results_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Edge edge = gradient_edge(inputs[i]);
      keep_.push_back(edge.fn);
      Pending& p = table_[edge.fn.get()];
      if (options.accumulate && edge.fn->is_leaf()) p.target = true;
      else p.captures.emplace_back(edge.nr, i);
    }
    count();
    if (restricted_) mark_wanted(later);
    backward_note.clear();
  }

  // What the inputs from `begin` to `end` got, undefined where nothing arrived. In two parts, only the first is there.
  std::vector<Tensor> results(size_t begin, size_t end) {
    std::vector<Tensor> out;
    for (size_t i = begin; i < end; ++i) {
      const Form& form = forms_[i];
      out.push_back(!results_[i].defined() && zero_[i] ? op::zeros(form.sizes, form.dtype, form.device) : std::move(results_[i]));
    }
    return out;
  }

  void run() {
    const Runs scope(options_.retain, restricted_);
    for (auto& start : starts_)
      if (Pending* p = table_.get(start.fn.get()); p->waiting == 0 && p->wanted && !only_later(*p) && !queued(p)) push(p);
    while (Pending* p = pop()) step(*p);
  }

  size_t inputs() const { return forms_.size(); }

  // The second part.
  void run_later() {
    const Runs scope(options_.retain, restricted_);
    now_ = kLater;
    for (Pending* p : postponed_) push(p);
    for (auto& start : starts_)
      if (Pending* p = table_.get(start.fn.get()); p->waiting == 0 && only_later(*p) && !queued(p)) push(p);
    while (Pending* p = pop()) {
      if (only_later(*p)) step(*p);
      else finish(*p);
    }
  }

 private:
  bool only_later(const Pending& p) const { return split_ && p.wanted == kLater; }
  bool queued(Pending* p) const { return std::find(heap_.begin(), heap_.end(), p) != heap_.end(); }
  void push(Pending* p) {
    heap_.push_back(p);
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }
  Pending* pop() {
    if (heap_.empty()) return nullptr;
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    Pending* p = heap_.back();
    heap_.pop_back();
    return p;
  }

  void count() {
    std::vector<Node*> stack;
    for (auto& start : starts_) {
      Pending& p = table_[start.fn.get()];
      if (!std::exchange(p.seen, true)) stack.push_back(start.fn.get());
    }
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      order_.push_back(node);
      for (size_t i = 0; i < node->edges.size(); ++i) {
        Node* next = node->edges[i].fn.get();
        if (!next) continue;
        Pending& p = table_[next];
        ++p.waiting;
        if (!std::exchange(p.seen, true)) stack.push_back(next);
      }
    }
  }

  // A node is wanted if it was asked for, or an edge of it leads to a wanted one. Sequence numbers are not
  // a topological order across threads, so this iterates over a depth-first post-order.
  void mark_wanted(size_t later) {
    for (auto& e : table_.entries()) {
      e->wanted = e->target ? kNow : 0;
      for (auto& [nr, which] : e->captures) e->wanted |= which < later ? kNow : kLater;
    }
    std::vector<std::pair<Node*, size_t>> stack;
    std::unordered_map<Node*, int> state;
    for (Node* root : order_) {
      if (state[root]) continue;
      stack.emplace_back(root, 0);
      state[root] = 1;
      while (!stack.empty()) {
        auto& [node, i] = stack.back();
        if (i == node->edges.size()) {
          Pending& p = table_[node];
          for (size_t k = 0; k < node->edges.size(); ++k)
            if (Node* next = node->edges[k].fn.get()) p.wanted |= table_[next].wanted;
          stack.pop_back();
          continue;
        }
        Node* next = node->edges[i++].fn.get();
        if (next && !state[next]) {
          state[next] = 1;
          stack.emplace_back(next, 0);
        }
      }
    }
  }

  // Hooks of the tensors that a node made; what hooks and callers see is handed on.
  void arrive(Pending& p, BackwardCall& call) {
    Node& node = *p.node;
    call.in = std::move(p.grads);
    call.in.resize(node.outputs);
    if (node.hooks()) {
      for (const auto hooks = copy_of(node, &NodeHooks::tensor); auto& h : hooks)
        if (call.in[h.output_nr].defined()) call.in[h.output_nr] = run_hook(*h.hook, call.in[h.output_nr]);
      for (const auto retain = copy_of(node, &NodeHooks::retain); auto& [nr, weak] : retain)
        if (Tensor t = weak->lock(); t.defined() && call.in[nr].defined()) accumulate_grad(t, call.in[nr]);
    }
    // A leaf whose gradient is to be returned is not accumulated into, but its hooks see it.
    if (options_.leaf_hooks && !p.captures.empty() && node.is_leaf() && call.in[0].defined())
      call.in[0] = static_cast<AccumulateGrad&>(node).hooked(call.in[0]);
    for (auto& [nr, which] : p.captures) {
      if (call.in[nr].defined()) results_[which] = call.in[nr];
      else if (p.zero) zero_[which] = true;
    }
  }

  // Whether edge i is worked on in this part.
  bool due(const Node& node, size_t i) {
    if (!restricted_) return true;
    const Pending& next = table_[node.edges[i].fn.get()];
    return next.wanted && only_later(next) == (now_ == kLater);
  }
  bool wants(Node* next) { return !restricted_ || table_[next].wanted; }

  void step(Pending& p) {
    Node& node = *p.node;
    const Ref<Node> alive = Ref<Node>::share(&node);
    BackwardCall call;
    arrive(p, call);
    const size_t n = node.edges.size();
    if (p.zero && n == 0 && node.is_leaf() && !call.in[0].defined() && (!restricted_ || p.target)) call.in[0] = static_cast<AccumulateGrad&>(node).zeros();
    if (node.is_leaf() && p.captures.empty() && p.wanted && (!restricted_ || p.target) && call.in[0].defined())  // before those of the node
      call.in[0] = static_cast<AccumulateGrad&>(node).hooked(std::move(call.in[0]));
    const bool any = std::any_of(call.in.begin(), call.in.end(), [](const Tensor& g) { return g.defined(); });
    call.out.resize(n);
    bool postponed = false;
    call.wanted = 0;
    for (size_t i = 0; i < n; ++i) {
      Node* next = node.edges[i].fn.get();
      if (!next || !wants(next)) continue;
      if (due(node, i)) call.wanted |= bit(i);
      else postponed = true;
    }
    decltype(NodeHooks::node) around;
    if (node.hooks()) around = copy_of(node, &NodeHooks::node);
    if (postponed) [[unlikely]] postpone(p, call, !node.divisible() || !around.empty());
    if (any && p.wanted && (n > 0 || !restricted_ || p.target) && (call.wanted || n == 0)) {
      for (auto& [id, h] : around) h->before(call.in);
      std::vector<Tensor> seen;
      if (!around.empty()) seen = call.in;
      else if (n > 0 && node.adds()) call.total = total_of(node);
      apply(node, call);
      for (auto& [id, h] : around) h->after(call.out, seen);
      call.in.clear();
      if (p.whole) release(node);
    }
    if (p.zero && !any) call.zeros = ~uint64_t{0};
    hand_on(node, call);
    if (postponed && p.whole) [[unlikely]] {
      keep(p, std::move(call.out));
      p.zeros = call.zeros;
    }
  }

  // Edges of a node wait for the second part: it runs for them now (`whole`) or again then.
  [[gnu::cold, gnu::noinline]] void postpone(Pending& p, BackwardCall& call, bool whole) {
    postponed_.push_back(&p);
    p.whole = whole;
    if (!whole) return keep(p, call.in);
    for (size_t i = 0; i < p.node->edges.size(); ++i)
      if (Node* next = p.node->edges[i].fn.get(); next && wants(next)) call.wanted |= bit(i);
  }

  static void keep(Pending& p, std::vector<Tensor> grads) {
    p.grads = std::move(grads);
    p.versions = std::make_unique<std::vector<uint32_t>>();
    for (const Tensor& g : p.grads) p.versions->push_back(g.defined() ? g.storage().var().version() : 0);
  }

  // The second part of a node that ran in the first.
  void finish(Pending& p) {
    Node& node = *p.node;
    const Ref<Node> alive = Ref<Node>::share(&node);
    BackwardCall call;
    const size_t n = node.edges.size();
    for (size_t i = 0; i < p.grads.size(); ++i)
      if (const Tensor& g = p.grads[i]; g.defined() && g.storage().var().version() != (*p.versions)[i])
        raise<AutogradError>(node.name(), ": a gradient ", g.sizes(), " was written by ", g.storage().var().writer(),
                             " between both parts of the backward; clone() it before writing");
    if (p.whole) {
      call.out = std::move(p.grads);
      call.zeros = p.zeros;
    } else {
      call.in = std::move(p.grads);
      call.out.resize(n);
      call.wanted = 0;
      for (size_t i = 0; i < n; ++i)
        if (Node* next = node.edges[i].fn.get(); next && wants(next) && due(node, i)) call.wanted |= bit(i);
      if (std::any_of(call.in.begin(), call.in.end(), [](const Tensor& g) { return g.defined(); })) {
        apply(node, call);
        release(node);
      } else if (p.zero) {
        call.zeros = ~uint64_t{0};
      }
    }
    hand_on(node, call);
  }

  // Where a node that adds() may add the gradient for its first edge; null: nowhere.
  Tensor* total_of(const Node& node) {
    Node* const next = node.edges[0].fn.get();
    if (!next || split_ || grad_enabled() || anomaly.on.load(std::memory_order_relaxed) || !wants(next)) return nullptr;
    Pending& q = table_[next];
    const uint32_t nr = node.edges[0].nr;
    if (q.grads.size() <= nr || !q.grads[nr].defined()) return nullptr;
    Tensor& sum = q.grads[nr];
    return !is_sparse(sum) && is_unseen(sum) && sum.is_contiguous() ? &sum : nullptr;
  }

  static uint64_t bit(size_t i) { return uint64_t{1} << (i < 63 ? i : 63); }

  static void apply(Node& node, BackwardCall& call) {
    try {
      for (const Tensor& g : call.in)
        if (g.defined() && is_sparse(g) && !node.takes_sparse()) [[unlikely]] refuse_sparse(node, g);
      if (profile::on()) [[unlikely]] apply_recorded(node, call);
      else node.apply(call);
    } catch (const std::exception& e) {
      note_failure(node, e.what());
      throw;
    }
    if (anomaly.on.load(std::memory_order_relaxed) && anomaly.check_nan) [[unlikely]] refuse_nan(node, call);
  }

  void release(Node& node) const {
    if (options_.retain) return;
    node.release_saved();
    if (!node.edges.size()) return;
    node.used_at = line_;
    node.released = true;
  }

  // Gives the results for the edges that are due to the nodes there; they stay in call.out for others.
  void hand_on(Node& node, BackwardCall& call) {
    for (size_t i = 0; i < node.edges.size(); ++i) {
      Node* next = node.edges[i].fn.get();
      if (!next || !due(node, i)) continue;
      Pending& q = table_[next];
      if (call.out[i].defined()) {
        if (q.grads.size() < next->outputs) q.grads.resize(next->outputs);
        add_to(q.grads[node.edges[i].nr], std::move(call.out[i]));
      } else if (call.zeros & bit(i)) {
        q.zero = true;
      }
      if (--q.waiting == 0) push(&q);
    }
  }

  const Options options_;
  const SourceId line_ = current_source ? current_source() : 0;  // that asked for it
  const bool restricted_, split_;
  struct Form {
    Dims sizes;
    DType dtype;
    Device device;
  };
  std::vector<Form> forms_;  // of the inputs, which are not held
  std::vector<bool> zero_;   // which inputs' gradients are known to be 0
  uint8_t now_ = kNow;
  NodeTable table_;
  std::vector<Edge> starts_;
  std::vector<Node*> order_;
  std::vector<Pending*> heap_;
  std::vector<Pending*> postponed_;
  std::vector<Ref<Node>> keep_;
  std::vector<Tensor> results_;
};

Tensor AccumulateGrad::hooked(Tensor grad) {
  if (const Tensor leaf = leaf_->lock(); leaf.defined() && requires_grad(leaf))
    for (const auto hooks = copy_of(leaf, &AutogradMeta::hooks); auto& [id, hook] : hooks) grad = run_hook(*hook, grad);
  return grad;
}

Tensor AccumulateGrad::zeros() {
  const Tensor leaf = leaf_->lock();
  return leaf.defined() ? op::zeros_like(leaf) : leaf;
}

void accumulate_grad(const Tensor& t, Tensor grad) {
  AutogradMeta& meta = ensure_meta(t);
  // Whoever reads .grad has the GIL, and waits for no sum: the leaf's own lock is held to read and to swap alone. What Python computes, below
  // autograd, is held up by none.
  std::unique_lock one_at_a_time(accumulation_locks.of(&meta), std::defer_lock);
  if (!graph::recording() || !graph::Recorder::here().takes()) one_at_a_time.lock();
  for (;;) {
    Tensor seen = gradient_of(t);
    graph::note_gradient(t, seen, true);
    const bool sparse = is_sparse(grad) || (seen.defined() && is_sparse(seen));
    if (seen.defined() && !grad_enabled()) {
      if (!sparse) {
        op::add_(seen, grad);
        return;
      }
      if (sparse_sum_into(seen, grad)) return;
    }
    Tensor next = seen.defined() ? (sparse ? owned_sparse(sparse_sum(seen, grad)) : op::add(seen, grad)) : (grad = sparse ? owned_sparse(std::move(grad)) : owned(std::move(grad), t));
    const std::lock_guard lock(meta.mutex());
    if (meta.grad.ref().get() != seen.ref().get()) continue;  // replaced meanwhile
    std::swap(meta.grad, next);
    return;
  }
}

Tensor like_gradient(const char* what, Tensor grad, const Tensor& like) {
  if (is_sparse(grad) || is_sparse(like)) [[unlikely]] return like_sparse_gradient(what, grad, like);
  if (!(grad.sizes() == like.sizes()) || grad.device() != like.device())
    raise<AutogradError>(what, ": a gradient of shape ", grad.sizes(), " on ", grad.device(), " for a tensor of shape ", like.sizes(), " on ",
                         like.device(), "; expected equal shapes and devices");
  if (is_complex(grad.dtype()) && !is_complex(like.dtype())) grad = op::real(grad);
  if (grad.dtype() != like.dtype()) return op::cast(grad, like.dtype());
  return grad;  // moved: a second reference would make accumulate_grad copy it
}

void check_hook_result(const std::string& hook, const Tensor& changed, const Tensor& grad) {
  if (is_sparse(changed) != is_sparse(grad))
    raise<AutogradError>(hook, ": returned a ", is_sparse(grad) ? "dense" : "sparse", " gradient of shape ", changed.sizes(), " for a ",
                         is_sparse(grad) ? "sparse" : "dense", " one; expected the same layout");
  if (!(changed.sizes() == grad.sizes()) || changed.device() != grad.device())
    raise<AutogradError>(hook, ": a gradient of shape ", changed.sizes(), " on ", changed.device(), " for a tensor of shape ", grad.sizes(), " on ",
                         grad.device(), "; expected equal shapes and devices");
  if (changed.dtype() != grad.dtype())
    raise<AutogradError>(hook, ": returned a gradient of ", changed.dtype(), " for one of ", grad.dtype(), "; expected the same type, as by .to(grad.dtype)");
}

void AccumulateGrad::apply(BackwardCall& call) {
  Tensor leaf = leaf_->lock();
  if (!leaf.defined()) return;       // nobody can look at its .grad any more
  if (!requires_grad(leaf)) return;  // switched off after it was recorded
  accumulate_grad(leaf, like_gradient("backward", std::move(call.in[0]), leaf));
  for (const auto hooks = copy_of(leaf, &AutogradMeta::post_accumulate); auto& [id, hook] : hooks) (void)hook->call(leaf);
}

namespace {

// Raises unless a backward can begin at these, and fills in gradients that were left out.
void check_roots(const std::vector<Tensor>& roots, std::vector<Tensor>& grads) {
  if (grads.size() != roots.size())
    raise<AutogradError>("backward: ", roots.size(), " tensors but ", grads.size(), " gradients; expected one gradient (or None) per tensor");
  for (size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    if (!requires_grad(root))
      raise<AutogradError>("backward: element ", i, " of tensors, of shape ", root.sizes(), ", does not require grad and does not have a grad_fn; "
                           "was it made from tensors that require grad, outside of no_grad() and detach()?");
    if (!grads[i].defined()) {
      if (root.numel() != 1)
        raise<AutogradError>("backward: grad can be implicitly created only for scalar outputs, but tensors[", i, "] has shape ",
                             root.sizes(), "; reduce it first (for example .sum()), or pass gradient=");
      if (is_complex(root.dtype()))
        raise<AutogradError>("backward: grad can be implicitly created only for real scalar outputs, but tensors[", i, "] is ", root.dtype(),
                             "; make it real first (for example .abs() or .real), or pass gradient=");
      grads[i] = op::ones_like(root);
    } else {
      if (is_complex(grads[i].dtype()) != is_complex(root.dtype()))
        raise<AutogradError>("backward: a gradient of ", grads[i].dtype(), " for tensors[", i, "] of ", root.dtype(), "; expected ",
                             is_complex(root.dtype()) ? "a complex one (for example torch.complex(g, zeros))" : "a real one (for example g.real)");
      grads[i] = like_gradient("backward", std::move(grads[i]), root);
    }
  }
}

void check_inputs(const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!requires_grad(inputs[i]))
      raise<AutogradError>("grad: inputs[", i, "] ", inputs[i].sizes(), " does not require grad; call requires_grad_() on it before the outputs are computed from it");
}

}  // namespace

std::vector<Tensor> run_backward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, bool retain_graph,
                                 bool create_graph, const std::vector<Tensor>& inputs, bool accumulate, bool allow_unused, bool leaf_hooks) {
  check_roots(roots, grads);
  check_inputs(inputs);
  graph::note_backward();
  WithGrad mode(create_graph);
  // Gradients are computed in the types of the forward, wherever backward is called.
  const WithoutAutocast types_stay;
  Backward backward(roots, std::move(grads), inputs, inputs.size(), {retain_graph, accumulate, leaf_hooks, !inputs.empty()});
  backward.run();
  std::vector<Tensor> results = backward.results(0, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!results[i].defined() && !allow_unused && !accumulate)
      raise<AutogradError>("grad: inputs[", i, "] ", inputs[i].sizes(), " appears to not have been used in the graph of the outputs. Set allow_unused=True to get None for it");
    const AutogradMeta* meta = meta_of(inputs[i]);  // one that retains its gradient has it already
    if (accumulate && results[i].defined() && !(meta && meta->retains_grad && !is_leaf(inputs[i]))) accumulate_grad(inputs[i], std::move(results[i]));
  }
  return accumulate ? std::vector<Tensor>{} : std::move(results);
}

SplitBackward::SplitBackward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, const std::vector<Tensor>& first, const std::vector<Tensor>& second)
    : first_(first.size()) {
  check_roots(roots, grads);
  check_inputs(first);
  check_inputs(second);
  std::vector<Tensor> inputs = first;
  inputs.insert(inputs.end(), second.begin(), second.end());
  backward_ = std::make_unique<Backward>(roots, std::move(grads), inputs, first_, Backward::Options{.leaf_hooks = false});
}
SplitBackward::~SplitBackward() = default;

// Raises unless this is the part that comes next; another thread that asks meanwhile is refused.
void SplitBackward::go(State from, State to) {
  if (!state_.compare_exchange_strong(from, to)) raise<AutogradError>("SplitBackward: expected the first part, then the second, each once");
}

std::vector<Tensor> SplitBackward::first() {
  go(State::New, State::Busy);
  const NoGrad off;
  const WithoutAutocast types_stay;
  std::unique_ptr<Backward> first_part = std::move(backward_);  // goes if it fails
  first_part->run();
  std::vector<Tensor> out = first_part->results(0, first_);
  backward_ = std::move(first_part);
  state_ = State::Halfway;
  return out;
}

std::vector<Tensor> SplitBackward::second() {
  go(State::Halfway, State::Busy);
  const NoGrad off;
  const WithoutAutocast types_stay;
  const std::unique_ptr<Backward> ending = std::move(backward_);
  ending->run_later();
  return ending->results(first_, ending->inputs());
}

}  // namespace fl
