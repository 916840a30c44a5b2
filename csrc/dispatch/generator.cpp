#include "dispatch/generator.h"

#include "base/at_load.h"

namespace fl {

namespace {
thread_local Ref<Generator> thread_generator;
StripedMutex<LockRank::Generator, 4> generator_locks;
}  // namespace

ForkMutex& Generator::mutex() { return generator_locks.of(this); }

Generator& program_generator() {
  static Generator& generator = *new Generator;
  return generator;
}
FL_AT_LOAD(program_generator())
Generator& default_generator() { return thread_generator ? *thread_generator : program_generator(); }
Ref<Generator> set_thread_generator(Ref<Generator> generator) { return std::exchange(thread_generator, std::move(generator)); }

}  // namespace fl
