"""Random numbers: the same bits for a seed on any number of threads, ranges, moments, generators."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from support.compare import bits

import flambeau as fl

N = 100_003  # more than one block of work, and no multiple of one

MAKERS = {
    "rand": lambda g: fl.rand(N, generator=g),
    "rand_f64": lambda g: fl.rand(N, dtype=fl.float64, generator=g),
    "rand_f16": lambda g: fl.rand(N, dtype=fl.float16, generator=g),
    "randn": lambda g: fl.randn(N, generator=g),
    "randn_f64": lambda g: fl.randn(N, dtype=fl.float64, generator=g),
    "randint": lambda g: fl.randint(-5, 1000, (N,), generator=g),
    "randperm": lambda g: fl.randperm(N, generator=g),
    "bernoulli": lambda g: fl.bernoulli(fl.full((N,), 0.3), generator=g),
    "multinomial": lambda g: fl.multinomial(fl.arange(100.0), 50, generator=g),
    "uniform_": lambda g: fl.empty(N).uniform_(-3, 5, generator=g),
    "normal_": lambda g: fl.empty(N).normal_(2, 3, generator=g),
    "exponential_": lambda g: fl.empty(N).exponential_(2.0, generator=g),
    "normal": lambda g: fl.normal(fl.zeros(N), 1.0, generator=g),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


def seeded(seed):
    return fl.Generator().manual_seed(seed)


@makers
@pytest.mark.parametrize("threads", [2, 8])
def test_same_bits_on_any_number_of_threads(make, threads):
    fl.set_num_threads(1)
    one = bits(make(seeded(7)))
    fl.set_num_threads(threads)
    assert bits(make(seeded(7))) == one
    assert bits(make(seeded(8))) != one


def philox(seed, offset, index):
    """Philox4x32-10 as in Salmon et al., SC 2011."""
    c, k = [index & 0xFFFFFFFF, index >> 32, offset & 0xFFFFFFFF, offset >> 32], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize("dtype", [fl.int8, fl.int64, fl.float32], ids=str)
@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_integers_are_those_of_philox(n, dtype):
    g = seeded(9 << 40 | 5)
    fl.rand(1, generator=g)
    words = [philox(9 << 40 | 5, 1, i) for i in range(n)]
    want = [((w[0] << 32 | w[1]) * 105 >> 64) - 5 for w in words]
    assert fl.randint(-5, 100, (n,), dtype=dtype, generator=g).tolist() == want


@makers
def test_draws_differ_and_the_state_can_be_restored(make):
    g = seeded(1)
    first = bits(make(g))
    state = g.get_state()
    second = bits(make(g))
    assert first != second
    g.set_state(state)
    assert bits(make(g)) == second


def test_default_generator():
    fl.manual_seed(5)
    a = fl.rand(10)
    state = fl.get_rng_state()
    b = fl.rand(10)
    fl.set_rng_state(state)
    assert bits(fl.rand(10)) == bits(b)
    fl.manual_seed(5)
    assert bits(fl.rand(10)) == bits(a) and fl.initial_seed() == 5
    with fl.random.fork_rng():
        fl.rand(3)
    assert bits(fl.rand(10)) == bits(b)


def test_generator_is_apart_from_the_default_one():
    fl.manual_seed(5)
    a = fl.rand(10)
    fl.manual_seed(5)
    fl.rand(10, generator=seeded(1))
    assert bits(fl.rand(10)) == bits(a)


def test_uniform():
    x = fl.rand(N, dtype=fl.float64).numpy()
    assert 0 <= x.min() and x.max() < 1
    assert scipy.stats.kstest(x, "uniform").pvalue > 1e-4
    y = fl.rand(N, dtype=fl.float16)
    assert y.max().item() < 1 and fl.rand(N, dtype=fl.bfloat16).max().item() < 1


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=lambda t: t.name)
def test_normal(dtype):
    x = fl.empty(N, dtype=dtype).normal_(2.0, 3.0).numpy()
    assert np.isfinite(x).all()
    assert scipy.stats.kstest((x.astype(np.float64) - 2) / 3, "norm").pvalue > 1e-4


def test_other_distributions():
    assert scipy.stats.kstest(fl.empty(N, dtype=fl.float64).exponential_(2.0).numpy() * 2, "expon").pvalue > 1e-4
    k = fl.randint(-3, 5, (N,))
    assert (k.min().item(), k.max().item()) == (-3, 4) and k.dtype is fl.int64
    assert scipy.stats.chisquare(np.bincount(k.numpy() + 3)).pvalue > 1e-4
    assert abs(fl.bernoulli(fl.full((N,), 0.3)).mean().item() - 0.3) < 0.01
    assert sorted(fl.randperm(100).tolist()) == list(range(100))
    counts = fl.bincount(fl.multinomial(fl.tensor([1.0, 0.0, 3.0]), N, replacement=True), minlength=3)
    assert counts[1].item() == 0 and abs(counts[2].item() / N - 0.75) < 0.01
    assert sorted(fl.multinomial(fl.tensor([1.0, 1.0, 1.0]), 3).tolist()) == [0, 1, 2]


def test_dropout():
    x = fl.ones(N, requires_grad=True)
    y = fl.dropout(x, 0.25, True)
    kept = y.detach() != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.01
    assert fl.allclose(y.detach()[kept], fl.full((int(kept.sum()),), 1 / 0.75))
    y.sum().backward()
    assert bits(x.grad) == bits(y)
    assert fl.dropout(x, 0.5, False).tolist()[:3] == [1.0] * 3
    assert fl.dropout(x, 1.0, True).sum().item() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.randint(5, 5, (2,)), lambda: fl.multinomial(fl.tensor([1.0]), 2), lambda: fl.empty(2).normal_(0, -1),
        lambda: fl.empty(2).uniform_(2, 1), lambda: fl.randperm(-1), lambda: fl.multinomial(fl.tensor([-1.0, 2.0]), 1), lambda: fl.dropout(fl.ones(2), 1.5, True),
    ],
    ids=["randint", "multinomial", "normal", "uniform", "randperm", "negative_weight", "dropout"],
)  # fmt: skip
def test_wrong_arguments(call):
    with pytest.raises((ValueError, RuntimeError)):
        call()
