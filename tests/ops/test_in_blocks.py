"""What is computed in blocks or by way of other shapes, at sizes that have more than one of them."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau import _C

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize(
    "shape, dim", [((9001,), None), ((3, 5000), 1), ((5000, 3), 0), ((2, 4099, 2), 1), ((40, 3, 120), (0, 2)), ((3, 0), 1), ((), None)], ids=str
)
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
def test_gradient_of_prod(shape, dim, zeros, dtype):
    a = np.asarray(RNG.uniform(0.98, 1.02, shape))
    if a.size > 3:
        a.reshape(-1)[[0, a.size - 1][:zeros]] = 0
    x = fl.tensor(a, dtype=dtype, requires_grad=True)
    y = x.prod() if dim is None else _C.ops.prod(x, [dim] if isinstance(dim, int) else list(dim))
    weights = fl.arange(1, y.numel() + 1, dtype=dtype).reshape(y.shape)
    (y * weights).sum().backward()
    axes = tuple(range(a.ndim)) if dim is None else dim
    values = x.detach().double().numpy()
    plain = np.where(values == 0, 1, values)
    count = (values == 0).sum(axes, keepdims=True)
    product = plain.prod(axes, keepdims=True)
    others = np.where(count == 0, product / plain, np.where((count == 1) & (values == 0), product, 0))
    assert_near(x.grad, others * weights.double().numpy().reshape(product.shape))


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("n", [1, 100, 70_000, 140_000])
def test_largest_and_smallest_integer(name, n):
    limits = np.iinfo(name)
    a = RNG.integers(limits.min + 1, limits.max, n, dtype=name)
    for at in {0, n // 2, n - 1}:
        for value in (limits.min, limits.max):
            b = a.copy()
            b[at] = value
            x = fl.tensor(b)
            assert (x.max().item(), x.min().item()) == (b.max(), b.min())
            assert x.max().dtype is x.dtype


@pytest.mark.parametrize("a, b", [((2, 3), (4, 5)), ((3,), (2,)), ((), (2, 2)), ((), ()), ((2,), (2, 3, 4)), ((2, 1, 3), (1, 2)), ((0, 2), (3, 3)), ((2, 2), (1, 0))], ids=str)
def test_kron(a, b):
    p, q = RNG.standard_normal(a), RNG.standard_normal(b)
    x, y = fl.tensor(p, requires_grad=True), fl.tensor(q, requires_grad=True)
    got = fl.kron(x, y)
    assert_near(got, np.kron(p, q))
    assert got.shape == np.kron(p, q).shape
    if got.numel():
        fl.autograd.gradcheck(fl.kron, (x, y))


@pytest.mark.parametrize("p", [2.0, 3.0])
def test_gradient_of_norms_some_of_which_are_zero(p):
    x = fl.tensor([[3.0, 4.0], [0.0, 0.0], [1e-8, 0.0]], requires_grad=True)
    x.norm(p, 1).sum().backward()
    assert x.grad[1].tolist() == [0.0, 0.0]
    assert x.grad.isfinite().all()
    assert_near(x.grad[2], [1.0, 0.0])


@pytest.mark.parametrize("width", [1, 8, 1024, 1500])
@pytest.mark.parametrize("out", [1, 3])
def test_average_pooling_of_wide_planes(width, out):
    a = RNG.standard_normal((2, 3, 6, width)).astype(np.float32)
    if out > width:
        pytest.skip("no room for as many windows")
    got = fl.nn.functional.adaptive_avg_pool2d(fl.tensor(a), (2, out))
    edges = [(i * width // out, -(-(i + 1) * width // out)) for i in range(out)]
    expected = np.stack([np.stack([a[..., r : r + 3, lo:hi].mean((-2, -1)) for lo, hi in edges], -1) for r in (0, 3)], -2)
    assert_near(got, expected)


@pytest.mark.parametrize("points", [1, 7, 15, 16, 17, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_places_in_pictures(points, dtype, mode, padding):
    """Places outside give 0, and not what an element says that is no number, as one that is none itself does; blocks of all lengths."""
    h, w = 5, 9
    x = RNG.standard_normal((2, 3, h, w))
    x[:, :, 0, 0] = np.nan if padding == "zeros" else x[:, :, 0, 0]
    at = RNG.uniform(-2, 2, (2, 1, points, 2))
    at[..., 0] = np.where(np.abs(at[..., 0] + 1) < 0.4, 0.3, at[..., 0])  # nobody is near the NaN
    at[0, 0, 0] = [np.nan, 0.1]
    at[1, 0, 0] = [1e30, -1e30]
    at[1, 0, -1] = [3.0, 3.0]

    def element(n, c, j, i):
        if padding == "border":
            return x[n, c, min(max(j, 0), h - 1), min(max(i, 0), w - 1)]
        return x[n, c, j, i] if 0 <= j < h and 0 <= i < w else 0.0

    def coordinate(v, size):
        v = ((v + 1) * size - 1) / 2
        v = v if abs(v) < 1e9 else 1e9 if v > 0 else -100.0
        return v if padding == "zeros" else min(max(v, 0.0), size - 1.0)

    wanted = np.zeros((2, 3, 1, points))
    for n in range(2):
        for p in range(points):
            u, v = coordinate(at[n, 0, p, 0], w), coordinate(at[n, 0, p, 1], h)
            for c in range(3):
                if mode == "nearest":
                    wanted[n, c, 0, p] = element(n, c, round(v), round(u))
                    continue
                i, j = int(np.floor(u)), int(np.floor(v))
                a, b = u - i, v - j
                corners = ((j, i, (1 - a) * (1 - b)), (j, i + 1, a * (1 - b)), (j + 1, i, (1 - a) * b), (j + 1, i + 1, a * b))
                wanted[n, c, 0, p] = sum(weight * element(n, c, y, z) for y, z, weight in corners)
    if (mode, padding) == ("bilinear", "zeros"):
        wanted[0, :, 0, 0] = np.nan
    got = fl.nn.functional.grid_sample(fl.tensor(x).to(dtype), fl.tensor(at).to(dtype), mode=mode, padding_mode=padding, align_corners=False)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5, atol=2e-5 if dtype is fl.float32 else 1e-12)
