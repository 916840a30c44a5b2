"""Parameter and Buffer."""

import copy
import pickle

import pytest

import flambeau as fl
from flambeau import nn


def test_a_parameter_is_a_leaf_that_shares_memory():
    data = fl.zeros(2)
    p = nn.Parameter(data)
    assert p.is_leaf and p.requires_grad and isinstance(p, fl.Tensor)
    data.fill_(3.0)
    assert p.tolist() == [3.0, 3.0]
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_operations_give_plain_tensors():
    p = nn.Parameter(fl.ones(2))
    assert type(p * 2) is fl.Tensor and type(p.detach()) is fl.Tensor


def test_wrong_data():
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="only floating point and complex"):
        nn.Parameter(fl.zeros(2, dtype=fl.int64))
    assert nn.Parameter(fl.zeros(2, dtype=fl.int64), requires_grad=False).dtype == fl.int64


@pytest.mark.parametrize("how", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies(how):
    p = how(nn.Parameter(fl.ones(2), requires_grad=False))
    assert isinstance(p, nn.Parameter) and not p.requires_grad and p.tolist() == [1.0, 1.0]
    b = how(nn.Buffer(fl.ones(2), persistent=False))
    assert isinstance(b, nn.Buffer) and not b.persistent


def test_a_buffer_registers_itself():
    m = nn.Module()
    m.a = nn.Buffer(fl.zeros(1))
    m.b = nn.Buffer(fl.zeros(1), persistent=False)
    assert list(m.state_dict()) == ["a"] and len(list(m.buffers())) == 2
    m.a = fl.ones(1)
    assert m.state_dict()["a"].item() == 1.0


@pytest.mark.parametrize("make", [nn.Parameter, nn.Buffer])
def test_attributes_survive_pickling(make):
    x = make(fl.ones(2))
    x.tag = {"a": 1}
    again = pickle.loads(pickle.dumps(x))
    assert type(again) is type(x) and again.tag == {"a": 1} and again.tolist() == [1, 1]


def test_is_lazy_by_name():
    assert nn.parameter.is_lazy(param=nn.UninitializedParameter()) and not nn.parameter.is_lazy(param=fl.ones(1))
