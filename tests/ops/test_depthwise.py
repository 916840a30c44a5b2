"""Depthwise convolutions along one axis and over planes, against the same in float64, which have other kernels."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

RNG = np.random.default_rng(3)


def parts(x, w, b, dy, stride, padding, dilation, dtype):
    conv = F.conv1d if x.ndim == 3 else F.conv2d
    x, w, b = (fl.tensor(a).to(dtype).requires_grad_() for a in (x, w, b))
    y = conv(x, w, b, stride, padding, dilation, groups=x.shape[1])
    return [y, *fl.autograd.grad(y, (x, w, b), fl.tensor(dy(y.shape)).to(dtype))]


def check(images, channels, size, window, stride, padding, dilation):
    x, w, b = RNG.standard_normal((images, channels, *size)), RNG.standard_normal((channels, 1, *window)), RNG.standard_normal(channels)
    dys = {}

    def dy(shape):
        return dys.setdefault(tuple(shape), RNG.standard_normal(shape))

    given = (x, w, b, dy, stride, padding, dilation)
    for name, found, exact in zip(("y", "dx", "dw", "db"), parts(*given, fl.float32), parts(*given, fl.float64), strict=True):
        scale = max(1.0, float(exact.detach().abs().max()))
        np.testing.assert_allclose(found.detach().numpy(), exact.detach().numpy(), rtol=0, atol=3e-6 * scale, err_msg=f"{name} {given[4:]}")


@pytest.mark.parametrize("channels", [2, 15, 16, 17, 31, 48])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 7, 8, 31])
def test_lines(channels, window):
    for stride, padding, dilation in ((1, window // 2, 1), (1, 0, 1), (2, window - 1, 1), (3, 1, 2)):
        if 40 + 2 * padding > dilation * (window - 1):
            check(3, channels, (40,), (window,), stride, padding, dilation)


@pytest.mark.parametrize("channels", [16, 17, 40])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (5, 5), (7, 7), (1, 9), (9, 1), (2, 6), (4, 11)])
def test_planes(channels, window):
    for stride, padding, dilation in (((1, 1), (window[0] // 2, window[1] // 2), (1, 1)), ((2, 1), (0, window[1]), (1, 2)), ((1, 3), (window[0] + 3, 2), (2, 1))):
        if all(12 + 2 * p > d * (k - 1) for p, d, k in zip(padding, dilation, window, strict=True)):
            check(2, channels, (12, 14), window, stride, padding, dilation)


@pytest.mark.parametrize("images", [1, 2, 15, 16, 17, 33, 50])
def test_images_in_groups(images):
    check(images, 24, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1))


@pytest.mark.parametrize("size", list(itertools.product((1, 2, 3), (1, 2, 9))))
def test_planes_that_are_smaller_than_the_window(size):
    check(2, 20, size, (5, 5), (1, 1), (2, 2), (1, 1))
    check(2, 20, size, (7, 3), (2, 2), (3, 1), (1, 1))


@pytest.mark.slow
def test_the_same_bits_on_any_number_of_threads():
    code = (
        "import sys, hashlib, flambeau as fl, flambeau.nn.functional as F\n"
        "fl.set_num_threads(int(sys.argv[1])); fl.manual_seed(0)\n"
        "x, w = fl.randn(5, 50, 20, 21, requires_grad=True), fl.randn(50, 1, 5, 5, requires_grad=True)\n"
        "F.conv2d(x, w, padding=2, groups=50).sin().sum().backward()\n"
        "print(hashlib.sha256(w.grad.numpy().tobytes() + x.grad.numpy().tobytes()).hexdigest())"
    )
    found = {subprocess.run([sys.executable, "-c", code, str(n)], capture_output=True, text=True, check=True, env=dict(os.environ)).stdout for n in (1, 2, 3, 4)}
    assert len(found) == 1
