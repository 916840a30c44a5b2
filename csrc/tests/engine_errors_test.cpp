// What becomes of ops that fail, and of those that end later than their function.
#include <string>
#include <thread>

#include "tests/engine_helpers.h"

using namespace fl;
using namespace fl::engine;
using namespace fl::test;

// ---- errors

TEST(engine_errors_stay_and_are_inherited) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y"), z = resource("z");
  int ran = 0;
  push(nothing, {write(x)}, {0, false, "first"});
  push(boom, {write(x)}, {0, false, "load"});
  push([&] { ++ran; }, {read(x), write(y)}, {0, false, "double"});
  push([&] { ++ran; }, {read(y), write(z)}, {0, false, "print"});
  for (int i = 0; i < 3; ++i) {
    CHECK_HAS(error_of([&] { wait_for(*x); }), "op 'load' (#");
    CHECK_HAS(error_of([&] { wait_for(*z); }), "boom\n    skipped: op 'double'");
  }
  CHECK_HAS(error_of([&] { wait_for(*z); }), "which reads 'y'");
  CHECK_EQ(ran, 0);
  CHECK(z->error()->cause != nullptr && z->error()->chain.size() == 2);
  wait_all();  // all of it was reported
}

TEST(engine_only_a_whole_write_clears_an_error) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y");
  push(boom, {write(x)});
  push(nothing, {partial_write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "boom");
  push(nothing, {read(x), write(x)});  // reads it, and is skipped
  CHECK_HAS(error_of([&] { wait_for(*x); }), "skipped");
  push(nothing, {write(x)});
  wait_for(*x);
  push([] { throw std::runtime_error("half"); }, {partial_write(x), write(y)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "half");
  CHECK_HAS(error_of([&] { wait_for(*y); }), "half");
  push(nothing, {write(x), write(y)});
  wait_for(*x);
  wait_for(*y);
}

TEST(engine_wait_all_lists_what_nobody_was_told) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x"), y = resource("y"), z = resource("z");
  push(boom, {write(x)}, {0, false, "one"});
  push(boom, {write(y)}, {0, false, "two"});
  push(nothing, {write(y)});  // the error is gone, and still to be told
  push(boom, {write(z)}, {0, false, "three"});
  error_of([&] { wait_for(*z); });
  try {
    wait_all();
    CHECK(!"thrown");
  } catch (const OpErrors& e) {
    CHECK_EQ(e.records.size(), size_t{2});
    CHECK_HAS(e.what(), "2 ops of the engine have failed");
    CHECK_HAS(e.what(), "op 'two'");
  }
  wait_all();
  CHECK_HAS(error_of([&] { wait_for(*x); }), "boom");
}

TEST(engine_records_of_failures_are_bounded) {
  const Limit limit;
  const Ref<Resource> x = resource("x");
  for (int i = 0; i < 2000; ++i) push(boom, {write(x)});
  const std::string said = error_of(wait_all);
  CHECK_HAS(said, "2000 ops of the engine have failed");
  CHECK_HAS(said, "and 976 more");
  wait_all();
}

TEST(engine_long_chains_of_errors_are_cut) {
  const Limit limit;
  const Ref<Resource> x = resource("x");
  push(boom, {write(x)});
  for (int i = 0; i < 10'000; ++i) push(nothing, {read(x), write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "and 9984 more");
}

TEST(engine_naive_pushes_throw) {
  const Limit limit(20);
  set_mode(Mode::Naive);
  const Ref<Resource> x = resource("x"), y = resource("y");
  std::string order;
  push([&] {
    push([&] { order += 'b'; }, {write(x)});  // after the op that pushes it
    order += 'a';
  }, {write(x)});
  CHECK_EQ(order, "ab");
  CHECK_HAS(error_of([&] { push(boom, {write(x)}); }), "boom");
  CHECK_HAS(error_of([&] { push(nothing, {read(x), write(y)}); }), "skipped");
  CHECK_HAS(error_of([&] { wait_for(*y); }), "boom");
  wait_all();
}

TEST(engine_null_runs_nothing) {
  const Limit limit(20);
  set_mode(Mode::Null);
  const Ref<Resource> x = resource("x");
  for (int i = 0; i < 10; ++i) push(boom, {write(x)});
  wait_for(*x);
  wait_all();
  CHECK_EQ(x->version(), 10u);
}

// ---- asynchronous ops

TEST(engine_asynchronous_ops_end_when_they_say_so) {
  const Limit limit(20);
  for (const Mode mode : {Mode::Threaded, Mode::Naive}) {
    set_mode(mode);
    const Ref<Resource> x = resource("x");
    std::vector<std::thread> foreign(20);
    std::string order;
    for (size_t i = 0; i < foreign.size(); ++i) {
      push_async([&, i](const Ref<Completion>& completion) {
        foreign[i] = std::thread([&order, completion] {
          order += 'a';
          completion->done();
        });
      }, {write(x)});
      push([&] { order += 'b'; }, {write(x)});
    }
    wait_for(*x);
    std::string expected;
    for (int i = 0; i < 20; ++i) expected += "ab";
    CHECK_EQ(order, expected);
    for (auto& t : foreign) t.join();
  }
}

TEST(engine_a_second_completion_is_an_error) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x");
  Ref<Completion> kept;
  push_async([&](const Ref<Completion>& c) { kept = c, c->done(); }, {write(x)}, {0, false, "copy"});
  wait_for(*x);
  CHECK_HAS(error_of([&] { kept->done(); }), "op 'copy'");
  CHECK_HAS(error_of([&] { kept->fail(std::make_exception_ptr(std::runtime_error("late"))); }), "was completed before");
  wait_for(*x);
}

TEST(engine_failed_completions) {
  const Limit limit(20);
  const Ref<Resource> x = resource("x");
  push_async([](const Ref<Completion>& c) { c->fail(std::make_exception_ptr(std::runtime_error("no link"))); }, {write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "no link");
  push_async([](const Ref<Completion>&) {}, {write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "was dropped before it was called");
  push_async([](const Ref<Completion>&) { boom(); }, {write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "boom");
  push_async([](const Ref<Completion>& c) { c->done(), throw std::runtime_error("after the end"); }, {write(x)});
  CHECK_HAS(error_of([&] { wait_for(*x); }), "after the end");
}
