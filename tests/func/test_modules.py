"""functional_call and stack_module_state."""

from __future__ import annotations

import types

import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau import nn
from flambeau.func import functional_call, stack_module_state


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", fl.tensor(2.0))

    def forward(self, x, *, shift=0.0):
        return self.second(self.first(x)) * self.scale + shift


def test_other_tensors_take_the_places_for_one_call():
    net = Tied()
    before = {k: v for k, v in (*net.named_parameters(), *net.named_buffers())}
    x = fl.randn(2, 3)
    w = fl.eye(3)
    found = functional_call(net, ({"first.weight": w, "first.bias": fl.zeros(3)}, {"second.bias": fl.ones(3), "scale": fl.tensor(3.0)}), (x,), {"shift": 1.0})
    assert_near(found, (x + 1) * 3 + 1)
    assert all(v is before[k] for k, v in (*net.named_parameters(), *net.named_buffers()))
    apart = functional_call(net, {"first.weight": w, "second.weight": w * 2, "first.bias": fl.zeros(3), "second.bias": fl.zeros(3)}, x, tie_weights=False)
    assert_near(apart, x * 4)


def test_the_module_is_as_before_after_an_error():
    net = nn.Linear(3, 2)
    weight = net.weight
    with pytest.raises(fl.ShapeError):
        functional_call(net, {"weight": fl.ones(2, 5)}, fl.ones(3))
    assert net.weight is weight


@pytest.mark.parametrize(
    "given, strict, error, text",
    [
        ({"third.bias": fl.ones(3)}, False, RuntimeError, r"Unexpected key\(s\): 'third.bias'"),
        ({"extra": fl.ones(3)}, True, RuntimeError, r"Error\(s\) in reparametrizing for Tied:\n\tUnexpected key\(s\): 'extra'"),
        ({"first.in_features": fl.ones(3)}, False, TypeError, "'first.in_features' is a int of the module"),
        ({"first.bias": fl.ones(3)}, True, RuntimeError, r"Missing key\(s\): 'first.weight'"),
        ({"first.bias": 1.0}, False, TypeError, "'first.bias' is a float"),
        ({"first.weight": fl.ones(3, 3), "second.weight": fl.zeros(3, 3)}, False, ValueError, "are one tensor of the module"),
        (({"scale": fl.ones(())}, {"scale": fl.ones(())}), False, ValueError, "in two of the dicts"),
        ("first.bias", False, ValueError, "parameter_and_buffer_dicts is a str; expected a dict of tensors, or several"),
        (None, False, ValueError, "parameter_and_buffer_dicts is a NoneType"),
        (({}, "first.bias"), False, ValueError, r"parameter_and_buffer_dicts\[1\] is a str; expected a dict"),
    ],
)
def test_errors(given, strict, error, text):
    with pytest.raises(error, match=text):
        functional_call(Tied(), given, (fl.ones(3),), strict=strict)


def test_names_that_are_no_parameters_are_attributes_during_the_call():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.plain = nn.Linear(2, 2), fl.ones(2)

        def forward(self, x):
            return x * self.plain * getattr(self.inner, "factor", 1.0)

    net, x = Scaled(), fl.ones(2)
    assert functional_call(net, {"plain": fl.full((2,), 3.0), "inner.factor": fl.tensor(5.0), "other": x}, x).tolist() == [15.0, 15.0]
    assert net(x).tolist() == [1.0, 1.0] and not hasattr(net, "other") and not hasattr(net.inner, "factor")


def test_stacked_state():
    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert parameters["0.weight"].shape == (3, 2, 3)
    assert parameters["0.weight"].requires_grad
    assert parameters["0.weight"].is_leaf
    assert buffers["1.running_mean"].shape == (3, 2)
    assert not buffers["1.running_mean"].requires_grad


@pytest.mark.parametrize(
    "models, error, text",
    [
        ([], RuntimeError, "Expected at least one model"),
        ([nn.Linear(1, 1), nn.ReLU()], RuntimeError, "of the same class, got Linear, ReLU"),
        ([nn.Linear(1, 1), nn.Linear(1, 1).eval()], RuntimeError, "some models are in training"),
        ([nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)], ValueError, "'weight' requires grad in some models"),
    ],
)
def test_models_that_do_not_stack(models, error, text):
    with pytest.raises(error, match=text):
        stack_module_state(models)


def test_a_buffer_that_the_call_replaces_is_in_the_dict_afterwards():
    """As in PyTorch: what `self.count = self.count + 1` makes is not lost, and the module's own buffer stays."""

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", fl.zeros(1))

        def forward(self, x):
            self.count = self.count + x
            return self.count

    net, one, several = Counts(), {"count": fl.ones(1)}, {"count": fl.ones(1)}
    assert functional_call(net, one, fl.tensor([2.0])).item() == 3.0
    functional_call(net, (several,), fl.tensor([2.0]))
    functional_call(net, types.MappingProxyType(several), fl.tensor([2.0]))
    assert (one["count"].item(), several["count"].item(), net.count.item()) == (3.0, 1.0, 0.0)
