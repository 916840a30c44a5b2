// The random number generator: a seed and how many draws were made from it.
#pragma once

#include <cstdint>
#include <utility>

#include "base/fork_mutex.h"
#include "base/refcount.h"

namespace fl {

class Generator : public RefCounted {
 public:
  static constexpr uint64_t kDefaultSeed = 0x0123456789abcdefull;
  void seed(uint64_t value) {
    const std::lock_guard lock(mutex());
    seed_ = value;
    offset_ = 0;
  }
  // One draw: every call gets an offset of its own, whatever its size.
  std::pair<uint64_t, uint64_t> next() {
    const std::lock_guard lock(mutex());
    return {seed_, offset_++};
  }
  std::pair<uint64_t, uint64_t> state() {
    const std::lock_guard lock(mutex());
    return {seed_, offset_};
  }
  void set_state(uint64_t seed, uint64_t offset) {
    const std::lock_guard lock(mutex());
    seed_ = seed;
    offset_ = offset;
  }

 private:
  ForkMutex& mutex();
  uint64_t seed_ = kDefaultSeed;
  uint64_t offset_ = 0;
};

// The calling thread's own generator if it has one, else the program's.
Generator& default_generator();
Generator& program_generator();
// Gives the calling thread a generator of its own, null takes it away; returns what it had.
Ref<Generator> set_thread_generator(Ref<Generator> generator);
inline Generator& generator_or_default(Generator* g) { return g ? *g : default_generator(); }

}  // namespace fl
