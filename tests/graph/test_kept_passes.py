"""Passes of small operands that a program makes once and keeps (csrc/dispatch/register_pass.h): the same bits as in eager mode, call after call."""

from __future__ import annotations

import random

import pytest

import flambeau as fl
from flambeau import _C

F = fl.nn.functional
pytestmark = pytest.mark.eager("compiles functions of its own")

SIZES = [(1,), (5,), (127,), (128,), (129,), (32, 32), (3, 341), (1500,), (4, 1025), (32768,), (40000,)]
STEPS = [
    lambda x, y, s: x + y, lambda x, y, s: x * s, lambda x, y, s: y - x, lambda x, y, s: x * 0.9, lambda x, y, s: 3 - x, lambda x, y, s: x / 4, lambda x, y, s: x / 3,
    lambda x, y, s: x.relu(), lambda x, y, s: fl.maximum(x, y), lambda x, y, s: fl.lerp(x, y, 0.3), lambda x, y, s: fl.addcmul(x, y, y, value=0.5), lambda x, y, s: x.abs().sqrt(),
    lambda x, y, s: x.clamp(-1, 1), lambda x, y, s: s - x, lambda x, y, s: x.add_(y), lambda x, y, s: x.mul_(s), lambda x, y, s: x.sub_(y * 0.01), lambda x, y, s: x.tanh(),
    lambda x, y, s: x + y[:1].sum(),
]  # fmt: skip


def in_registers():
    return _C.graph.stats()["in_registers"]


def programs(seed, size):
    """A function over a parameter and a momentum that it writes, and two arguments; in eager mode and compiled, each with memory of its own."""
    draw = random.Random(seed)
    steps = [draw.choice(STEPS) for _ in range(draw.randint(2, 9))]
    swaps = [draw.random() < 0.3 for _ in steps]
    start = [fl.randn(size), fl.randn(size)]

    def made(compiled):
        p, m = (t.clone() for t in start)

        def f(x, s):
            with fl.no_grad():
                y, z = x * 1, p * s
                for step, swap in zip(steps, swaps, strict=True):
                    y = step(y, z, s)
                    y, z = (z, y) if swap else (y, z)
                m.mul_(0.9).add_(z)
                p.sub_(m * 0.01)
            return y * 1

        return (fl.compile(f, mode="replay") if compiled else f), p, m

    return made(False), made(True)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed, size):
    fl.manual_seed(seed)
    (eager, *mine), (replayed, *others) = programs(seed, size)
    for call in range(6):
        x, s = fl.randn(size), fl.tensor(0.5 + 0.1 * call)
        if call == 3:
            x.view(-1)[:1] = float("nan")
        y, z = eager(x.clone(), s), replayed(x.clone(), s)
        assert y.view(fl.int32).equal(z.view(fl.int32)), call
        for a, b in zip(mine, others, strict=True):
            assert a.view(fl.int32).equal(b.view(fl.int32)), call


def updates(parameters, momenta):
    def f(scale):
        with fl.no_grad():
            for p, m in zip(parameters, momenta, strict=True):
                m.mul_(0.9).add_(p * scale)
                p.sub_(m * 0.01)
        return scale * 1

    return f


def test_they_are_kept():
    """The tests here would see nothing if small operands went one by one."""
    f = fl.compile(updates([fl.randn(32, 32) for _ in range(3)], [fl.zeros(32, 32) for _ in range(3)]), mode="replay")
    for _ in range(6):
        f(fl.tensor(1e-3))
    before = in_registers()
    f(fl.tensor(1e-3))
    assert in_registers() - before == 15


def test_operands_that_lie_channels_last_go_one_by_one():
    conv, x = fl.nn.Conv2d(3, 8, 3, padding=1), fl.randn(2, 3, 12, 12)

    def f(y):
        with fl.no_grad():
            return (y * 0.5 + 1).relu() - y

    replayed = fl.compile(f, mode="replay")
    with fl.no_grad():
        for _ in range(5):
            y = fl.randn(2, 8, 12, 12)
            assert fl.equal(replayed(y), f(y))
        for _ in range(3):
            y = conv(x)
            assert fl.equal(replayed(y), f(y.clone()))


def test_an_output_is_fresh_and_arguments_move():
    def f(x, y):
        return (x + y) * 2 - x

    replayed = fl.compile(f, mode="replay")
    results = []
    for k in range(6):
        x, y = fl.full((200,), float(k)), fl.ones(200)
        results.append(replayed(x, y))
    assert [r[0].item() for r in results] == [k + 2.0 for k in range(6)] and len({r.data_ptr() for r in results}) == 6
    line = fl.arange(400.0)
    assert fl.equal(replayed(line[:200], line[200:]), f(line[:200], line[200:]))


def test_threads_run_one_program():
    import threading

    f = fl.compile(lambda x, y: (x * y + x).relu() - y, mode="replay")
    for _ in range(5):
        f(fl.randn(300), fl.randn(300))
    wrong = []

    def work(seed):
        generator = fl.Generator().manual_seed(seed)
        for _ in range(200):
            x, y = fl.randn(300, generator=generator), fl.randn(300, generator=generator)
            if not fl.equal(f(x, y), (x * y + x).relu() - y):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("numel", [3000, 4100, 5000, 8200, 20000])
@pytest.mark.parametrize("dtype", [fl.float32, fl.bfloat16], ids=str)
def test_what_fits_into_a_pass_may_not_pay_for_one(numel, dtype):
    """Many ops may follow each other, and few of them go into a pass, since each reads something else: what lies between has memory then."""

    def f(x, *others):
        with fl.no_grad():
            for k, y in enumerate(others):
                x = x * y if k % 3 else (x + y).tanh()
        return x

    replayed = fl.compile(f, mode="replay")
    for call in range(5):
        given = [fl.randn(numel, generator=fl.Generator().manual_seed(call * 20 + k)).to(dtype) for k in range(13)]
        assert fl.equal(replayed(*given), f(*given))
