"""States of models and optimizers by the functions for many processes, of which there is one."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
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


# ------------------------------------------------------------------------------------------- optimizers


def stepped(model, kind=fl.optim.Adam, **how):
    optimizer = kind(model.parameters(), **{"lr": 0.1, **how})
    model(fl.ones(3, 2)).square().sum().backward()
    optimizer.step()
    return optimizer


def plain():
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))


def test_a_new_optimizer_has_a_state_to_be_filled():
    made = plain()
    before = [param.clone() for param in made.parameters()]
    optimizer = fl.optim.Adam(made.parameters(), lr=0.25)
    state = get_optimizer_state_dict(made, optimizer)
    assert list(state["state"]) == ["0.weight", "0.bias", "2.weight", "2.bias"] == state["param_groups"][0]["params"]
    assert not state["state"]["0.bias"]["exp_avg"].any() and state["param_groups"][0]["lr"] == 0.25
    assert all(map(fl.equal, before, made.parameters())) and all(param.grad is None for param in made.parameters())


@pytest.mark.parametrize("flat", [False, True])
def test_states_go_by_names(flat):
    """Into an optimizer with the same parameters in another order and in other groups."""
    made, other = plain(), plain()
    how = StateDictOptions(flatten_optimizer_state_dict=flat)
    of_model, of_optimizer = get_state_dict(made, stepped(made), options=how)
    assert ("state.2.bias.exp_avg" in of_optimizer) is flat
    theirs = fl.optim.Adam([{"params": [other[2].bias, other[2].weight]}, {"params": other[0].parameters()}], lr=1.0)
    assert not any(set_state_dict(other, theirs, model_state_dict=of_model, optim_state_dict=of_optimizer, options=how))
    again = get_optimizer_state_dict(other, theirs)
    assert fl.equal(other[0].weight, made[0].weight)
    assert set(again["state"]) == {"0.weight", "0.bias", "2.weight", "2.bias"} and [g["lr"] for g in again["param_groups"]] == [0.1, 0.1]
    for name, value in again["state"].items():
        held = of_optimizer[f"state.{name}.exp_avg"] if flat else of_optimizer["state"][name]["exp_avg"]
        assert fl.equal(value["exp_avg"], held) and value["step"].item() == 1


def test_several_optimizers():
    made = plain()
    first, second = fl.optim.SGD(made[0].parameters(), lr=0.1, momentum=0.9), fl.optim.Adam(made[2].parameters())
    state = get_optimizer_state_dict(made, (first, second))
    assert list(state["state"]["0.bias"]) == ["momentum_buffer"] and len(state["param_groups"]) == 2
    set_optimizer_state_dict(made, [second], state)
    assert len(second.state) == 2


def test_parameters_that_are_used_twice():
    made = plain()
    made.add_module("3", made[2])
    assert list(get_optimizer_state_dict(made, fl.optim.Adam(made.parameters()))["state"]) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_optimizers_without_state():
    made = plain()
    optimizer = stepped(made, fl.optim.SGD)
    state = get_optimizer_state_dict(made, optimizer)
    assert state["state"] == {} and state["param_groups"][0]["params"][0] == "0.weight"
    other = fl.optim.SGD(made.parameters(), lr=5.0)
    set_optimizer_state_dict(made, other, state)
    assert other.param_groups[0]["lr"] == 0.1
    set_optimizer_state_dict(made, fl.optim.Adam(made.parameters()), stepped(made).state_dict())  # an optimizer's own


def test_names_are_those_of_the_module_inside():
    made = plain()
    compiled = nn.Sequential(fl.compile(made[0]), nn.Tanh(), checkpoint_wrapper(made[2]))
    assert list(get_model_state_dict(compiled)) == list(made.state_dict())
    state = {name: fl.full_like(value, 2.0) for name, value in made.state_dict().items()}
    assert not any(set_model_state_dict(compiled, state)) and made[0].bias.tolist() == [2.0, 2.0]
    assert list(get_optimizer_state_dict(compiled, fl.optim.Adam(compiled.parameters()))["state"]) == list(made.state_dict())


def test_states_by_submodules():
    made = plain()
    assert not any(set_model_state_dict(made, {made[2]: {"bias": fl.ones(1)}}, options=StateDictOptions(strict=False)).unexpected_keys)
    assert made[2].bias.tolist() == [1.0]


@pytest.mark.parametrize(
    "call, kind, match",
    [
        (lambda m, o: set_optimizer_state_dict(m, o, {}), RuntimeError, "the state is empty"),
        (lambda m, o: get_optimizer_state_dict(m[0], o), ValueError, "parameter 2 of a group, of shape .1, 2., is none of the model's"),
        (lambda m, o: set_optimizer_state_dict(m, o, {"state": {}, "param_groups": []}), ValueError, "0.weight is in no group of the state"),
        (
            lambda m, o: set_optimizer_state_dict(m, o, {**(s := get_optimizer_state_dict(m, o)), "state": {"0.bias": s["state"]["0.bias"]}}),
            RuntimeError,
            "Missing optimizer state for parameter '0.weight'",
        ),
    ],
)
def test_states_of_optimizers_that_do_not_fit(call, kind, match):
    made = plain()
    with pytest.raises(kind, match=match):
        call(made, stepped(made))


def test_what_packages_name_of_groups_of_processes():
    """Trainers ask whether a module is spread, and have the classes of what would spread it in their annotations."""
    from flambeau.distributed import Backend, GradBucket, launcher
    from flambeau.distributed._composable_state import _get_module_state

    assert _get_module_state(plain()) is None
    assert Backend("NCCL") == Backend.NCCL == "nccl"
    with pytest.raises(ValueError, match="name is a int"):
        Backend(3)
    with pytest.raises(RuntimeError, match="distributed.GradBucket: .*there is no data-parallel training"):
        GradBucket()
    start = launcher.elastic_launch(launcher.LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2), print)
    with pytest.raises(RuntimeError, match="no groups of processes; torch.multiprocessing.spawn"):
        start("x")
