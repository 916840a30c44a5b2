"""Checkpointing: the same values and gradients, computed twice."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3))
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.layers(x) * scale


def run(call, net, x):
    """Value, gradients of x and of the parameters, and the next random number."""
    fl.manual_seed(1)
    net.zero_grad()
    x = x.clone().requires_grad_()
    y = call(net, x)
    (y * y).sum().backward()
    return [y, x.grad, *(p.grad for p in net.parameters()), fl.rand(1)]


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_gradients_are_those_of_the_plain_call(reentrant):
    options = {} if reentrant else {"scale": 2.0}  # which the older variant does not hand on
    net, x = Counted(), fl.randn(5, 4)
    want = run(lambda net, x: net(x, **options), net, x)
    net.calls = 0
    got = run(lambda net, x: checkpoint(net, x, use_reentrant=reentrant, **options), net, x)
    assert net.calls == 2
    for a, b in zip(got, want):
        assert a.tolist() == b.tolist()


def test_without_the_random_state_another_mask_is_drawn():
    drop = nn.Dropout(0.5)
    x = fl.ones(100, requires_grad=True)
    checkpoint(drop, x, preserve_rng_state=False).sum().backward()
    y = checkpoint(drop, fl.ones(100, requires_grad=True))
    assert set(x.grad.tolist()) == {0.0, 2.0} and y.requires_grad


def test_no_argument_needs_a_gradient_and_grad_works():
    net, x = nn.Linear(4, 3), fl.randn(5, 4)
    want = fl.autograd.grad(net(x).sum(), list(net.parameters()))
    got = fl.autograd.grad(checkpoint(net, x).sum(), list(net.parameters()))
    assert [g.tolist() for g in got] == [g.tolist() for g in want]
    assert all(p.grad is None for p in net.parameters())


def test_captured_tensors_with_a_history():
    w = fl.randn(3, requires_grad=True)
    x = fl.randn(3, requires_grad=True)

    def total(call):
        w.grad = x.grad = None
        h = w.exp()
        (call(lambda x: x * h, x).sum() + h.sum()).backward()
        return w.grad.tolist(), x.grad.tolist()

    assert np.allclose(total(checkpoint), total(lambda f, x: f(x)))


def test_structures_and_outputs_without_gradient():
    x = fl.randn(3, requires_grad=True)

    def part(pair, *, k):
        a, b = pair
        return {"y": a * b * k, "n": [a.detach() > 0, "text"], "t": (b.exp(),)}

    out = checkpoint(part, (x, x * 2), k=3.0)
    assert out["n"][1] == "text" and not out["n"][0].requires_grad and isinstance(out["t"], tuple)
    out["y"].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 12 * x.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("leaf", [True, False])
def test_second_derivatives(leaf):
    x = fl.tensor([2.0], requires_grad=True)
    w = fl.tensor([1.0], requires_grad=True)
    y = checkpoint(lambda x: w * x**3, x if leaf else x * 1.0)
    (dx,) = fl.autograd.grad(y, x, create_graph=True)
    ddx, dw = fl.autograd.grad(dx, (x, w))
    assert dx.item() == 12 and ddx.item() == 12 and dw.item() == 12


def test_inside_no_grad_it_is_the_plain_call():
    net, x = Counted(), fl.randn(5, 4)
    with fl.no_grad():
        assert not checkpoint(net, x).requires_grad
    assert net.calls == 1


def test_inputs_that_were_overwritten_are_noticed():
    x = fl.ones(3, requires_grad=True)
    h = x * 2
    y = checkpoint(lambda h: h * h, h)
    h.fill_(5.0)
    with pytest.raises(RuntimeError):
        y.sum().backward()


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(segments):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    x = fl.randn(2, 3)
    want = run(lambda net, x: net(x), net, x)
    got = run(lambda net, x: checkpoint_sequential(net, segments, x, use_reentrant=False), net, x)
    for a, b in zip(got, want):
        assert a.tolist() == b.tolist()


def test_sequential_errors():
    with pytest.raises(ValueError, match="segments = 3 for 2 functions; expected 1 to 2"):
        checkpoint_sequential(nn.Sequential(nn.Tanh(), nn.Tanh()), 3, fl.ones(1))


def test_a_second_run_that_gives_something_else_is_refused():
    runs = []

    def part(x):
        runs.append(1)
        return x.sin() if len(runs) == 1 else x.sin()[:1]

    x = fl.ones(3, requires_grad=True)
    with pytest.raises(CheckpointError, match=r"second run of .*part returned \['flambeau.float32 \[1\] on cpu'\]; expected .*\[3\]"):
        checkpoint(part, x, use_reentrant=False).sum().backward()
    assert x.grad is None and checkpoint(fl.sin, x).grad_fn.name() == "CheckpointFunctionBackward"


def test_an_unknown_determinism_check_is_refused():
    with pytest.raises(ValueError, match="determinism_check = 'all'; expected 'default' or 'none'"):
        checkpoint(fl.sin, fl.ones(1, requires_grad=True), use_reentrant=False, determinism_check="all")
