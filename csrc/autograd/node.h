// The recorded graph: a Node per differentiable op, edges towards the leaves, and what a node saved.
//
// See Note [Ownership of the graph] in meta.h and Note [Saved tensors] in saved_tensor.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "engine/var.h"
#include "tensor/tensor.h"

namespace fl {

class Node;

// "Gradient number `nr` of `fn`", where fn's inputs are the gradients of its op's outputs.
struct Edge {
  Ref<Node> fn;
  uint32_t nr = 0;
};

// The node's edges: three inline, which covers most ops, then the heap.
class EdgeList {
 public:
  size_t size() const { return size_; }
  Edge& operator[](size_t i) { return i < kInline ? inline_[i] : more_[i - kInline]; }
  const Edge& operator[](size_t i) const { return i < kInline ? inline_[i] : more_[i - kInline]; }
  void push_back(Edge edge) {
    if (size_ < kInline) inline_[size_] = std::move(edge);
    else more_.push_back(std::move(edge));
    ++size_;
  }
  void clear() {
    for (auto& e : inline_) e = Edge{};
    more_.clear();
    size_ = 0;
  }

 private:
  static constexpr size_t kInline = 3;
  Edge inline_[kInline];
  std::vector<Edge> more_;
  size_t size_ = 0;
};

// Called with the gradient of one tensor; returns a replacement or an undefined tensor for "as it was".
struct TensorHook : RefCounted {
  virtual Tensor call(const Tensor& grad) = 0;
  virtual std::string name() const { return "hook"; }  // for errors
};
// Called around a node; each may replace gradients in the list that it is given to change.
struct SavedVisitor;

struct NodeHook : RefCounted {
  virtual void before(std::vector<Tensor>& grad_outputs) { (void)grad_outputs; }
  virtual void after(std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs) {
    (void)grad_inputs;
    (void)grad_outputs;
  }
};
extern StripedMutex<LockRank::WeakTensor, 8> weak_tensor_locks;
// A pointer to a tensor that the tensor's own death clears, or passes on: Note [Hooks of a leaf that has gone]. Safe from any
// thread.
class WeakTensor final : public RefCounted {
 public:
  explicit WeakTensor(TensorImpl* impl) : impl_(impl) { impl->hold_weakly(); }
  Tensor lock();
  void point_to(TensorImpl* impl) {
    const std::lock_guard guard(weak_tensor_locks.of(this));
    impl_ = impl;
  }

 private:
  TensorImpl* impl_;
};

struct HookHandle {
  uint64_t id;
  uint32_t output_nr;
  Ref<TensorHook> hook;
};
// What a program notes about a node, for itself.
struct NodeMetadata {
  virtual ~NodeMetadata() = default;
};
// The lists change under the node's mutex and with the GIL.
struct NodeHooks {
  uint32_t made_at = 0;                                            // stack of the forward call, in anomaly mode
  std::vector<HookHandle> tensor;                                  // gradients of this op's outputs
  std::vector<std::pair<uint32_t, Ref<WeakTensor>>> retain;         // retain_grad()
  std::vector<std::pair<uint64_t, Ref<NodeHook>>> node;
  std::unique_ptr<NodeMetadata> metadata;
  Node* within = nullptr;  // that runs this one, and is alive while it is set: Note [Writing to a view] in meta.cpp
};

// Anomaly mode, for the whole process: nodes remember where they were made, and backward looks for NaN.
struct Anomaly {
  std::atomic<bool> on{false};
  std::atomic<bool> check_nan{true};
};
extern Anomaly anomaly;
extern uint32_t (*stack_of_call)();                 // a number for the running Python lines; set by the bindings
extern std::string (*describe_stack)(uint32_t);  // ... as lines of text, the innermost first

// Guard what hangs from a leaf or a node, for as long as it takes to read or change it.
extern StripedMutex<LockRank::Leaf, 8> leaf_locks;

// A place in the user's program as text ("net.py:33, in forward (`y = x + 1`)") between `before` and `after`; nothing at all where it is unknown.
std::string place_text(const char* before, SourceId place, const char* after = "");
// What hinders a second backward through a node.
[[noreturn]] void raise_released(const Node& node);
// Where the backward was that an exception left last, for who makes a Python error of it; empty afterwards.
std::string take_backward_note();

uint64_t next_hook_id();
uint64_t next_sequence();  // of the next node of this thread

// A gradient from outside (an argument, a hook), cast to the type of `like`; raises unless it has its shape and device.
Tensor like_gradient(const char* what, Tensor grad, const Tensor& like);
// Raises unless a hook's result can stand for the gradient that the hook was given.
void check_hook_result(const std::string& hook, const Tensor& changed, const Tensor& grad);

// What a node's apply() sees: the gradients that arrived, which ones are wanted, where they go.
struct BackwardCall {
  std::vector<Tensor> in;   // one per output of the forward op; undefined where nothing arrived
  std::vector<Tensor> out;  // one per edge
  uint64_t wanted = ~uint64_t{0};  // bit i: edge i (the last bit stands for all beyond)
  // Of a node that adds(): what has come so far for edge 0 and is seen by nobody else. apply() may add its gradient there, and leaves out[0] undefined then.
  Tensor* total = nullptr;
  uint64_t zeros = 0;  // ... whose gradient is 0, for which there is no tensor: Note [Gradients that are 0]

  bool needs(size_t i) const { return (wanted >> (i < 63 ? i : 63)) & 1; }
  void set(size_t i, Tensor grad) { out[i] = std::move(grad); }
  void zero(size_t i) { zeros |= uint64_t{1} << (i < 63 ? i : 63); }
};

class Node : public RefCounted {
 public:
  FL_SMALL_OBJECT
  explicit Node(uint32_t outputs = 1);
  ~Node() override { delete hooks(); }

  virtual const char* name() const = 0;
  // Fills call.out for the wanted edges.
  virtual void apply(BackwardCall& call) = 0;
  virtual bool is_leaf() const { return false; }
  // Drops saved tensors; apply() afterwards raises.
  virtual void release_saved() {}
  // Shows what it keeps of the forward pass, by the names that PyTorch has for it.
  virtual void show_saved(SavedVisitor& visitor) const { (void)visitor; }
  // The op's result is about to be overwritten, which the node may have kept instead of what the op overwrote.
  virtual void before_overwrite() {}
  // Whether apply() for some edges now and others later does no work twice and shows nobody anything twice.
  virtual bool divisible() const { return true; }
  // Whether apply() makes use of BackwardCall::total: Note [Gradients of parts] in backward.cpp.
  virtual bool adds() const { return false; }
  // Whether apply() knows what to make of a sparse gradient: Note [Sparse gradients] in tensor/sparse.h.
  virtual bool takes_sparse() const { return is_leaf(); }

  // Null until somebody wanted them; then they stay.
  NodeHooks* hooks() const { return hooks_.load(std::memory_order_acquire); }
  NodeHooks& need_hooks();
  ForkMutex& mutex() const { return leaf_locks.of(this); }

  EdgeList edges;
  const uint64_t sequence;   // later nodes run first
  uint32_t outputs;          // of the forward op
  SourceId made_at = 0;      // the line of the forward call
  SourceId used_at = 0;      // ... and of the backward that released it
  bool released = false;
  bool visited = false;  // Note [Two passes of the collector]

 protected:
  explicit Node(uint64_t seq, uint32_t n) : sequence(seq), outputs(n) {}
  void destroy() noexcept override { destroy_flat(); }

  // Edges [begin, end) belong to an argument that has no gradient formula: raises where one is wanted.
  void refuse_gradient(const BackwardCall& call, size_t begin, size_t end, const char* op, const char* argument) const;

 private:
  std::atomic<NodeHooks*> hooks_{nullptr};
};

}  // namespace fl
