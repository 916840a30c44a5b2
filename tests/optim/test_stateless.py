"""An optimizer with other parameters for a while."""

import copy

import pytest

import flambeau as fl
from flambeau import optim

KINDS = {
    "SGD": lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
    "AdamW": lambda params: optim.AdamW(params, lr=0.1),
    "RMSprop": lambda params: optim.RMSprop(params, lr=0.1),
}


def two():
    return [fl.ones(2, requires_grad=True), fl.ones(3, requires_grad=True)]


def steps(optimizer, params, *grads):
    for grad in grads:
        for p in params:
            p.grad = fl.full(p.shape, grad)
        optimizer.step()


def stepped(kind="AdamW"):
    params = two()
    optimizer = KINDS[kind](params)
    steps(optimizer, params, 0.5, 0.25)
    return params, optimizer


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_an_optimizer_with_this_state(kind):
    params, optimizer = stepped(kind)
    before, own = copy.deepcopy(optimizer.state_dict()), optimizer.state
    given = copy.deepcopy(before)
    given["param_groups"][0]["lr"] = 0.7
    others, wanted = two(), two()
    alike = KINDS[kind](wanted)
    alike.load_state_dict(copy.deepcopy(given))
    steps(alike, wanted, 1.0, -2.0)
    with optim.swap_in_optimizer_params_and_state(optimizer, {"a": others[0], "b": others[1]}, given):
        assert optimizer.param_groups[0]["params"][0] is others[0] and optimizer.param_groups[0]["lr"] == 0.7
        steps(optimizer, others, 1.0, -2.0)
    assert [p.tolist() for p in others] == [p.tolist() for p in wanted]
    assert optimizer.state is own and str(optimizer.state_dict()) == str(before) and optimizer.param_groups[0]["params"][0] is params[0]
    again = KINDS[kind](two())  # goes on where it was
    again.load_state_dict(before)
    mine = again.param_groups[0]["params"]
    for p, q in zip(params, mine):
        q.data.copy_(p)
    for o, ps in ((optimizer, params), (again, mine)):
        steps(o, ps, 3.0)
    assert [p.tolist() for p in params] == [p.tolist() for p in mine]


def test_what_is_kept_of_the_state():
    """What is written in place, not what is put in its place; the optimizer's own comes back after an error, too."""
    params, optimizer = stepped()
    given = copy.deepcopy(optimizer.state_dict())
    del given["state"][1]
    p, before = two()[0], str(optimizer.state_dict())
    with pytest.raises(ZeroDivisionError), optim.swap_in_optimizer_params_and_state(optimizer, {"a": p, "b": two()[1]}, given):
        assert optimizer.state[optimizer.param_groups[0]["params"][1]] == {}
        optimizer.state[p]["exp_avg"].fill_(7.0)
        optimizer.state[p]["step"] = fl.tensor(99.0)
        optimizer.param_groups[0]["lr"] = 5.0
        1 / 0  # noqa: B018
    assert given["state"][0]["exp_avg"].tolist() == [7, 7] and given["state"][0]["step"].item() == 2 and given["param_groups"][0]["lr"] == 0.1
    assert str(optimizer.state_dict()) == before


def changed(change):
    given = copy.deepcopy(stepped()[1].state_dict())
    change(given)
    return given


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda s: s.pop("state"), "is not what state_dict"),
        (lambda s: s["param_groups"].append({}), "2 parameter groups; the optimizer has 1"),
        (lambda s: s["param_groups"][0].pop("betas"), r"group 0 has \['betas'\] in one of the two alone"),
        (lambda s: s["param_groups"][0]["params"].pop(), "group 0 has 1 parameters; in the optimizer 2"),
        (lambda s: s["param_groups"][0].update(params=["w", "b"]), "group 0 names a parameter 'w'"),
        (lambda s: s["state"].update(note=3), "the state has 'note'"),
        (lambda s: s["state"].update({0: 3}), "the state of parameter 0 is no dict"),
    ],
)
def test_refusals(change, text):
    _, optimizer = stepped()
    a, b = two()
    with pytest.raises(RuntimeError, match=text), optim.swap_in_optimizer_params_and_state(optimizer, {"a": a, "b": b}, changed(change)):
        pass
    with pytest.raises(RuntimeError, match="1 parameters; expected the 2"), optim.swap_in_optimizer_params_and_state(optimizer, {"a": a}, optimizer.state_dict()):
        pass
    with pytest.raises(RuntimeError, match="has no state"), optim.swap_in_optimizer_params_and_state(optim.SGD([a], lr=1.0), {"a": a}, {}):
        pass
