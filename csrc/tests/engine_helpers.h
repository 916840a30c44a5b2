// What the tests of the engine share.
#pragma once

#include <unistd.h>

#include "engine/engine.h"
#include "tests/check.h"

namespace fl::test {

using namespace fl::engine;

// A test that hangs is killed, and the engine is as it was found.
class Limit {
 public:
  explicit Limit(unsigned seconds = 120) { alarm(seconds); }
  ~Limit() {
    set_mode(Mode::Threaded);
    try {
      wait_all();
    } catch (const OpErrors&) {
    }
    join_workers();
    set_workers(2);
    alarm(0);
  }
};

inline Ref<Resource> resource(const char* name = "") { return make_ref<Resource>(name); }
inline void boom() { throw std::runtime_error("boom"); }
inline void nothing() {}

// Opens once.
class Door {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() const { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const EngineError& e) {
    return e.what();
  }
  return "";
}
#define CHECK_HAS(text, part)                                                                                 \
  do {                                                                                                        \
    const std::string has_ = text;                                                                            \
    if (has_.find(part) == std::string::npos) ::fl::test::fail(__FILE__, __LINE__, "'" + has_ + "' lacks '" + (part) + "'"); \
  } while (0)

}  // namespace fl::test
