"""Writes through `x.data`: autograd does not notice them, everything else does."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn

WRITES = {
    "whole": lambda d: d.fill_(3),
    "an element": lambda d: d.__setitem__(0, 3.0),
    "a slice": lambda d: d.__setitem__(slice(0, 2), fl.tensor([3.0, 4.0])),
    "a view of a view": lambda d: d.view(-1)[1:].add_(1),
    "detached again": lambda d: d.detach().mul_(2),
    "its data": lambda d: d.data.mul_(2),
    "copied to": lambda d: d.copy_(fl.tensor([5.0, 6.0, 7.0])),
    "by out=": lambda d: fl.add(d, 1, out=d),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_saved_tensor_may_be_written(write):
    x = fl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum()
    version = x._version
    write(x.data)
    assert x._version == version
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())  # of the values that are there now


@pytest.mark.parametrize("write", [w for name, w in WRITES.items() if name != "its data"])
def test_writes_elsewhere_are_noticed_still(write):
    x = fl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum()
    write(x.detach())
    assert x._version == 1
    with pytest.raises(RuntimeError, match="wrote to it afterwards"):
        y.backward()


def test_views_keep_their_history():
    base = fl.ones(2, 3, requires_grad=True) * 1
    row = base[0]
    base.data.mul_(4)
    (row * 2).sum().backward()
    assert row.tolist() == [4, 4, 4]
    base = fl.ones(2, 3, requires_grad=True) * 1
    row = base[0]
    row.data.mul_(4)
    base.mul_(2)  # which is noticed
    assert row.tolist() == [8, 8, 8] and "AsStrided" in row.grad_fn.name()


def test_what_is_kept_of_weights_is_made_again():
    conv, linear = nn.Conv2d(8, 16, 3), nn.Linear(64, 64)
    x, z = fl.randn(2, 8, 12, 12), fl.randn(64, 64)
    with fl.no_grad():
        for _ in range(4):
            before = conv(x), linear(z)
        conv.weight.data.mul_(2), linear.weight.data.mul_(2), conv.bias.data.mul_(2), linear.bias.data.mul_(2)
        fl.testing.assert_close(conv(x), before[0] * 2)
        fl.testing.assert_close(linear(z), before[1] * 2)


def test_replayed_and_recorded_functions_read_what_was_written():
    w = fl.ones(3)
    for mode in ("lazy", "replay", None):
        f = fl.compile(lambda x: x * w, mode=mode)
        for k in range(1, 7):
            w.data.fill_(k)
            assert f(fl.ones(3)).tolist() == [k, k, k]
    with fl.lazy():
        y = w * 2
        w.data.fill_(1)
        z = w * 2
    assert y.tolist() == [12, 12, 12] and z.tolist() == [2, 2, 2]


def test_scratch_memory_behind_autograd():
    """As torchdiffeq keeps its stages: a buffer that grows behind a function of its own."""

    class Put(fl.autograd.Function):
        @staticmethod
        def forward(ctx, scratch, value, index):
            ctx.index = index
            scratch.data[index] = value
            return scratch

        @staticmethod
        def backward(ctx, dy):
            return dy, dy[ctx.index], None

    x = fl.tensor([1.0, 2.0], requires_grad=True)
    scratch, total = fl.zeros(3, 2), 0
    for i in range(3):
        scratch = Put.apply(scratch, x * (i + 1), i)
        total = total + (scratch[: i + 1] * 2).sum()
    total.backward()
    assert x.grad.tolist() == [20, 20]
