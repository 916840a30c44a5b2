"""`__future__`: what happens to parameters when a module is converted or loaded."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import nn


@pytest.fixture
def switch():
    yield lambda swap=False, overwrite=False: (
        fl.__future__.set_swap_module_params_on_conversion(swap),
        fl.__future__.set_overwrite_module_params_on_conversion(overwrite),
    )
    fl.__future__.set_swap_module_params_on_conversion(False)
    fl.__future__.set_overwrite_module_params_on_conversion(False)


@pytest.mark.parametrize(("swap", "overwrite"), [(False, False), (True, False), (False, True), (True, True)])
def test_who_holds_a_parameter_that_is_cast(switch, swap, overwrite):
    switch(swap, overwrite)
    assert fl.__future__.get_swap_module_params_on_conversion() is swap
    assert fl.__future__.get_overwrite_module_params_on_conversion() is overwrite
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    weight = layer.weight
    weight.sum().backward()
    grad = weight.grad
    layer.double()
    stays = swap or not overwrite
    assert (layer.weight is weight) is (layer.weight.grad is grad) is stays
    assert weight.dtype is (fl.float64 if stays else fl.float32)
    assert layer.weight.dtype is layer.weight.grad.dtype is fl.float64 and layer.weight.grad.tolist() == [[1, 1], [1, 1]]
    assert isinstance(layer.weight, nn.Parameter) and not layer.bias.requires_grad


@pytest.mark.parametrize("swap", [False, True])
def test_who_holds_a_parameter_that_goes_to_the_meta_device_keeps_its_values(switch, swap):
    switch(swap)
    layer = nn.Linear(2, 2)
    weight = layer.weight
    weight.sum().backward()
    grad = weight.grad
    layer.to("meta")
    assert layer.weight.is_meta and layer.weight.grad.is_meta and layer.weight.requires_grad and (layer.weight is weight) is swap
    assert weight.is_meta is swap and weight.grad is grad and (swap or grad.tolist() == [[1, 1], [1, 1]])
    empty = layer.weight
    assert layer.to_empty(device="cpu").weight is empty and not empty.is_meta


@pytest.mark.parametrize("assign", [False, True])
def test_with_swapping_what_is_loaded_stays_where_it_is_held(switch, assign):
    switch(swap=True)
    layer, norm = nn.Linear(2, 2).double(), nn.BatchNorm1d(2)
    weight, mean = layer.weight, norm.running_mean
    state = nn.Linear(2, 2).state_dict()
    layer.load_state_dict(state, assign=assign)
    norm.load_state_dict({k: v + 1 for k, v in norm.state_dict().items()}, assign=assign)
    assert layer.weight is weight and weight.dtype is (fl.float32 if assign else fl.float64) and isinstance(weight, nn.Parameter)
    assert weight.tolist() == state["weight"].tolist()
    assert norm.running_mean is mean and mean.tolist() == [1, 1]


class Doubled(fl.Tensor):
    """Says itself what is loaded in its place."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is fl.Tensor.module_load:
            return args[1].detach().mul(2).as_subclass(cls)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_subclass_takes_module_load_over(switch):
    switch(swap=True)
    layer = nn.Linear(2, 2, bias=False)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Doubled))
    state = nn.Linear(2, 2, bias=False).state_dict()
    layer.load_state_dict(state)
    assert layer.weight.as_subclass(fl.Tensor).tolist() == (state["weight"] * 2).tolist()


def test_module_load_returns_a_new_tensor(switch):
    class Itself(fl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return args[0] if func is fl.Tensor.module_load else super().__torch_function__(func, types, args, kwargs or {})

    x = fl.zeros(2)
    assert x.module_load(fl.ones(2)).tolist() == x.tolist() == [1, 1]
    assert x.module_load(fl.ones(3), assign=True).tolist() == [1, 1, 1]
    switch(swap=True)
    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Itself))
    with pytest.raises(RuntimeError, match="module_load returned one of its tensors"):
        layer.load_state_dict(nn.Linear(1, 1, bias=False).state_dict())


def test_a_gradient_with_a_history_goes_along(switch):
    switch(swap=True)
    layer = fl.nn.Linear(2, 2)
    layer(fl.ones(1, 2)).square().sum().backward(create_graph=True)
    layer.double()
    assert all(p.dtype is fl.float64 and p.grad.dtype is fl.float64 for p in layer.parameters())
