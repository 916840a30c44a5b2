"""Gradients of products and running products along any axes, also of zeros, against what their definition says."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

RNG = np.random.default_rng(9)
SHAPES = [((5,), 0), ((7, 3), 0), ((7, 3), 1), ((2, 300), 1), ((300, 2), 0), ((3, 5, 300), 1), ((3, 70, 4), 1), ((130, 6), 1), ((2, 4, 5, 3), (1, 2)), ((2, 4, 5, 3), (0, 2)), ((2, 4, 5, 3), (3, 0)), ((2, 3, 4), None), ((9000,), 0)]


def drawn(shape, zeros):
    x = np.exp(RNG.uniform(-0.3, 0.3, shape)) * RNG.choice([-1, 1], shape)
    if zeros:
        x[RNG.uniform(size=shape) < zeros] = 0
    return x


def others(x, axes):
    """The product of the others of each element, one axis list at a time."""
    axes = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    moved = np.moveaxis(x, axes, range(-len(axes), 0))
    flat = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    n = flat.shape[-1]
    before, after = np.ones_like(flat), np.ones_like(flat)
    for i in range(1, n):
        before[..., i] = before[..., i - 1] * flat[..., i - 1]
        after[..., n - 1 - i] = after[..., n - i] * flat[..., n - i]
    return np.moveaxis((before * after).reshape(moved.shape), range(-len(axes), 0), axes)


@pytest.mark.parametrize("zeros", [0, 0.02, 0.3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_products(shape, dim, dtype, zeros):
    x = fl.tensor(drawn(shape, zeros)).to(getattr(fl, dtype)).requires_grad_()
    a = x.detach().double().numpy()
    for given, turned in ((x, a), (x.transpose(0, -1).contiguous().transpose(0, -1), a)):
        y = given.prod() if dim is None else fl.prod(given, dim) if isinstance(dim, int) else None
        if y is None:  # several axes, one by one
            y = given
            for d in sorted(dim, reverse=True):
                y = y.prod(d)
        g = fl.tensor(RNG.standard_normal(tuple(y.shape))).to(x.dtype)
        (found,) = fl.autograd.grad(y, x, g)
        weight = g.double().numpy()
        axes = tuple(range(a.ndim)) if dim is None else dim if isinstance(dim, tuple) else (dim,)
        expected = others(turned, axes) * np.expand_dims(weight, tuple(sorted(axes)))
        rtol = {"float64": 1e-10, "float32": 2e-5, "bfloat16": 0.1}[dtype]
        np.testing.assert_allclose(found.double().numpy(), expected, rtol=rtol, atol=rtol * max(1e-30, np.abs(expected).max()))


@pytest.mark.parametrize("zeros", [0, 0.05, 0.5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("shape", "dim"), [(s, d) for s, d in SHAPES if isinstance(d, int)])
def test_running_products(shape, dim, dtype, zeros):
    a = drawn(shape, zeros).astype(dtype)
    x = fl.tensor(a, requires_grad=True)
    g = RNG.standard_normal(shape).astype(dtype)
    x.cumprod(dim).backward(fl.tensor(g))
    moved, weight = np.moveaxis(a, dim, -1).astype(np.float64), np.moveaxis(g, dim, -1).astype(np.float64)
    n = moved.shape[-1]
    s, p, expected = np.zeros(moved.shape[:-1]), np.ones(moved.shape[:-1]), np.empty_like(moved)
    for i in reversed(range(n)):
        s = weight[..., i] + (moved[..., i + 1] * s if i + 1 < n else 0)
        expected[..., i] = s
    for i in range(n):
        expected[..., i] *= p
        p = p * moved[..., i]
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(np.moveaxis(x.grad.numpy(), dim, -1), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16])
@pytest.mark.parametrize("op", ["addmm", "addbmm", "baddbmm", "addmv", "addr"])
def test_a_beta_of_nothing_lets_nothing_through(op, dtype):
    """As in PyTorch: NaN of the input neither, whose gradient is zeros."""
    a, b = fl.ones(2, 3, 4, dtype=dtype), fl.ones(2, 4, 5, dtype=dtype)
    given = {"addmm": (a[0], b[0]), "addbmm": (a, b), "baddbmm": (a, b), "addmv": (a[0], b[0, :, 0]), "addr": (a[0, :, 0], b[0, 0])}[op]
    made = {"addmm": a[0] @ b[0], "addbmm": (a @ b).sum(0), "baddbmm": a @ b, "addmv": a[0] @ b[0, :, 0], "addr": fl.outer(a[0, :, 0], b[0, 0])}[op]
    input = fl.full(made.shape, float("nan"), dtype=dtype).requires_grad_()
    y = getattr(fl, op)(input, *given, beta=0)
    assert fl.equal(y, made)
    assert fl.equal(fl.autograd.grad(y.sum(), input)[0], fl.zeros(made.shape, dtype=dtype))
    assert fl.equal(getattr(input.detach(), op + "_")(*given, beta=0, alpha=2), made * 2)
