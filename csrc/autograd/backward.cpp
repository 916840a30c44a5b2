// Running the graph backwards.
//
// One call works on its own thread, without the GIL, with its own table of pending gradients, so several
// threads may run at once, and a hook or custom function may call backward again.
//
//   count how many gradients each reachable node will get  ->  heap of ready nodes, latest first  ->
//   take one, run it, hand its results to the nodes at its edges, push those that became ready
#include <algorithm>
#include <unordered_map>

#include "autograd/meta.h"
#include "autograd/recorded.h"
#include "base/error.h"
#include "graph/recorder.h"
#include "op/add.h"
#include "op/any.h"
#include "op/cast.h"
#include "op/clone.h"
#include "op/isnan.h"
#include "op/ones_like.h"

namespace fl {
namespace {

struct Pending {
  Node* node = nullptr;
  int waiting = 0;     // gradients still to come
  bool seen = false;   // by the counting pass
  bool wanted = true;  // lies on a path to an input that was asked for
  bool target = false;  // a leaf that was asked to accumulate
  std::vector<Tensor> grads;
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
  if (!grad_enabled() && sum.ref()->use_count() == 1 && sum.storage().owners() == 1 && sum.is_contiguous() &&
      sum.sizes() == grad.sizes() && sum.dtype() == grad.dtype())
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
  return changed.defined() ? like_gradient("hook", std::move(changed), grad) : grad;
}

// g itself if nobody else can see it, else a copy.
Tensor owned(Tensor g) {
  if (g.ref()->use_count() == 1 && g.storage().owners() == 1 && g.is_contiguous()) return g;
  return op::clone(g);
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
    const Tensor& g = call.out[i];
    if (!g.defined() || g.is_meta() || !is_float(g.dtype())) continue;
    NoGrad off;
    if (!*op::any(op::isnan(g)).data<Truth>()) continue;
    const uint32_t stack = node.hooks() ? node.hooks()->made_at : 0;
    const std::string where = stack && describe_stack ? describe_stack(stack) : "";
    raise<AutogradError>("Function '", node.name(), "' returned nan values in its ", i, "th output", where.empty() ? "" : "; the forward call was at\n", where);
  }
}

class Backward {
 public:
  std::vector<Tensor> run(const std::vector<Tensor>& roots, std::vector<Tensor> grads, bool retain,
                          const std::vector<Tensor>& inputs, bool accumulate, bool allow_unused, bool leaf_hooks) {
    retain_ = retain;
    leaf_hooks_ = leaf_hooks;
    std::vector<Edge> starts;
    for (size_t i = 0; i < roots.size(); ++i) {
      Edge edge = gradient_edge(roots[i]);
      Pending& p = table_[edge.fn.get()];
      if (p.grads.size() < edge.fn->outputs) p.grads.resize(edge.fn->outputs);
      add_to(p.grads[edge.nr], std::move(grads[i]));
      starts.push_back(std::move(edge));
    }
    results_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Edge edge = gradient_edge(inputs[i]);
      keep_.push_back(edge.fn);
      Pending& p = table_[edge.fn.get()];
      if (accumulate && edge.fn->is_leaf()) p.target = true;
      else p.captures.emplace_back(edge.nr, i);
    }
    restricted_ = !inputs.empty();
    count(starts);
    if (restricted_) mark_wanted();
    std::vector<Pending*> heap;
    for (auto& start : starts) {
      Pending* p = table_.get(start.fn.get());
      if (p->waiting == 0 && !queued(heap, p)) push(heap, p);
    }
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), Later{});
      Pending* p = heap.back();
      heap.pop_back();
      step(*p, heap);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!results_[i].defined() && !allow_unused && !accumulate)
        raise<AutogradError>("grad: inputs[", i, "] ", inputs[i].sizes(), " was not used in the graph of the outputs; pass allow_unused=True to get None for it");
      if (accumulate && results_[i].defined()) accumulate_grad(inputs[i], std::move(results_[i]));
    }
    return accumulate ? std::vector<Tensor>{} : std::move(results_);
  }

 private:
  static bool queued(const std::vector<Pending*>& heap, Pending* p) {
    return std::find(heap.begin(), heap.end(), p) != heap.end();
  }
  static void push(std::vector<Pending*>& heap, Pending* p) {
    heap.push_back(p);
    std::push_heap(heap.begin(), heap.end(), Later{});
  }

  void count(const std::vector<Edge>& starts) {
    std::vector<Node*> stack;
    for (auto& start : starts) {
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
  void mark_wanted() {
    for (auto& e : table_.entries()) e->wanted = e->target || !e->captures.empty();
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
          for (size_t k = 0; k < node->edges.size() && !p.wanted; ++k)
            if (Node* next = node->edges[k].fn.get()) p.wanted = table_[next].wanted;
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

  void step(Pending& p, std::vector<Pending*>& heap) {
    Node& node = *p.node;
    const Ref<Node> alive = Ref<Node>::share(&node);
    BackwardCall call;
    call.in = std::move(p.grads);
    call.in.resize(node.outputs);
    bool any = false;
    if (node.hooks()) {
      for (const auto hooks = copy_of(node, &NodeHooks::tensor); auto& h : hooks)
        if (call.in[h.output_nr].defined()) call.in[h.output_nr] = run_hook(*h.hook, call.in[h.output_nr]);
      for (const auto retain = copy_of(node, &NodeHooks::retain); auto& [nr, weak] : retain)
        if (Tensor t = weak->lock(); t.defined() && call.in[nr].defined()) accumulate_grad(t, call.in[nr]);
    }
    // A leaf whose gradient is to be returned is not accumulated into, but its hooks see it.
    if (leaf_hooks_ && !p.captures.empty() && node.is_leaf() && call.in[0].defined()) call.in[0] = static_cast<AccumulateGrad&>(node).hooked(call.in[0]);
    for (auto& [nr, which] : p.captures)
      if (call.in[nr].defined()) results_[which] = call.in[nr];
    for (auto& g : call.in) any = any || g.defined();
    const size_t n = node.edges.size();
    call.out.resize(n);
    const bool run_it = any && p.wanted && (n > 0 || !restricted_ || p.target);
    if (run_it) {
      call.wanted = 0;
      for (size_t i = 0; i < n; ++i) {
        Node* next = node.edges[i].fn.get();
        if (next && (!restricted_ || table_[next].wanted)) call.wanted |= uint64_t{1} << (i < 63 ? i : 63);
      }
      if (call.wanted || n == 0) {
        decltype(NodeHooks::node) around;
        if (node.hooks()) around = copy_of(node, &NodeHooks::node);
        for (auto& [id, h] : around) h->before(call.in);
        std::vector<Tensor> seen;
        if (!around.empty()) seen = call.in;
        if (profile::on()) [[unlikely]] apply_recorded(node, call);
        else node.apply(call);
        if (anomaly.on.load(std::memory_order_relaxed) && anomaly.check_nan) [[unlikely]] refuse_nan(node, call);
        for (auto& [id, h] : around) h->after(call.out, seen);
        call.in.clear();
        if (!retain_) {
          node.release_saved();
          if (n) node.released = true;
        }
      }
    }
    for (size_t i = 0; i < n; ++i) {
      Node* next = node.edges[i].fn.get();
      if (!next) continue;
      Pending& q = table_[next];
      if (call.out[i].defined()) {
        if (q.grads.size() < next->outputs) q.grads.resize(next->outputs);
        add_to(q.grads[node.edges[i].nr], std::move(call.out[i]));
      }
      if (--q.waiting == 0) push(heap, &q);
    }
  }

  NodeTable table_;
  std::vector<Node*> order_;
  std::vector<Ref<Node>> keep_;
  std::vector<Tensor> results_;
  bool retain_ = false, leaf_hooks_ = true;
  bool restricted_ = false;
};

}  // namespace

Tensor AccumulateGrad::hooked(Tensor grad) {
  if (const Tensor leaf = leaf_->lock(); leaf.defined())
    for (const auto hooks = copy_of(leaf, &AutogradMeta::hooks); auto& [id, hook] : hooks) grad = run_hook(*hook, grad);
  return grad;
}

void accumulate_grad(const Tensor& t, Tensor grad) {
  AutogradMeta& meta = ensure_meta(t);
  // Whoever reads .grad has the GIL, and waits for no sum: the leaf's own lock is held to read and to swap alone.
  const std::lock_guard one_at_a_time(accumulation_locks.of(&meta));
  for (;;) {
    Tensor seen = gradient_of(t);
    graph::note_gradient(t, seen, true);
    if (seen.defined() && !grad_enabled()) {
      op::add_(seen, grad);
      return;
    }
    Tensor next = seen.defined() ? op::add(seen, grad) : (grad = owned(std::move(grad)));
    const std::lock_guard lock(meta.mutex());
    if (meta.grad.ref().get() != seen.ref().get()) continue;  // replaced meanwhile
    std::swap(meta.grad, next);
    return;
  }
}

Tensor like_gradient(const char* what, Tensor grad, const Tensor& like) {
  if (!(grad.sizes() == like.sizes()) || grad.device() != like.device())
    raise<AutogradError>(what, ": a gradient of shape ", grad.sizes(), " on ", grad.device(), " for a tensor of shape ", like.sizes(), " on ",
                         like.device(), "; expected equal shapes and devices");
  if (grad.dtype() != like.dtype()) return op::cast(grad, like.dtype());
  return grad;  // moved: a second reference would make accumulate_grad copy it
}

void AccumulateGrad::apply(BackwardCall& call) {
  Tensor leaf = leaf_->lock();
  if (!leaf.defined()) return;       // nobody can look at its .grad any more
  if (!requires_grad(leaf)) return;  // switched off after it was recorded
  Tensor grad = hooked(std::move(call.in[0]));
  accumulate_grad(leaf, like_gradient("backward", std::move(grad), leaf));
  for (const auto hooks = copy_of(leaf, &AutogradMeta::post_accumulate); auto& [id, hook] : hooks) (void)hook->call(leaf);
}

std::vector<Tensor> run_backward(const std::vector<Tensor>& roots, std::vector<Tensor> grads, bool retain_graph,
                                 bool create_graph, const std::vector<Tensor>& inputs, bool accumulate, bool allow_unused, bool leaf_hooks) {
  if (grads.size() != roots.size())
    raise<AutogradError>("backward: ", roots.size(), " tensors but ", grads.size(), " gradients; expected one gradient (or None) per tensor");
  for (size_t i = 0; i < roots.size(); ++i) {
    const Tensor& root = roots[i];
    if (!requires_grad(root))
      raise<AutogradError>("backward: tensors[", i, "] ", root.sizes(), " does not require grad and has no grad_fn; "
                           "was it made from tensors that require grad, outside of no_grad() and detach()?");
    if (!grads[i].defined()) {
      if (root.numel() != 1)
        raise<AutogradError>("backward: grad can only be left out for a tensor with one element, but tensors[", i, "] has shape ",
                             root.sizes(), "; reduce it first (for example .sum()), or pass gradient=");
      grads[i] = op::ones_like(root);
    } else {
      grads[i] = like_gradient("backward", std::move(grads[i]), root);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!requires_grad(inputs[i]))
      raise<AutogradError>("grad: inputs[", i, "] ", inputs[i].sizes(), " does not require grad");
  WithGrad mode(create_graph);
  // Gradients are computed in the types of the forward, wherever backward is called.
  const WithoutAutocast types_stay;
  return Backward().run(roots, std::move(grads), retain_graph, inputs, accumulate, allow_unused, leaf_hooks);
}

}  // namespace fl
