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


def test_who_saved_it_notices_writes_through_it():
    w, y = fl.ones(3, requires_grad=True), fl.ones(3).data
    out = (w * y).sum()
    y.mul_(5)
    assert y._version == 1
    with pytest.raises(RuntimeError, match=r"mul_ at .*test_data_attribute.py.* wrote to it afterwards \(version 1, saved at 0"):
        out.backward()
    p = fl.ones(3).data.requires_grad_()
    out = (p * p).sum()
    with fl.no_grad():
        p.mul_(5)
    with pytest.raises(RuntimeError, match="wrote to it afterwards"):
        out.backward()


@pytest.mark.parametrize("derive", [lambda d: d.detach(), lambda d: d[:], lambda d: d.view(3, 1)], ids=["detach", "slice", "view"])
def test_what_comes_from_it_has_its_version(derive):
    x = fl.ones(3)
    d = x.data
    e = derive(d)
    d.mul_(2)
    assert (x._version, d._version, e._version) == (0, 1, 1)
    e.mul_(2)
    assert (x._version, d._version, e._version) == (0, 2, 2)
    x.mul_(2)
    assert (x._version, d._version, e._version) == (1, 2, 2)


def test_who_saved_it_does_not_notice_writes_elsewhere():
    x, w = fl.ones(3), fl.ones(3, requires_grad=True)
    out = (w * x.data).sum()
    x.add_(1)
    out.backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_views_of_it_have_the_history_that_its_writes_give():
    w, d = fl.tensor(2.0, requires_grad=True), fl.ones(2).data
    v = d[0]
    d.mul_(w)
    assert v.grad_fn is not None
    d.mul_(w)
    v.backward()
    assert w.grad.item() == 4


def test_a_replay_writes_through_it_as_the_call_did():
    kept, w = fl.ones(3), fl.ones(3, requires_grad=True)

    @fl.compile(mode="replay")
    def f(x):
        kept.data.add_(1)
        return x * 2

    for _ in range(6):
        f(fl.ones(3))
    version = kept._version
    out = (w * kept).sum()
    f(fl.ones(3))
    assert kept._version == version == 0
    out.backward()
    assert w.grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize("first", [True, False], ids=["recorded with x.data", "recorded with x"])
def test_arguments_of_replays_have_the_versions_that_they_have(first):
    f = fl.compile(lambda x: x.add_(1), mode="replay")
    for _ in range(6):
        f(fl.ones(3).data if first else fl.ones(3))
    x = fl.ones(3)
    f(x.data if not first else x)
    assert x._version == (1 if first else 0)
    d = fl.ones(3).data
    f(d)
    assert d._version == 1


@pytest.fixture
def a():
    return fl.tensor([0.3, 0.6, 0.9], dtype=fl.float64, requires_grad=True)


def slope(y, a):
    return fl.autograd.grad(y.square().sum(), a, allow_unused=True, materialize_grads=False)[0]


@pytest.mark.parametrize("write", [lambda y: y.mul_(y), lambda y: y[1:].fill_(5.0), lambda y: y.mul_(2)], ids=["all", "part", "scaled"])
def test_views_of_what_was_written_and_then_detached_lead_nowhere(a, write):
    y = a * 1.5
    v = y[1:]
    write(y)
    y.detach_()
    assert slope(v, a) is None and v.requires_grad


def test_a_view_of_a_detached_tensor_keeps_its_history_until_it_is_written(a):
    y = a * 1.5
    v = y[1:]
    y.detach_()
    assert fl.allclose(slope(v, a), fl.tensor([0, 2 * 1.5 * 0.9, 2 * 1.5 * 1.35], dtype=fl.float64))
    y.mul_(2)
    assert slope(v, a) is None


def test_views_of_what_was_written_and_got_other_memory_are_refused(a):
    y = a * 1.5
    v, before = y.view(-1), (a * 1.5).view(-1)
    y[0] = 5.0
    y.data = a.detach() * 3
    assert v[0] == 5
    with pytest.raises(fl.AutogradError, match="got other memory"):
        slope(v, a)
    w = (z := a * 1.5).view(-1)
    z.data = a.detach() * 3
    assert fl.equal(slope(w, a), slope(before, a))
    w.mul_(2)
    assert fl.equal(slope(w, a), 4 * slope(before, a))


def test_a_view_that_is_written_after_its_base_got_other_memory_keeps_its_history(a):
    y = a * 1.5
    v = y[:2]
    y.data = fl.zeros(3, dtype=fl.float64)
    for _ in range(3):
        with fl.no_grad():
            v.mul_(3)
        assert fl.autograd.grad((v * 1).sum(), a)[0].tolist() == [1.5, 1.5, 0]
        y = a * 1.5
        v = y[:2]
        y.data = fl.zeros(3, dtype=fl.float64)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_gradients_are_of_the_values_that_were_read_before_a_leaf_got_other_memory(requires_grad):
    """As a spectral norm written by hand that is called twice before backward; PyTorch reads the new values of a leaf."""
    w, u = fl.ones(2, requires_grad=True), fl.nn.Parameter(fl.ones(2), requires_grad=requires_grad)
    first = (w * u).sum()
    u.data = fl.full((2,), 5.0)
    second = (w * u).sum()
    (first + second).backward()
    assert w.grad.tolist() == [6, 6] and (u.grad is None or u.grad.tolist() == [2, 2])
