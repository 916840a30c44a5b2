// Element-wise loops that hand each other their values in registers.
//
// A chain of tile loops (dispatch/chain.h) writes what each one makes to the first cache and reads it again; where a loop is an
// instruction or two, stores are most of its time. A register step gets eight vectors as arguments, in the registers in which functions pass
// them, works on those, and calls the next step in its last statement. That call is a jump, so values stay where they are, and nothing is
// compiled when programs run:
//
//     load --> mul --> add --> store --> end        for each block of eight vectors
//
// A step computes in float, has one operand in the registers and reads the others from memory. The expression is that of the op's tile loop.
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

// The steps of one op: by which of its operands is in the registers. Null: it has no such step.
struct RegisterRuns {
  RegisterStep::Run by[RegisterStep::kInputs];
  int numbers;                      // how many parameters it has
  RegisterStep::Run single;         // the last operand is a number for which there is a better expression, by numbers[0]
  float (*number)(float last);      // what that is; 0: there is none for this one
};

// What begins and ends a program of steps.
struct RegisterEnds {
  // Of memory that holds float, bfloat16 or float16; the latter two are floats in registers.
  struct Memory {
    RegisterStep::Run load, store, stream;  // `stream` wants results that begin at a whole vector of floats, or half of one of 16 bits
    RegisterStep::Run round;                // to what memory would hold
  };
  Memory floats, bfloats, halves;
  RegisterStep::Run end;
  int64_t block;                            // bytes of floats
  int64_t vector;

  static bool takes(DType t) { return t == DType::Float32 || t == DType::BFloat16 || t == DType::Float16; }
  const Memory& of(DType t) const { return t == DType::Float32 ? floats : t == DType::BFloat16 ? bfloats : halves; }
};

}  // namespace fl

FL_SIMD_KERNEL(fl::RegisterEnds, register_ends)
// Runs a program, which begins with `load` and stops at `end`, over so many bytes of floats: a whole number of blocks.
FL_SIMD_KERNEL(void, run_registers, const fl::RegisterStep* steps, int64_t bytes)
