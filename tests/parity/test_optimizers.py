"""ASGD, Rprop, LBFGS, Adafactor and Muon beside PyTorch: random runs, and states that go from one library to the other."""

from __future__ import annotations

import numpy as np
import pytest
from beside import assert_same, randn, torch

import flambeau as fl

LBFGS = [
    {}, {"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7}, {"max_iter": 5, "history_size": 2, "lr": 0.3},
    {"line_search_fn": "strong_wolfe", "lr": 20.0}, {"line_search_fn": "strong_wolfe", "lr": 1e-3, "max_eval": 6}, {"tolerance_grad": 0.1, "lr": 0.3}, {"tolerance_change": 1e-2, "lr": 0.3}, {"max_iter": 1},
    {"line_search_fn": "strong_wolfe", "tolerance_change": 0.0}, {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-2},
]  # fmt: skip


def rosenbrock(lib, x, y):
    return ((1 - x) ** 2).sum() + 10 * ((y - x**2) ** 2).sum()


def quadratic(lib, x, y):
    return (x**4).sum() + ((x[0] - y) ** 2).sum() + (y - 0.5).abs().pow(2.5).sum()


def saddle(lib, x, y):
    return (x.sin() * y.cos()).sum() + 0.5 * (x**2).sum() + 0.6 * (y**2).sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", [rosenbrock, quadratic, saddle])
@pytest.mark.parametrize("options", LBFGS, ids=str)
def test_lbfgs(options, loss, seed):
    # In double precision: an end is found by differences that rounding decides in single precision, and so does the processor.
    values = []
    for lib in (fl, torch):
        x, y = (lib.tensor(randn(3, seed=seed + i).astype(np.float64), requires_grad=True) for i in range(2))
        optimizer = lib.optim.LBFGS([x, y], **options)

        def closure(optimizer=optimizer, lib=lib, x=x, y=y):
            optimizer.zero_grad()
            value = loss(lib, x, y)
            value.backward()
            return value

        seen = []
        for _ in range(4):
            seen.append(float(optimizer.step(closure)))
            seen += [float(v) for v in x.detach()]
        state = optimizer.state[x]
        values.append((np.array(seen), state["func_evals"], state["n_iter"]))
    (a, calls, iterations), (b, theirs, their_iterations) = values
    known = np.isfinite(b) & (np.abs(b) < 1e6)
    first = len(b) if known.all() else int(np.argmin(known))
    np.testing.assert_allclose(a[:first], b[:first], rtol=1e-5, atol=1e-8)  # each step multiplies what sums in another order differ by
    if first == len(b) and not np.allclose(a[-4:], a[-8:-4]):  # near an end, rounding decides on the last calls
        assert (calls, iterations) == (theirs, their_iterations)


MAKERS = {
    "ASGD": lambda lib, p: lib.optim.ASGD(p, 0.05, t0=2), "Rprop": lambda lib, p: lib.optim.Rprop(p, 0.05), "Adafactor": lambda lib, p: lib.optim.Adafactor(p, 0.05), "Muon": lambda lib, p: lib.optim.Muon(p, 0.05),
    "LBFGS": lambda lib, p: lib.optim.LBFGS(p, 0.1, max_iter=3), "LBFGS_wolfe": lambda lib, p: lib.optim.LBFGS(p, max_iter=3, line_search_fn="strong_wolfe"),
}  # fmt: skip


def translated(value, lib):
    """A state dict with the tensors of another library."""
    if isinstance(value, dict):
        return {k: translated(v, lib) for k, v in value.items()}
    if isinstance(value, list):
        return [translated(v, lib) for v in value]
    return lib.tensor(value.detach().numpy()) if isinstance(value, (fl.Tensor, torch.Tensor)) else value


def steps(lib, optimizer, w, n, start):
    for i in range(n):
        x = lib.tensor(randn(5, 4, seed=start + i))

        def closure(x=x):
            optimizer.zero_grad()
            loss = ((x @ w).tanh() ** 2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)


@pytest.mark.parametrize("name", list(MAKERS))
@pytest.mark.parametrize("there", [True, False], ids=["from_torch", "to_torch"])
def test_a_state_goes_on_in_the_other_library(name, there):
    one, other = (torch, fl) if there else (fl, torch)
    w = one.tensor(randn(4, 3), requires_grad=True)
    optimizer = MAKERS[name](one, [w])
    steps(one, optimizer, w, 4, 0)
    v = other.tensor(w.detach().numpy().copy(), requires_grad=True)
    again = MAKERS[name](other, [v])
    again.load_state_dict(translated(optimizer.state_dict(), other))
    steps(one, optimizer, w, 4, 10)
    steps(other, again, v, 4, 10)
    pair = (w, v) if one is fl else (v, w)
    assert_same(*pair, scale=1e7 if name == "Muon" else 1e3)  # Muon's iterations are in bfloat16


@pytest.mark.parametrize("name", list(MAKERS))
def test_state_names_are_the_same(name):
    states = []
    for lib in (fl, torch):
        w = lib.tensor(randn(4, 3), requires_grad=True)
        optimizer = MAKERS[name](lib, [w])
        steps(lib, optimizer, w, 3, 0)
        states.append(set(optimizer.state_dict()["state"][0]))
    assert states[0] == states[1]


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "momentum": 0.5}, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0}, {"ns_steps": 3, "ns_coefficients": (2.0, -1.5, 0.5)}], ids=str)
@pytest.mark.parametrize("shape", [(4, 3), (3, 8), (6, 6)], ids=str)
def test_muon(shape, options):
    finals = []
    for lib in (fl, torch):
        w = lib.tensor(randn(*shape), requires_grad=True)
        optimizer = lib.optim.Muon([w], lr=0.02, **options)
        for i in range(10):
            optimizer.zero_grad()
            ((lib.tensor(randn(5, shape[0], seed=i)) @ w).tanh() ** 2).mean().backward()
            optimizer.step()
        finals.append(w.detach().numpy())
    np.testing.assert_allclose(finals[0], finals[1], atol=10 * 0.02 * 0.1)


WRONG = {
    "asgd": lambda lib, p: lib.optim.ASGD(p, -1.0), "asgd_decay": lambda lib, p: lib.optim.ASGD(p, weight_decay=-1.0), "rprop": lambda lib, p: lib.optim.Rprop(p, etas=(1.1, 1.2)),
    "adafactor_d": lambda lib, p: lib.optim.Adafactor(p, d=0.5), "adafactor_decay": lambda lib, p: lib.optim.Adafactor(p, beta2_decay=0.1), "adafactor_eps": lambda lib, p: lib.optim.Adafactor(p, eps=(-1.0, 1e-3)),
    "muon_vector": lambda lib, p: lib.optim.Muon([lib.ones(3, requires_grad=True)]), "muon_lr": lambda lib, p: lib.optim.Muon(p, adjust_lr_fn="adam"), "muon_momentum": lambda lib, p: lib.optim.Muon(p, momentum=-1.0),
    "lbfgs_groups": lambda lib, p: lib.optim.LBFGS([{"params": p}, {"params": [lib.ones(3, requires_grad=True)]}]), "lbfgs_lr": lambda lib, p: lib.optim.LBFGS(p, -1.0),
}  # fmt: skip


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_options(case):
    for lib in (torch, fl):
        with pytest.raises(ValueError):
            WRONG[case](lib, [lib.ones(2, 2, requires_grad=True)])


COUNTING = ["Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SparseAdam"]


@pytest.mark.parametrize("name", COUNTING)
def test_numbers_of_states(name):
    found = []
    for lib in (fl, torch):
        w = lib.tensor(randn(4, 3), requires_grad=True)
        optimizer = getattr(lib.optim, name)([w], lr=0.1)
        for i in range(3):
            grad = lib.tensor(randn(4, 3, seed=i))
            w.grad = grad.to_sparse() if name == "SparseAdam" else grad
            optimizer.step()
        state = optimizer.state_dict()["state"][0]
        numbers = {key: value for key, value in state.items() if not isinstance(value, lib.Tensor) or value.ndim == 0}
        found.append([(key, type(v).__name__, str(getattr(v, "dtype", ""))[-7:], pytest.approx(float(v), rel=1e-6)) for key, v in numbers.items()])
    assert [f[:3] for f in found[0]] == [f[:3] for f in found[1]]
    assert [f[3].expected for f in found[0]] == [f[3] for f in found[1]]
    assert found[0][0][0] == "step"


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "Adagrad"])
def test_a_saved_state_is_loaded_by_pytorch(name, tmp_path):
    w = fl.tensor(randn(4, 3), requires_grad=True)
    optimizer = getattr(fl.optim, name)([w], lr=0.1)
    steps(fl, optimizer, w, 3, 0)
    fl.save(optimizer.state_dict(), tmp_path / "state.pt", format="pt")
    v = torch.tensor(w.detach().numpy().copy(), requires_grad=True)
    other = getattr(torch.optim, name)([v], lr=0.1)
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert other.state[v]["step"] == 3 and other.state[v]["step"].dtype == torch.float32
    steps(fl, optimizer, w, 3, 10), steps(torch, other, v, 3, 10)
    assert_same(w, v, scale=1e3)
    torch.save(other.state_dict(), tmp_path / "back.pt")
    optimizer.load_state_dict(fl.load(tmp_path / "back.pt"))
    assert optimizer.state[w]["step"].item() == 6


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_gradients_go_through_a_step_as_in_pytorch(name):
    def gradients(lib):
        w, lr = lib.tensor([0.5, -1.5], requires_grad=True), lib.tensor(0.1, requires_grad=True)
        p = w.clone()
        learns = name in ("SGD", "Adam", "AdamW")  # PyTorch's others fail there in addcdiv_
        optimizer = getattr(lib.optim, name)([p], lr=lr if learns else 0.1, weight_decay=0.2, differentiable=True)
        p.grad = w * w
        optimizer.step()
        (p * p).sum().backward()
        return [p.detach(), w.grad, *([lr.grad] if learns else [])]

    for ours, theirs in zip(gradients(fl), gradients(torch), strict=True):
        assert_same(ours, theirs, scale=1e3)


def shown(value, lib):
    """Types and shapes of what a state has."""
    if isinstance(value, dict):
        return {key: shown(entry, lib) for key, entry in value.items()}
    if isinstance(value, list):
        return [shown(entry, lib) for entry in value]
    return (str(value.dtype).partition(".")[2], tuple(value.shape)) if isinstance(value, lib.Tensor) else type(value)


@pytest.mark.parametrize("into", ["float32", "float64"])
@pytest.mark.parametrize("name", [*COUNTING[:-1], "LBFGS"])
def test_a_loaded_state_has_the_types_of_pytorchs(name, into):
    found = []
    for lib in (fl, torch):
        w = lib.tensor(randn(4, 3), requires_grad=True)
        optimizer = getattr(lib.optim, name)([w], lr=0.1)
        steps(lib, optimizer, w, 3, 0)
        v = w.detach().to(getattr(lib, into)).requires_grad_()
        again = getattr(lib.optim, name)([v], lr=0.1)
        again.load_state_dict(optimizer.state_dict())
        loaded = shown(again.state_dict()["state"], lib)
        v.grad = lib.ones(4, 3, dtype=v.dtype)
        again.step(lambda v=v: v.sum())
        found.append((loaded, shown(again.state_dict()["state"], lib)))
    assert found[0] == found[1]


GROUPS = {
    "twice": lambda o, p, q, r: o.param_groups[0]["params"].append(p),
    "more": lambda o, p, q, r: o.param_groups[0]["params"].append(r),
    "fewer": lambda o, p, q, r: (o.param_groups[0]["params"].remove(p), o.state.pop(p, None)),
    "replaced": lambda o, p, q, r: (o.state.__setitem__(r, o.state.pop(p, {})), o.param_groups[0]["params"].__setitem__(0, r)),
    "another_list": lambda o, p, q, r: o.param_groups[0].update(params=[q, r]),
    "group": lambda o, p, q, r: o.param_groups.append({**o.param_groups[0], "params": [r], "lr": 0.3}),
    "other_groups": lambda o, p, q, r: setattr(o, "param_groups", [{**o.param_groups[0], "params": [r, q]}]),
    "nothing": lambda o, p, q, r: (o.param_groups.clear(), o.state.clear(), o.add_param_group({"params": [q]})),
}  # fmt: skip


@pytest.mark.parametrize("change", list(GROUPS))
@pytest.mark.parametrize("name", ["SGD", "momentum", "Adam", "NAdam", "Rprop"])
def test_groups_changed_by_hand(name, change):
    found = []
    for lib in (fl, torch):
        p, q, r = params = [lib.full((2,), float(i), requires_grad=True) for i in range(3)]
        optimizer = lib.optim.SGD([p, q], 0.1, momentum=0.9) if name == "momentum" else getattr(lib.optim, name)([p, q], 0.1)
        for i in range(4):
            if i == 1:
                GROUPS[change](optimizer, *params)
            for k, param in enumerate(params):
                param.grad = lib.full((2,), k + 0.5)
            optimizer.step()
        found.append(([param.tolist() for param in params], [i for i, param in enumerate(params) if param in optimizer.state]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert found[0][1] == found[1][1]


def test_positions_of_a_parameter_that_stands_twice():
    found = []
    for lib in (fl, torch):
        p, q = (lib.ones(2, requires_grad=True) for _ in range(2))
        with pytest.warns(UserWarning):
            optimizer = lib.optim.Adam([{"params": [p, q, p]}, {"params": [lib.ones(1, requires_grad=True)]}])
        p.grad = q.grad = lib.ones(2)
        optimizer.step()
        saved = optimizer.state_dict()
        found.append(([group["params"] for group in saved["param_groups"]], {i: float(s["step"]) for i, s in saved["state"].items()}))
    assert found[0] == found[1] == ([[2, 1, 2], [3]], {2: 2.0, 1: 1.0})


@pytest.mark.parametrize("named", [(0,), (1,)], ids=["first", "second"])
def test_names_for_some_parameters(named):
    for lib in (fl, torch):
        params = [lib.ones(1, requires_grad=True) for _ in range(2)]
        with pytest.raises(ValueError, match="names"):
            lib.optim.SGD([("a", p) if i in named else p for i, p in enumerate(params)])
