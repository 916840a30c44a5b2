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
    "binomial": lambda g: fl.binomial(fl.full((N,), 30.0), fl.tensor(0.3), generator=g),
    "gamma": lambda g: fl._C.ops.standard_gamma(fl.full((N,), 0.7), generator=g),
    "dirichlet": lambda g: fl._C.ops.dirichlet_draw(fl.full((N, 3), 0.7), generator=g),
    "poisson": lambda g: fl.poisson(fl.full((N,), 3.5), generator=g),
    "poisson_large": lambda g: fl.poisson(fl.full((N,), 250.0, dtype=fl.float64), generator=g),
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
    """Words 0 to 3 of the counters `index` (Salmon et al., SC 2011), in NumPy."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    index = np.asarray(index, np.uint64)
    c = [index & low, index >> half, np.full_like(index, offset & 0xFFFFFFFF), np.full_like(index, offset >> 32)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> half) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> half) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


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


def test_seeds_have_64_bits():
    for seed, kept in ((2**64 - 1, 2**64 - 1), (-1, 2**64 - 1), (-(2**63), 2**63)):
        assert fl.manual_seed(seed).initial_seed() == kept
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match=f"manual_seed: seed = {seed}; expected at least"):
            fl.manual_seed(seed)


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



@pytest.mark.parametrize("n", [1, 2, 5, 8, 100])
def test_draws_without_replacement_follow_the_weights_left(n):
    weights = (fl.arange(n) % 4).double() + (0 if n > 4 else 1)  # with zeros, which are never drawn
    k = int((weights > 0).sum())
    drawn = fl.multinomial(weights.expand(4000, n), min(k, 3))
    assert all(len(set(row)) == len(row) for row in drawn.tolist()) and bool((weights[drawn] > 0).all())
    share = fl.bincount(drawn[:, 0], minlength=n) / 4000
    assert (share - weights / weights.sum()).abs().max() < 0.05
    if k > 1:
        first = int(weights.argmax())
        rest = weights.clone()
        rest[first] = 0
        second = drawn[drawn[:, 0] == first][:, 1]
        apart = fl.bincount(second, minlength=n) / len(second) - rest / rest.sum()
        assert apart.abs().max() < (0.2 if len(second) < 400 else 0.1)


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


def test_a_permutation_that_its_type_can_not_hold_is_refused():
    assert sorted(fl.randperm(256, dtype=fl.uint8).tolist()) == list(range(256))
    with pytest.raises((ValueError, OverflowError), match="randperm"):
        fl.randperm(257, dtype=fl.uint8)
    with pytest.raises((ValueError, OverflowError), match="randperm"):
        fl.randperm(3000, dtype=fl.bfloat16)


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


# ---------------------------------------------------------------- what the draws are made of


SEEDS = [0, 7, 0x123456789ABCDEF]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n", [1, 255, 1024, 5003])
def test_uniform_draws_are_words_of_philox_counters(seed, n):
    g = seeded(seed)
    for offset in range(2):
        i = np.arange(n)
        words = np.stack(philox(seed, offset, i // 1024 * 256 + i % 256))[i % 1024 // 256, i]
        assert np.array_equal(fl.rand(n, generator=g).numpy(), (words >> np.uint64(8)).astype(np.float32) * np.float32(2**-24))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("low", "high"), [(0, 9), (-5, 1000), (-(2**62), 2**62), (-(2**63), 2**63 - 1)])
def test_integers_are_the_first_words_of_their_own_counters(seed, low, high):
    g = seeded(seed)
    for offset in range(2):
        w = philox(seed, offset, np.arange(2500))
        want = [(((int(a) << 32 | int(b)) * (high - low)) >> 64) + low for a, b in zip(w[0], w[1], strict=True)]
        assert fl.randint(low, high, (50, 50), generator=g).reshape(-1).tolist() == want


@pytest.mark.parametrize("dtype", [fl.int8, fl.float32], ids=str)
@pytest.mark.parametrize("n", [1, 1023, 1024, 1025])
def test_integers_of_other_types_are_the_same(n, dtype):
    assert fl.randint(-5, 100, (n,), dtype=dtype, generator=seeded(3)).tolist() == fl.randint(-5, 100, (n,), generator=seeded(3)).tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 1024, 1025, 3000])
def test_an_order_is_made_by_exchanges_from_the_end(n):
    w = philox(7, 0, np.arange(n))
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        r = (int(w[0][i]) << 32 | int(w[1][i])) * (i + 1) >> 64
        order[i], order[r] = order[r], order[i]
    for dtype in (fl.int64, fl.int32, fl.float32):
        assert fl.randperm(n, dtype=dtype, generator=seeded(7)).tolist() == order


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
@pytest.mark.parametrize("rate", [0.01, 0.7, 3.0, 9.99, 10.0, 12.5, 80.0, 1234.5])
def test_poisson(rate, dtype):
    """Counts have the probabilities of the distribution, on both sides of the change of methods."""
    draws = fl.poisson(fl.full((200_000,), rate, dtype=dtype), generator=seeded(11)).numpy()
    assert (draws == np.floor(draws)).all() and (draws >= 0).all()
    law = scipy.stats.poisson(rate)
    edges = np.unique(law.ppf(np.linspace(0, 1, 31)[1:-1]))  # counts up to and including each
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * len(draws)
    found = np.histogram(draws, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    keep = expected > 5
    assert scipy.stats.chi2.sf(((found - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1 or 1) > 1e-4


def test_poisson_of_each_element():
    rates = fl.tensor([[0.0, 1e6], [float("inf"), 1e20]], dtype=fl.float64)
    draws = fl.poisson(rates)
    assert draws.shape == (2, 2) and draws[0, 0] == 0 and abs(draws[0, 1] - 1e6) < 1e4
    assert draws[1, 0] == float("inf") and draws[1, 1] == 1e20
    assert fl.poisson(fl.empty(0, 3)).shape == (0, 3)
    x = fl.ones(3, requires_grad=True)
    fl.poisson(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("wrong", [fl.tensor([1.0, -0.5]), fl.tensor([float("nan")]), fl.tensor([1.0, -1.0], dtype=fl.float16)])
def test_poisson_refuses_rates_below_zero(wrong):
    with pytest.raises(ValueError, match="expected all elements to be 0 or more"):
        fl.poisson(wrong)


def test_poisson_refuses_integers():
    with pytest.raises(TypeError, match="poisson"):
        fl.poisson(fl.ones(3, dtype=fl.int64))


def test_forks_by_the_arguments_of_pytorch():
    state = fl.get_rng_state()
    with fl.random.fork_rng([], True, "me", "devices", "cpu"):
        fl.rand(2)
    assert fl.equal(fl.get_rng_state(), state)
    with fl.random.fork_rng(device_type="meta"):
        fl.rand(2)
    assert not fl.equal(fl.get_rng_state(), state)
    fl.random.set_rng_state(new_state=state)
    assert fl.equal(fl.get_rng_state(), state)


@pytest.mark.parametrize("seed", [7.0, "7", np.int64(7), fl.tensor(7)], ids=repr)
def test_a_seed_is_anything_that_int_takes(seed):
    assert fl.manual_seed(seed).initial_seed() == 7


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000])
@pytest.mark.parametrize("name", ["rand", "randn", "rand_f64", "randn_f64", "half", "randint", "bernoulli", "exponential", "gamma", "binomial"])
def test_few_draws_are_the_first_of_many(name, count):
    """Of a chunk as many are made as are asked for; what an element is depends on seed and place alone."""
    make = {
        "rand": lambda n: fl.rand(n, generator=seeded(5)),
        "randn": lambda n: fl.randn(n, generator=seeded(5)),
        "rand_f64": lambda n: fl.rand(n, dtype=fl.float64, generator=seeded(5)),
        "randn_f64": lambda n: fl.randn(n, dtype=fl.float64, generator=seeded(5)),
        "half": lambda n: fl.randn(n, dtype=fl.bfloat16, generator=seeded(5)).float(),
        "randint": lambda n: fl.randint(-5, 1000, (n,), generator=seeded(5)),
        "bernoulli": lambda n: fl.bernoulli(fl.full((n,), 0.3), generator=seeded(5)),
        "exponential": lambda n: fl.empty(n).exponential_(2.0, generator=seeded(5)),
        "gamma": lambda n: fl._C.ops.standard_gamma(fl.full((n,), 1.7), generator=seeded(5)),
        "binomial": lambda n: fl.binomial(fl.full((n,), 30.0), fl.full((n,), 0.3), generator=seeded(5)),
    }[name]
    assert bits(make(count)) == bits(make(1024)[:count].clone())


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize("shape", [0.4, 1.0, 2.5, 60.0])
def test_gamma_draws_are_of_their_distribution(shape, dtype):
    drawn = fl._C.ops.standard_gamma(fl.full((20_000,), shape, dtype=dtype), generator=seeded(1)).numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.gamma(shape).cdf).pvalue > 1e-3


def test_gamma_draws_of_no_distribution():
    shapes = [float("nan"), -1.0, 0.0, float("inf")]
    for dtype in (fl.float32, fl.float64):
        drawn = fl._C.ops.standard_gamma(fl.tensor(shapes, dtype=dtype))
        assert [str(v) for v in drawn.tolist()] == ["nan", "nan", "0.0", "inf"]


@pytest.mark.parametrize(("n", "p"), [(10, 0.3), (1, 0.5), (19, 0.5), (1_000_000, 5e-6), (5, 0.9), (300, 0.4)])
def test_binomial_draws_are_of_their_distribution(n, p):
    drawn = fl.binomial(fl.full((50_000,), float(n), dtype=fl.float64), fl.full((50_000,), p, dtype=fl.float64), generator=seeded(2)).numpy()
    expected = 50_000 * scipy.stats.binom(n, p).pmf(np.arange(min(n, 400) + 1))
    often = expected > 5
    found = np.bincount(drawn.astype(int), minlength=len(expected))[: len(expected)]
    distance = ((found - expected)[often] ** 2 / expected[often]).sum()
    assert scipy.stats.chi2(often.sum() - 1).sf(distance) > 1e-3


@pytest.mark.parametrize("k", [1, 3, 4, 5, 1000])
def test_categories_of_weight_0_are_never_drawn(k):
    weights = fl.tensor([0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 1e-30])
    drawn = fl.multinomial(weights, k, True, generator=seeded(3)).tolist()
    assert set(drawn) <= {1, 4, 6}
    assert k < 1000 or abs(drawn.count(4) / k - 0.75) < 0.06


def test_weights_whose_sum_is_too_large_for_a_number_are_all_drawn():
    drawn = fl.multinomial(fl.full((5,), 1e308, dtype=fl.float64), 5000, True, generator=seeded(4))
    assert (np.bincount(drawn.numpy(), minlength=5) > 800).all()
