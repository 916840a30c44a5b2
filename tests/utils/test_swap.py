"""Two tensors change places."""

import weakref

import pytest

import flambeau as fl
from flambeau import nn


def test_everything_is_swapped():
    a, b = nn.Parameter(fl.tensor([1.0, 2.0])), fl.arange(6).reshape(2, 3).t()
    a.grad, a.note, b.mark = fl.ones(2), "a", 3
    pa, pb = a.data_ptr(), b.data_ptr()
    fl.utils.swap_tensors(a, b)
    assert type(a) is fl.Tensor and a.tolist() == [[0, 3], [1, 4], [2, 5]] and a.stride() == (1, 3) and a.dtype is fl.int64
    assert not a.requires_grad and a.grad is None and a.mark == 3 and not hasattr(a, "note")
    assert type(b) is nn.Parameter and b.tolist() == [1, 2] and b.requires_grad and b.grad.tolist() == [1, 1] and b.note == "a"
    assert (a.data_ptr(), b.data_ptr()) == (pb, pa)
    fl.utils.swap_tensors(b, b)
    assert b.tolist() == [1, 2]


def test_a_module_trains_on_with_what_came():
    net, new = nn.Linear(2, 1), nn.Parameter(fl.zeros(1, 2))
    optimizer = fl.optim.SGD(net.parameters(), lr=1.0)
    old = net.weight.tolist()
    fl.utils.swap_tensors(net.weight, new)
    assert net.weight.tolist() == [[0, 0]] and new.tolist() == old
    net(fl.ones(1, 2)).sum().backward()
    optimizer.step()
    assert net.weight.tolist() == [[-1, -1]] and new.tolist() == old


def test_subclasses():
    class Mine(nn.Parameter):
        pass

    class Slots(fl.Tensor):
        __slots__ = ("x",)

    a, b = Mine(fl.ones(2)), fl.zeros(1)
    fl.utils.swap_tensors(a, b)
    assert type(b) is Mine and b.tolist() == [1, 1] and type(a) is fl.Tensor
    with pytest.raises(RuntimeError, match="of classes with other slots"):
        fl.utils.swap_tensors(b, fl.zeros(1).as_subclass(Slots))
    assert type(b) is Mine and b.tolist() == [1, 1]


def test_what_is_refused():
    x = fl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="t2 has a history .*detach"):
        fl.utils.swap_tensors(x, x * 2)
    with pytest.raises(TypeError, match="t1 is a int; expected a dense tensor"):
        fl.utils.swap_tensors(3, x)
    with pytest.raises(TypeError, match="expected a dense tensor"):
        fl.utils.swap_tensors(x, fl.eye(2).to_sparse())
    other, kept = fl.ones(2), None
    kept = weakref.ref(other)
    with pytest.raises(RuntimeError, match="t2 is referred to weakly"):
        fl.utils.swap_tensors(x, other)
    assert kept() is other
