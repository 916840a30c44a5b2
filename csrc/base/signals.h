// Note [Signals and borrowed stack pointers]
// oneDNN's kernels for products of floats use the stack pointer as one more register: it points into memory of a product while they
// run. A signal that comes then would have its frame, some kilobytes, written there. So whoever may run such a kernel either has a
// stack of its own for signals, on which Python's handlers run (SA_ONSTACK), or gets none at all:
//
//     a thread that enters oneDNN      a signal stack, from its first Entry to its end
//     the threads of OpenMP's pools    block signals: they are born with what the thread that makes them blocks, and a
//                                      pool grows under NoSignals alone (parallel.cpp)
//
// A handler that was installed without SA_ONSTACK, by C code, is not helped on a thread that enters oneDNN.
#pragma once

#include <signal.h>

#include "base/refcount.h"

namespace fl {

// While it lives the calling thread gets no signals but those that it causes itself; threads that it makes stay so.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

namespace detail {
extern FL_HOT_THREAD_LOCAL constinit bool has_signal_stack;
void make_signal_stack();
}  // namespace detail

// The calling thread has a stack for signals from now on, as far as there is memory for one.
inline void ensure_signal_stack() {
  if (!detail::has_signal_stack) [[unlikely]] detail::make_signal_stack();
}

}  // namespace fl
