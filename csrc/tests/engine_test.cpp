#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "base/fork_mutex.h"
#include "base/parallel.h"
#include "engine/op.h"
#include "tests/engine_helpers.h"
#include "tests/forks.h"

using namespace fl;
using namespace fl::engine;
using namespace fl::test;

namespace {

// ---- random programs

struct Step {
  std::vector<int> reads, writes;
  int priority;
  bool openmp;
  int bulk;  // of how many ops from here on; 0: none
};
struct Program {
  int variables;
  std::vector<Step> steps;
};

Program random_program(std::mt19937& random) {
  const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  Program p;
  p.variables = 1 + below(5);
  for (int n = 1 + below(12); n > 0; --n) {
    Step s{{}, {}, below(4) ? 0 : below(7) - 3, below(8) == 0, below(6) ? 0 : 1 + below(4)};
    for (int k = below(4); k > 0; --k) s.reads.push_back(below(static_cast<size_t>(p.variables)));  // equal ones, too
    for (int k = below(3); k > 0; --k) s.writes.push_back(below(static_cast<size_t>(p.variables)));
    p.steps.push_back(s);
  }
  return p;
}

// Sums of powers: in another order they would be other numbers.
void apply(const Step& s, uint64_t number, std::vector<uint64_t>& values) {
  uint64_t sum = number;
  for (int r : s.reads) sum = sum * 6364136223846793005u + values[static_cast<size_t>(r)];
  for (int w : s.writes) values[static_cast<size_t>(w)] = values[static_cast<size_t>(w)] * 1099511628211u + sum;
}

std::vector<uint64_t> run_serially(const Program& p) {
  std::vector<uint64_t> values(static_cast<size_t>(p.variables), 1);
  for (size_t i = 0; i < p.steps.size(); ++i) apply(p.steps[i], i, values);
  return values;
}

std::vector<uint64_t> run_by_engine(const Program& p) {
  std::vector<uint64_t> values(static_cast<size_t>(p.variables), 1);
  std::vector<Ref<Resource>> resources;
  for (int i = 0; i < p.variables; ++i) resources.push_back(resource());
  std::unique_ptr<Bulk> bulk;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    if (s.bulk) {
      bulk.reset();
      bulk = std::make_unique<Bulk>(s.bulk);
    }
    std::vector<Use> uses;
    for (int r : s.reads) uses.push_back(read(resources[static_cast<size_t>(r)]));
    for (int w : s.writes) uses.push_back(write(resources[static_cast<size_t>(w)]));
    auto f = [&s, i, &values] { apply(s, i, values); };
    push_work(std::make_unique<engine::detail::WorkOf<decltype(f), false>>(f), false, uses, {s.priority, s.openmp, "step"});
  }
  wait_all();
  return values;
}

}  // namespace

TEST(engine_random_programs_are_serial_programs) {
  const Limit limit;
  std::mt19937 random(7);
  for (const Mode mode : {Mode::Threaded, Mode::Naive})
    for (int i = 0; i < 10000; ++i) {
      if (i % 2500 == 0) set_mode(mode), set_workers(2 + i / 2500);
      const Program p = random_program(random);
      if (run_serially(p) != run_by_engine(p)) {
        test::fail(__FILE__, __LINE__, text("program ", i, " differs"));
        return;
      }
    }
}

TEST(engine_a_million_pushes) {
  const Limit limit(300);
  constexpr int kPushes = 250'000;  // of each thread
  std::vector<Ref<Resource>> resources;
  std::vector<uint64_t> counts(8);
  for (int i = 0; i < 8; ++i) resources.push_back(resource());
  test::on_threads(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < kPushes; ++i) {
      const size_t a = random() % 8, b = random() % 8;
      push([&counts, a, b] { counts[a] += 1 + (counts[b] & 0); }, {write(resources[a]), read(resources[b])});
      if (i % 4096 == 0) wait_for(*resources[a]);
    }
  });
  wait_all();
  CHECK_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), uint64_t{4} * kPushes);
  uint64_t versions = 0;
  for (const auto& r : resources) versions += r->version();
  CHECK_EQ(versions, uint64_t{4} * kPushes);
}

TEST(engine_copies_both_ways_from_two_threads) {
  const Limit limit;
  const Ref<Resource> x = resource("x"), y = resource("y");
  uint64_t vx = 1, vy = 2;
  test::on_threads(2, [&](int t) {
    for (int i = 0; i < 100'000; ++i) {
      if (t) push([&] { vx = vy; }, {read(y), write(x)});
      else push([&] { vy = vx; }, {read(x), write(y)});
    }
  });
  wait_all();
  CHECK_EQ(vx, vy);
}

TEST(engine_reads_overlap_and_writes_do_not) {
  const Limit limit;
  set_workers(3);
  const Ref<Resource> x = resource("x");
  std::atomic<int> inside{0}, written{0};
  for (int i = 0; i < 2; ++i)
    push([&] {  // ends only if the other runs at the same time
      ++inside;
      while (inside < 2) std::this_thread::yield();
    }, {read(x)});
  push([&] { written = inside.load(); }, {write(x)});
  wait_for(*x);
  CHECK_EQ(written, 2);
  CHECK_EQ(x->version(), 1u);
}

TEST(engine_what_is_named_twice_is_used_once) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y");
  Op op;
  const Use uses[] = {read(x), write(y), read(x), write(x), read(y), read(y)};
  op.use(uses);
  CHECK_EQ(op.accesses().size(), size_t{2});
  for (const Access& a : op.accesses()) CHECK(a.writes() && a.reads() && !a.clears());
  push(nothing, {read(x), write(x), read(x), write(x)});  // waits for itself in MXNet
  wait_all();
  CHECK_EQ(x->version(), 1u);
}

TEST(engine_priorities_choose_and_nobody_starves) {
  Ready ready;
  std::vector<Ref<Op>> ops;
  const auto add = [&](int priority) {
    ops.push_back(make_ref<Op>());
    ops.back()->priority = priority;
    ready.add(ops.back().get());
  };
  for (const int p : {0, 5, -1, 5, 9}) add(p);
  for (const size_t i : {4, 1, 3, 0, 2}) CHECK(ready.take() == ops[i].get());
  CHECK(!ready.take());
  add(-1);
  const Op* low = ops.back().get();
  uint64_t taken = 0;
  do add(1), ++taken;
  while (ready.take() != low);
  CHECK(taken <= Ready::kFair);
}

TEST(engine_priorities_do_not_override_dependencies) {
  const Limit limit(20);
  set_mode(Mode::Threaded);
  const Ref<Resource> x = resource("x");
  std::string order;
  Door door;
  push([&] { door.pass(), order += 'a'; }, {write(x)}, {-5});
  push([&] { order += 'b'; }, {write(x)}, {0});
  push([&] { order += 'c'; }, {write(x)}, {99});
  door.open();
  wait_for(*x);
  CHECK_EQ(order, "abc");
}

TEST(engine_openmp_ops_run_alone_and_others_on_one_core) {
  const Limit limit;
  set_workers(4);
  const int before = num_threads();
  std::atomic<int> inside{0}, most{0}, on_one{0};
  for (int i = 0; i < 50; ++i) {
    push([&] {
      most = std::max(most.load(), ++inside);
      CHECK_EQ(num_threads(), before);
      --inside;
    }, {}, {0, true});
    push([&] { on_one += num_threads() == 1; }, {});
  }
  wait_all();
  CHECK_EQ(most, 1);
  CHECK_EQ(on_one, 50);
}

// ---- waiting

TEST(engine_wait_in_an_op_is_refused) {
  const Limit limit(20);
  for (const Mode mode : {Mode::Threaded, Mode::Naive}) {
    set_mode(mode);
    const Ref<Resource> x = resource("x");
    const std::string said = error_of([&] {
      push([x] { wait_for(*x); }, {write(x)}, {0, false, "asks"});
      wait_for(*x);
    });
    CHECK_HAS(said, "wait: inside of op 'asks'");
    error_of([&] {
      push([] { wait_all(); }, {write(x)});
      wait_for(*x);
    });
    CHECK_HAS(x->error()->what, "inside of op");
  }
}

TEST(engine_waits_take_no_place_in_a_queue) {
  const Limit limit(20);
  set_workers(1);
  const Ref<Resource> x = resource("x"), y = resource("y");
  Door door;
  push([] {}, {write(y)});
  wait_for(*y);
  push([&] { door.pass(); }, {write(x)});  // the only thread is busy
  wait_for(*y);
  wait_for(*y, true);
  std::atomic<bool> read_ended{false};
  push([&] { read_ended = true; }, {read(y)});
  wait_for(*y);  // no write is left
  CHECK(!read_ended);
  door.open();
  wait_for(*y, true);
  CHECK(read_ended);
  wait_all();
}

TEST(engine_ops_own_what_they_use) {
  const Limit limit(20);
  Door door;
  std::atomic<int> sum{0};
  auto held = std::make_shared<int>(1);
  {
    Ref<Resource> x = resource("x");
    push([&] { door.pass(), ++sum; }, {write(x)});
    for (int i = 0; i < 100; ++i) push([&sum, held] { sum += *held; }, {write(x)});
  }
  door.open();
  wait_all();
  CHECK_EQ(sum, 101);
  CHECK_EQ(held.use_count(), 1);
}

// ---- bulks

TEST(engine_bulks_are_seen_by_every_wait) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x");
  int value = 0;
  {
    const Bulk bulk(100);
    for (int i = 0; i < 10; ++i) push([&] { ++value; }, {write(x)});
    std::thread([&] {
      wait_for(*x);
      CHECK_EQ(value, 10);
    }).join();
    for (int i = 0; i < 10; ++i) push([&] { ++value; }, {write(x)});
    std::thread(wait_all).join();
    CHECK_EQ(value, 20);
    push([&] { ++value; }, {write(x)});
    push([&] { value *= 2; }, {write(x)}, {1});  // no ordinary op: comes after what was collected
    push([&] { ++value; }, {write(x)});
  }
  wait_for(*x);
  CHECK_EQ(value, 43);
  CHECK_EQ(x->version(), 23u);
}

TEST(engine_ops_of_a_bulk_fail_alone) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y"), z = resource("z");
  {
    const Bulk bulk(100);
    push(nothing, {write(x)});
    push(boom, {write(y)}, {0, false, "bad"});
    push(nothing, {read(y), write(z)});
  }
  wait_for(*x);
  CHECK_HAS(error_of([&] { wait_for(*y); }), "op 'bad'");
  CHECK_HAS(error_of([&] { wait_for(*z); }), "skipped");
}

TEST(engine_bulks_within_bulks_keep_the_order) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x");
  std::string order;
  {
    const Bulk outer(100);
    push([&] { order += 'a'; }, {write(x)});
    {
      const Bulk inner(100);
      push([&] { order += 'b'; }, {write(x)});
    }
    push([&] { order += 'c'; }, {write(x)});
  }
  wait_for(*x);
  CHECK_EQ(order, "abc");
}

// ---- the process

TEST(engine_reports_what_is_pending) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y");
  Door door, started;
  push([&] { started.open(), door.pass(); }, {write(x)}, {0, false, "reader"});
  push(nothing, {read(x), write(y)}, {0, false, "scale"});
  started.pass();
  const std::string report = pending_report();
  CHECK_HAS(report, "op 'reader' (#");
  CHECK_HAS(report, "runs, started");
  CHECK_HAS(report, "waits for 'x', which op 'reader' (#");
  CHECK_EQ(stats().pending, size_t{2});
  door.open();
  wait_all();
  CHECK_EQ(pending_report(), "");
}

#if !FL_TSAN && !FL_ASAN
TEST(engine_works_in_children_that_are_forked_meanwhile) {
  const Limit limit;
  const Ref<Resource> x = resource("x"), idle = resource("idle");
  push(nothing, {write(idle)});
  wait_for(*idle);
  std::atomic<bool> go{true};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const Ref<Resource> own = resource("own");
      while (go) {
        for (int i = 0; i < 20; ++i) push(nothing, {write(own), read(x)});
        wait_for(*own);
      }
    });
  for (int i = 0; i < 40; ++i)
    CHECK(ends_in_child([&] {
      int value = 0;
      for (int k = 0; k < 100; ++k) push([&] { ++value; }, {write(x), read(idle)});
      wait_for(*x);
      wait_for(*idle);
      wait_all();
      if (value != 100) _exit(1);
      join_workers();
    }));
  go = false;
  for (auto& t : threads) t.join();
}

TEST(engine_pending_writes_are_errors_in_a_child) {
  const Limit limit(60);
  const Ref<Resource> x = resource("x");
  Door door;
  int value = 0;
  push([&] { door.pass(), ++value; }, {write(x)});
  const Bulk bulk(10);
  push([&] { ++value; }, {write(x)});
  CHECK(ends_in_child([&] {
    if (error_of([&] { wait_for(*x); }).find("had not ended when this process was forked") == std::string::npos) _exit(1);
    wait_all();
    push([&] { value = 7; }, {write(x)});
    wait_for(*x);
    if (value != 7 || stats().pending) _exit(2);
  }));
  door.open();
  wait_for(*x);
  CHECK_EQ(value, 2);
}

TEST(engine_refuses_pushes_after_the_end) {
  CHECK(ends_in_child([&] {
    const Ref<Resource> x = resource("x");
    std::atomic<int> value{0};
    for (int i = 0; i < 100; ++i) push([&] { ++value; }, {write(x)});
    shut_down();
    shut_down();
    if (value != 100 || error_of([&] { push(nothing, {write(x)}); }).find("is shut down") == std::string::npos) _exit(1);
  }));
}
#endif
