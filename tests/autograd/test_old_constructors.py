"""`Tensor(x)` and its kin of a tensor: another name for the same elements, with their history."""

import numpy as np
import pytest

import flambeau as fl


class Labelled(fl.Tensor):
    @staticmethod
    def __new__(cls, x, labels):
        return super().__new__(cls, x)

    def __init__(self, x, labels):
        self.labels = labels


@pytest.mark.parametrize("make", [fl.Tensor, fl.FloatTensor, lambda x: Labelled(x, "ab")], ids=["Tensor", "FloatTensor", "subclass"])
def test_gradients_flow_through(make):
    x = fl.ones(3, requires_grad=True)
    made = make(x * 2)
    assert made.requires_grad and not made.is_leaf
    (made * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_the_memory_is_shared():
    x = fl.zeros(2)
    made = Labelled(x, "ab")
    made.add_(1)
    assert x.tolist() == [1.0, 1.0] and type(made) is Labelled and made.labels == "ab"


def test_a_leaf_of_its_own():
    made = Labelled(fl.ones(2), "ab").requires_grad_()
    (made * 2).sum().backward()
    assert made.is_leaf and made.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", [fl.float64, fl.int64, fl.bool], ids=str)
def test_the_type_stays(dtype):
    assert fl.Tensor(fl.ones(2, dtype=dtype)).dtype == dtype


MAKERS = {"Tensor": fl.Tensor, "LongTensor": fl.LongTensor, "new": lambda *args: fl.ones(1).new(*args)}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_one_number_is_a_size(make):
    for size in (3, np.int64(3), np.uint8(3), np.array(3)):
        assert make(size).shape == (3,)
    assert make(np.int32(0)).shape == make().shape == (0,) and make(np.int64(2), 3).shape == make(fl.Size([2, 3])).shape == (2, 3)
    assert make([3]).tolist() == make(np.array([3])).tolist() == make((3,)).tolist() == [3]
    for other in (2.5, np.float64(2), np.array(2.0), True, np.bool_(True)):
        with pytest.raises(TypeError, match="expected sizes or a sequence of values"):
            make(other)
