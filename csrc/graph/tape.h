// What was recorded: calls of ops over values, which are views of buffers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/var.h"
#include "graph/op_info.h"
#include "tensor/tensor.h"

namespace fl::graph {

constexpr uint32_t kNone = ~uint32_t{0};

struct NodeRecord {
  const OpInfo* op;
  uint32_t args;           // the first of its boxes
  uint32_t n_args;
  uint32_t outs;           // the first of its fresh outputs, a value
  uint32_t first, last;    // its values, arguments before outputs: [first, last)
  SourceId source;
};

// A recorded element-wise op on its way into a chain.
struct Link {
  Frame frame;
  const OpInfo* op;
  uint32_t node;      // its place on the tape
  uint32_t last;      // the last node that uses what it writes
  bool stays;         // somebody sees it afterwards
};
// Runs the first of these, two or more, in one pass over memory; returns how many. 0: the first goes alone. Set by the wrappers.
extern size_t (*run_linked)(std::span<const Link> links);
// How many that would be, or none at run time: by their operands, of which no byte is read.
extern size_t (*count_linked)(std::span<const Link> links);

// A pass over memory that is made once and run often, each time over what its values hold then.
class KeptPass {
 public:
  virtual ~KeptPass() = default;
  virtual size_t links() const = 0;  // two or more, the first ones of those it was made of
  virtual bool run() = 0;            // false, and nothing was done: they go one by one
};
// Null where there is none. The links' frames have to stay.
extern std::unique_ptr<KeptPass> (*keep_linked)(std::span<const Link> links);

struct Tape {
  std::vector<NodeRecord> nodes;
  std::vector<Tensor> values;        // aliases without history; undefined: an argument that was not given
  std::vector<uint32_t> buffer_of;   // of each value; kNone for those
  std::vector<uint32_t> next;        // the value of the same buffer that was recorded before
  std::vector<Box> boxes;
  std::vector<int64_t> ints;
  std::string text;
  std::vector<Ref<Generator>> generators;

  Frame frame_of(const NodeRecord& node) const {
    return {boxes.data() + node.args, values.data(), ints.data(), text.data(), values.data() + node.outs, generators.data()};
  }
  // Calls f(value) for what a node overwrites among its arguments, and f(value) for its fresh outputs.
  template <class F>
  void for_overwritten(const NodeRecord& node, F&& f) const {
    if (!node.op->writes) return;
    if (node.op->writes_when >= 0 && !boxes[node.args + static_cast<uint32_t>(node.op->writes_when)].integer) return;
    for (uint32_t i = 0; i < node.n_args; ++i) {
      const Box& box = boxes[node.args + i];
      if (!(node.op->writes >> i & 1)) continue;
      const auto v = static_cast<uint32_t>(box.integer);
      const uint32_t n = box.kind == Box::Kind::Tensor ? 1 : box.kind == Box::Kind::Tensors ? box.count : 0;
      for (uint32_t k = 0; k < n; ++k)
        if (buffer_of[v + k] != kNone) f(v + k);
    }
  }
  template <class F>
  void for_written(const NodeRecord& node, F&& f) const {
    for (uint32_t v = node.outs; v < node.last; ++v)
      if (buffer_of[v] != kNone) f(v);
    for_overwritten(node, f);
  }
  // Calls f(generator) for the numbers that a node draws.
  template <class F>
  void for_drawn(const NodeRecord& node, F&& f) const {
    for (uint32_t i = 0; i < node.n_args; ++i)
      if (const Box& box = boxes[node.args + i]; box.kind == Box::Kind::Draw) f(generators[static_cast<size_t>(box.integer)]);
  }
  // What an element-wise op writes.
  const Tensor& result_of(const NodeRecord& node) const {
    return node.op->writes ? values[static_cast<size_t>(boxes[node.args].integer)] : values[node.outs];
  }
  static constexpr int64_t kChained = 4096;   // elements below which nothing is looked for, where a pass is made when it runs
  // Whether b, which comes next, may go through memory together with a.
  bool may_join(const NodeRecord& a, const NodeRecord& b, int64_t least = kChained) const {
    return a.op->each && b.op->each && result_of(b).numel() >= least && result_of(a).sizes() == result_of(b).sizes();
  }
  // For each node whether it runs: it writes a buffer that is wanted, or that a later node which runs reads; or, with `checks`, it
  // looks at values, which it may refuse. `wanted` is changed along.
  void find_needed(std::vector<char>& wanted, std::vector<char>& runs, bool checks) const;

  static constexpr size_t kMostLinks = 12;  // nodes that go into one pass, at most

  // Runs node k, and with it those behind it, before node `stop`, that go into one pass; returns how many nodes that was, with those that
  // are not to run. `use(buffer)` tells the last node that uses a buffer and whether somebody sees it afterwards; `alone()` is called where
  // the node goes alone.
  struct Use {
    uint32_t last;
    bool stays;
  };
  template <class F, class G>
  size_t run_some(size_t k, size_t stop, const std::vector<char>& runs, F&& use, G&& alone) const {
    if (link(k, stop, runs, use, kChained, kSpared))
      if (const size_t done = run_linked(links_); done > 0) return links_[done - 1].node + 1 - k;
    alone();
    nodes[k].op->run(frame_of(nodes[k]));
    return 1;
  }
  // How many nodes that would be, unless they go alone at run time.
  template <class F>
  size_t count_some(size_t k, const std::vector<char>& runs, F&& use) const {
    const size_t count = link(k, nodes.size(), runs, use, kChained, kSpared) ? count_linked(links_) : 0;
    // What does not go into the pass has no part in whether it pays.
    return count > 1 && spares(count, result_of(nodes[k]).numel(), kSpared) ? links_[count - 1].node + 1 - k : 1;
  }
  // A pass of node k and those behind it that is kept, and how many nodes that is; null where there is none.
  template <class F>
  std::unique_ptr<KeptPass> keep_some(size_t k, const std::vector<char>& runs, F&& use, size_t& count) const {
    auto pass = keep_linked && link(k, nodes.size(), runs, use, 1, 1) ? keep_linked(links_) : nullptr;
    if (pass) count = links_[pass->links() - 1].node + 1 - k;
    return pass;
  }
  void clear();

 private:
  // Puts what may go together with node k into links_; whether there is anything: of at least `least` elements, `spared` of which need not
  // go through memory.
  template <class F>
  bool link(size_t k, size_t stop, const std::vector<char>& runs, F&& use, int64_t least, int64_t spared) const {
    const NodeRecord& first = nodes[k];
    if (!first.op->each || !run_linked) return false;
    const int64_t numel = result_of(first).numel();
    if (numel < least) return false;
    links_.clear();
    for (size_t j = k; j < stop && links_.size() < kMostLinks; ++j) {
      const NodeRecord& node = nodes[j];
      if (!runs[j]) {
        bool draws = false;
        for_drawn(node, [&](const auto&) { draws = true; });
        if (draws) break;  // whoever runs the tape draws in its place
        continue;
      }
      if (j > k && !may_join(first, node, least)) break;
      const Use u = use(buffer_of[node.op->writes ? static_cast<size_t>(boxes[node.args].integer) : node.outs]);
      links_.push_back({frame_of(node), node.op, static_cast<uint32_t>(j), u.last, u.stays});
    }
    return links_.size() > 1 && spares(links_.size(), numel, spared);
  }

  static bool spares(size_t links, int64_t numel, int64_t least) { return links > 1 && static_cast<int64_t>(links - 1) * numel >= least; }

  static constexpr int64_t kSpared = 32768;   // elements that need not go through memory, from which on that pays for making a chain
  mutable std::vector<Link> links_;
};

}  // namespace fl::graph
