"""repr() of tensors, as PyTorch prints them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flambeau as fl

GOLDEN = [
    (lambda: fl.tensor(3), "tensor(3)"),
    (lambda: fl.tensor(2.5), "tensor(2.5000)"),
    (lambda: fl.tensor(True), "tensor(True)"),
    (lambda: fl.tensor([]), "tensor([])"),
    (lambda: fl.tensor([1, 22, 333]), "tensor([  1,  22, 333])"),
    (lambda: fl.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda: fl.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
    (lambda: fl.tensor([-1.0, 2.5]), "tensor([-1.0000,  2.5000])"),
    (lambda: fl.tensor([True, False]), "tensor([ True, False])"),
    (lambda: fl.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
    (lambda: fl.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
    (lambda: fl.tensor([float("nan"), float("inf"), -float("inf"), 1.0]), "tensor([nan, inf, -inf, 1.])"),
    (lambda: fl.tensor([float("nan"), 1.5]), "tensor([   nan, 1.5000])"),
    (lambda: fl.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: fl.zeros(0, dtype=fl.int32), "tensor([], dtype=flambeau.int32)"),
    (lambda: fl.eye(2), "tensor([[1., 0.],\n        [0., 1.]])"),
    (lambda: fl.zeros(1, 2, 2), "tensor([[[0., 0.],\n         [0., 0.]]])"),
    (lambda: fl.arange(8).reshape(2, 2, 2), "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])"),
    (lambda: fl.tensor([1.0], dtype=fl.float64), "tensor([1.], dtype=flambeau.float64)"),
    (lambda: fl.tensor([1], dtype=fl.int8), "tensor([1], dtype=flambeau.int8)"),
    (lambda: fl.ones(1, requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda: fl.ones(1, requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    (lambda: fl.ones(2, 3, device="meta"), "tensor(..., device='meta', size=(2, 3))"),
    (lambda: fl.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (lambda: fl.zeros(1001), "tensor([0., 0., 0.,  ..., 0., 0., 0.])"),
    (
        lambda: fl.zeros(40, 40),
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n        ...,\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.]])",
    ),
    (
        lambda: fl.arange(30),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])",
    ),
]


@pytest.mark.parametrize("make, text", GOLDEN, ids=[str(i) for i in range(len(GOLDEN))])
def test_repr(make, text):
    assert repr(make()) == text
    assert str(make()) == text


def test_options():
    try:
        fl.set_printoptions(precision=2)
        assert repr(fl.tensor([1.23456])) == "tensor([1.23])"
        fl.set_printoptions(threshold=3, edgeitems=1)
        assert repr(fl.arange(5)) == "tensor([0,  ..., 4])"
        fl.set_printoptions(profile="default", sci_mode=True)
        assert repr(fl.tensor([1.5])) == "tensor([1.5000e+00])"
        with pytest.raises(ValueError, match="profile"):
            fl.set_printoptions(profile="loud")
    finally:
        fl.set_printoptions(profile="default")


def test_other_objects():
    assert repr(fl.float32) == "flambeau.float32"
    assert repr(fl.device("cpu")) == "device(type='cpu')"
    assert repr(fl.ones(2, 3).shape) == "flambeau.Size([2, 3])"


def test_a_text_can_stand_for_the_elements():
    assert fl.ones(3, dtype=fl.float64).__repr__(tensor_contents="...") == "tensor(..., dtype=flambeau.float64)"


@pytest.mark.slow
def test_at_the_end_of_the_interpreter():
    """Nothing can be imported then."""
    code = "import flambeau as fl\nclass A:\n    def __del__(self): print(x, repr(x))\nx = fl.ones(2)\na = A()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("tensor([1., 1.]) tensor([1., 1.])\n", "")
