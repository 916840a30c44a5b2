// The way into oneDNN: an Entry. Included by *.dnn.cpp only.
//
// Note [Entering oneDNN]
// A oneDNN primitive may fix its number of threads when it is made, and must then run with as many. oneDNN asks OpenMP,
// whose count belongs to the calling thread; ours belongs to the process. An Entry is where they meet. While it
// lives, OpenMP's count for this thread is the entry's; keys of the cache take theirs from it, and a primitive
// runs only in an entry with the count that it was made with. Nobody gets at oneDNN's engine, or at the functions that
// compute, without one, and tools/check_layers.py refuses other ways.
//
// oneDNN has locks of its own, which a child could find taken: a process forks when nobody is inside (ForkGate).
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/parallel.h"

namespace fl::onednn {

class Entry {
 public:
  Entry();  // with the threads that there are
  // With `threads`, for a primitive that was made earlier in the same op.
  explicit Entry(int threads);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  int threads() const { return count_.threads(); }
  const dnnl::engine& engine() const;

  // False where oneDNN reports a failure.
  bool execute(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& args) const;
  bool sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
             float* c, int64_t ldc) const;

 private:
  OpenMPThreads count_;
};

// To be called when the process exits: whoever comes later waits for ever, but for the calling thread.
void leave_for_good();

}  // namespace fl::onednn
