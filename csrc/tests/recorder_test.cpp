// Recording without Python: what runs, what is dropped, and several threads around one recording.
#include "autograd/meta.h"
#include "base/error.h"
#include "graph/program.h"
#include "tests/check.h"
#include "op/add.h"
#include "op/exp.h"
#include "op/full.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/relu.h"
#include "op/sum.h"

namespace fl {
namespace {

struct Region {
  Region() { graph::begin_recording(); }
  ~Region() { graph::end_recording(); }
};

Tensor filled(int64_t n, double value) { return op::full(Dims{n}, value, DType::Float32); }
float first(const Tensor& x) { return x.data<float>()[0]; }

TEST(recorder_runs_at_the_read_and_at_the_end) {
  const Tensor x = filled(8, 2);
  Tensor y, z;
  {
    const Region region;
    y = op::add(op::mul(x, 3), 1);
    CHECK(y.storage().is_pending());
    CHECK_EQ(first(y), 7.0f);
    CHECK(!y.storage().is_pending());
    z = op::mul(y, y);
    CHECK(z.storage().is_pending());
  }
  CHECK(!z.storage().is_pending());
  CHECK_EQ(first(z), 49.0f);
}

TEST(recorder_drops_what_nobody_sees) {
  const Tensor x = filled(8, 2);
  const int64_t before = graph::stats().pruned;
  {
    const Region region;
    op::exp(op::mul(x, 3));
  }
  CHECK_EQ(graph::stats().pruned - before, int64_t{2});
}

TEST(recorder_joins_element_wise_ops) {
  const Tensor x = filled(100000, 2), row = filled(1000, 1);
  Tensor y;
  const graph::Stats before = graph::stats();
  {
    const Region region;
    Tensor h = op::mul(x, 3);
    op::add_(h, x);
    y = op::relu(op::add(h, -1));
  }
  CHECK_EQ(graph::stats().joined - before.joined, int64_t{4});
  CHECK_EQ(graph::stats().passes - before.passes, int64_t{1});
  for (int64_t i = 0; i < y.numel(); ++i)
    if (y.data<float>()[i] != 7.0f) return CHECK_EQ(y.data<float>()[i], 7.0f);
}

TEST(recorder_backward) {
  Tensor w = op::full(Dims{4, 4}, 0.5, DType::Float32);
  set_requires_grad(w, true);
  const Tensor x = op::full(Dims{2, 4}, 1, DType::Float32);
  {
    const Region region;
    const Tensor y = op::sum(op::relu(op::matmul(x, w)));
    run_backward({y}, {Tensor()}, false, false, {}, false, false);
  }
  CHECK_EQ(first(meta_of(w)->grad), 2.0f);
}

TEST(recorder_threads_share_what_they_read_and_read_what_others_have_pending) {
  const Tensor shared = filled(5000, 1);
  constexpr int kThreads = 4, kRounds = 50;
  std::vector<Tensor> made(kThreads);
  std::atomic<int> published{0}, wrong{0};
  test::on_threads(kThreads, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const Region region;
      Tensor y = op::add(op::mul(shared, t + 1), i);
      if (i == 0) {
        made[static_cast<size_t>(t)] = y;
        ++published;
        while (published.load() < kThreads) std::this_thread::yield();
      }
      const int other = (t + 1) % kThreads;
      const Tensor sum = op::add(y, made[static_cast<size_t>(other)]);
      if (first(sum) != static_cast<float>(t + 1 + i + other + 1)) ++wrong;
    }
  });
  CHECK_EQ(wrong.load(), 0);
}

TEST(recorder_settles_readers_before_a_write) {
  const Tensor shared = filled(5000, 1);
  Tensor y;
  std::atomic<int> at{0};
  test::on_threads(2, [&](int t) {
    if (t == 0) {
      const Region region;
      y = op::mul(shared, 10);
      at = 1;
      while (at.load() < 2) std::this_thread::yield();
    } else {
      while (at.load() < 1) std::this_thread::yield();
      op::add_(shared, 1);
      at = 2;
    }
  });
  CHECK_EQ(first(y), 10.0f);
  CHECK_EQ(first(shared), 2.0f);
}

TEST(recorder_programs_run_again) {
  const Tensor weight = filled(5000, 3);
  const auto capture = [&](const Tensor& x) {
    const Region region;
    const Tensor y = op::relu(op::add(op::mul(x, weight), 1));
    return graph::Program::capture({x}, {y});
  };
  const Tensor x = filled(5000, 2);
  const auto program = capture(x);
  std::vector<std::pair<uint32_t, size_t>> places;
  size_t total = 0;
  for (uint32_t b = 0; b < program->buffers().size(); ++b)
    if (program->buffers()[b].placed()) {
      places.emplace_back(b, total);
      total += (program->buffers()[b].size_bytes + 63) / 64 * 64;
    }
  program->place(places, total);
  // Note [The same argument each time]: one recording does not tell x from a tensor that it would always read.
  CHECK(program->run({x}));
  CHECK(!program->run({filled(5000, 3)}));
  program->confirm(*capture(filled(5000, 3)));
  std::atomic<int> wrong{0};
  test::on_threads(3, [&](int t) {
    for (int i = 0; i < 20; ++i) {
      const auto out = program->run({filled(5000, t + i)});
      if (!out || first((*out)[0]) != static_cast<float>((t + i) * 3 + 1)) ++wrong;
    }
  });
  CHECK_EQ(wrong.load(), 0);
  CHECK(!program->run({filled(4999, 1)}));
}

}  // namespace
}  // namespace fl
