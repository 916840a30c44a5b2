// Several element-wise loops in one pass over memory.
//
// A chain walks its shape in tiles. For each tile every loop of the chain runs in turn: its operands are read from memory or
// are what an earlier loop of the chain left in the cache, and only results that somebody wants go to memory.
//
//     memory --gather--> tile --loop 1--> tile --loop 2--> tile --scatter--> memory
//                                          |
//                                          +--> memory, if it is wanted
//
// Between two loops a value is rounded to the type that memory would hold, so the results are those of the loops one by one.
//
// Neighbours that are an instruction or two, in float, hand each other values in registers (dispatch/registers.h), where the tile is a whole one.
#pragma once

#include <array>
#include <vector>

#include "dispatch/each.h"
#include "dispatch/walks.h"

namespace fl {

struct ChainOperand {
  void* data;
  DType dtype;
  Dims strides;         // over the chain's shape, 0 where it repeats
};

struct ChainStep {
  struct Source {
    enum Kind : uint8_t { Memory, Value, Number } kind;
    int index;          // of an operand, or of the step that makes the value
    alignas(8) char number[8];  // in the type that is computed in
  };
  TileLoops loops;
  DType compute;
  DType result;         // as memory holds it
  int n = 0;
  std::array<Source, kMaxInputs> in;
  std::vector<Scalar> params;
  int store = -1;       // the operand that gets the result; -1: nobody wants it in memory
};

struct Chain {
  static constexpr int kMaxSteps = kMaxOperands - 1;  // each has a result, and the first one reads memory
  Dims sizes;
  std::vector<ChainOperand> operands;  // at most kMaxOperands
  std::vector<ChainStep> steps;
};

// Whether the operands' geometry, not their data, is one that a chain walks well.
bool chain_fits(const Chain& chain);
void run_chain(const Chain& chain);
// How many steps handed values on in registers, in this process.
int64_t steps_in_registers();
void note_in_registers(int64_t steps);

}  // namespace fl
