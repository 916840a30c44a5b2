"""Means of windows that slide by one element, over what is wide enough for vectors and what is not, against sums written out."""

from __future__ import annotations

import pytest

import flambeau as fl
import flambeau.nn.functional as F


def written_out(z, k, stride, padding, ceil, include, n):
    length, parts = z.shape[-1], []
    for o in range(n):
        first = o * stride - padding
        last = min(first + k, length + padding)
        begin, end = max(first, 0), min(first + k, length)
        parts.append(z[..., begin:end].sum(-1) / (last - first if include else end - begin))
    return fl.stack(parts, -1)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("ceil", [True, False])
@pytest.mark.parametrize("length", [5, 8, 9, 17, 40, 900, 1024, 1030])
def test_along_one_axis(length, ceil, include):
    for k, stride, padding in ((1, 1, 0), (2, 1, 1), (3, 1, 1), (25, 1, 12), (25, 1, 0), (4, 2, 1), (7, 3, 3), (length, 1, length // 2)):
        if k > length:
            continue
        x = fl.randn(2, 3, length, requires_grad=True)
        z = x.detach().double().requires_grad_()
        y = F.avg_pool1d(x, k, stride, padding, ceil, include)
        expected = written_out(z, k, stride, padding, ceil, include, y.shape[-1])
        g = fl.randn(*y.shape)
        (dx,), (dz,) = fl.autograd.grad(y, x, g), fl.autograd.grad(expected, z, g.double())
        assert fl.allclose(y.double(), expected, rtol=1e-4, atol=1e-5) and fl.allclose(dx.double(), dz, rtol=1e-4, atol=1e-5), (k, stride, padding)


@pytest.mark.parametrize(("kernel", "padding"), [((3, 7), (1, 3)), ((7, 3), (0, 1)), ((5, 5), (2, 2)), ((1, 9), (0, 0))])
def test_over_planes(kernel, padding):
    x = fl.randn(2, 3, 20, 31, requires_grad=True)
    z = x.detach().double().requires_grad_()
    y = F.avg_pool2d(x, kernel, 1, padding)
    padded = F.pad(z, (padding[1], padding[1], padding[0], padding[0]))
    expected = padded.unfold(2, kernel[0], 1).unfold(3, kernel[1], 1).mean((-1, -2))
    g = fl.randn(*y.shape)
    (dx,), (dz,) = fl.autograd.grad(y, x, g), fl.autograd.grad(expected, z, g.double())
    assert fl.allclose(y.double(), expected, rtol=1e-4, atol=1e-5) and fl.allclose(dx.double(), dz, rtol=1e-4, atol=1e-5)


def test_what_is_not_finite_stays_in_its_windows():
    x = fl.zeros(1, 1, 40)
    x[0, 0, 5], x[0, 0, 20] = float("inf"), float("nan")
    y = F.avg_pool1d(x, 3, 1)[0, 0]
    assert [i for i, v in enumerate(y.tolist()) if v == float("inf")] == [3, 4, 5] and y.isnan().nonzero().flatten().tolist() == [18, 19, 20]


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16])
@pytest.mark.parametrize(("kernel", "padding", "dilation"), [((2, 1), (1, 0), 1), ((2, 3), (1, 1), 1), ((2, 1), (1, 0), (2, 1)), ((3, 1), (1, 0), 1)])
def test_maxima_of_a_plane_of_one_row(kernel, padding, dilation, dtype):
    """Padding makes rows of output that the plane has not; what no window sees is -inf."""
    x = fl.randn(1, 2, 1, 5).to(dtype)
    for z in (x, x.unsqueeze(2)):
        k, p = (kernel, padding) if z.ndim == 4 else ((1, *kernel), (0, *padding))
        d = dilation if z.ndim == 4 or dilation == 1 else (1, *dilation)
        pool = F.max_pool2d if z.ndim == 4 else F.max_pool3d
        lost = fl.full((4000,), float("nan"))
        del lost
        got, want = pool(z, k, 1, p, d), pool(z, k, 1, p, d, return_indices=True)[0]
        assert got.shape == want.shape and fl.equal(got, want)
