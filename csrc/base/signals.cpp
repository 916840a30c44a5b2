#include "base/signals.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace fl {

NoSignals::NoSignals() {
  sigset_t all;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

namespace detail {

FL_HOT_THREAD_LOCAL constinit bool has_signal_stack = false;

namespace {

// Of one thread; nothing where it had one already (faulthandler's, a sanitizer's).
class SignalStack {
 public:
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
    constexpr size_t kRoom = size_t{64} << 10;  // for what handlers do; pages that nobody touches cost nothing
    size_ = static_cast<size_t>(std::max<long>(sysconf(_SC_MINSIGSTKSZ), 0)) + kRoom;
    void* const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return;
    const stack_t own{.ss_sp = memory, .ss_flags = 0, .ss_size = size_};
    if (sigaltstack(&own, nullptr) == 0) memory_ = memory;
    else munmap(memory, size_);
  }
  ~SignalStack() {
    if (!memory_) return;
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == memory_) {  // nobody put another in its place, to which this one may return
      const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
      if (sigaltstack(&none, nullptr) == 0) munmap(memory_, size_);
    }
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

void make_signal_stack() {
  thread_local const SignalStack stack;
  has_signal_stack = true;
}

}  // namespace detail
}  // namespace fl
