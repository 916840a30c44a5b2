#include "autograd/node.h"

#include "base/error.h"

namespace fl {
namespace {

FL_HOT_THREAD_LOCAL uint64_t sequence_counter = 0;
std::atomic<uint64_t> hook_counter{1};

}  // namespace

Anomaly anomaly;
uint32_t (*stack_of_call)() = nullptr;
std::string (*describe_stack)(uint32_t) = nullptr;

Node::Node(uint32_t n) : sequence(sequence_counter++), outputs(n), made_at(current_source ? current_source() : 0) {
  if (anomaly.on.load(std::memory_order_relaxed)) [[unlikely]] {
    need_hooks().made_at = stack_of_call ? stack_of_call() : 0;
  }
}

std::string place_text(const char* before, SourceId place, const char* after) {
  const std::string where = place && describe_source ? describe_source(place) : "";
  return where.empty() ? "" : before + where + after;
}

void raise_released(const Node& node) {
  raise<AutogradError>(node.name(), ": Trying to backward through the graph a second time", place_text(" (the first was at ", node.used_at, ")"),
                       "; its saved tensors are gone. Pass retain_graph=True to the first backward() to run it twice");
}

NodeHooks& Node::need_hooks() {
  if (NodeHooks* made = hooks()) return *made;
  auto fresh = std::make_unique<NodeHooks>();
  NodeHooks* seen = nullptr;
  if (hooks_.compare_exchange_strong(seen, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *seen;  // another thread was first
}

uint64_t next_sequence() { return sequence_counter; }

uint64_t next_hook_id() { return hook_counter.fetch_add(1); }

void Node::refuse_gradient(const BackwardCall& call, size_t begin, size_t end, const char* op, const char* argument) const {
  for (size_t i = begin; i < end; ++i)
    if (call.needs(i) && edges[i].fn)
      raise<AutogradError>(op, ": has no formula for the gradient by '", argument, "'; detach() that input, or compose the result from ops that have one");
}

}  // namespace fl
