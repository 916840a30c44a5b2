"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn


def test_sequential_slices_and_edits():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(net) == 3 and isinstance(net[-2], nn.ReLU)
    assert net[:2](fl.zeros(1, 2)).shape == (1, 3)
    net[1] = nn.Tanh()
    net.append(nn.Sigmoid())
    net.insert(0, nn.Identity())
    assert [type(m).__name__ for m in net] == ["Identity", "Linear", "Tanh", "Linear", "Sigmoid"]
    assert isinstance(net.pop(-1), nn.Sigmoid)
    del net[0]
    assert list(net._modules) == ["0", "1", "2"]
    assert len(net + nn.Sequential(nn.ReLU())) == 4
    with pytest.raises(ValueError, match=r"Sequential \+= other"):
        net += [nn.ReLU()]
    assert len(net) == 3
    assert len(net * 2) == 6
    with pytest.raises(IndexError, match="index 7 is out of range"):
        net[7]


def test_sequential_from_ordered_dict():
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 2), second=nn.ReLU()))
    assert list(net.state_dict()) == ["first.weight", "first.bias"]
    assert net.first is net[0]


def test_module_list():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.ReLU()]
    layers.extend([nn.Tanh()])
    layers.insert(1, nn.Identity())
    assert len(layers) == 4 and isinstance(layers[-1], nn.Tanh)
    assert isinstance(layers[1:3], nn.ModuleList)
    del layers[0]
    assert list(layers._modules) == ["0", "1", "2"]
    with pytest.raises(TypeError, match=r"ModuleList\.extend should be called with an iterable"):
        layers.extend(3)


def test_module_dict():
    heads = nn.ModuleDict({"a": nn.Linear(2, 1)})
    heads["b"] = nn.Linear(2, 2)
    heads.update([("c", nn.ReLU())])
    assert list(heads) == ["a", "b", "c"] and "b" in heads
    assert isinstance(heads.pop("c"), nn.ReLU)
    assert len(list(heads.parameters())) == 4


def test_parameter_list_registers():
    params = nn.ParameterList([fl.zeros(2), nn.Parameter(fl.ones(3))])
    params.append(fl.zeros(1))
    assert [tuple(p.shape) for p in params.parameters()] == [(2,), (3,), (1,)]
    assert list(params.state_dict()) == ["0", "1", "2"]
    assert len(params[1:]) == 2
    assert "Parameter containing" in repr(params)


def test_parameter_dict_registers():
    params = nn.ParameterDict({"w": fl.zeros(2)})
    params["b"] = nn.Parameter(fl.zeros(1))
    assert list(params.keys()) == ["w", "b"] and isinstance(params["w"], nn.Parameter)
    assert list(params.state_dict()) == ["w", "b"]
    assert params.get("none") is None
    del params["w"]
    assert len(params) == 1
    with pytest.raises(KeyError):
        params["w"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (lambda: {"b": fl.ones(1), "a": fl.ones(1)}, ["a", "b"]),
        (lambda: OrderedDict(b=fl.ones(1), a=fl.ones(1)), ["b", "a"]),
        (lambda: [("b", fl.ones(1)), ("a", fl.ones(1))], ["b", "a"]),
        (lambda: nn.ParameterDict([("b", fl.ones(1)), ("a", fl.ones(1))]), ["b", "a"]),
    ],
    ids=["dict", "OrderedDict", "pairs", "ParameterDict"],
)
def test_the_order_of_a_parameter_dict(given, names):
    d = nn.ParameterDict(given())
    assert list(d) == names and [name for name, _ in d.named_parameters()] == names


def test_names_of_arguments_are_those_of_pytorch():
    net = nn.Sequential(nn.ReLU()).extend(sequential=[nn.Tanh(), nn.Sigmoid()])
    assert isinstance(net.pop(key=1), nn.Tanh) and isinstance(net.pop(key=-1), nn.Sigmoid)
    modules = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
    assert isinstance(modules.pop(key=0), nn.ReLU) and len(modules.pop(key=slice(0, 2))) == 2 and len(modules) == 0


@pytest.mark.parametrize(("entry", "kind"), [(nn.Linear(1, 1), TypeError), (3, TypeError), (("a",), ValueError), (("a", nn.Identity(), 3), ValueError)], ids=str)
def test_an_update_takes_pairs(entry, kind):
    heads = nn.ModuleDict()
    with pytest.raises(kind, match=r"ModuleDict\.update: ModuleDict update sequence element #0"):
        heads.update([entry])
    assert len(heads) == 0
