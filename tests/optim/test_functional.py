"""Steps as functions: each does what its optimizer does, with states in lists that are written in place."""

import pytest

import flambeau as fl
from flambeau.optim import _functional

BETAS = dict(betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)
SHORT = dict(beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.1, lr=0.1)
# The optimizer, its options, those of the function, and the states in the order of its arguments.
CASES = {
    "adadelta": ("Adadelta", dict(lr=0.1, rho=0.8, weight_decay=0.1), dict(lr=0.1, rho=0.8, eps=1e-6, weight_decay=0.1, maximize=False), "square_avg acc_delta step"),
    "adagrad": ("Adagrad", dict(lr=0.1, lr_decay=0.2), dict(lr=0.1, lr_decay=0.2, weight_decay=0, eps=1e-10, maximize=False), "sum step"),
    "adam": ("Adam", dict(lr=0.1, amsgrad=True, **BETAS), dict(amsgrad=True, maximize=False, **SHORT), "exp_avg exp_avg_sq max_exp_avg_sq step"),
    "adamw": ("AdamW", dict(lr=0.1, maximize=True, **BETAS), dict(amsgrad=False, maximize=True, fused=True, **SHORT), "exp_avg exp_avg_sq - step"),
    "adamax": ("Adamax", dict(lr=0.1, **BETAS), dict(**SHORT), "exp_avg exp_inf step"),
    "asgd": ("ASGD", dict(lr=0.1, t0=1), dict(lr=0.1, t0=1, lambd=1e-4, alpha=0.75, weight_decay=0, foreach=True), "ax mu eta step"),
    "nadam": ("NAdam", dict(lr=0.1, **BETAS), dict(momentum_decay=4e-3, **SHORT), "exp_avg exp_avg_sq mu_product step"),
    "radam": ("RAdam", dict(lr=0.1, decoupled_weight_decay=True, **BETAS), dict(decoupled_weight_decay=True, **SHORT), "exp_avg exp_avg_sq step"),
    "rmsprop": (
        "RMSprop", dict(lr=0.1, centered=True, momentum=0.5), dict(lr=0.1, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0.5, centered=True),
        "square_avg grad_avg momentum_buffer step",
    ),
    "rprop": ("Rprop", dict(lr=0.1), dict(step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2), "prev step_size step"),
    "sgd": (
        "SGD", dict(lr=0.1, momentum=0.9, nesterov=True), dict(lr=0.1, momentum=0.9, nesterov=True, dampening=0, weight_decay=0, maximize=False),
        "momentum_buffer",
    ),
}  # fmt: skip
START = {"mu": 1.0, "eta": 0.1, "mu_product": 1.0, "step_size": 0.1}


def start(name, state, params):
    if state == "-":
        return []
    if state == "momentum_buffer" and name == "sgd":
        return [None] * len(params)
    if state in ("step", "mu", "eta", "mu_product"):
        return [fl.tensor(START.get(state, 0.0)) for _ in params]
    return [fl.full_like(p, START.get(state, 0.0)) for p in params]


@pytest.mark.parametrize("name", CASES)
def test_a_function_does_what_its_optimizer_does(name):
    kind, options, by_name, states = CASES[name]
    params = [fl.tensor([0.5, -1.5, 2.0], requires_grad=True), fl.tensor([1.0], requires_grad=True)]
    copies = [p.detach().clone() for p in params]
    optimizer = getattr(fl.optim, kind)(params, **options)
    lists = [start(name, state, copies) for state in states.split()]
    first = list(lists[0])
    for k in range(3):
        for p in params:
            p.grad = (p * (k + 1)).detach() * (-1) ** k + 0.1
        getattr(_functional, name)(copies, [p.grad.clone() for p in params], *lists, **by_name)
        optimizer.step()
    for p, q in zip(params, copies, strict=True):
        fl.testing.assert_close(p.detach(), q)
    for state, values in zip(states.split(), lists, strict=True):
        for p, value in zip(params, values):
            fl.testing.assert_close(optimizer.state[p][state], value, msg=state)
    assert name == "sgd" or all(a is b for a, b in zip(first, lists[0], strict=True))


def test_what_overflowed_is_left_out():
    p, buffers = fl.ones(2), [None]
    for found in (1.0, 0.0):
        _functional.sgd(
            [p], [fl.full((2,), 8.0)], buffers, fused=True, grad_scale=fl.tensor(4.0), found_inf=fl.tensor(found), weight_decay=0, momentum=0,
            lr=0.25, dampening=0, nesterov=False, maximize=False,
        )  # fmt: skip
    assert p.tolist() == [0.5, 0.5]


def test_gradients_go_through_a_function():
    rate, w = fl.tensor(0.1, requires_grad=True), fl.ones(2, requires_grad=True)
    p, moments = w.clone(), [[fl.zeros(2)], [fl.zeros(2)], []]
    _functional.adam(
        [p], [w * 3], *moments, [fl.tensor(0.0)], differentiable=True, amsgrad=False, beta1=0.9, beta2=0.99, lr=rate, weight_decay=0, eps=0.0, maximize=False,
    )  # fmt: skip
    p.sum().backward()
    assert rate.grad.item() == pytest.approx(-2) and moments[0][0].tolist() == pytest.approx([0.3, 0.3])


def test_counts_may_be_numbers_where_they_are_sparse():
    rows = fl.eye(2).to_sparse()
    p, moments, counts = fl.ones(2, 2), [[fl.zeros(2, 2)], [fl.zeros(2, 2)]], [0]
    _functional.sparse_adam([p], [rows], *moments, counts, eps=1e-8, beta1=0.9, beta2=0.99, lr=0.5, maximize=False)
    assert counts == [1] and fl.allclose(p, 1 - 0.5 * fl.eye(2))
