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


def test_a_buffer_is_a_plain_tensor_with_a_flag():
    x, m = fl.ones(2), nn.Module()
    m.b = nn.Buffer(x)
    assert type(m.b) is fl.Tensor and isinstance(m.b, nn.Buffer) and m.b.data_ptr() == x.data_ptr() and not isinstance(x, nn.Buffer)
    late = nn.UninitializedBuffer()
    late.materialize((2,))
    assert type(late) is fl.Tensor and isinstance(late, nn.Buffer)


def test_a_register_buffer_that_does_not_ask_for_persistence():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    class New(nn.Module):
        def register_buffer(self, name, tensor, persistent=False):
            super().register_buffer(name, tensor, persistent)

    old, new = Old(), New()
    old.a = new.a = nn.Buffer(fl.ones(1))
    old.b = 1
    with pytest.raises(RuntimeError, match="Old.register_buffer takes no `persistent`; give it one"):
        old.b = nn.Buffer(fl.ones(1), persistent=False)
    new.b = nn.Buffer(fl.ones(1), persistent=False)
    assert list(old.state_dict()) == list(new.state_dict()) == ["a"] and old.b == 1 and len(list(new.buffers())) == 2


@pytest.mark.parametrize("make", [nn.Parameter, nn.Buffer])
def test_attributes_survive_pickling(make):
    x = make(fl.ones(2))
    x.tag = {"a": 1}
    again = pickle.loads(pickle.dumps(x))
    assert type(again) is type(x) and again.tag == {"a": 1} and again.tolist() == [1, 1]


def test_is_lazy_by_name():
    assert nn.parameter.is_lazy(param=nn.UninitializedParameter()) and not nn.parameter.is_lazy(param=fl.ones(1))


class Tagged(nn.Parameter):
    def __new__(cls, data=None, tag=None, requires_grad=True):
        self = fl.Tensor._make_subclass(cls, data, requires_grad)
        self.tag = tag
        return self


class Grey(fl.Tensor):
    pass


def test_subclasses_take_arguments_of_their_own():
    p = Tagged(fl.ones(2), tag="a")
    assert p.tag == "a" and p.requires_grad and isinstance(p, nn.Parameter) and type(p * 2) is fl.Tensor
    assert Tagged(fl.ones(2), "b", False).tag == "b"

    class State(nn.Buffer):
        def __new__(cls, data, tag):
            self = super().__new__(cls, data)
            self.tag = tag
            return self

    class Later(nn.UninitializedParameter):
        def __new__(cls, tag=0):
            self = super().__new__(cls)
            self.tag = tag
            return self

    assert State(fl.ones(2), tag=3).tag == 3 and Later(tag=4).tag == 4


def test_texts_of_subclasses():
    assert repr(nn.Parameter(fl.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(Tagged(fl.ones(2))) == "Parameter containing:\nParameter(Tagged([1., 1.], requires_grad=True))"
    assert fl.Tensor.__repr__(nn.Parameter(fl.ones(2))) == "tensor([1., 1.], requires_grad=True)"
    assert repr(nn.Parameter(fl.ones(2).as_subclass(Grey))) == "Parameter(Grey([1., 1.], requires_grad=True))"


@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adafactor"])
def test_of_a_tensor_of_a_subclass_it_keeps_the_class(rule):
    def trained(convert):
        m = nn.Module()
        m.w, m.scale = nn.Parameter(convert(fl.tensor([1.0, 2.0]))), nn.Buffer(convert(fl.tensor([0.5, 3.0])))
        assert [n for n, _ in m.named_parameters()] == ["w"] and [n for n, _ in m.named_buffers()] == ["scale"]
        step = getattr(fl.optim, rule)(m.parameters(), lr=0.1)
        for _ in range(3):
            step.zero_grad()
            (m.w * m.scale).square().sum().backward()
            step.step()
        return m

    m, plain = trained(lambda x: x.as_subclass(Grey)), trained(lambda x: x)
    assert type(m.w) is Grey and isinstance(m.w, nn.Parameter) and type(m.scale) is Grey and isinstance(m.scale, nn.Buffer)
    assert m.w.tolist() == plain.w.tolist() and type(plain.w) is nn.Parameter
    assert list(m.state_dict()) == ["w", "scale"]


class Marked(fl.Tensor): ...


def test_formats():
    """A parameter says that it is one, as its `str`; a plain tensor of no axes, and a buffer, is its number. All have numbers' formats."""
    p = nn.Parameter(fl.tensor(1.5))
    assert f"{p}" == str(p) == "Parameter containing:\ntensor(1.5000, requires_grad=True)"
    assert f"{p.data}" == f"{nn.Buffer(fl.tensor(1.5))}" == "1.5"
    assert f"{fl.tensor(1.5).as_subclass(Marked)}" == "Marked(1.5000)"
    assert f"{p:.2f}" == f"{p.data:.2f}" == f"{nn.Buffer(fl.tensor(1.5)):.2f}" == "1.50"
    assert f"{nn.Parameter(fl.ones(2))}".startswith("Parameter containing:\ntensor([1., 1.]")
