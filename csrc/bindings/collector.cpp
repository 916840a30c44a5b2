#include "bindings/collector.h"

#include "autograd/meta.h"
#include "bindings/function.h"
#include "bindings/hollow.h"
#include "bindings/hooks.h"

namespace fl::py {
namespace {

// One call of the collector's.
struct Walk {
  visitproc visit;
  void* arg;
  bool decides;

  Walk(PyObject* self, visitproc v, void* a) : visit(v), arg(a) {
    // The first walk names the object that it comes from, for debugging; others hand on a list.
    static visitproc counting = nullptr;
    if (arg == self) counting = visit;
    decides = !counting || visit == counting;
  }
  bool shows(bool& visited, uint32_t owners) const {
    if (decides) visited = owners == 1;
    return visited;
  }

  template <class Hook, class Base>
  int hook(Base& hook) const {
    Py_VISIT(static_cast<Hook&>(hook).fn.get());
    return 0;
  }
  int leaf_hooks(const AutogradMeta& meta) const {
    for (auto* list : {&meta.hooks, &meta.post_accumulate})
      for (auto& [id, h] : *list)
        if (const int stop = hook<PyTensorHook>(*h)) return stop;
    return 0;
  }
  int own(Node& node) const {
    if (const NodeHooks* hooks = node.hooks()) {
      for (auto& entry : hooks->tensor)
        if (const int stop = hook<PyTensorHook>(*entry.hook)) return stop;
      for (auto& [id, h] : hooks->node)
        if (const int stop = hook<PyNodeHook>(*h)) return stop;
      if (hooks->metadata) Py_VISIT(static_cast<const PyNodeMetadata&>(*hooks->metadata).dict.get());
    }
    if (auto* function = dynamic_cast<PyFunctionNode*>(&node)) Py_VISIT(function->ctx());
    if (!node.is_leaf()) return 0;
    const TensorImpl* heir = static_cast<AccumulateGrad&>(node).heir();
    auto* meta = heir ? static_cast<AutogradMeta*>(heir->meta.get()) : nullptr;
    return meta && shows(meta->visited, heir->use_count()) ? leaf_hooks(*meta) : 0;
  }
  // What `root` and the nodes below it keep of Python, as far as each has one owner. Frees nothing, calls nothing.
  int nodes(Node* root) const {
    std::vector<Node*> stack;
    auto push = [&](Node* node) {
      if (node && shows(node->visited, node->use_count())) stack.push_back(node);
    };
    push(root);
    while (!stack.empty()) {
      Node& node = *stack.back();
      stack.pop_back();
      if (const int stop = own(node)) return stop;
      for (size_t i = 0; i < node.edges.size(); ++i) push(node.edges[i].fn.get());
    }
    return 0;
  }
};

}  // namespace

bool owns_python(const Tensor& x) {
  const AutogradMeta* meta = meta_of(x);
  return meta && (!meta->hooks.empty() || !meta->post_accumulate.empty() || (meta->grad_fn && meta->grad_fn->hooks()));
}

int traverse_owned(const Tensor& x, PyObject* self, visitproc visit, void* arg) {
  const Walk walk(self, visit, arg);
  if (is_hollow(x)) [[unlikely]] {
    Hollow& hollow = Hollow::of(x);
    if (walk.shows(hollow.visited, x.ref()->use_count() == 1 ? x.storage().use_count() : 2))
      if (const int stop = hollow.traverse(visit, arg)) return stop;
  }
  AutogradMeta* outer = meta_of(x);
  if (!outer || !walk.shows(outer->visited, x.ref()->use_count())) return 0;
  // A chain of gradients of gradients, each its owner's alone. The lock keeps the rest as it is.
  const std::lock_guard lock(outer->mutex());
  for (AutogradMeta* meta = outer; meta;) {
    if (const int stop = walk.leaf_hooks(*meta)) return stop;
    if (const int stop = walk.nodes(meta->accumulator.load(std::memory_order_acquire))) return stop;
    if (const int stop = walk.nodes(meta->grad_fn.get())) return stop;
    const Tensor& grad = meta->grad;
    AutogradMeta* next = grad.defined() ? meta_of(grad) : nullptr;
    meta = next && walk.shows(next->visited, grad.ref()->use_count()) ? next : nullptr;
  }
  return 0;
}

void clear_owned(const Tensor& x) {
  if (is_hollow(x) && x.ref()->use_count() == 1 && x.storage().use_count() == 1) Hollow::of(x).clear();
  AutogradMeta* meta = meta_of(x);
  if (!meta) return;
  // Dropped after the lock, since it runs programs.
  Ref<Node> node;
  Tensor grad;
  LeafHooks hooks, post_accumulate;
  {
    const std::lock_guard lock(meta->mutex());
    if (x.ref()->use_count() != 1) return;
    hooks.swap(meta->hooks);
    post_accumulate.swap(meta->post_accumulate);
    std::swap(grad, meta->grad);
    if (meta->grad_fn && meta->grad_fn->use_count() == 1) std::swap(node, meta->grad_fn);
  }
  AccumulateGrad* sink = meta->accumulator.load(std::memory_order_acquire);
  if (sink && sink->use_count() == 1) clear_node(sink);
}

int traverse_node(Node* node, PyObject* self, visitproc visit, void* arg) { return Walk(self, visit, arg).nodes(node); }

// The node stays, for whoever still asks for its name.
void clear_node(Node* node) {
  if (!node || node->use_count() != 1) return;
  if (NodeHooks* hooks = node->hooks()) {
    NodeHooks dropped;
    const std::lock_guard lock(node->mutex());
    dropped.tensor.swap(hooks->tensor);
    dropped.retain.swap(hooks->retain);
    dropped.node.swap(hooks->node);
    dropped.metadata.swap(hooks->metadata);
  }
  if (auto* function = dynamic_cast<PyFunctionNode*>(node)) function->drop_ctx();
  node->edges.clear();
}

}  // namespace fl::py
