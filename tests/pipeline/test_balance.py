"""Balances: exact partitions of costs, and costs that are measured without leaving traces."""

import itertools
import math
import random

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import balance
from flambeau.pipeline.balance import balance_by_size, balance_by_time, balance_cost
from flambeau.pipeline.skip import pop, skippable, stash

# ---- balance_cost


def sums(costs, sizes):
    left = iter(costs)
    return [sum(itertools.islice(left, size)) for size in sizes]


def best(costs, k):
    """The least (maximum, sum of squares) of all partitions, by trying them all."""
    found = []
    for cuts in itertools.combinations(range(1, len(costs)), k - 1):
        ends = (0, *cuts, len(costs))
        blocks = [sum(costs[a:b]) for a, b in zip(ends, ends[1:])]
        found.append((max(blocks), sum(b * b for b in blocks)))
    return min(found)


@pytest.mark.parametrize(
    "costs, k, sizes",
    [
        ([1, 2, 3, 4, 5, 6], 2, [4, 2]),
        ([6, 5, 4, 3, 2, 1], 2, [2, 4]),
        ([0, 0], 2, [1, 1]),
        ([0, 0, 0], 1, [3]),
        ([7], 1, [1]),
        ([1] * 11, 4, [3, 3, 3, 2]),  # rescaled to the range of costs, these came out as 2, 2, 2, 5
        ([1] * 15, 8, [2] * 7 + [1]),
        ([2, 2, 8, 7, 15], 4, [2, 1, 1, 1]),  # a local search left a block empty
        ([0, 0, 0, 0, 9], 3, [3, 1, 1]),
        ([0.1, 0.2, 0.3], 2, [2, 1]),
        ([1e-300, 1e300], 2, [1, 1]),
        ([np.int64(1), np.float32(2), np.float64(3)], 2, [2, 1]),
    ],
)
def test_golden(costs, k, sizes):
    assert balance_cost(costs, k) == sizes


@pytest.mark.parametrize("seed", range(40))
def test_exact_and_even(seed):
    rng = random.Random(seed)
    for _ in range(20):
        n = rng.randint(1, 9)
        k, top = rng.randint(1, n), rng.choice([1, 3, 10, 1000])
        costs = [rng.randint(0, top) for _ in range(n)]
        sizes = balance_cost(costs, k)
        assert len(sizes) == k and sum(sizes) == n and min(sizes) > 0
        blocks = sums(costs, sizes)
        assert (max(blocks), sum(b * b for b in blocks)) == best(costs, k), (costs, k, sizes)


def test_ties_go_to_the_least_variance():
    # 9 | 1 1 1 6 would do as well as far as the maximum goes
    assert balance_cost([9, 1, 1, 1, 6], 3) == [1, 3, 1]
    assert balance_cost([9, 1, 1, 1, 1], 3) == [1, 2, 2]


@pytest.mark.slow
def test_many_layers():
    rng = random.Random(0)
    costs = [rng.random() for _ in range(2000)]
    blocks = sums(costs, balance_cost(costs, 8))
    assert max(blocks) - sum(costs) / 8 < 1


@pytest.mark.parametrize(
    "costs, k, text",
    [
        ([42], 0, r"partitions must be a positive integer \(0 < 1\)"),
        ([42], -1, r"partitions must be a positive integer \(-1 < 1\)"),
        ([], 1, r"sequence is shorter than intended partitions \(0 < 1\)"),
        ([42], 2, r"sequence is shorter than intended partitions \(1 < 2\)"),
        ([1, -1], 1, r"costs\[1\] = -1; expected a finite number that is not negative"),
        ([math.nan], 1, r"costs\[0\] = nan"),
        ([math.inf], 1, r"costs\[0\] = inf"),
    ],
)
def test_refuses(costs, k, text):
    with pytest.raises(ValueError, match=text):
        balance_cost(costs, k)


# ---- measuring: what it needs and what it leaves


class Clock:
    """Stands for the module `time`: goes on only where a layer says so."""

    def __init__(self):
        self.seconds = 0.0

    def perf_counter(self):
        return self.seconds

    def perf_counter_ns(self):
        return round(self.seconds * 1e9)


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(balance, "time", Clock())
    return balance.time


class Slow(fl.autograd.Function):
    @staticmethod
    def forward(ctx, input, forward, backward):
        balance.time.seconds += forward
        ctx.backward = backward
        return input * 1

    @staticmethod
    def backward(ctx, grad):
        balance.time.seconds += ctx.backward
        return grad, None, None


class Takes(nn.Module):
    """Takes so many seconds forward, in turn, and backward."""

    total = 0  # calls of all

    def __init__(self, *forward, backward=0.0):
        super().__init__()
        self.forward_seconds, self.backward_seconds, self.calls = forward, backward, 0

    def forward(self, input):
        seconds = self.forward_seconds[min(self.calls, len(self.forward_seconds) - 1)]
        self.calls += 1
        Takes.total += 1
        return Slow.apply(input, seconds, self.backward_seconds)


@pytest.fixture(autouse=True)
def _no_calls(monkeypatch):
    monkeypatch.setattr(Takes, "total", 0)


@pytest.mark.parametrize("seconds, sizes", [([1, 2, 3, 4, 5, 6], [4, 2]), ([6, 5, 4, 3, 2, 1], [2, 4])], ids=str)
def test_by_time(seconds, sizes, clock):
    model = nn.Sequential(*(Takes(s) for s in seconds))
    assert balance_by_time(2, model, fl.rand(1), timeout=0.0) == sizes
    assert Takes.total == 6  # one sweep at least


def test_time_of_backward_counts(clock):
    model = nn.Sequential(Takes(1, backward=9), Takes(2), Takes(3), Takes(3))
    assert balance_by_time(2, model, fl.rand(1, requires_grad=True), timeout=0.0) == [1, 3]
    assert balance_by_time(2, model, fl.rand(1), timeout=0.0) == [3, 1]  # no gradients, no backward


def test_sweeps_until_the_timeout(clock):
    model = nn.Sequential(Takes(1), Takes(2))
    assert balance_by_time(2, model, fl.rand(1), timeout=7.5) == [1, 1]
    assert Takes.total == 2 * 3  # 3 seconds each


def test_one_slow_sweep_does_not_decide(clock):
    """As the first one often is."""
    model = nn.Sequential(Takes(100, 1), Takes(1), Takes(2))
    assert balance_by_time(2, model, fl.rand(1), timeout=110.0) == [2, 1]


def test_every_sweep_begins_with_the_sample():
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
    sizes = balance_by_time(2, model, fl.rand(2, 3, 4, 4), timeout=0.05)
    assert sum(sizes) == 3


def by_time(k, model, sample):
    return balance_by_time(k, model, sample, timeout=0.0)


both = pytest.mark.parametrize("measure", [by_time, balance_by_size], ids=["time", "size"])


class Watch(nn.Module):
    """Notes how it is called."""

    seen = []

    def forward(self, input):
        Watch.seen.append((self, self.training, fl.is_grad_enabled()))
        return input


@both
def test_copies_train_and_the_model_does_not(measure):
    Watch.seen = []
    model = nn.Sequential(Watch(), Watch()).eval()
    with fl.no_grad():
        measure(1, model, fl.ones(2, 1))
        assert not fl.is_grad_enabled()
    assert [(training, grad) for _, training, grad in Watch.seen] == [(True, True)] * 2
    assert all(module is not layer for module, *_ in Watch.seen for layer in model)
    assert not model.training and not any(layer.training for layer in model)


@both
@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_changed(measure, training):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(4, 2)).train(training)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    sample = fl.randn(6, 3, requires_grad=True)
    values, rng = sample.tolist(), fl.get_rng_state().tolist()
    measure(2, model, sample)
    assert fl.get_rng_state().tolist() == rng
    assert sample.tolist() == values and sample.grad is None and sample.requires_grad
    assert model.training is training
    for key, value in model.state_dict().items():
        assert value.tolist() == state[key].tolist(), key
    assert all(p.grad is None for p in model.parameters())


@both
def test_layers_may_work_in_place(measure):
    """On the input of a layer, that is, which was a leaf, or the sample itself."""
    sample = fl.tensor([[-1.0], [1.0]])
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(1, 1), nn.ReLU(inplace=True), nn.ReLU(inplace=True))
    assert sum(measure(2, model, sample)) == 4
    assert sample.tolist() == [[-1], [1]]


class Two(nn.Module):
    def forward(self, pair):
        a, b = pair
        return a * 2, b


class Mixed(nn.Module):
    """Returns what has gradients, what has none, and what is no tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, given):
        return {"y": self.fc(given[0]), "index": fl.arange(len(given[0])), "rest": [None, 3]}


class Unmixed(nn.Module):
    def forward(self, given):
        return given["y"].argmax(1)


@both
def test_tuples_nests_and_integers(measure):
    model = nn.Sequential(Two(), Two(), Mixed(), Unmixed())
    assert sum(measure(2, model, (fl.ones(4, 2), fl.arange(4)))) == 4
    assert measure(2, nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4)), fl.arange(5)) == [1, 1]


@both
def test_all_parameters_frozen(measure):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).requires_grad_(False)
    assert measure(2, model, fl.ones(3, 2)) == [1, 1]


@both
def test_skip_connections(measure):
    @skippable(stash=["x"])
    class Keep(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, input):
            y = self.fc(input)
            yield stash("x", y)
            return y

    @skippable(pop=["x"])
    class Add(nn.Module):
        def forward(self, input):
            kept = yield pop("x")
            return input + kept

    model = nn.Sequential(Keep(), nn.ReLU(), Add())
    assert sum(measure(2, model, fl.ones(4, 4))) == 3
    with pytest.raises(RuntimeError, match="'x' has not been stashed"):  # nothing stays behind
        model[2](fl.ones(4, 4))


@both
def test_refuses_gradients(measure):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model(fl.ones(2, 2)).sum().backward()
    with pytest.raises(ValueError, match=r"some parameter already has gradient: 0.weight, 0.bias, 1.weight, ...; .*zero_grad"):
        measure(1, model, fl.ones(2, 2))


@both
@pytest.mark.parametrize(
    "k, model, sample, error, text",
    [
        (1, nn.Linear(2, 2), fl.ones(1, 2), TypeError, "module must be nn.Sequential to be partitioned, got .*Linear"),
        (1, nn.Sequential(nn.ReLU()), None, TypeError, "expected Tensor, but got NoneType"),
        (1, nn.Sequential(nn.ReLU()), (), TypeError, "expected Tensor, but got tuple"),
        (0, nn.Sequential(nn.ReLU()), fl.ones(1), ValueError, r"partitions must be a positive integer \(0 < 1\)"),
        (2, nn.Sequential(nn.ReLU()), fl.ones(1), ValueError, r"sequence is shorter than intended partitions \(1 < 2\)"),
    ],
)
def test_measuring_refuses(measure, k, model, sample, error, text):
    with pytest.raises(error, match=text):
        measure(k, model, sample)


@both
def test_a_failing_layer_leaves_no_trace(measure):
    class Fails(nn.Module):
        def forward(self, input):
            fl.rand(3)
            raise ZeroDivisionError

    rng = fl.get_rng_state().tolist()
    with pytest.raises(ZeroDivisionError):
        measure(1, nn.Sequential(Fails()), fl.ones(1))
    assert fl.get_rng_state().tolist() == rng


@pytest.mark.parametrize("timeout", [math.nan, math.inf])
def test_by_time_refuses_no_timeout(timeout):
    with pytest.raises(ValueError, match=f"timeout = {timeout}; expected a finite number of seconds"):
        balance_by_time(1, nn.Sequential(nn.ReLU()), fl.ones(1), timeout=timeout)


# ---- sizes

memory = pytest.mark.eager("memory")


class Expand(nn.Module):
    """Leaves `times` tensors of the input's size for backward."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, input):
        for _ in range(self.times):
            input = input * fl.rand_like(input).requires_grad_()
        return input


@memory
@pytest.mark.parametrize("times, sizes", [([1, 2, 3, 4, 5, 6], [4, 2]), ([6, 5, 4, 3, 2, 1], [2, 4])], ids=str)
def test_by_size_of_what_is_kept(times, sizes):
    assert balance_by_size(2, nn.Sequential(*(Expand(t) for t in times)), fl.rand(10, 100, 100)) == sizes


class Trade(Expand):
    def __init__(self, params, times):
        super().__init__(times)
        self.weight = nn.Parameter(fl.zeros(params, 1000))


@memory
@pytest.mark.parametrize("params, sizes", [([1, 2, 3, 4, 5, 6], [4, 2]), ([6, 5, 4, 3, 2, 1], [2, 4])], ids=str)
def test_by_size_of_parameters(params, sizes):
    model = nn.Sequential(*(Trade(p, 0) for p in params))
    assert balance_by_size(2, model, fl.rand(7, 10), param_scale=100) == sizes


@memory
def test_by_size_param_scale():
    model = nn.Sequential(*(Trade(params, 7 - params) for params in range(1, 7)))
    assert balance_by_size(2, model, fl.rand(1, 10000), param_scale=0) == [2, 4]
    assert balance_by_size(2, model, fl.rand(1, 10000), param_scale=100) == [4, 2]


@pytest.mark.slow
@memory
def test_by_size_chunks():
    """One micro-batch is measured: many of them make activations small beside parameters."""
    model = nn.Sequential(*(Trade(params * 100, 7 - params) for params in range(1, 7)))
    assert balance_by_size(2, model, fl.rand(64, 10000), chunks=1) == [2, 4]
    assert balance_by_size(2, model, fl.rand(64, 10000), chunks=64) == [4, 2]


@memory
def test_what_a_layer_frees_of_another_is_not_its_gain(monkeypatch):
    """A skip tensor and the output before are let go by the layer that takes them."""

    @skippable(stash=["x"])
    class Keep(nn.Module):
        def forward(self, input):
            yield stash("x", input * 2)
            return input * 3

    @skippable(pop=["x"])
    class Drop(nn.Module):
        def forward(self, input):
            yield pop("x")
            return input * 2

    costs = []
    monkeypatch.setattr(balance, "balance_cost", lambda found, k: costs.append(found))
    balance_by_size(1, nn.Sequential(Keep(), Drop(), Keep(), Drop()), fl.rand(100, 100))
    kept, dropped, *again = costs[-1]
    assert dropped >= 100 * 100 * 4 and kept == 2 * dropped
    assert again == [kept, dropped]


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(chunks=0), "number of chunks must be positive integer, got 0"),
        (dict(param_scale=-1.0), "param_scale = -1.0; expected a finite number"),
        (dict(device="cuda"), "size profiler supports only the CPU, got device = 'cuda'"),
    ],
    ids=str,
)
def test_by_size_refuses(options, text):
    with pytest.raises(ValueError, match=text):
        balance_by_size(1, nn.Sequential(nn.ReLU()), fl.ones(1), **options)


@pytest.mark.parametrize("shape, text", [((0, 2), "the input has no samples"), ((), "input is a 0-d tensor")], ids=str)
def test_by_size_needs_samples(shape, text):
    with pytest.raises(ValueError, match=text):
        balance_by_size(1, nn.Sequential(nn.ReLU()), fl.ones(shape))


def test_by_size_more_chunks_than_samples():
    assert balance_by_size(1, nn.Sequential(nn.ReLU()), fl.ones(2, 2), chunks=8) == [1]
