#include <chrono>

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "dispatch/generator.h"
#include "storage/allocator.h"
#include "storage/storage.h"
#include "tests/forks.h"

using namespace fl;
using test::ends_in_child;

namespace {

// Runs `busy` on other threads while `check` runs on this one.
template <class Busy, class Check>
void meanwhile(const Busy& busy, const Check& check) {
  std::atomic<bool> go{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (go) busy();
    });
  check();
  go = false;
  for (auto& t : threads) t.join();
}

}  // namespace

#if !FL_TSAN && !FL_ASAN
TEST(fork_mutex_is_free_in_a_child) {
  ForkMutex mutex(LockRank::Leaf);
  int64_t a = 0, b = 0;  // equal whenever nobody holds the mutex
  const auto work = [&] {
    const std::lock_guard lock(mutex);
    ++a;
    ++b;
  };
  meanwhile(work, [&] {
    for (int i = 0; i < 100; ++i)
      CHECK(ends_in_child([&] {
        work();
        if (a != b) _exit(1);
      }));
  });
}

TEST(a_fork_waits_for_parallel_regions) {
  const int before = num_threads();
  set_num_threads(2);
  std::atomic<int> under_way{0};
  const auto work = [&] {
    parallel_for(0, 2, 1, [&](int64_t, int64_t) {
      ++under_way;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --under_way;
    });
  };
  meanwhile(work, [&] {
    for (int i = 0; i < 20; ++i)
      CHECK(ends_in_child([&] {
        if (under_way) _exit(1);
        work();
      }));
  });
  set_num_threads(before);
}

TEST(fork_condition_starts_anew_in_a_child) {
  ForkMutex mutex(LockRank::Layout);
  ForkCondition changed;
  bool done = false;
  std::thread waits([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  });
  for (int i = 0; i < 20; ++i)
    CHECK(ends_in_child([&] {
      const std::lock_guard lock(mutex);
      changed.notify_all();
    }));
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  waits.join();
}

TEST(fork_gate_is_empty_when_the_process_forks) {
  ForkGate gate;
  std::atomic<int> inside{0};
  const auto work = [&] {
    gate.enter(false);
    ++inside;
    gate.enter(false);  // again, though somebody may wait to fork
    gate.leave();
    --inside;
    gate.leave();
  };
  meanwhile(work, [&] {
    for (int i = 0; i < 100; ++i)
      CHECK(ends_in_child([&] {
        if (inside != 0) _exit(1);
        work();
      }));
  });
}

TEST(fork_while_threads_use_storages) {
  Generator generator;
  const auto work = [&] {
    for (const size_t n : {size_t{100}, size_t{5000}, size_t{3} << 20}) Storage::allocate(n, Device{});
    generator.next();
    host_stats();
  };
  meanwhile(work, [&] {
    for (int i = 0; i < 50; ++i) CHECK(ends_in_child(work));
  });
}

TEST(locks_out_of_order_are_refused) {
  const int status = test::status_in_child([] {
    fclose(stderr);
    ForkMutex inner(LockRank::Allocator), outer(LockRank::Layout);
    const std::lock_guard first(inner);
    const std::lock_guard second(outer);
  });
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

TEST(foreign_memory_is_dropped_without_locks) {
  static bool dropped, locked;
  dropped = locked = false;
  char bytes[8];
  const auto drop = [](void*) { dropped = true, locked = locks::any_held(); };
  ForkMutex outer(LockRank::Leaf), inner(LockRank::Layout);
  {
    const std::lock_guard first(outer);
    {
      const std::lock_guard second(inner);
      Storage::borrow(bytes, 8, Device{}, bytes, drop, true);
      CHECK(!dropped);
    }
    CHECK(!dropped);
  }
  CHECK(dropped && !locked);
  ForkGate gate;
  dropped = false;
  gate.enter(false);
  Storage::borrow(bytes, 8, Device{}, bytes, drop, true);
  CHECK(!dropped);
  gate.leave();
  CHECK(dropped && !locked);
}

TEST(striped_mutexes_serve_many_objects) {
  StripedMutex<LockRank::Leaf, 4> locks;
  std::vector<int64_t> counts(64);
  test::on_threads(4, [&](int) {
    for (int i = 0; i < 6400; ++i) {
      int64_t& count = counts[static_cast<size_t>(i) % counts.size()];
      const std::lock_guard lock(locks.of(&count));
      ++count;
    }
  });
  for (const int64_t count : counts) CHECK_EQ(count, 400);
}
