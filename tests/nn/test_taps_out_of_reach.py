"""Convolutions some of whose taps see nothing but padding: beside sums over all taps, written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F


def written_out(x, w, dy, stride, padding, dilation, groups):
    """The result, and with `dy` the gradients of x and w, one tap after another over the padded image."""
    images, n_in, *size = x.shape
    n_out, _, *window = w.shape
    out = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(size, padding, dilation, window, stride, strict=True)]
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)]).reshape(images, groups, n_in // groups, *(s + 2 * p for s, p in zip(size, padding, strict=True)))
    taps = w.reshape(groups, n_out // groups, n_in // groups, *window)
    y = np.zeros((images, groups, n_out // groups, *out))
    dy = dy.reshape(y.shape) if dy is not None else np.zeros(y.shape)
    dwide, dw = np.zeros(wide.shape), np.zeros(taps.shape)
    for tap in itertools.product(*map(range, window)):
        seen = (..., *(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride, strict=True)))
        at = (slice(None),) * 3 + tap
        y += np.einsum("ngi...,goi->ngo...", wide[seen], taps[at])
        dwide[seen] += np.einsum("ngo...,goi->ngi...", dy, taps[at])
        dw[at] = np.einsum("ngop,ngip->goi", dy.reshape(*dy.shape[:3], -1), wide[seen].reshape(*wide.shape[:3], -1))
    dx = dwide.reshape(images, n_in, *dwide.shape[3:])[(..., *(slice(p, p + s) for p, s in zip(padding, size, strict=True)))]
    return y.reshape(images, n_out, *out), dx, dw.reshape(w.shape)


# (images, channels, size, window, stride, padding, dilation, groups)
CASES = [
    (2, (32, 48), (1, 1), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (4, (32, 48), (1, 1), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (3, (3, 5), (1, 1), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (2, (32, 32), (9, 7), (3, 3), (1, 1), (12, 12), (12, 12), 1),
    (2, (32, 32), (9, 7), (3, 3), (1, 1), (8, 9), (8, 6), 1),  # along one axis some taps are seen in part
    (1, (16, 32), (9, 20), (5, 3), (1, 2), (10, 1), (5, 1), 1),
    (2, (6, 6), (4, 4), (3, 3), (1, 1), (5, 5), (5, 5), 6),
    (2, (6, 12), (4, 1), (3, 3), (1, 3), (5, 4), (5, 4), 2),
    (1, (4, 4), (2, 2), (2, 2), (7, 7), (3, 3), (1, 1), 1),  # nothing sees the image
    (1, (4, 4), (3, 2), (3, 2), (4, 5), (7, 3), (3, 1), 1),  # the padding of the first tap alone would be below zero
    (2, (32, 16), (5,), (3,), (1,), (6,), (6,), 1),
    (2, (8, 8), (5,), (4,), (2,), (9,), (5,), 8),
    (2, (8, 16), (1, 3, 2), (3, 3, 3), (1, 1, 1), (1, 1, 2), (1, 1, 2), 1),
    (2, (8, 8), (2, 3, 2), (3, 3, 3), (1, 1, 1), (2, 1, 2), (2, 1, 2), 8),
]


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_all_taps(case, dtype):
    images, (n_in, n_out), size, window, stride, padding, dilation, groups = case
    rng = np.random.default_rng(8)
    a, v, b = rng.standard_normal((images, n_in, *size)), rng.standard_normal((n_out, n_in // groups, *window)), rng.standard_normal(n_out)
    x, w, bias = (fl.tensor(t, dtype=dtype).requires_grad_() for t in (a, v, b))
    conv, turned = (getattr(F, name + f"{len(size)}d") for name in ("conv", "conv_transpose"))
    y = conv(x, w, bias, stride, padding, dilation, groups)
    dy = rng.standard_normal(tuple(y.shape))
    expected, dx, dw = written_out(a, v, dy, stride, padding, dilation, groups)
    assert y.shape == expected.shape
    near = {"rtol": 0, "atol": 2e-5 if dtype == fl.float32 else 1e-12}
    np.testing.assert_allclose(y.detach().numpy(), expected + b.reshape(-1, *(1 for _ in size)), **near)
    for got, want in zip(fl.autograd.grad(y, (x, w), fl.tensor(dy, dtype=dtype)), (dx, dw), strict=True):
        np.testing.assert_allclose(got.numpy(), want, **near)
    back = [s - ((o - 1) * t - 2 * p + d * (k - 1) + 1) for s, o, t, p, d, k in zip(size, y.shape[2:], stride, padding, dilation, window, strict=True)]
    if all(0 <= more < max(t, d) for more, t, d in zip(back, stride, dilation, strict=True)):
        got = turned(fl.tensor(dy, dtype=dtype), fl.tensor(v, dtype=dtype), None, stride, padding, back, groups, dilation)
        np.testing.assert_allclose(got.numpy(), dx, **near)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16])
@pytest.mark.parametrize("channels", [1, 32])
def test_huge_dilations(channels, dtype):
    """No buffer is as large as what a window spans, in any kernel."""
    x, w = fl.randn(2, channels, 9, 9).to(dtype).requires_grad_(), fl.randn(32, channels, 3, 3).to(dtype).requires_grad_()
    y = F.conv2d(x, w, padding=1 << 30, dilation=1 << 30)
    alone = F.conv2d(x, w[:, :, 1:2, 1:2])
    fl.testing.assert_close(y, alone, rtol=0, atol=1e-3)
    for got, want in zip(fl.autograd.grad(y.sum(), (x, w)), fl.autograd.grad(alone.sum(), (x, w)), strict=True):
        fl.testing.assert_close(got, want, rtol=0, atol=1e-3)
    with fl.no_grad():
        turned = F.conv_transpose2d(y, w, padding=1 << 30, dilation=1 << 30)
        fl.testing.assert_close(turned, F.conv_transpose2d(alone, w[:, :, 1:2, 1:2]), rtol=0, atol=1e-2)


def test_weights_of_taps_out_of_reach_may_be_anything():
    """What they would multiply is padding: PyTorch's convolutions do not look at it, either."""
    w = fl.full((32, 32, 3, 3), float("nan"))
    w[:, :, 1, 1] = 1
    assert fl.equal(F.conv2d(fl.ones(8, 32, 1, 1), w, padding=1), fl.full((8, 32, 1, 1), 32.0))


def test_gradients_of_gradients():
    x, w = fl.randn(1, 2, 3, 3, dtype=fl.float64).requires_grad_(), fl.randn(2, 2, 3, 3, dtype=fl.float64).requires_grad_()
    fl.autograd.gradgradcheck(lambda x, w: F.conv2d(x, w, padding=4, dilation=4), (x, w))
