"""Gradients of x[i], slices and x[indices] are added to their part of what came before: the values, and that nobody sees it who should not."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl

PARTS = {
    "rows": lambda x: [x[i] for i in range(x.shape[0])],
    "columns": lambda x: [x[:, i] for i in range(x.shape[1])],
    "halves": lambda x: [x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]],
    "overlapping": lambda x: [x[:3], x[1:], x[::2], x[-1], x[:, 1:3]],
    "chunks": lambda x: list(x.chunk(3, 1)),
    "indices": lambda x: [x[fl.tensor([0, 0, 2])], x[fl.tensor([3, -1])], x[:, fl.tensor([1, 1])]],
    "mixed": lambda x: [x[fl.tensor([0, 1]), 1:], x * 2, x[1], x.t()[2], x.sum(0), x[2:4]],
}


def loss(parts):
    return sum(((p * p.sin()).sum() * (k + 1) for k, p in enumerate(parts)), fl.zeros(()))


def numeric(f, a, eps=1e-6):
    grad = np.empty_like(a)
    for at in np.ndindex(a.shape):
        up, down = a.copy(), a.copy()
        up[at] += eps
        down[at] -= eps
        grad[at] = (f(fl.tensor(up)).item() - f(fl.tensor(down)).item()) / (2 * eps)
    return grad


@pytest.mark.parametrize("name", PARTS)
def test_against_differences(name):
    a = np.random.default_rng(0).standard_normal((5, 6))

    def f(x):
        return loss(PARTS[name](x * 1))

    x = fl.tensor(a, requires_grad=True)
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric(f, a), rtol=1e-6, atol=1e-7)
    (again,) = fl.autograd.grad(f(x), x, create_graph=True)  # where sums are recorded and nothing is written
    np.testing.assert_allclose(again.detach().numpy(), x.grad.numpy(), rtol=1e-12)
    (second,) = fl.autograd.grad(again.square().sum(), x)
    assert fl.isfinite(second).all()


@pytest.mark.parametrize("name", PARTS)
def test_of_a_leaf_of_other_types_and_twice(name):
    for dtype in (fl.float32, fl.bfloat16, fl.complex64):
        x = fl.randn(5, 6).to(dtype).requires_grad_()
        whole = x.detach().clone().requires_grad_()
        value = fl.view_as_real(fl.cat([p.flatten() for p in PARTS[name](x)])).sum() if dtype is fl.complex64 else loss(PARTS[name](x))
        other = fl.view_as_real(fl.cat([p.flatten() for p in PARTS[name](whole)])).sum() if dtype is fl.complex64 else loss(PARTS[name](whole))
        value.backward(retain_graph=True)
        first = x.grad.clone()
        value.backward()
        (alone,) = fl.autograd.grad(other, whole)
        assert fl.equal(first, alone) and fl.allclose(x.grad, 2 * first)


def test_what_others_see_is_not_written():
    x = fl.ones(4, 3, requires_grad=True)
    y = x * 1
    kept, seen = [], []
    parts = [y[0], y[1], y[2]]
    parts[0].register_hook(lambda g: kept.append(g))
    y.register_hook(lambda g: seen.append(g.clone()))
    y.retain_grad()
    incoming = fl.full((3,), 2.0)
    fl.autograd.backward([parts[0], parts[1], parts[2], y], [incoming, incoming, incoming, given := fl.ones(4, 3)])
    assert incoming.tolist() == [2.0] * 3 and given.tolist() == [[1.0] * 3] * 4
    assert kept[0].tolist() == [2.0] * 3 and seen[0].tolist() == [[3.0] * 3] * 3 + [[1.0] * 3]
    assert y.grad.tolist() == x.grad.tolist() == seen[0].tolist()


def test_hooks_of_nodes_see_whole_gradients():
    x = fl.ones(4, 3, requires_grad=True)
    y = x * 1
    a, b = y[0], y[1]
    shapes = []
    for part in (a, b):
        part.grad_fn.register_hook(lambda outs, ins: shapes.append([tuple(g.shape) for g in outs]))
    (a.sum() + b.sum()).backward()
    assert shapes == [[(4, 3)]] * 2
    assert x.grad.tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


def test_the_memory_of_a_loop_is_that_of_one():
    x = fl.randn(200, 1000, requires_grad=True)
    total = sum((x[i].sum() for i in range(200)), fl.zeros(()))
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    total.backward()
    assert fl.memory_stats()["peak_allocated_bytes"] - before < 3 * x.numel() * 4
    assert (x.grad == 1).all()
