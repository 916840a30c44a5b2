"""Modules around modules that run again in backward: names, states, gradients, and which modules of a model are wrapped."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x, *, scale=1):
        self.calls += 1
        return self.inner(x).sigmoid() * scale


def net():
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.ModuleDict({"a": nn.Linear(2, 2)}))


@pytest.mark.parametrize("wrap", [checkpoint_wrapper, offload_wrapper])
def test_names_and_states_are_those_without_the_wrapper(wrap):
    plain = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    wrapped = nn.Sequential(plain[0], wrap(plain[1]))
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in wrapped[1].named_parameters()] == [name for name, _ in plain[1].named_parameters()]
    assert str(wrapped.load_state_dict(plain.state_dict())) == "<All keys matched successfully>"
    assert str(plain.load_state_dict(wrapped.state_dict())) == "<All keys matched successfully>"
    with pytest.raises(RuntimeError, match=r"1\._checkpoint_wrapped_module\.0\.weight"):
        wrapped.load_state_dict({})


def test_the_wrapper_answers_for_its_module():
    inner = nn.Sequential(nn.Linear(2, 3))
    wrapper = checkpoint_wrapper(inner)
    assert wrapper[0] is inner[0] and checkpoint_wrapper(inner[0]).out_features == 3 and not hasattr(wrapper, "unknown")


@pytest.mark.parametrize("how", list(CheckpointImpl))
def test_it_runs_again_and_gives_the_same_gradients(how):
    plain = Scaled()
    x = fl.ones(3, 2, requires_grad=True)
    plain(x, scale=3).sum().backward()
    want = [plain.inner.weight.grad.clone(), x.grad.clone()]
    x.grad = plain.inner.weight.grad = None
    plain.calls = 0
    y = checkpoint_wrapper(plain, how, preserve_rng_state=False)(x, scale=3)
    assert plain.calls == 1
    y.sum().backward()
    assert plain.calls == 2 and fl.equal(plain.inner.weight.grad, want[0]) and fl.equal(x.grad, want[1])


def test_another_function_is_called_in_place_of_checkpoint():
    def twice(module, x, factor):
        return module(x) * factor

    layer = nn.Linear(2, 2)
    assert fl.equal(checkpoint_wrapper(layer, checkpoint_fn=twice, factor=2)(fl.ones(1, 2)), layer(fl.ones(1, 2)) * 2)


def wrapped(model):
    return [name for name, module in model.named_modules() if isinstance(module, CheckpointWrapper)]


def small(module, recurse, nonwrapped_numel):
    return recurse or 0 < nonwrapped_numel < 8


@pytest.mark.parametrize(
    "how, want",
    [
        ({}, ["0", "1", "1._checkpoint_wrapped_module.0", "1._checkpoint_wrapped_module.1", "2", "2._checkpoint_wrapped_module.a"]),
        ({"check_fn": lambda module: isinstance(module, nn.Linear)}, ["0", "1.0", "2.a"]),
        ({"check_fn": lambda module: isinstance(module, nn.Sequential)}, ["1"]),
        ({"auto_wrap_policy": small}, ["0", "2.a"]),
        ({"auto_wrap_policy": lambda recurse, **_: not recurse}, []),
        ({"auto_wrap_policy": lambda module, recurse, nonwrapped_numel: 5 < nonwrapped_numel if recurse else nonwrapped_numel < 7}, ["0", "2", "2._checkpoint_wrapped_module.a"]),
    ],
)
def test_which_modules_are_wrapped(how, want):
    model = net()
    apply_activation_checkpointing(model, **how)
    assert wrapped(model) == want
