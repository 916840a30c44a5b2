// Runs the registered tests; the exit status says whether all checks held. A test that its watchdog (engine_helpers.h) ends is
// named.
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/check.h"

namespace fl::test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
std::atomic<int> failures{0};

}  // namespace fl::test

namespace {

const char* volatile running = "";

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void end_of_time(int) {
  say("FAILED ");
  say(running);
  say(": it did not end in time\n");
  std::signal(SIGALRM, SIG_DFL);
  raise(SIGALRM);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace fl::test;
  std::signal(SIGALRM, end_of_time);
  int ran = 0, failed = 0;
  for (const Case& c : cases()) {
    if (argc > 1 && !std::strstr(c.name, argv[1])) continue;
    const int before = failures.load();
    running = c.name;
    try {
      c.run();
    } catch (const std::exception& e) {
      fail(c.name, 0, std::string("threw ") + e.what());
    }
    ++ran;
    if (failures.load() == before) continue;
    ++failed;
    std::cerr << "FAILED " << c.name << "\n";
  }
  std::cout << ran << " core tests, " << failed << " failed" << std::endl;
  return failed || ran == 0 ? 1 : 0;
}
