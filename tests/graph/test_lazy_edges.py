"""What lazy() has to see to at its edges: errors that come late, and memory that others write."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from support.both import failing, late
from support.compare import bits

import flambeau as fl
from flambeau import _C, nn

F = nn.functional
pytestmark = pytest.mark.eager("has regions of its own")


# ---------------------------------------------------------------- errors


def test_an_address_of_what_has_no_memory_is_an_error():
    with fl.lazy():
        y = fl.ones(2**20).expand(2**22, 2**20) * 2
        with pytest.raises(fl.OutOfMemoryError):
            y.data_ptr()


def test_errors_of_shapes_come_at_once():
    with fl.lazy():
        x = fl.ones(3) * 2
        with pytest.raises(fl.ShapeError, match=r"\[3\]"):
            x + fl.ones(4)
        y = x + 1
    assert y.tolist() == [3, 3, 3]


def test_an_exception_in_the_middle():
    x = fl.rand(3)
    with pytest.raises(ZeroDivisionError), fl.lazy():
        before = x * 2
        x.add_(1)
        raise ZeroDivisionError
    assert not _C.graph.recording()
    assert bits(before) == bits((x - 1) * 2) or fl.allclose(before, (x - 1) * 2)
    with fl.lazy():
        after = before + x
    assert fl.allclose(after, before + x)


def out_of_range(n):
    """An index that an earlier op of the region computes."""
    return fl.ones(2, dtype=fl.int64) * n


def test_an_error_comes_at_the_end_and_at_each_read():
    x, kept = fl.rand(3), []
    with late(), fl.lazy():
        before = x * 2
        wrong = failing()
        after = wrong + 1
        kept += [wrong, after, wrong, after]
    assert bits(before) == bits(x * 2)
    for y in kept:
        with late():
            y.tolist()
    with late():
        kept[1] * 2
    with late(), fl.lazy():
        kept[1] * 2
    assert (before + 1).shape == (3,)


def test_an_error_comes_at_the_read():
    x = fl.rand(3)
    with fl.lazy():
        wrong = failing()
        with late():
            wrong.sum().item()
        right = x + 1  # the region goes on
        with late():
            wrong.tolist()
    assert bits(right) == bits(x + 1)


def test_an_error_of_what_nobody_reads_does_not_come():
    x = fl.rand(3)
    with fl.lazy():
        failing()
        right = x + 1
    assert bits(right) == bits(x + 1)


def test_a_write_behind_an_error_is_not_made():
    x = fl.zeros(3)
    with late(), fl.lazy():
        x.add_(1)
        x.add_(failing().sum())
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("make", [
    lambda x, i: F.embedding(i, x), lambda x, i: x.index_select(0, i), lambda x, i: x.gather(0, i.reshape(1, 2)), lambda x, i: x.take(i), lambda x, i: x[i],
    lambda x, i: F.cross_entropy(x, i), lambda x, i: F.nll_loss(x, i),
    lambda x, i: x.scatter(0, i.reshape(1, 2), 1.0), lambda x, i: x.index_add(0, i, fl.ones(2, 2)),
], ids=["embedding", "index_select", "gather", "take", "x[i]", "cross_entropy", "nll_loss", "scatter", "index_add"])  # fmt: skip
def test_indices_are_checked_at_once(make):
    """Where an earlier op of the region computes them, it is run first."""
    x = fl.rand(2, 2)
    with pytest.raises((IndexError, ValueError)) as eager:
        make(x, out_of_range(9))
    with fl.lazy(), pytest.raises((IndexError, ValueError)) as found:
        make(x, out_of_range(9))
    assert str(found.value) == str(eager.value)


def test_indices_that_changed_before_backward():
    """Of leaves that live; tests/autograd/test_kept_indices.py has the others."""
    weights = fl.rand(4, 3, requires_grad=True)
    with pytest.raises(IndexError, match=r"1000\d{3}"), fl.lazy():
        i = fl.tensor([1, 2, 1])
        y = F.embedding(i, weights)
        i.numpy()[...] = 10**6
        y.sum().backward()
    with pytest.raises(IndexError, match=r"1000\d{3}"):
        weights.grad.tolist()


def test_memory_that_is_not_there():
    with pytest.raises(MemoryError), fl.lazy():
        before = fl.ones(3) * 2
        huge = fl.ones(1).expand(2**45) + 1
        kept = [before, huge]
    assert kept[0].tolist() == [2, 2, 2]
    with pytest.raises(MemoryError):
        kept[1][0].item()
    del huge, kept
    with fl.lazy():
        after = before + 1
    assert after.tolist() == [3, 3, 3]


# ---------------------------------------------------------------- memory that others write


def test_numpy_writes_between_record_and_read():
    a = np.ones(3, np.float32)
    x = fl.from_numpy(a)
    with fl.lazy():
        y = x * 2
        a[:] = 5
        z = x * 2
        a[:] = 7
    assert y.tolist() == [2, 2, 2] and z.tolist() == [10, 10, 10]


def test_numpy_of_what_is_pending():
    with fl.lazy():
        x = fl.ones(3) * 1
        y = x * 2
        a = x.numpy()
        a[:] = 5
        z = x + 1
        a[:] = 7
    assert y.tolist() == [2, 2, 2] and z.tolist() == [6, 6, 6] and x.tolist() == [7, 7, 7]


@pytest.mark.parametrize("lend", [
    lambda x: x.numpy(), lambda x: np.asarray(x), lambda x: np.from_dlpack(x), lambda x: fl.from_dlpack(x).numpy(), lambda x: x.view(3).detach().numpy(),
    lambda x: np.ctypeslib.as_array(ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float)), (3,)),
], ids=["numpy", "asarray", "numpy dlpack", "dlpack", "of a view", "data_ptr"])  # fmt: skip
def test_what_is_recorded_reads_what_was_there_before_memory_was_lent(lend):
    x = fl.ones(3)
    with fl.lazy():
        y = x * 2
        a = lend(x)
        a[:] = 5
        z = x + 1
    assert y.tolist() == [2, 2, 2] and z.tolist() == [6, 6, 6]


def test_numpy_sees_what_is_written_in_place():
    a = np.zeros(3, np.float32)
    x = fl.from_numpy(a)
    with fl.lazy():
        y = fl.ones(3) * 2
        x.copy_(y)
        assert a.tolist() == [2, 2, 2]
        x[1:].mul_(3)
        assert a.tolist() == [2, 6, 6]


def test_an_array_of_what_is_pending():
    with fl.lazy():
        x = fl.ones(2, 3) * 2
        assert np.asarray(x.t()).tolist() == [[2, 2]] * 3
        assert memoryview(x.numpy()).nbytes == 24
        assert fl.from_dlpack(x + 1).tolist() == [[3, 3, 3]] * 2


def test_data_pointers_are_those_of_the_bytes():
    with fl.lazy():
        x = fl.ones(4) * 3
        y = x[1:]
        assert y.data_ptr() == x.data_ptr() + 4


def test_least_squares_go_the_same_way():
    fl.manual_seed(0)
    a, b = fl.randn(9, 4, dtype=fl.float64), fl.randn(9, 3, dtype=fl.float64)
    with fl.lazy():
        x = fl.linalg.lstsq(a * 2, b + 1).solution
    assert fl.equal(x, fl.linalg.lstsq(a * 2, b + 1).solution)
