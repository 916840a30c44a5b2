"""The same program in eager mode and while it is recorded: the same bits. And what tests of errors and threads share."""

from __future__ import annotations

import contextlib
import threading

import pytest

import flambeau as fl
from flambeau.autograd.graph import saved_tensors_hooks
from support.compare import bits


def forms(values):
    """Types, shapes and bits of tensors; other things are themselves."""
    found = []
    for x in values:
        if isinstance(x, (tuple, list)):
            found.append(forms(x))
        elif isinstance(x, fl.Tensor):
            found.append((str(x.dtype), tuple(x.shape), tuple(x.stride()), bits(x)))
        else:
            found.append(x)
    return found


def both(program, *args, seed=7):
    """Runs it eagerly, under lazy with its results read at the end, and under lazy with its results read inside."""
    found = []
    for region, inside in ((contextlib.nullcontext(), False), (fl.lazy(), False), (fl.lazy(), True)):
        fl.manual_seed(seed)
        with region:
            values = program(*args)
            values = values if isinstance(values, (tuple, list)) else [values]
            if inside:
                values = forms(values)
        found.append(values if inside else forms(values))
        found[-1].append(fl.rand(2).tolist())  # the generator is where it was
    assert found[1] == found[0] and found[2] == found[0]


def failing():
    """A recorded tensor that can not be computed. Ops check their indices at once; only a gradient's may have changed since."""
    weights = fl.rand(4, 3, requires_grad=True)
    with saved_tensors_hooks(lambda x: x, lambda x: x if x.is_floating_point() else x + 10**6):
        y = fl.nn.functional.embedding(fl.tensor([1, 2, 1]), weights)
        (wrong,) = fl.autograd.grad(y.sum(), weights)
    return wrong


def late():
    return pytest.raises(IndexError, match=r"an index became 1000\d{3} after the forward pass")


def in_thread(function):
    """Runs it in another thread and gives what it returned or raised."""
    result = []

    def run():
        try:
            result.append(function())
        except BaseException as error:  # noqa: BLE001
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert result, "the other thread hangs"
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]
