"""No entry of the op table leaves memory behind: forward, backward, written in place, refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.leaks import assert_nothing_stays
from support.table import OPS, arrays, call, cases, map_arrays, tensors

import flambeau as fl
from flambeau import _C


def firsts(where):
    """One sample per entry."""
    return [case for case in cases(where) if case.values[1] == 0]


def inputs(op, requires_grad=False):
    args = tensors(op, map_arrays(arrays(op, 0), lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a))
    if requires_grad:
        for value in args.values():
            for x in value if isinstance(value, list) else [value]:
                if isinstance(x, fl.Tensor) and x.is_floating_point():
                    x.requires_grad_()
    return args


def run(op, args):
    """Runs the entry; what it refuses is a way to leave it, too."""
    try:
        return call(op, args)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return []


@pytest.mark.parametrize("op, index", firsts(lambda op: True))
def test_forward_and_backward(op, index):
    def action():
        run(op, inputs(op))
        for y in run(op, inputs(op, requires_grad=True)):
            for twice in (True, False):
                try:  # some entries have no derivative, or no second one
                    if y.requires_grad:
                        y.sum().backward(retain_graph=True, create_graph=twice)
                except fl.AutogradError:
                    pass

    assert_nothing_stays(action)


@pytest.mark.parametrize("op, index", firsts(lambda op: op.get("inplace")))
def test_inplace(op, index):
    """A write of a result into what its own node saved, too."""

    def action():
        for grad in (False, True):
            args = inputs(op, requires_grad=grad)
            first = op.first_tensor
            if not isinstance(args[first], fl.Tensor):
                return
            args[first] = args[first] * 1
            inplace = getattr(_C.ops, op.name + "_")
            try:
                y = inplace(**args)
                x = fl.ones(y.shape, dtype=y.dtype)
                x.add_(x * y)
                x.sum().backward()
            except (RuntimeError, TypeError, ValueError):
                pass

    assert_nothing_stays(action)


@pytest.mark.parametrize("op, index", firsts(lambda op: True))
def test_refused(op, index):
    """Calls that fail half-way: a wrong last argument, a missing one, one too many."""
    names = [a.name for a in op.sig.args]
    function = getattr(_C.ops, op.name)

    def action():
        for change in ({names[-1]: object()}, {"no such": 1}, {names[0]: None}, {names[0]: fl.ones(2, 3, 5, 7, 1)}):
            args = {**inputs(op, requires_grad=True), **change}
            try:
                function(**args)
            except Exception:
                pass

    assert_nothing_stays(action)


def test_there_is_a_case_for_every_entry_with_samples():
    assert len(firsts(lambda op: True)) == sum(bool(op.get("samples")) for op in OPS)
