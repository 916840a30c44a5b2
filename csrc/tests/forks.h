// Forked children, for tests. Under a sanitizer there are none beside threads: ThreadSanitizer refuses them, and
// AddressSanitizer's allocator (GCC 12) may be left locked in a child, which then waits for ever.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/check.h"

namespace fl::test {

// How work() ended in a forked child, as waitpid says. A child that hangs is killed after a time that no lock needs; not by an
// alarm of its own, since it may hang where signals are blocked.
template <class F>
int status_in_child(const F& work, std::chrono::seconds limit = std::chrono::seconds(20)) {
  const pid_t pid = fork();
  if (pid == 0) {
    work();
    _exit(0);
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return status;
}

// True iff work() came to its end.
template <class F>
bool ends_in_child(const F& work) {
  const int status = status_in_child(work);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace fl::test
