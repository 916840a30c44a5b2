"""Hooks that pack what is saved for backward."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import flambeau as fl
from flambeau.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


def same(x):
    return x


def twice(x):
    return x * 2


class Cube(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * 3 * x * x


@pytest.mark.parametrize(
    ("program", "factor"),
    [(lambda x: x.exp(), 2), (lambda x: Cube.apply(x), 4), (lambda x: (x * 1.0).sin_(), None), (lambda x: x.pow(3), 4)],
    ids=["output", "Function", "overwritten", "input"],
)
def test_what_unpack_returns_is_used(program, factor):
    """An unpack that doubles: the gradient of e^x is doubled, that of x^3 is quadrupled."""
    x = fl.tensor([0.5, 1.0], requires_grad=True)
    (plain,) = fl.autograd.grad(program(x).sum(), x)
    with saved_tensors_hooks(same, twice):
        y = program(x)
    (packed,) = fl.autograd.grad(y.sum(), x)
    if factor is None:
        assert packed.tolist() == pytest.approx(fl.cos(2 * x).tolist())
    else:
        assert packed.tolist() == pytest.approx((plain * factor).tolist())


def test_hooks_nest_and_the_innermost_counts():
    x, seen = fl.ones(2, requires_grad=True), []

    def noting(name):
        return saved_tensors_hooks(lambda t: (seen.append(name), t)[1], same)

    with noting("outer"):
        x.exp()
        with noting("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["outer", "inner", "outer"]


def test_hooks_run_without_recording_and_see_inputs_themselves():
    """So that a hook can leave parameters where they are; an output has no history, which would keep its node alive."""
    layer = fl.nn.Linear(3, 3, bias=False)
    x = fl.ones(1, 3, requires_grad=True)
    seen = []

    def pack(t):
        which = "weight" if t is layer.weight else "x" if t is x else "plain" if t.grad_fn is None else t.grad_fn.name()
        seen.append((which, fl.is_grad_enabled(), (t * t).requires_grad))
        return t

    with saved_tensors_hooks(pack, same):
        y = layer(x).exp() * x
    assert sorted(seen) == [(which, False, False) for which in ("ExpBackward0", "plain", "weight", "x", "x")]
    y.sum().backward()
    kept = layer(x).exp() * x
    grads = x.grad.clone(), layer.weight.grad.clone()
    x.grad = layer.weight.grad = None
    kept.sum().backward()
    assert fl.equal(x.grad, grads[0]) and fl.equal(layer.weight.grad, grads[1])


def test_what_hooks_keep_goes_with_the_graph():
    x = fl.ones(3, requires_grad=True)
    with saved_tensors_hooks(same, same):
        y = x * 2
        z = (y * y).exp() * y
    held = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert held() is not None  # the hook's, in the graph
        del z
        assert held() is None
    finally:
        gc.enable()


def test_second_derivatives():
    x = fl.tensor([2.0], requires_grad=True)
    with saved_tensors_hooks(lambda t: t.tolist(), fl.tensor):
        (dx,) = fl.autograd.grad((x**3).sum(), x, create_graph=True)
    (ddx,) = fl.autograd.grad(dx.sum(), x)
    assert dx.item() == 12 and ddx.item() == 12


def test_it_holds_for_one_thread():
    seen = []

    def other():
        (fl.ones(2, requires_grad=True).exp()).sum().backward()

    with saved_tensors_hooks(lambda t: (seen.append(1), t)[1], same):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not seen


def test_large_tensors_are_packed_where_the_lock_is_not_held():
    x = fl.ones(400, 400, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), fl.from_numpy):
        y = (x @ x / 400).exp().clamp(max=2.0) * x
    y.sum().backward()
    assert (x.grad == 2).all()


def test_what_was_packed_goes_with_the_graph():
    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    kept = []

    def pack(t):
        box = Kept(t)
        kept.append(weakref.ref(box))
        return box

    gc.disable()
    try:
        x = fl.ones(2, requires_grad=True)
        with saved_tensors_hooks(pack, lambda box: box.tensor):
            y = x.exp()
            z = x.exp()
        assert [k() is None for k in kept] == [False, False]
        del y
        assert [k() is None for k in kept] == [True, False]
        z.sum().backward()
        assert [k() is None for k in kept] == [True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("pack", "unpack", "error", "text"),
    [
        (same, lambda t: None, TypeError, "unpack returned a NoneType"),
        (same, lambda t: t[:1], fl.AutogradError, r"unpack returned float32 \[1\]; expected float32 \[2\]"),
        (same, lambda t: t.double(), fl.AutogradError, "float64"),
        (same, lambda t: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_wrong_unpack(pack, unpack, error, text):
    x = fl.ones(2, requires_grad=True)
    with saved_tensors_hooks(pack, unpack):
        y = x.exp()
    with pytest.raises(error, match=text):
        y.sum().backward()


@pytest.mark.parametrize(("pack", "error"), [(lambda t: t.add_(1), fl.AutogradError), (lambda t: 1 / 0, ZeroDivisionError)])
def test_wrong_pack(pack, error):
    x = fl.ones(2, requires_grad=True)
    with pytest.raises(error), saved_tensors_hooks(pack, same):
        (x * 2).exp()
    assert (x * 2).exp().requires_grad  # the hooks are gone


@pytest.mark.parametrize("wrong", [(None, same), (same, 3)])
def test_hooks_are_callable(wrong):
    with pytest.raises(TypeError), saved_tensors_hooks(*wrong):
        pass


def test_they_can_be_forbidden():
    with disable_saved_tensors_hooks("not in here"):
        with pytest.raises(RuntimeError, match="not in here"), saved_tensors_hooks(same, same):
            pass
    with saved_tensors_hooks(same, same):
        with pytest.raises(RuntimeError, match="no hooks"), disable_saved_tensors_hooks("no hooks"):
            pass


def test_save_on_cpu():
    x = fl.ones(3, requires_grad=True)
    with save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.7182817] * 3)
