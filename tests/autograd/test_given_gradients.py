"""A gradient that nobody else sees is written over; one that somebody sees is not."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F  # noqa: N812
from flambeau import Tensor
from flambeau.autograd import Function

OPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": fl.relu,
    "relu in place": lambda x: (x * 1.5).relu_(),
    "sigmoid": fl.sigmoid,
    "gelu": F.gelu,
    "scaled": lambda x: x * 0.5,
    "divided": lambda x: x / 3,
    "negated": lambda x: -x,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:], fl.ones(x.shape[1:]), fl.ones(x.shape[1:])),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm of standing statistics": lambda x: F.batch_norm(x, fl.zeros(x.shape[1]), fl.ones(x.shape[1]), fl.ones(x.shape[1])),
}  # fmt: skip


def images(seed: int = 0) -> Tensor:
    fl.manual_seed(seed)
    return fl.randn(3, 4, 8, 8)


def channels_last(x: Tensor) -> Tensor:
    """What a convolution makes: its bytes lie channels-last where the layout is deferred."""
    return F.conv2d(x, fl.eye(4).reshape(4, 4, 1, 1))


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_the_gradient_is_what_it_is_where_somebody_keeps_it(name: str, deferred: bool) -> None:
    def gradients(keep: bool) -> tuple[Tensor, list[Tensor]]:
        x = images().requires_grad_()
        kept: list[Tensor] = []
        h = channels_last(x) if deferred else x * 1
        y = OPS[name](h)
        if keep:
            for t in (h, y):
                t.register_hook(lambda g: kept.append(g))
        (y * images(1) if not deferred else channels_last(y).square()).sum().backward()
        assert x.grad is not None
        return x.grad, [k.clone() for k in kept]

    plain, _ = gradients(False)
    watched, seen = gradients(True)
    assert fl.equal(plain, watched)
    again, seen_again = gradients(True)
    assert all(fl.equal(a, b) for a, b in zip(seen, seen_again, strict=True))


@pytest.mark.eager("memory that a recording plans")
@pytest.mark.parametrize("name", [name for name in OPS if name not in ("relu in place", "batch_norm of standing statistics")])
def test_it_is_written_over(name: str) -> None:
    x = images().requires_grad_()
    h = x * 2
    y = OPS[name](h)
    at: list[int] = []
    for t in (y, h):
        t.register_hook(lambda g: at.append(g._storage_ptr()))
    (y * images(1)).sum().backward()
    assert at[0] == at[1]


def test_a_kept_gradient_is_not() -> None:
    x = images().requires_grad_()
    h = x * 2
    y = h.relu()
    kept: list[Tensor] = []
    y.register_hook(kept.append)
    h.retain_grad()
    weight = images(1)
    (y * weight).sum().backward()
    assert fl.equal(kept[0], weight)
    assert h.grad is not None and h.grad._storage_ptr() != kept[0]._storage_ptr()


def test_what_grad_returns_is_not() -> None:
    x = images().requires_grad_()
    h = x * 2
    y = h.sigmoid()
    weight = images(1)
    of_y, of_h, of_x = fl.autograd.grad((y * weight).sum(), [y, h, x])
    assert fl.equal(of_y, weight)
    assert fl.equal(of_x, of_h * 2)


def test_a_gradient_from_outside_is_not() -> None:
    x = images().requires_grad_()
    mine = images(1)
    x.relu().backward(mine)
    assert fl.equal(mine, images(1))

    array = images(1).numpy().copy()
    before = array.copy()

    class FromNumPy(Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:  # type: ignore[override]
            return fl.from_numpy(array)

    FromNumPy.apply((x * 2).relu()).sum().backward()
    z = images(2).requires_grad_()
    (FromNumPy.apply(z) + z.exp()).sum().backward()  # a sum into it
    leaf = images(3).requires_grad_()
    for _ in range(2):
        FromNumPy.apply(leaf).sum().backward()  # .grad must not become it
    assert np.array_equal(array, before)


def test_two_readers_of_one_gradient() -> None:
    a, b = images().requires_grad_(), images(1).requires_grad_()
    g = images(2)
    y = a.relu() + b.sigmoid()  # both get the same gradient
    y.backward(g.clone())
    assert a.grad is not None and b.grad is not None
    assert fl.equal(a.grad, fl.where(a > 0, g, 0.0))
    s = b.detach().sigmoid()
    assert fl.allclose(b.grad, g * s * (1 - s))
    x = images().requires_grad_()
    h = x * 1
    (h + h.relu() + h.tanh() * 0.5).backward(g.clone())
    assert x.grad is not None
    want = g + fl.where(x > 0, g, 0.0) + 0.5 * g * (1 - x.detach().tanh().square())
    assert fl.allclose(x.grad, want, atol=1e-6)


def test_a_sum_hands_its_gradient_on_without_a_copy() -> None:
    a, b = images().requires_grad_(), images(1).requires_grad_()
    p, q = a * 2, b * 2
    y = p + q
    at: list[int] = []
    for t in (y, p, q):
        t.register_hook(lambda g: at.append(g._storage_ptr()))
    y.backward(images(2))
    assert len(set(at)) == 1
    scaled = fl.add(p.detach().requires_grad_(), q.detach().requires_grad_(), alpha=3)
    assert "Add" in str(scaled.grad_fn)


def test_second_derivatives_keep_the_first() -> None:
    x = fl.tensor([0.5, -1.0, 2.0], dtype=fl.float64, requires_grad=True)
    y = (x * 1).sigmoid()
    weight = fl.tensor([1.0, 2.0, 3.0], dtype=fl.float64)
    (first,) = fl.autograd.grad((y * weight).sum(), x, create_graph=True)
    kept = first.detach().clone()
    (second,) = fl.autograd.grad(first.sum(), x)
    assert fl.equal(first.detach(), kept)
    s = x.detach().sigmoid()
    assert fl.allclose(second, weight * s * (1 - s) * (1 - 2 * s))


def test_twice_through_one_graph() -> None:
    x = images().requires_grad_()
    y = F.layer_norm((x * 2).relu(), (8, 8))
    loss = (y * images(1)).sum()
    loss.backward(retain_graph=True)
    assert x.grad is not None
    once = x.grad.clone()
    loss.backward()
    assert fl.equal(x.grad, once * 2)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    """With a hook on every value, which keeps its gradient, nothing is written over: the bits must be the same."""

    def run(keep: bool) -> list[Tensor]:
        rng = random.Random(seed)
        leaves = [images(i).requires_grad_() for i in range(2)]
        values: list[Tensor] = [leaf * 1 for leaf in leaves]
        kept: list[Tensor] = []
        for _ in range(rng.randrange(4, 14)):
            kind = rng.randrange(5)
            a, b = rng.choice(values), rng.choice(values)
            if kind < 3:
                y = OPS[rng.choice(list(OPS))](a)
            elif kind == 3:
                y = rng.choice([fl.add, fl.sub, fl.mul, fl.maximum])(a, b)
            else:
                y = channels_last(a)
            if keep:
                y.register_hook(kept.append)
            values.append(y)
        sum(v.sum() if i % 2 else v.square().mean() for i, v in enumerate(values[-4:])).backward()  # type: ignore[union-attr]
        return [leaf.grad if leaf.grad is not None else fl.zeros(1) for leaf in leaves]

    for ours, theirs in zip(run(False), run(True), strict=True):
        assert fl.equal(ours, theirs)


def test_real_and_complex_gradients_are_not_mixed():
    x, z = fl.ones(2, requires_grad=True), fl.ones(2, dtype=fl.complex64, requires_grad=True)
    with pytest.raises(fl.AutogradError, match=r"a gradient of complex64 for tensors\[0\] of float32; expected a real one"):
        (x * 2).backward(fl.ones(2) * 3j)
    with pytest.raises(fl.AutogradError, match="a gradient of float32 .* of complex64; expected a complex one"):
        (z * 2).backward(fl.ones(2))
    assert x.grad is None and z.grad is None
