// Autograd through the generated ops, without Python: threads, deep graphs, versions.
#include "autograd/meta.h"
#include "base/error.h"
#include "storage/allocator.h"
#include "tests/check.h"
#include "op/add.h"
#include "op/full.h"
#include "op/matmul.h"
#include "op/mul.h"
#include "op/sum.h"

namespace fl {
namespace {

Tensor leaf(IntList sizes, double value) {
  Tensor x = op::full(sizes, value, DType::Float32);
  set_requires_grad(x, true);
  return x;
}

void backward(const Tensor& y, bool retain = false) { run_backward({y}, {Tensor()}, retain, false, {}, false, false); }

const Tensor& grad(const Tensor& x) { return meta_of(x)->grad; }

TEST(autograd_add_mul_matmul) {
  const Tensor a = leaf(Dims{2, 3}, 2), b = leaf(Dims{3, 4}, 3), c = leaf(Dims{4}, 1);
  const Tensor y = op::sum(op::mul(op::add(op::matmul(a, b), c), 0.5));
  CHECK_EQ(*y.data<float>(), 2 * 4 * (3 * 6 + 1) * 0.5f);
  backward(y);
  CHECK_EQ(to_string(grad(a).sizes()), "[2, 3]");
  CHECK_EQ(to_string(grad(c).sizes()), "[4]");
  for (int i = 0; i < 6; ++i) CHECK_EQ(grad(a).data<float>()[i], 4 * 3 * 0.5f);
  for (int i = 0; i < 12; ++i) CHECK_EQ(grad(b).data<float>()[i], 2 * 2 * 0.5f);
  for (int i = 0; i < 4; ++i) CHECK_EQ(grad(c).data<float>()[i], 2 * 0.5f);
}

TEST(autograd_second_derivative) {
  const Tensor x = leaf(Dims{1}, 3);
  const Tensor y = op::sum(op::mul(op::mul(x, x), x));
  const Tensor first = run_backward({y}, {Tensor()}, true, true, {x}, false, false)[0];
  CHECK_EQ(*first.data<float>(), 27.0f);
  const Tensor second = run_backward({op::sum(first)}, {Tensor()}, false, false, {x}, false, false)[0];
  CHECK_EQ(*second.data<float>(), 18.0f);
}

TEST(autograd_used_up_graph) {
  const Tensor x = leaf(Dims{2}, 3);
  const Tensor y = op::sum(op::mul(x, x));
  backward(y, true);
  backward(y);
  CHECK_EQ(grad(x).data<float>()[0], 12.0f);
  CHECK_THROWS((backward(y), 0), AutogradError, "retain_graph");
}

TEST(autograd_refuses_a_saved_tensor_that_was_written) {
  const Tensor x = leaf(Dims{2}, 3);
  Tensor h = op::mul(x, 2);
  const Tensor y = op::sum(op::mul(h, h));
  op::add_(h, 1);
  CHECK_THROWS((backward(y), 0), AutogradError, "add_");
  CHECK_THROWS(op::add_(x, 1), AutogradError, "leaf");
}

TEST(autograd_written_in_place_before_use) {
  const Tensor x = leaf(Dims{2}, 3);
  Tensor h = op::mul(x, 2);
  op::mul_(h, 5);
  backward(op::sum(h));
  CHECK_EQ(grad(x).data<float>()[0], 10.0f);
}

TEST(autograd_deep_chain) {
  const size_t before = host_stats().allocated;
  for (const bool run : {false, true}) {
    const Tensor x = leaf(Dims{1}, 1);
    Tensor y = op::add(x, 0);
    for (int i = 0; i < 100000; ++i) y = op::add(y, 0);
    if (!run) continue;  // freed unused
    backward(op::sum(y));
    CHECK_EQ(*grad(x).data<float>(), 1.0f);
  }
  CHECK_EQ(host_stats().allocated, before);
}

TEST(autograd_nothing_stays) {
  { backward(op::sum(op::mul(leaf(Dims{300}, 1), leaf(Dims{300}, 2)))); }
  const size_t before = host_stats().allocated;
  {
    const Tensor x = leaf(Dims{300}, 1);
    const Tensor y = op::mul(x, x);
    const Tensor z = op::mul(y, y);
    (void)z;
  }
  CHECK_EQ(host_stats().allocated, before);
}

// Every thread builds its own graph over the same leaves and runs it.
TEST(autograd_threads_share_leaves) {
  const Tensor w = leaf(Dims{8, 8}, 0.5), b = leaf(Dims{8}, 1);
  constexpr int kThreads = 4, kRounds = 50;
  test::on_threads(kThreads, [&](int) {
    for (int i = 0; i < kRounds; ++i) {
      const Tensor x = op::full(Dims{4, 8}, 1.0, DType::Float32);
      backward(op::sum(op::mul(op::add(op::matmul(x, w), b), 2.0)));
    }
  });
  const float n = kThreads * kRounds;
  for (int i = 0; i < 64; ++i) CHECK_EQ(grad(w).data<float>()[i], n * 8);
  for (int i = 0; i < 8; ++i) CHECK_EQ(grad(b).data<float>()[i], n * 8);
}

// One graph, retained, run by several threads.
TEST(autograd_threads_share_a_graph) {
  const Tensor x = leaf(Dims{16}, 2);
  const Tensor y = op::sum(op::mul(op::mul(x, x), x));
  test::on_threads(4, [&](int) {
    for (int i = 0; i < 20; ++i) backward(y, true);
  });
  CHECK_EQ(grad(x).data<float>()[3], 80 * 12.0f);
}

// A leaf dies on one thread while another runs the graph that reaches it weakly.
TEST(autograd_leaf_dies_during_backward) {
  for (int round = 0; round < 300; ++round) {
    Tensor x = leaf(Dims{4}, 1);
    const Tensor y = op::sum(op::add(x, 1));
    test::on_threads(2, [&](int t) {
      if (t == 0) x = Tensor();
      else backward(y);
    });
  }
}

TEST(autograd_no_grad_is_per_thread) {
  const Tensor x = leaf(Dims{2}, 1);
  const NoGrad off;
  CHECK(!requires_grad(op::mul(x, 2)));
  test::on_threads(1, [&](int) { CHECK(requires_grad(op::mul(x, 2))); });
}

}  // namespace
}  // namespace fl
