"""Replayed functions over memory that NumPy shares: it is read where it lies, and a function that lets Python write it is not replayed."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn

pytestmark = pytest.mark.filterwarnings("ignore:compile:UserWarning")
CALLS = 12  # past the 8th, which is recorded again


def replayed(f, *args):
    before = fl.compiler.stats()["replayed"]
    f(*args)
    return fl.compiler.stats()["replayed"] > before


def called(function, array, mode):
    """What `function(tensor of the array, array)` gives while the array changes between calls, and the function."""
    x = fl.from_numpy(array)
    f = function if mode is False else fl.compile(function, mode=mode)
    results = []
    for i in range(CALLS):
        array += i
        results.append(f(x).tolist())
    return results, f


@pytest.mark.parametrize("mode", ["lazy", "replay"])
def test_an_argument_of_numpy(mode):
    results, f = called(lambda x: (x * 2).exp().sum() + x, np.zeros(5, np.float32), mode)
    assert results == called(lambda x: (x * 2).exp().sum() + x, np.zeros(5, np.float32), False)[0]
    assert not replayed(f, fl.from_numpy(np.ones(5, np.float32)))  # another argument than in all calls so far: it is compared
    assert replayed(f, fl.from_numpy(np.ones(5, np.float32))) == (mode == "replay")
    assert replayed(f, fl.ones(5)) == (mode == "replay")  # the same program takes memory of ours


def test_memory_of_the_surroundings_is_read_at_each_call():
    array = np.arange(4, dtype=np.float32)
    data = fl.from_numpy(array)
    f = fl.compile(lambda x: x @ data + data.sum(), mode="replay")
    for i in range(CALLS):
        array[...] = i
        assert f(fl.ones(4)).item() == 8 * i
    assert replayed(f, fl.ones(4))


def test_a_training_step_over_arrays():
    def train(mode):
        fl.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = fl.optim.Adam(net.parameters(), 1e-2)
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((5, 6), dtype=np.float32), rng.integers(0, 3, 5)
        inputs, targets = fl.from_numpy(x), fl.from_numpy(y)

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(inputs), targets)
            loss.backward()
            optimizer.step()
            return loss

        f = step if mode is False else fl.compile(step, mode=mode)
        losses = []
        for i in range(CALLS):
            x[...] = rng.standard_normal((5, 6))
            y[...] = rng.integers(0, 3, 5)
            losses.append(f().item())
        assert mode != "replay" or replayed(f)
        return losses

    assert train("replay") == train(None) == train(False)


def before(array):
    def f(x):
        array[0] += 1
        return x * 2

    return f


def between(array):
    def f(x):
        y = x * 2
        array[0] += 1
        return x * 3 + y

    return f


def after(array):
    def f(x):
        y = x * 2 + 1
        array[0] += 1
        return y

    return f


@pytest.mark.parametrize("build", [before, between, after])
def test_python_that_writes_the_memory_is_not_left_out(build):
    expected, array = np.zeros(3, np.float32), np.zeros(3, np.float32)
    want, _ = called(build(expected), expected, False)
    got, f = called(build(array), array, "replay")
    assert got == want
    assert array.tolist() == expected.tolist()
    assert "changed while it ran" in fl.compiler.explain(f)


def test_what_an_op_writes_is_written_at_once():
    array, expected = np.zeros(3, np.float32), np.zeros(3, np.float32)

    def f(x):
        y = x + 1
        x.mul_(2)
        return y * x

    assert called(f, array, "replay")[0] == called(f, expected, False)[0]
    assert array.tolist() == expected.tolist()


def test_a_program_that_writes_its_argument_takes_none_of_numpy():
    f = fl.compile(lambda x: x.mul_(2) + 1, mode="replay")
    for _ in range(4):
        f(fl.ones(3))
    assert replayed(f, fl.ones(3))
    array = np.ones(3, np.float32)
    assert f(fl.from_numpy(array)).tolist() == [3, 3, 3]
    assert array.tolist() == [2, 2, 2]


def test_memory_that_the_function_takes_in_is_not_kept():
    array = np.zeros(3, np.float32)
    f = fl.compile(lambda x: x + fl.from_numpy(array), mode="replay")
    for i in range(CALLS):
        array[...] = i
        assert f(fl.zeros(3)).tolist() == [i, i, i]
    assert "takes memory of NumPy" in fl.compiler.explain(f)


def test_mapped_files_are_not_copied(tmp_path):
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(80 << 20,))  # 320 MiB, none of it touched
    data = fl.from_numpy(mapped)
    f = fl.compile(lambda x: data[:3] + x, mode="replay")
    for _ in range(4):
        fl.reset_peak_memory_stats()
        before = fl.memory_stats()["allocated_bytes"]
        assert f(fl.ones(3)).tolist() == [1, 1, 1]
        assert fl.memory_stats()["peak_allocated_bytes"] - before < 1 << 20
    assert "NumPy or another library shares" in fl.compiler.explain(f)
