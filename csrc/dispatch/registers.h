// Element-wise loops that hand each other their values in registers.
//
// A chain of tile loops (dispatch/chain.h) writes what each one makes to the first cache and reads it again; where a loop is an
// instruction or two, stores are most of its time. A register step gets eight vectors as arguments, in the registers in which functions pass
// them, works on those, and calls the next step in its last statement. That call is a jump, so values stay where they are, and nothing is
// compiled when programs run:
//
//     load --> mul --> add --> store --> end        for each block of eight vectors
//
// A step computes in float, has one operand in the registers and reads the others from memory, which are all float or all 16-bit floats of one kind. The expression
// is that of the op's tile loop.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace fl {

struct RegisterStep {
  using Run = void (*)();  // of eight vectors, whose size depends on the instruction set; the step; how many bytes of floats were done
  static constexpr int kInputs = 3, kNumbers = 6;
  Run run = nullptr;
  const char* in[kInputs] = {};     // where the tile's first element lies
  int64_t keep[kInputs] = {};       // -1: the operand goes on with the tile; 0: one block of it is for all
  char* out = nullptr;
  float numbers[kNumbers] = {};     // the op's parameters
};

// What memory may hold that is floats in registers.
constexpr int kRegisterTypes = 3;
constexpr int register_type(DType t) { return t == DType::Float32 ? 0 : t == DType::BFloat16 ? 1 : t == DType::Float16 ? 2 : -1; }

// The steps of one op.
struct RegisterRuns {
  // By what the operands hold that it reads from memory (register_type) and by which operand is in the registers, of which all have a step that
  // reads float. Null: there is none.
  RegisterStep::Run (*of)(int type, int held);  // null: the op has no steps
  int numbers;                                  // how many parameters it has
  RegisterStep::Run (*single)();                // the last operand is a number for which there is a better expression, by numbers[0]
  float (*number)(float last);                  // what that is; 0: there is none for this one
};

// What begins and ends a program of steps.
struct RegisterEnds {
  struct Memory {
    RegisterStep::Run load, store, stream;  // `stream` wants results that begin at a whole vector of floats, or half of one of 16 bits
    RegisterStep::Run round;                // to what memory would hold
  };
  Memory memory[kRegisterTypes];
  RegisterStep::Run end;
  int64_t block;                            // bytes of floats
  int64_t vector;

  static bool takes(DType t) { return register_type(t) >= 0; }
  const Memory& of(DType t) const { return memory[register_type(t)]; }
};

// Memory that is read soon. A program of many steps is more instructions than a processor looks ahead, so that it asks for the lines itself, some for each
// block: all at once they would wait for each other.
struct Ahead {
  const char* from;
  int64_t bytes;
};
constexpr int kMostAhead = 8;

}  // namespace fl

FL_SIMD_KERNEL(fl::RegisterEnds, register_ends)
// Runs a program, which begins with `load` and stops at `end`, over so many bytes of floats: a whole number of blocks. Meanwhile asks for n pieces of memory.
FL_SIMD_KERNEL(void, run_registers, const fl::RegisterStep* steps, int64_t bytes, const fl::Ahead* ahead, int n)
