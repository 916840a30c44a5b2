// How a chain goes through memory: what lies where, and which steps hand each other values in registers.
#pragma once

#include <vector>

#include "dispatch/axes.h"
#include "dispatch/chain.h"

namespace fl {

struct PlannedOperand {
  char* data;
  DType dtype;
  int64_t item;
  Dims strides;
  bool constant, flat, stored, stream;
};

struct ChainPlan {
  const Chain& chain;
  Axes axes{};
  std::vector<PlannedOperand> operands{};
  std::vector<int> slot{};      // of each step's value, where it does not go straight to memory
  std::vector<char> straight{};  // the loop writes memory itself
  std::vector<int> group{};      // by the first of its steps: the end of a run of steps that hand each other values in registers; or 0
  std::vector<char> grouped{};  // the step is in such a run
  static constexpr char kInside = 1, kOutside = 2;  // the run
  std::vector<char> read{};      // of the steps in such a run: who reads the value elsewhere than in the registers
  int slots = 0;

  bool repeats(const ChainStep::Source& s) const {
    return s.kind == ChainStep::Source::Number || (s.kind == ChainStep::Source::Memory && operands[static_cast<size_t>(s.index)].constant);
  }
  bool by_number(const ChainStep& step) const { return step.loops.single && repeats(step.in[static_cast<size_t>(step.n - 1)]); }
};

inline bool is_value(const ChainStep::Source& s, int of) { return s.kind == ChainStep::Source::Value && s.index == of; }

// The operand that a step finds in the registers behind its neighbour in front; -1: none.
inline int held_operand(const ChainStep& step, int before) {
  for (int k = 0; k < step.n; ++k)
    if (is_value(step.in[static_cast<size_t>(k)], before)) return k;
  return -1;
}

// False where one by one is better.
bool lay_out(ChainPlan& plan);
// Runs of two or more steps that hand each other values in registers.
void find_groups(ChainPlan& plan);
// A slot for each value that does not go straight to memory, one that stays in registers, too, since the last tile goes step by step; slots are
// used again.
void place_values(ChainPlan& plan);

}  // namespace fl
