"""Convolutions whose window covers the input are products of matrices: against the same in NumPy, and beside windows that do not."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [(1,), (5,), (1, 1), (4, 4), (3, 7), (1, 6), (2, 3, 2)])
@pytest.mark.parametrize(("images", "channels", "outs"), [(1, 1, 1), (3, 5, 4), (8, 40, 33)])
def test_against_numpy(images, channels, outs, size, dtype):
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(size) - 1]
    a, b, c, g = (RNG.integers(-2, 3, s).astype(np.float64) for s in ((images, channels, *size), (outs, channels, *size), (outs,), (images, outs)))
    x, w, bias = (fl.tensor(v).to(getattr(fl, dtype)).requires_grad_() for v in (a, b, c))
    y = conv(x, w, bias)
    assert y.shape == (images, outs) + (1,) * len(size)
    y.backward(fl.tensor(g).to(y.dtype).reshape(y.shape))
    rows, weight = a.reshape(images, -1), b.reshape(outs, -1)
    rtol = 0.02 if dtype == "bfloat16" else 1e-12
    for found, expected in ((y, rows @ weight.T + c), (x.grad, g @ weight), (w.grad, g.T @ rows), (bias.grad, g.sum(0))):
        np.testing.assert_allclose(found.detach().double().numpy().reshape(expected.shape), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("memory_format", [fl.contiguous_format, fl.channels_last])
def test_after_a_convolution_and_transposed(memory_format):
    x = fl.randn(4, 3, 9, 9).to(memory_format=memory_format).requires_grad_()
    first, last, back = fl.randn(16, 3, 3, 3), fl.randn(6, 16, 7, 7), fl.randn(6, 5, 4, 4)

    def net(x, first, last, back):
        return F.conv_transpose2d(F.conv2d(F.conv2d(x, first).relu(), last), back)

    y = net(x, first, last, back)
    (grad,) = fl.autograd.grad(y.sin().sum(), x)
    exact = x.detach().double().requires_grad_()
    z = net(exact, first.double(), last.double(), back.double())
    (expected,) = fl.autograd.grad(z.sin().sum(), exact)
    assert y.shape == (4, 5, 4, 4)
    assert fl.allclose(y.double(), z, rtol=1e-4, atol=1e-3) and fl.allclose(grad.double(), expected, rtol=1e-2, atol=0.5)


def test_windows_that_do_not_cover():
    x, w = fl.randn(2, 4, 5, 5).double(), fl.randn(3, 4, 5, 5).double()
    padded = F.pad(x, (1, 1, 1, 1))
    assert F.conv2d(x, w, padding=1).shape == (2, 3, 3, 3)
    assert fl.allclose(F.conv2d(x, w, padding=1, stride=3), F.conv2d(padded, w, stride=3))
    assert fl.allclose(F.conv2d(x, w[:, :, :3, :3], dilation=2), (x[:, None, :, ::2, ::2] * w[None, :, :, :3, :3]).sum((2, 3, 4))[..., None, None])
    assert fl.allclose(F.conv2d(x, w[:2, :2], groups=2)[:, 0], (x[:, :2] * w[0, :2]).sum((1, 2, 3))[:, None, None])
