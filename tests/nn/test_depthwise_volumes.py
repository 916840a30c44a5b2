"""Depthwise convolutions over three axes, which have kernels of their own, beside sums written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

CASES = [  # sizes, taps, stride, padding, dilation
    ((6, 7, 16), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((5, 6, 33), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    ((6, 5, 9), (1, 3, 5), (1, 2, 3), (0, 2, 4), (1, 1, 1)),
    ((9, 8, 70), (2, 3, 4), (2, 1, 2), (1, 0, 3), (2, 1, 3)),
    ((4, 4, 4), (4, 4, 4), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    ((3, 1, 2), (1, 1, 1), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
    ((2, 2, 5), (3, 3, 3), (1, 1, 1), (5, 4, 6), (1, 2, 1)),
]


def written_out(x, w, b, stride, padding, dilation):
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    taps = w.shape[2:]
    out = [(x.shape[2 + a] - dilation[a] * (taps[a] - 1) - 1) // stride[a] + 1 for a in range(3)]
    y = np.zeros((*x.shape[:2], *out)) + b[:, None, None, None]
    for tap in itertools.product(*map(range, taps)):
        at = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride))
        y += x[(slice(None), slice(None), *at)] * w[:, 0, tap[0], tap[1], tap[2]][:, None, None, None]
    return y


@pytest.mark.parametrize("sizes, taps, stride, padding, dilation", CASES, ids=str)
def test_results_and_gradients(sizes, taps, stride, padding, dilation):
    rng = np.random.default_rng(7)
    x = fl.tensor(rng.standard_normal((2, 5, *sizes)).astype(np.float32), requires_grad=True)
    w = fl.tensor(rng.standard_normal((5, 1, *taps)).astype(np.float32), requires_grad=True)
    b = fl.tensor(rng.standard_normal(5).astype(np.float32), requires_grad=True)
    y = F.conv3d(x, w, b, stride, padding, dilation, groups=5)
    expected = written_out(*(t.detach().double().numpy() for t in (x, w, b)), stride, padding, dilation)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    dy = fl.tensor(rng.standard_normal(y.shape).astype(np.float32))
    y.backward(dy)
    wide = [t.detach().double().requires_grad_() for t in (x, w, b)]  # by another kernel
    F.conv3d(*wide, stride, padding, dilation, groups=5).backward(dy.double())
    for found, exact in zip((x, w, b), wide):
        np.testing.assert_allclose(found.grad.numpy(), exact.grad.numpy(), rtol=2e-5, atol=2e-5)
    with fl.no_grad():  # the data gradient is the transposed convolution
        z = F.conv_transpose3d(dy, w, None, stride, padding, tuple(min(s, d) - 1 for s, d in zip(stride, dilation)), 5, dilation)
        exact = F.conv_transpose3d(dy.double(), w.double(), None, stride, padding, tuple(min(s, d) - 1 for s, d in zip(stride, dilation)), 5, dilation)
    np.testing.assert_allclose(z.numpy(), exact.numpy(), rtol=2e-5, atol=2e-5)


def test_an_infinite_element_stays_with_its_taps_and_threads_change_nothing():
    x, w = fl.randn(2, 6, 8, 9, 37), fl.randn(6, 1, 3, 3, 3)
    x[0, 0, 4, 4, 36] = fl.inf
    x.requires_grad_()
    w.requires_grad_()
    found = []
    before = fl.get_num_threads()
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            y = F.conv3d(x, w, padding=1, groups=6)
            found.append([y, *fl.autograd.grad(y[:, :, :, :, :20].sum(), [x, w])])
    finally:
        fl.set_num_threads(before)
    y, dx, dw = found[0]
    assert int((~y.isfinite()).sum()) == 18  # 3 x 3 rows, the last two columns
    assert bool(dx.isfinite().all()) and bool(dw[1:].isfinite().all())
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_borders_that_are_far_larger_than_the_volume_take_no_memory():
    far = 1 << 20
    x, w = fl.ones(1, 2, 2, 2, 2, requires_grad=True), fl.ones(2, 1, 2, 2, 2, requires_grad=True)
    y = F.conv3d(x, w, padding=far, dilation=2 * far, groups=2)
    assert y.shape == (1, 2, 2, 2, 2) and not y.any()  # every tap is beside the volume
    y.sum().backward()
    assert not x.grad.any() and not w.grad.any()
