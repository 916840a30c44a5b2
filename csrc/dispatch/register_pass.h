// A chain that lies in registers from its first step to its last, made once and run often.
//
// What a chain costs beside its loops is finding out what lies where and making the program of its steps: some microseconds, more than small
// operands are worth. Where the same chain is run again and again (graph/program.h) all of that is kept, and what changes is where the
// operands lie.
#pragma once

#include <memory>
#include <vector>

#include "dispatch/chain.h"
#include "dispatch/registers.h"

namespace fl {

class RegisterPass {
 public:
  // Of a chain of float32 whose operands lie flat, or are one number for all elements; its operands need no memory yet. Null where it is another
  // one, or so large that threads share it.
  static std::unique_ptr<RegisterPass> make(const Chain& chain);

  size_t steps() const { return steps_; }
  // data[k]: where operand k lies. By one thread at a time.
  void run(char* const* data);

 private:
  struct Moving {  // an operand that goes with the elements
    size_t step;
    int k;         // -1: the result
    int operand;
  };
  struct Constant {
    int operand;
    float* block;
  };
  struct Own {     // what an operand's last elements, fewer than a block, are worked on in
    int operand;
    bool read, stored;
    float* block;
  };

  explicit RegisterPass(const Chain& chain) : steps_(chain.steps.size()) {}
  bool build(const Chain& chain);
  float* take(int64_t floats);
  float* own(int operand, bool read, bool stored);
  void run_block(char* const* data, int64_t from, int64_t floats);

  size_t steps_;
  int64_t numel_ = 0, block_ = 0;  // floats
  std::vector<RegisterStep> program_;
  std::vector<Moving> moving_;
  std::vector<Constant> constants_;
  std::vector<Own> own_;
  std::vector<std::unique_ptr<char[]>> rooms_;
};

}  // namespace fl
