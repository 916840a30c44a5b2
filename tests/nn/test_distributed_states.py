"""States of models by the functions for many processes, of which there is one."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)


@pytest.fixture
def model():
    made = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    made[0].weight.requires_grad_(False)
    return made


@pytest.mark.parametrize(
    "options, names",
    [
        ({}, "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked"),
        ({"full_state_dict": True, "cpu_offload": True}, "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked"),
        ({"ignore_frozen_params": True}, "0.bias 1.weight 1.bias 1.running_mean 1.running_var 1.num_batches_tracked"),
    ],
)
def test_what_a_state_holds(model, options, names):
    state = get_model_state_dict(model, options=StateDictOptions(**options))
    assert list(state) == names.split()
    assert state["0.bias"].data_ptr() == model[0].bias.data_ptr()


def test_states_of_submodules(model):
    assert list(get_model_state_dict(model, submodules={model[0]})) == ["0.weight", "0.bias"]
    short = get_model_state_dict(model, submodules=iter([model[0]]), options=StateDictOptions(keep_submodule_prefixes=False))
    assert list(short) == ["weight", "bias"]
    with pytest.raises(ValueError, match="a Linear among submodules is not part of the Sequential"):
        get_model_state_dict(model, submodules=[nn.Linear(1, 1)])


def test_a_state_is_taken_over(model):
    state = {name: fl.full_like(value, 3) for name, value in get_model_state_dict(model).items()}
    assert not any(set_model_state_dict(model, state))
    assert model[0].weight.tolist() == [[3.0, 3.0], [3.0, 3.0]] and not model[0].weight.requires_grad
    assert not any(set_model_state_dict(model, {}))
    state["foo"] = state.pop("0.bias")
    with pytest.raises(RuntimeError, match='Missing key.*"0.bias"'):
        set_model_state_dict(model, state)
    assert tuple(set_model_state_dict(model, state, options=StateDictOptions(strict=False))) == (["0.bias"], ["foo"])


def test_other_processes_are_refused(model):
    options = StateDictOptions(broadcast_from_rank0=True, full_state_dict=True)
    with pytest.raises(ValueError, match="no group of processes"):
        set_model_state_dict(model, {}, options=options)
    with pytest.raises(ValueError, match="no group of processes"):
        get_model_state_dict(model, options=options)
