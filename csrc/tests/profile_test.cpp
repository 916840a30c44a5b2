// The profiler's recorder: nesting, bounds, and threads that record while another starts, stops and collects.
#include "base/profile.h"
#include "tests/check.h"
#include "op/add.h"
#include "op/neg.h"

namespace fl::test {
namespace {

TEST(profile_nests_and_bounds) {
  profile::start({.limit = 3});
  const auto outer = profile::begin(profile::Kind::Range, "outer");
  const Tensor x = empty(Dims{2, 2}, DType::Float32);
  for (int i = 0; i < 4; ++i) (void)op::neg(x);
  profile::end(outer, {}, false);
  profile::stop();
  const auto threads = profile::collect();
  CHECK(threads.size() == 1);
  CHECK(threads[0].events.size() == 3);
  CHECK(profile::dropped() == 2);
  CHECK(threads[0].events[0].parent == -1 && threads[0].events[2].parent == 0);
  CHECK(threads[0].events[1].end_ns >= threads[0].events[1].start_ns);
  CHECK(threads[0].events[0].end_ns >= threads[0].events[2].end_ns);
  (void)op::neg(x);
  CHECK(profile::collect()[0].events.size() == 3);
  profile::clear();
  CHECK(profile::collect().empty());
}

TEST(profile_ends_what_is_open_inside) {
  profile::start({});
  const auto outer = profile::begin(profile::Kind::Range, "outer"), inner = profile::begin(profile::Kind::Range, "inner");
  profile::end(outer, {}, false);
  const auto next = profile::begin(profile::Kind::Range, "next");
  profile::end(inner, {}, false);  // too late: changes nothing
  const auto last = profile::begin(profile::Kind::Range, "last");
  profile::end(last, {}, false);
  profile::end(next, {}, false);
  profile::stop();
  const auto events = profile::collect().at(0).events;
  CHECK(events[1].end_ns == events[0].end_ns && events[1].parent == 0);
  CHECK(events[2].parent == -1 && events[2].depth == 0);
  CHECK(events[3].parent == 2 && events[3].depth == 1);
  profile::clear();
}

TEST(profile_of_threads_that_do_not_wait) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k)
    threads.emplace_back([&] {
      const Tensor x = empty(Dims{2, 2}, DType::Float32);
      while (!done) (void)op::add(op::neg(x), x);
    });
  for (int round = 0; round < 50; ++round) {
    profile::start({.limit = 100, .shapes = true, .memory = round % 2 == 0});
    std::this_thread::yield();
    if (round % 3 == 0) profile::clear();
    for (const auto& t : profile::collect())
      for (size_t i = 0; i < t.events.size(); ++i) CHECK(t.events[i].parent < static_cast<int64_t>(i));
    profile::stop();
  }
  done = true;
  for (auto& t : threads) t.join();
  profile::clear();
}

}  // namespace
}  // namespace fl::test
