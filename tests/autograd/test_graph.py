"""The graph itself: as Python sees it, long and wide, freed, and shared by threads."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from support.tensors import leaf

import flambeau as fl
from flambeau.autograd import grad

# ---------------------------------------------------------------- the graph as seen from Python


def test_graph_can_be_walked():
    x = leaf(1.0)
    y = (x * 2).exp()
    ((mul, number),) = y.grad_fn.next_functions
    assert (y.grad_fn.name(), mul.name(), number) == ("ExpBackward0", "MulBackward0", 0)
    accumulate = next(f for f, _ in mul.next_functions if f is not None)
    assert accumulate.name() == "AccumulateGrad" and accumulate.variable is x


# ---------------------------------------------------------------- long and wide graphs


@pytest.mark.slow
@pytest.mark.parametrize("n", [100_000])
def test_long_chain(n):
    x = fl.ones(1, requires_grad=True)
    y = x
    for _ in range(n):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1.0


@pytest.mark.slow
@pytest.mark.eager("memory")
def test_long_chain_is_freed_without_backward():
    before = fl.memory_stats()["allocated_bytes"]
    x = fl.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.0000001
    del y, x
    assert fl.memory_stats()["allocated_bytes"] == before


@pytest.mark.slow
def test_long_chain_of_functions():
    class Next(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = fl.ones(1, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = Next.apply(y)
    y.backward()
    assert x.grad.item() == 1.0
    del y


def test_wide_graph():
    x = fl.ones(1, requires_grad=True)
    fl.cat([x * float(i) for i in range(1000)]).sum().backward()
    assert x.grad.item() == 999 * 1000 / 2


# ---------------------------------------------------------------- freeing


@pytest.mark.eager("memory")
def test_saved_tensors_go_with_backward():
    before = fl.memory_stats()["allocated_bytes"]
    x = fl.ones(1000, requires_grad=True)
    y = (x * 2).exp().sum()
    held = fl.memory_stats()["allocated_bytes"]
    y.backward()
    x.grad = None
    assert fl.memory_stats()["allocated_bytes"] < held
    del x, y
    assert fl.memory_stats()["allocated_bytes"] == before


def test_graph_is_freed_by_reference_counts_alone():
    class Keep(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            seen.append(weakref.ref(ctx))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    seen = []
    gc.disable()
    try:
        x = leaf(1.0)
        y = Keep.apply(x).exp()
        assert seen[0]() is not None
        del y
        assert seen[0]() is None
    finally:
        gc.enable()


def test_cycle_through_a_hook_is_collected():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g, held=y: None)
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


def test_cycle_through_an_attribute_is_collected():
    x = fl.ones(3)
    x.me = x
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


# ---------------------------------------------------------------- threads


def test_threads_run_backward_at_once():
    shared = leaf(0.5, 1.0)
    failures = []

    def work(k):
        try:
            for _ in range(20):
                x = fl.full((50,), float(k), dtype=fl.float64, requires_grad=True)
                (x.sin() * x).sum().backward()
                expected = x.detach().sin() + x.detach() * x.detach().cos()
                assert fl.allclose(x.grad, expected)
                (shared * shared).sum().backward()
        except BaseException as fault:
            failures.append(fault)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert shared.grad.tolist() == [80.0, 160.0]


def test_threads_run_backward_through_one_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).exp()
    results = [None] * 4

    def work(i):
        results[i] = grad(y.sum(), x, retain_graph=True)[0].tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [results[0]] * 4 and results[0] is not None


def test_grad_mode_belongs_to_the_thread():
    seen = []
    with fl.no_grad():
        t = threading.Thread(target=lambda: seen.append(fl.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]
