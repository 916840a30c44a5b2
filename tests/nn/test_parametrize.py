"""Parametrizations of the user's."""

import copy

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)

    def right_inverse(self, w):
        return w.triu()


class Exp(nn.Module):
    def forward(self, w):
        return w.exp()

    def right_inverse(self, w):
        return w.log()


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b

    def right_inverse(self, w):
        return w, fl.eye(w.shape[1])


class Wider(nn.Module):
    def forward(self, w):
        return fl.cat([w, w])


def test_it_is_computed_when_it_is_read():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert fl.equal(layer.weight, layer.weight.T)
    layer(fl.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    assert (type(layer).__name__, parametrize.type_before_parametrizations(layer)) == ("ParametrizedLinear", nn.Linear)


def test_they_follow_each_other_and_can_be_assigned():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Exp())
    layer.weight = fl.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert layer.weight.allclose(fl.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert layer.parametrizations.weight.original.allclose(fl.tensor([[0.0, 0.6931472], [0.0, 1.3862944]]))


def test_several_originals():
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Product())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    with pytest.raises(ValueError, match="computed of 2 tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.shape == (2, 3)


def test_computed_once_inside_of_cached():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


@pytest.mark.parametrize("leave", [True, False])
def test_removing(leave):
    layer = nn.Linear(2, 2)
    with fl.no_grad():
        layer.weight.abs_()
    parametrize.register_parametrization(layer, "weight", Exp())
    wanted = (layer.weight if leave else layer.parametrizations.weight.original).detach().clone()
    parametrize.remove_parametrizations(layer, "weight", leave)
    assert type(layer) is nn.Linear
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert isinstance(layer.weight, nn.Parameter) and fl.equal(layer.weight, wanted)


def test_copies_are_apart():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    twin = copy.deepcopy(layer)
    with fl.no_grad():
        layer.parametrizations.weight.original.zero_()
    assert layer.weight.abs().sum() == 0 and twin.weight.abs().sum() > 0


@pytest.mark.parametrize(("call", "text"), [
    (lambda m: parametrize.register_parametrization(m, "wieght", Exp()), "has no parameter or buffer 'wieght'"),
    (lambda m: parametrize.register_parametrization(m, "weight", Wider()), r"becomes flambeau.float32 \[4, 2\]; expected flambeau.float32 \[2, 2\]"),
    (lambda m: parametrize.remove_parametrizations(m, "weight"), "'weight' of Linear is not parametrized"),
])  # fmt: skip
def test_bad_arguments_change_nothing(call, text):
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=text):
        call(layer)
    assert type(layer) is nn.Linear and fl.equal(layer.weight, before)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_unsafe_lets_the_shape_change():
    layer = parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Wider(), unsafe=True)
    assert layer(fl.ones(1, 2)).shape == (1, 4)
