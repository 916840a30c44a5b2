"""The numbers of a state are tensors of no axes, as in PyTorch, and one array for a step."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import flambeau as fl

COUNTING = ["Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]
MORE = {"NAdam": ["mu_product"], "ASGD": ["eta", "mu"]}


def stepped(name, n=3, steps=2, **options):
    params = [fl.full((2,), float(i + 1)).requires_grad_() for i in range(n)]
    optimizer = getattr(fl.optim, name)(params, **options)
    for _ in range(steps):
        go_on(optimizer, params)
    return params, optimizer


def go_on(optimizer, params):
    for i, p in enumerate(params):
        p.grad = p.detach() * 0.5 + i
    optimizer.step()


def numbers(optimizer, params, name="step"):
    return [optimizer.state[p][name].item() for p in params]


@pytest.mark.parametrize("name", COUNTING)
def test_they_are_tensors(name):
    params, optimizer = stepped(name)
    for p in params:
        for key in ["step", *MORE.get(name, [])]:
            value = optimizer.state[p][key]
            assert type(value) is fl.Tensor and value.dtype == fl.float32 and value.shape == () and not value.requires_grad
            assert value.untyped_storage().nbytes() == 4  # nobody else's memory
    assert numbers(optimizer, params) == [2.0] * 3
    saved = optimizer.state_dict()["state"]
    assert all(saved[i]["step"] is optimizer.state[p]["step"] for i, p in enumerate(params))
    assert next(iter(saved[0])) == "step"


def test_of_double_precision_where_tensors_are():
    with default(fl.float64):
        params, optimizer = stepped("Adam")
        assert optimizer.state[params[0]]["step"].dtype == fl.float64


class default:
    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.before = fl.get_default_dtype()
        fl.set_default_dtype(self.dtype)

    def __exit__(self, *error):
        fl.set_default_dtype(self.before)


def test_adagrad_has_them_from_the_start():
    w = fl.ones(2, requires_grad=True)
    assert fl.optim.Adagrad([w]).state[w]["step"].item() == 0.0


def test_sparse_adam_has_a_number():
    w = fl.ones(4, 2, requires_grad=True)
    optimizer = fl.optim.SparseAdam([w])
    w.grad = fl.sparse_coo_tensor([[1]], [[1.0, 2.0]], (4, 2))
    optimizer.step()
    assert type(optimizer.state[w]["step"]) is int


def test_a_tensor_follows_the_steps():
    params, optimizer = stepped("Adam")
    held = optimizer.state[params[1]]["step"]
    go_on(optimizer, params)
    assert held.item() == 3.0 and held is optimizer.state[params[1]]["step"]


WRITES = {
    "number": lambda state: state.update(step=40),
    "float": lambda state: state.update(step=40.0),
    "tensor": lambda state: state.update(step=fl.tensor(40)),
    "vector": lambda state: state.update(step=fl.tensor([40.0])),
    "in place": lambda state: state["step"].fill_(40),
    "operator": lambda state: state.update(step=state["step"] + 38),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_a_program_writes_counts(write):
    params, optimizer = stepped("Adam")
    like, other = stepped("Adam")
    WRITES[write](optimizer.state[params[1]])
    other.state[like[1]]["step"] = 40
    go_on(optimizer, params), go_on(other, like)
    assert numbers(optimizer, params) == [3.0, 41.0, 3.0]
    assert all(fl.equal(a, b) for a, b in zip(params, like))
    assert type(optimizer.state[params[1]]["step"]) is fl.Tensor and optimizer.state[params[1]]["step"].shape == ()


def test_a_wrong_number_leaves_all_as_it_was():
    params, optimizer = stepped("Adam")
    optimizer.state[params[0]]["step"] = 7
    optimizer.state[params[2]]["step"] = fl.ones(2)
    before = [p.detach().clone() for p in params]
    with pytest.raises(RuntimeError, match="element"):
        go_on(optimizer, params)
    assert optimizer.state[params[0]]["step"] == 7 and numbers(optimizer, params[1:2]) == [2.0]
    assert all(fl.equal(a, b) for a, b in zip(params, before))


def test_a_shared_tensor_counts_for_each():
    params, optimizer = stepped("Adam")
    optimizer.state[params[0]]["step"] = optimizer.state[params[1]]["step"]
    go_on(optimizer, params)
    assert numbers(optimizer, params) == [3.0, 3.0, 3.0]


def test_states_that_were_dropped_keep_theirs():
    params, optimizer = stepped("Adam")
    held = [optimizer.state[p]["step"] for p in params]
    optimizer.state.clear()
    go_on(optimizer, params)
    assert [h.item() for h in held] == [2.0] * 3 and numbers(optimizer, params) == [1.0] * 3


def test_each_parameter_counts_its_own_steps():
    params, optimizer = stepped("NAdam", n=4, steps=0)
    for step in range(6):
        for i, p in enumerate(params):
            p.grad = p.detach() * 0.5 if step % (i + 1) == 0 else None
        optimizer.step()
    assert numbers(optimizer, params) == [6.0, 3.0, 2.0, 2.0]
    alone = fl.full((2,), 2.0).requires_grad_()
    other = fl.optim.NAdam([alone])
    for _ in range(3):
        alone.grad = alone.detach() * 0.5
        other.step()
    assert fl.equal(alone, params[1]) and other.state[alone]["mu_product"] == optimizer.state[params[1]]["mu_product"]


def test_a_group_whose_parameters_change_places():
    params, optimizer = stepped("Adam")
    optimizer.state[params[0]]["step"] += 10
    optimizer.param_groups[0]["params"].reverse()
    go_on(optimizer, params)
    assert numbers(optimizer, params) == [13.0, 3.0, 3.0]


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save", "older"])
@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD"])
def test_states_go_on(name, how):
    params, optimizer = stepped(name)
    saved = optimizer.state_dict()
    if how == "save":
        file = io.BytesIO()
        fl.save(saved, file, format="pt")
        file.seek(0)
        saved = fl.load(file)
    elif how == "pickle":
        saved = pickle.loads(pickle.dumps(saved))
    elif how == "older":
        saved = copy.deepcopy(saved)
        for entries in saved["state"].values():
            for key in ["step", *MORE.get(name, [])]:
                entries[key] = entries[key].item() if key != "step" else int(entries[key])
    else:
        saved = copy.deepcopy(saved)
    again = [p.detach().clone().requires_grad_() for p in params]
    other = getattr(fl.optim, name)(again)
    other.load_state_dict(saved)
    assert all(type(other.state[p][key]) is fl.Tensor for p in again for key in ["step", *MORE.get(name, [])])
    go_on(optimizer, params), go_on(other, again)
    assert numbers(other, again) == numbers(optimizer, params) == [3.0] * 3
    assert all(fl.equal(a, b) for a, b in zip(params, again))


@pytest.mark.parametrize("saved", [5, fl.tensor(5.0), fl.tensor(5)], ids=["int", "float32", "int64"])
def test_a_step_of_a_programs_own_optimizer_stays_what_it_is(saved):
    class Own(fl.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self):
            for p in self.param_groups[0]["params"]:
                self.state[p]["step"] += 1

    w = fl.ones(2, requires_grad=True)
    optimizer = Own([w])
    optimizer.load_state_dict({"state": {0: {"step": saved}}, "param_groups": optimizer.state_dict()["param_groups"]})
    optimizer.step()
    assert type(optimizer.state[w]["step"]) is type(saved) and optimizer.state[w]["step"] == 6
    assert saved == 5


def test_a_step_over_a_loaded_state_can_be_replayed():
    w = fl.ones(3, requires_grad=True)
    optimizer = fl.optim.Adam([w])
    w.grad = fl.ones(3)
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    @fl.compile(mode="replay")
    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    for _ in range(6):
        step()
    assert "replayed" in fl.compiler.explain(step) and optimizer.state[w]["step"] == 7


def test_a_number_is_read_inside_of_a_region():
    w = fl.ones(3, requires_grad=True)
    optimizer = fl.optim.Adam([w])
    with fl.lazy():
        found = []
        for _ in range(3):
            w.grad = fl.ones(3)
            optimizer.step()
            found.append(optimizer.state[w]["step"] * 2)
        optimizer.state[w]["step"] += 5
        w.grad = fl.ones(3)
        optimizer.step()
    assert [f.item() for f in found] == [2.0, 4.0, 6.0] and optimizer.state[w]["step"] == 9


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize(
    ("kind", "options"),
    [("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {}), ("Adam", {"amsgrad": True}),
     ("AdamW", {}), ("Adagrad", {}), ("RMSprop", {}), ("RMSprop", {"centered": True, "momentum": 0.9})],
)  # fmt: skip
def test_an_infinite_parameter_stays_infinite_where_nothing_decays(kind, options, dtype):
    p = fl.tensor([float("inf"), -float("inf"), *[1.0] * 30], dtype=dtype, requires_grad=True)
    optimizer = getattr(fl.optim, kind)([p], lr=0.01, **options)
    for _ in range(3):
        p.grad = fl.ones_like(p)
        optimizer.step()
    assert p[:2].tolist() == [float("inf"), -float("inf")] and p.isnan().sum() == 0


def test_an_infinite_gradient_goes_on_through_momentum():
    p = fl.ones(3, requires_grad=True)
    optimizer = fl.optim.SGD([p], lr=0.1, momentum=0.9)
    for _ in range(2):
        p.grad = fl.tensor([float("inf"), 1.0, -float("inf")])
        optimizer.step()
    assert p.tolist()[0] == -float("inf") and p.tolist()[2] == float("inf")
