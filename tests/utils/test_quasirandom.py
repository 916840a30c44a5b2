"""Sobol sequences: values, places in the sequence, balance, refusals."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl
from flambeau.quasirandom import SobolEngine


def test_the_first_points():
    pytest.importorskip("scipy")
    assert SobolEngine(2).draw(4).tolist() == [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]


@pytest.mark.parametrize("dimension", [1, 2, 5, 40, 1111])
def test_points_are_scipys(dimension):
    qmc = pytest.importorskip("scipy.stats.qmc")
    want = qmc.Sobol(dimension, scramble=False, bits=30).random(256)
    got = SobolEngine(dimension).draw(256, dtype=fl.float64)
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("parts", [[16], [1] * 16, [0, 5, 0, 11], [1, 15], [7, 9]])
def test_a_sequence_goes_on_where_it_was(parts, scramble):
    pytest.importorskip("scipy")
    whole = SobolEngine(3, scramble, seed=4).draw(16)
    engine = SobolEngine(3, scramble, seed=4)
    assert fl.equal(fl.cat([engine.draw(n) for n in parts]), whole) and engine.num_generated == 16
    assert fl.equal(engine.reset().draw(16), whole)
    for skipped in (0, 1, 2, 7, 15):
        assert fl.equal(SobolEngine(3, scramble, seed=4).fast_forward(skipped).draw(16 - skipped), whole[skipped:])
    for other in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        assert fl.equal(other.draw(3), copy.copy(engine).draw(3)) and other.num_generated == 19


@pytest.mark.parametrize("seed", [0, 1, None])
def test_scrambled_points_are_as_even(seed):
    pytest.importorskip("scipy")
    x = SobolEngine(4, scramble=True, seed=seed).draw(128, dtype=fl.float64).numpy()
    assert all(sorted(np.floor(x[:, j] * 128)) == list(range(128)) for j in range(4))  # one in each stratum
    if seed is not None:
        assert (SobolEngine(4, True, seed).draw(128, dtype=fl.float64).numpy() == x).all()
        assert (SobolEngine(4, True, seed + 1).draw(128, dtype=fl.float64).numpy() != x).any()


def test_types_and_out():
    engine, out = SobolEngine(1), fl.zeros(5)
    assert engine.draw(2).dtype is fl.float32 and engine.draw(2, dtype=fl.float64).dtype is fl.float64
    assert SobolEngine(1).draw(3, out=out) is out and out.tolist() == [[0], [0.5], [0.75]]
    assert repr(SobolEngine(1)) == "SobolEngine(dimension=1)" and repr(SobolEngine(1, True, 3)) == "SobolEngine(dimension=1, scramble=True, seed=3)"


def test_powers_of_two():
    engine = SobolEngine(1)
    assert [len(engine.draw_base2(m)) for m in (2, 2, 3)] == [4, 4, 8] and engine.num_generated == 16
    with pytest.raises(ValueError, match="16 points were drawn, and 8 more make 24, which is no power of two"):
        engine.draw_base2(3)


def test_the_end_of_a_sequence():
    engine = SobolEngine(1)
    engine.num_generated = (1 << 30) - 1
    assert engine.draw().shape == (1, 1)
    with pytest.raises(ValueError, match="1073741825 points; expected at most 1073741824 of a sequence of 30 bits"):
        engine.draw()


@pytest.mark.parametrize("call, error, text", [
    (lambda: SobolEngine(0), ValueError, "dimension = 0; expected 1 to 21201"),
    (lambda: SobolEngine(21202), ValueError, "dimension = 21202"),
    (lambda: SobolEngine(1).draw(2, dtype=fl.float16), TypeError, "dtype = flambeau.float16; expected float32 or float64"),
    (lambda: SobolEngine(1).draw(-1), ValueError, "n = -1"),
])  # fmt: skip
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.slow
def test_without_scipy():
    code = """
import sys
sys.modules["scipy"] = None
import importlib.util
importlib.util.find_spec = lambda name, find=importlib.util.find_spec: None if name == "scipy" else find(name)
import flambeau as fl
print(fl.quasirandom.SobolEngine(1).draw(2).tolist())
try:
    fl.quasirandom.SobolEngine(2)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[[0.0], [0.5]]", "SobolEngine: dimension > 1 needs the direction numbers that SciPy ships, and SciPy is not here (pip install scipy)",
    ]  # fmt: skip
