#include "graph/tape.h"

namespace fl::graph {

const Tensor kNotGiven;
size_t (*run_linked)(std::span<const Link>) = nullptr;
size_t (*count_linked)(std::span<const Link>) = nullptr;
std::unique_ptr<KeptPass> (*keep_linked)(std::span<const Link>) = nullptr;

void Tape::find_needed(std::vector<char>& wanted, std::vector<char>& runs, bool checks) const {
  runs.assign(nodes.size(), 0);
  for (size_t k = nodes.size(); k-- > 0;) {
    const NodeRecord& node = nodes[k];
    bool needed = checks && node.op->check;
    for_written(node, [&](uint32_t v) { needed |= wanted[buffer_of[v]] != 0; });
    runs[k] = needed;
    if (!needed) continue;
    for (uint32_t v = node.first; v < node.outs; ++v)
      if (buffer_of[v] != kNone) wanted[buffer_of[v]] = 1;
  }
}

void Tape::clear() {
  nodes.clear();
  values.clear();
  buffer_of.clear();
  next.clear();
  boxes.clear();
  ints.clear();
  text.clear();
  generators.clear();
}

}  // namespace fl::graph
