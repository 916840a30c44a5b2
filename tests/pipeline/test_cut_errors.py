"""What `split` refuses, and that nothing has changed then."""

from __future__ import annotations

import copy

import pytest
from support.cuts import (
    GPT,
    Call,
    assert_same,
    quick,
)

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline
from flambeau.pipeline._cut import split
from flambeau.pipeline._trace import CutError
from flambeau.pipeline.batchnorm import convert

F = nn.functional


# ---- what can not be cut


class Rounding(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, dy):
        return dy


def hooked(m, x):
    y = m.a(x)
    y.register_hook(lambda dy: dy * 2)
    return m.b(y)


def branch(m, x):
    return m.a(x) if m.b(x).sum() > 0 else m.b(x)


def replaced(m, x):
    m.a.register_buffer("seen", fl.zeros(3))
    return m.a(x)


def inner(m, x):
    y = m.a(x)
    (dy,) = fl.autograd.grad(y.exp().sum(), y, create_graph=True)
    return m.b(y * dy)


outside = fl.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    "function, message",
    [
        (branch, r"can not be recorded, so it can not be cut: record: test_cut_errors.py:\d+ \(in branch\) reads a value"),
        (lambda m, x: m.a(x) * m.a(x).sum().item(), r"test_cut_errors.py:\d+ \(in <lambda>\) reads a value"),
        (lambda m, x: m.b(Rounding.apply(m.a(x))), "goes through RoundingBackward, a backward in Python"),
        (lambda m, x: m.b(fl.utils.checkpoint.checkpoint(m.a, x)), "a backward in Python|reads a value|other gradients|history"),
        (hooked, r"give other gradients than the module"),
        (replaced, r"puts another tensor in the place of buffer 'a.seen'"),
        (lambda m, x: m.a(x) * outside, "requires grad and is no parameter of the module"),
        (lambda m, x: "text", "the module returned str with no Tensor in it|expected a tensor"),
    ],
    ids=["branch", "item", "function", "checkpoint", "hook", "buffer", "outside", "text"],
)
def test_what_can_not_be_cut_is_said_and_nothing_changed(function, message):
    model = Call(function)
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(CutError, match=message):
        quick(model, fl.ones(2, 3), 2)
    assert_same(list(model.state_dict().values()), list(state.values()))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "expected either stages, how many there shall be, or at"),
        ({"stages": 2, "at": [1]}, "expected either stages"),
        ({"stages": 0}, "stages = 0; expected at least 1"),
        ({"stages": 99}, r"there are 3 places to cut for 99 stages; expected at least 98"),
        ({"stages": 2, "by": "luck"}, "by = 'luck'; expected 'time' or 'size'"),
        ({"stages": 2, "held": [1]}, "held has 1 numbers for 2 stages"),
        ({"at": [3, 2]}, r"is before ops \[3, 2\] of 4; expected places that ascend"),
        ({"at": ["nowhere"]}, "no op of the forward is in a submodule 'nowhere'"),
        ({"at": [0]}, "expected places that ascend"),
    ],
)
def test_wrong_options(options, message):
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh())
    with pytest.raises(CutError, match=message):
        split(model, fl.ones(2, 3), seconds=0.0, **options)


@pytest.mark.eager("it looks at the moment at which something runs")
def test_a_read_inside_of_a_submodule_names_it():
    class Reads(nn.Module):
        def forward(self, x):
            return x * float(x.sum())

    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), Reads()), nn.Linear(3, 3))
    with pytest.raises(CutError, match=r"so it can not be cut, in submodule '1.1': record: test_cut_errors.py:\d+ \(in forward\) reads a value"):
        quick(model, fl.ones(2, 3), 2)


def test_other_arguments_are_refused():
    with pytest.raises(TypeError, match="module is a function; expected an nn.Module"):
        split(len.__class__ and (lambda x: x), fl.ones(2), 2)
    with pytest.raises(CutError, match="sample is int with no Tensor in it"):
        quick(nn.Linear(3, 3), 3, 1)
    with pytest.raises(CutError, match="performs no op"):
        quick(nn.Identity(), fl.ones(2, 3), 1)
    with pytest.raises(CutError, match="deferred batch norm"):
        quick(convert(nn.Sequential(nn.BatchNorm1d(3))), fl.ones(2, 3), 1)


def test_there_is_no_cut_where_what_crosses_is_overwritten_behind():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3)), fl.ones(2, 3)
    with pytest.raises(CutError, match=r"there can be no cut before op 1 \(relu_, 1, .*\): what crosses is overwritten"):
        quick(model, x, at=[1])
    assert quick(model, x, at=[2]).report.cuts[0].position == 2


@pytest.mark.slow
def test_an_error_of_an_op_names_it():
    model, x = GPT(), fl.randint(0, 11, (4, 6))
    pipe = Pipeline(quick(model, x[:2], 2), 2, micro_batches=2)
    with pytest.raises(Exception, match="index|range") as caught:
        pipe(fl.full((4, 6), 99))
    assert any("embedding" in note for note in caught.value.__notes__) or "embedding" in str(caught.value)
    assert pipe(x).shape == (4, 6, 11)
