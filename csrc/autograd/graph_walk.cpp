// What a graph holds and where it leads, told without running it.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/meta.h"
#include "autograd/saved_tensor.h"

namespace fl {

GraphSize graph_size(const Tensor& x) {
  GraphSize out;
  std::vector<Ref<Node>> stack;
  std::unordered_set<const Node*> seen;
  std::unordered_set<const Storage*> kept, leaves;
  std::unordered_map<SourceId, size_t> lines;
  struct Kept final : SavedVisitor {
    using SavedVisitor::meet;
    void meet(const char*, const SavedTensor& x) override {
      if (x.bytes().defined()) tensors.push_back(x.bytes());
    }
    std::vector<Tensor> tensors;
  } saved;
  const auto visit = [&](const Ref<Node>& node) {
    if (node && seen.insert(node.get()).second) stack.push_back(node);
  };
  if (requires_grad(x)) visit(gradient_edge(x).fn);
  if (!stack.empty()) out.made_at = stack.back()->made_at;
  while (!stack.empty()) {
    const Ref<Node> node = std::move(stack.back());
    stack.pop_back();
    if (node->is_leaf()) {
      if (const Tensor leaf = static_cast<AccumulateGrad&>(*node).variable(); leaf.defined()) leaves.insert(&leaf.storage());
      continue;
    }
    ++out.nodes;
    ++lines[node->made_at];
    node->show_saved(saved);
    for (size_t i = 0; i < node->edges.size(); ++i) visit(node->edges[i].fn);
  }
  for (const Tensor& t : saved.tensors)
    if (!leaves.count(&t.storage()) && kept.insert(&t.storage()).second) out.bytes += t.storage().size_bytes();
  out.lines.assign(lines.begin(), lines.end());
  std::sort(out.lines.begin(), out.lines.end(), [](auto& a, auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  return out;
}

bool reaches_others(const std::vector<Tensor>& roots, const std::vector<Tensor>& leaves) {
  std::vector<Node*> stack;
  std::unordered_set<Node*> seen;
  const auto visit = [&](Node* node) {
    if (node && seen.insert(node).second) stack.push_back(node);
  };
  for (const Tensor& leaf : leaves)
    if (requires_grad(leaf) && is_leaf(leaf)) seen.insert(gradient_edge(leaf).fn.get());
  for (const Tensor& root : roots)
    if (requires_grad(root)) visit(gradient_edge(root).fn.get());
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (node->is_leaf()) {
      auto& end = static_cast<AccumulateGrad&>(*node);
      const Tensor leaf = end.variable();
      if (end.heir() || (leaf.defined() && requires_grad(leaf))) return true;  // else one at which nobody can ask any more
    }
    for (size_t i = 0; i < node->edges.size(); ++i) visit(node->edges[i].fn.get());
  }
  return false;
}

}  // namespace fl
