#include "autograd/node.h"

#include "base/error.h"

namespace fl {
namespace {

FL_HOT_THREAD_LOCAL uint64_t sequence_counter = 0;
std::atomic<uint64_t> hook_counter{1};

// Note [Freeing deep graphs]
// Dropping the last node of a chain of 100,000 would recurse 100,000 deep. Instead the first destroy() on
// a thread becomes the owner of a queue, and nodes that die while it works are queued there.
struct DyingNodes {
  std::vector<Node*> queue;
  bool active = false;
};
FL_HOT_THREAD_LOCAL DyingNodes* dying = nullptr;

}  // namespace

Node::Node(uint32_t n) : sequence(sequence_counter++), outputs(n) {}

uint64_t next_sequence() { return sequence_counter; }

uint64_t next_hook_id() { return hook_counter.fetch_add(1); }

void Node::destroy() noexcept {
  if (dying) {
    dying->queue.push_back(this);
    return;
  }
  DyingNodes mine;
  dying = &mine;
  Node* node = this;
  for (;;) {
    delete node;
    if (mine.queue.empty()) break;
    node = mine.queue.back();
    mine.queue.pop_back();
  }
  dying = nullptr;
}

void Node::refuse_gradient(const BackwardCall& call, size_t begin, size_t end, const char* op, const char* argument) const {
  for (size_t i = begin; i < end; ++i)
    if (call.needs(i) && edges[i].fn)
      raise<AutogradError>(op, ": has no formula for the gradient by '", argument, "'; detach() that input, or compose the result from ops that have one");
}

}  // namespace fl
