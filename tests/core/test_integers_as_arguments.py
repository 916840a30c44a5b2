"""Integers as arguments of functions in Python: Python's, NumPy's, and integer tensors of one element."""

import numpy as np
import pytest

import flambeau as fl

INTS = {"NumPy's": np.int64(2), "unsigned": np.uint8(2), "a tensor": fl.tensor(2), "a tensor of another type": fl.tensor(2, dtype=fl.int16)}
A = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
CALLS = {
    "matrix_power": lambda n: fl.linalg.matrix_power(A, n),
    "polygamma": lambda n: fl.special.polygamma(n, A),
    "multigammaln": lambda n: fl.special.multigammaln(A.double() + 1, n),
    "hann_window": lambda n: fl.hann_window(n),
    "fftn": lambda n: fl.fft.fftn(A, n).real,
    "movedim": lambda n: fl.movedim(A, (0, n - 1), (n - 1, 0)),
}


@pytest.mark.parametrize("given", list(INTS))
@pytest.mark.parametrize("name", list(CALLS))
def test_a_whole_number_may_be_of_any_kind(name, given):
    assert CALLS[name](INTS[given]).tolist() == CALLS[name](2).tolist()


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, fl.tensor(2.0), fl.tensor([1, 2])], ids=repr)
def test_what_is_no_whole_number_is_named(wrong):
    with pytest.raises(TypeError, match=r"linalg.matrix_power: n = .*; expected an int"):
        fl.linalg.matrix_power(A, wrong)


def test_one_axis_given_twice_as_tensors():
    with pytest.raises(ValueError, match="expected as many distinct axes in both"):
        fl.diag_embed(fl.ones(2, 3), 0, -2, fl.tensor(1))


def test_block_diag_takes_tensors_and_no_list():
    with pytest.raises(TypeError, match=r"tensors\[0\] is a list; expected a Tensor"):
        fl.block_diag([A, A])
