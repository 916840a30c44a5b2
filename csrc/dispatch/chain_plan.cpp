#include "dispatch/chain_plan.h"

#include <algorithm>
#include <array>

namespace fl {
namespace {

constexpr int64_t kShortBroadcast = 32;  // a broadcast operand's rows below this cost more to gather than a pass saves

bool takes_registers(const ChainStep& step) {
  return step.loops.registers && RegisterEnds::takes(step.result);
}

}  // namespace

void find_groups(ChainPlan& plan) {
  const auto& steps = plan.chain.steps;
  const int n = static_cast<int>(steps.size());
  plan.group.assign(steps.size(), 0);
  plan.grouped.assign(steps.size(), 0);
  plan.read.assign(steps.size(), 0);
  for (int first = 0; first < n;) {
    int end = first;
    while (end < n && takes_registers(steps[static_cast<size_t>(end)])) ++end;
    if (end - first >= 2) {
      plan.group[static_cast<size_t>(first)] = end;
      std::fill(plan.grouped.begin() + first, plan.grouped.begin() + end, 1);
    }
    for (int s = first; s < end; ++s) {
      char read = 0;
      for (int reader = s + 1; reader < n; ++reader) {
        const ChainStep& step = steps[static_cast<size_t>(reader)];
        const int held = reader == s + 1 && reader < end ? held_operand(step, s) : -1;
        for (int k = 0; k < step.n; ++k)
          if (k != held && is_value(step.in[static_cast<size_t>(k)], s)) read |= reader < end ? ChainPlan::kInside : ChainPlan::kOutside;
      }
      plan.read[static_cast<size_t>(s)] = read;
    }
    first = std::max(end, first + 1);
  }
}

void place_values(ChainPlan& plan) {
  const auto& steps = plan.chain.steps;
  std::vector<int> last(steps.size(), -1);
  for (size_t s = 0; s < steps.size(); ++s)
    for (int k = 0; k < steps[s].n; ++k)
      if (const auto& source = steps[s].in[static_cast<size_t>(k)]; source.kind == ChainStep::Source::Value)
        last[static_cast<size_t>(source.index)] = static_cast<int>(s);
  std::vector<int> until(steps.size());  // by step, the one with which it is over: the last of its group, whose blocks take turns
  for (int s = static_cast<int>(steps.size()) - 1, end = s; s >= 0; --s) {
    end = plan.grouped[static_cast<size_t>(s)] && end > s && plan.grouped[static_cast<size_t>(s) + 1] ? end : s;
    until[static_cast<size_t>(s)] = end;
  }
  std::vector<int> free_at;  // per slot: the step after which it may be taken
  plan.slot.assign(steps.size(), 0);
  plan.straight.assign(steps.size(), 0);
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].store >= 0) {
      const PlannedOperand& o = plan.operands[static_cast<size_t>(steps[s].store)];
      plan.straight[s] = o.flat && !o.stream;
    }
    if (plan.straight[s]) continue;
    size_t slot = 0;
    while (slot < free_at.size() && free_at[slot] >= static_cast<int>(s)) ++slot;
    if (slot == free_at.size()) free_at.push_back(0);
    // Not before the step after its last reader: a reader's result may not lie where an operand that is gathered later does. Nor among the steps
    // of a group, of which one may write a block over another one's next where their types differ in size, and which put away at their end.
    const int end = std::max(last[s], static_cast<int>(s));
    const bool kept = !plan.grouped[s] || plan.read[s] || steps[s].store >= 0;
    free_at[slot] = kept ? until[static_cast<size_t>(end)] : end;
    plan.slot[s] = static_cast<int>(slot);
  }
  plan.slots = static_cast<int>(free_at.size());
}

bool lay_out(ChainPlan& plan) {
  const Chain& chain = plan.chain;
  const int n = static_cast<int>(chain.operands.size());
  std::array<Dims, kMaxOperands> strides;
  std::vector<int> order;  // results first: they lead the order of the axes
  for (const ChainStep& s : chain.steps)
    if (s.store >= 0 && std::find(order.begin(), order.end(), s.store) == order.end()) order.push_back(s.store);
  const size_t stored = order.size();
  for (int k = 0; k < n; ++k)
    if (std::find(order.begin(), order.end(), k) == order.end()) order.push_back(k);
  for (int k = 0; k < n; ++k) strides[static_cast<size_t>(k)] = chain.operands[static_cast<size_t>(order[static_cast<size_t>(k)])].strides;
  plan.axes = simplify(chain.sizes, strides.data(), n);
  plan.operands.resize(static_cast<size_t>(n));
  int64_t rows = plan.axes.inner();
  for (int k = 0; k < n; ++k) {
    const ChainOperand& from = chain.operands[static_cast<size_t>(order[static_cast<size_t>(k)])];
    PlannedOperand& o = plan.operands[static_cast<size_t>(order[static_cast<size_t>(k)])];
    o.data = static_cast<char*>(from.data);
    o.dtype = from.dtype;
    o.item = static_cast<int64_t>(item_size(from.dtype));
    o.strides = strides[static_cast<size_t>(k)];
    o.stored = k < static_cast<int>(stored);
    o.constant = !o.stored && std::all_of(o.strides.begin(), o.strides.end(), [](int64_t s) { return s == 0; });
    o.flat = contiguous(plan.axes, o.strides);
    o.stream = o.stored && o.flat && plan.axes.numel * o.item >= kStreamBytes;
    const int64_t step = o.strides.empty() ? 1 : o.strides.back();
    if (!o.flat && !o.constant && ((step != 0 && step != 1) || rows < kShortBroadcast)) return false;
  }
  for (PlannedOperand& o : plan.operands)  // its lines are read anyway
    for (const PlannedOperand& other : plan.operands)
      if (&o != &other && !other.stored && other.data == o.data) o.stream = false;
  return true;
}

}  // namespace fl
