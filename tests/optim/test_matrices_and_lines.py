"""Muon and LBFGS, which no formula of a line says: what their steps promise."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn, optim
from flambeau.optim.lbfgs import Point, strong_wolfe
from flambeau.optim.matrices import _orthogonal


@pytest.mark.parametrize("shape", [(8, 8), (20, 5), (5, 20), (1, 7)], ids=str)
def test_muon_makes_updates_nearly_orthogonal(shape):
    x = fl.randn(*shape)
    y = _orthogonal(x, (3.4445, -4.7750, 2.0315), 5, 1e-7).float().numpy()
    u, s, v = np.linalg.svd(x.numpy(), full_matrices=False)
    singular = np.linalg.svd(y, compute_uv=False)
    big = s > 0.05 * s[0]
    assert (singular[: big.sum()] > 0.4).all() and singular.max() < 1.4
    assert np.abs(np.sign((u * (u.T @ y @ v.T).diagonal()) @ v)).shape == shape
    assert (np.diag(u.T @ y @ v.T)[big] > 0.4).all()  # the singular vectors stay


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}], ids=str)
def test_muon_learns(options):
    fl.manual_seed(0)
    x, w = fl.randn(64, 6), fl.randn(6, 4)
    p = nn.Parameter(fl.zeros(6, 4))
    optimizer = optim.Muon([p], lr=0.1, weight_decay=0.0, **options)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(x @ p, x @ w)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert losses[-1] < 0.05 * losses[0]
    assert set(optimizer.state_dict()["state"][0]) == {"momentum_buffer"}


def rosenbrock(x):
    return 100 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x[:-1]) ** 2).sum()


def minimise(options, start, steps=60):
    x = fl.tensor(start, dtype=fl.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], **options)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        calls.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return x, calls, optimizer


@pytest.mark.parametrize("start", [[-1.2, 1.0], [3.0, -3.0], [0.0, 0.0, 0.0, 0.0], [-1.0] * 6], ids=str)
def test_lbfgs_with_a_line_search_finds_the_end_of_a_valley(start):
    x, calls, optimizer = minimise({"line_search_fn": "strong_wolfe", "tolerance_change": 1e-14, "tolerance_grad": 1e-12}, start)
    assert rosenbrock(x).item() < 1e-8 or abs(fl.autograd.grad(rosenbrock(x), x)[0]).max().item() < 1e-5
    assert len(calls) < 400 and optimizer.state[x]["func_evals"] == len(calls)


def test_lbfgs_steps_do_not_go_up_with_a_line_search():
    x = fl.tensor([-1.2, 1.0], dtype=fl.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=1, max_eval=25)

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(40)]
    assert all(b <= a + 1e-12 for a, b in zip(losses, losses[1:])) and losses[-1] < 0.01


def test_lbfgs_keeps_only_its_history_and_goes_on_from_a_saved_one(tmp_path):
    options = {"history_size": 3, "max_iter": 5, "line_search_fn": "strong_wolfe"}
    x, _, optimizer = minimise(options, [-1.2, 1.0], 3)
    assert len(optimizer.state[x]["old_dirs"]) == 3
    fl.save({"x": x.detach(), "o": optimizer.state_dict()}, tmp_path / "state")
    kept = fl.load(tmp_path / "state")
    y = kept["x"].clone().requires_grad_()
    again = optim.LBFGS([y], **options)
    again.load_state_dict(kept["o"])
    for o, v in ((optimizer, x), (again, y)):

        def closure(o=o, v=v):
            o.zero_grad()
            loss = rosenbrock(v)
            loss.backward()
            return loss

        o.step(closure)
    assert fl.equal(x, y)


def test_lbfgs_moves_the_two_parts_of_a_complex_parameter():
    ends = []
    for parts in (lambda x: x, fl.view_as_real):
        z, x = parts(fl.tensor([3 - 2j, 1 + 1j])).clone().requires_grad_(), fl.tensor([2.0], requires_grad=True)
        optimizer = optim.LBFGS([z, x], line_search_fn="strong_wolfe", max_iter=6)

        def closure(optimizer=optimizer, z=z, x=x):
            optimizer.zero_grad()
            p = fl.view_as_real(z) if z.is_complex() else z
            loss = (p**4).sum() + ((p - x) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        ends.append(((fl.view_as_real(z) if z.is_complex() else z).tolist(), x.tolist(), optimizer.state[z]["func_evals"]))
    assert ends[0] == ends[1]


def test_lbfgs_takes_parameters_of_any_shape_and_without_gradients():
    a, b, c = fl.ones(2, 3, requires_grad=True), fl.ones(3, 2).T.requires_grad_(), fl.ones(4, requires_grad=True)
    optimizer = optim.LBFGS([a, b, c], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = ((a - 2) ** 2).sum() + ((b + 1) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert fl.allclose(a, fl.full((2, 3), 2.0), atol=1e-3) and fl.allclose(b, fl.full((2, 3), -1.0), atol=1e-3) and c.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda p: optim.LBFGS([p], line_search_fn="armijo"), ValueError, "expected None or 'strong_wolfe'"),
        (lambda p: optim.LBFGS([p]).step(), TypeError, r"LBFGS\.step\(\) missing 1 required positional argument"),
        (lambda p: optim.LBFGS([{"params": [p]}, {"params": [fl.ones(1, requires_grad=True)]}]), ValueError, "LBFGS doesn't support per-parameter options"),
        (lambda p: optim.LBFGS([p], lr=-1), ValueError, "Invalid learning rate"),
        (lambda p: optim.Muon([p]), ValueError, "Muon only supports 2D parameters whereas we found a parameter with size"),
        (lambda p: optim.Muon([fl.ones(2, 2)], ns_steps=100), ValueError, "ns_steps = 100"),
        (lambda p: optim.Muon([fl.ones(2, 2)], ns_coefficients=(1.0, 2.0)), ValueError, "expected three numbers"),
        (lambda p: optim.Muon([fl.ones(2, 2)], adjust_lr_fn="x"), ValueError, "adjust_lr_fn = 'x'"),
        (lambda p: optim.Rprop([p], etas=(1.5, 2)), ValueError, "Invalid eta values"),
        (lambda p: optim.Adafactor([p], d=0.5), ValueError, "d = 0.5; expected >= 1"),
        (lambda p: optim.Adafactor([p], beta2_decay=0.5), ValueError, "beta2_decay = 0.5; expected <= 0"),
        (lambda p: optim.Adafactor([p], eps=(None, -1.0)), ValueError, r"Invalid eps\[1\] value"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(fl.ones(3, requires_grad=True))


def test_lbfgs_searches_on_where_nothing_is_too_small_a_change():
    """With `tolerance_change=0` the ends of a search meet, and no step is to be read off the line between them."""
    x = fl.tensor([-1.2, 1.0], dtype=fl.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=100, tolerance_change=0, tolerance_grad=0, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = x.abs().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(2.2)
    assert closure().item() < 2.2


@pytest.mark.parametrize(
    "start, change, iterations, calls",
    [([1.0], 0.0, 2, 33), ([1.0], 1e-2, 2, 33), ([-1.2, 0.7], 0.0, 5, 43), ([-1.2, 0.7], 1e-2, 3, 10), ([0.9, 2.0], 0.0, 3, 34)],
)  # PyTorch's numbers
def test_lbfgs_ends_a_search_where_its_ends_are_one_whatever_tolerance_change_is(start, change, iterations, calls):
    """Along lines that have a kink: the next length is as far as may be, and `tolerance_change` is not for searches."""
    x = fl.tensor(start, dtype=fl.float64, requires_grad=True)
    steep = fl.arange(1.0, 1 + len(start), dtype=fl.float64)
    options = {"max_iter": 50, "max_eval": 1000, "tolerance_grad": 0.0, "tolerance_change": change}
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", **options)

    def closure():
        optimizer.zero_grad()
        loss = (steep * (x - 0.3).abs()).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    state = optimizer.state[x]
    assert state["n_iter"] == iterations
    assert abs(state["func_evals"] - calls) <= 5  # along a kink the last bits, which are others without FMA, decide when two ends are one


def test_of_equal_losses_the_end_that_was_first_is_the_lower_one():
    def at(t):
        return Point(t, 0.5, None, 1.0 if t == 1 else -1.0)

    point, calls = strong_wolfe(at, Point(0.0, 1.0, None, -1.0), 1.0, 1.0, 1e-9, 1)
    assert (point.t, calls) == (pytest.approx(0.76759188), 2)


def test_lbfgs_says_which_parameters_it_has_as_programs_ask_for_the_number_of_calls():
    x = fl.ones(3, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=2)
    optimizer.step(lambda: (optimizer.zero_grad(), value := (x**2).sum(), value.backward())[1])
    assert optimizer._params[0] is x and optimizer.state[optimizer._params[0]]["n_iter"] >= 1


def test_lbfgs_goes_on_without_a_gradient_where_no_tolerance_ends_it():
    p = fl.nn.Parameter(fl.ones(2))
    optimizer = fl.optim.LBFGS([p], max_iter=3, tolerance_grad=-float("inf"), tolerance_change=-float("inf"))

    def closure():
        p.grad = fl.zeros(2)
        return fl.tensor(3)

    assert optimizer.step(closure).item() == 3 and p.tolist() == [1, 1]
