"""Convolutions of random geometry, results and gradients: beside float64, which no kernel of oneDNN computes. Each processor has kernels of its own."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F

EACH = 40


def drawn(rng: random.Random) -> tuple[str, tuple[int, ...], tuple[int, ...], dict]:
    """Name, shapes of input and weight, and further arguments."""
    axes = rng.choice((1, 2, 2, 2, 3))
    turned = rng.random() < 0.25
    groups = rng.choice((1, 1, 1, 1, 2, 16))
    n_in, n_out = (rng.choice((1, 2, 3)) if groups == 16 else rng.choice((1, 3, 8, 16, 20, 32, 40, 48, 80)) for _ in range(2))
    if groups == 16 and rng.random() < 0.6:
        n_in = n_out = 1  # depthwise
    alike = rng.random() < 0.5  # axes
    window, stride, dilation, padding, size = [], [], [], [], []
    for _ in range(axes):
        if not (alike and window):
            k = rng.choice((1, 2, 3, 3, 3, 4, 5, 7))
            s = rng.choice((1, 1, 2, 2, 3, k))
            d = 1 if k == 1 else rng.choice((1, 1, 1, 2, 3, 9))
            p = rng.choice((0, 0, (d * (k - 1) + 1) // 2, rng.randrange(d * (k - 1) + 1)))
            least = max(1, d * (k - 1) + 1 - 2 * p)
            window.append(k), stride.append(s), dilation.append(d), padding.append(p)
            size.append(least + rng.randrange({1: 300, 2: 16, 3: 6}[axes]))
        else:
            for parts in (window, stride, dilation, padding, size):
                parts.append(parts[-1])
    given = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}
    batch = rng.choice((1, 2, 5))
    if turned:  # of what such a convolution makes
        size = [(x + 2 * p - d * (k - 1) - 1) // s + 1 for x, p, d, k, s in zip(size, padding, dilation, window, stride, strict=True)]
        if any((x - 1) * s - 2 * p + d * (k - 1) + 1 < 1 for x, s, p, d, k in zip(size, stride, padding, dilation, window, strict=True)):
            return drawn(rng)
        return f"conv_transpose{axes}d", (batch, n_in * groups, *size), (n_in * groups, n_out, *window), given
    return f"conv{axes}d", (batch, n_in * groups, *size), (n_out * groups, n_in, *window), given


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [fl.float32, fl.bfloat16, fl.float16])
@pytest.mark.parametrize("seed", range(6))
def test_beside_float64(seed, dtype):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    eps = 2e-5 if dtype == fl.float32 else fl.finfo(dtype).eps
    for _ in range(EACH):
        name, sizes, window, given = case = drawn(rng)
        conv = getattr(F, name)

        def made(shape, factor=1.0):
            return (fl.tensor(numbers.standard_normal(shape)) * factor).to(dtype)

        x, w = made(sizes), made(window, np.prod(window[1:]) ** -0.5).requires_grad_()
        if rng.random() < 0.5:  # as another convolution leaves it
            x = getattr(F, f"conv{x.ndim - 2}d")(x, fl.eye(x.shape[1], dtype=dtype).reshape(x.shape[1], x.shape[1], *(1,) * (x.ndim - 2))).detach()
        x.requires_grad_()
        y = conv(x, w, **given)
        dy = made(tuple(y.shape))
        wide = [t.detach().double().requires_grad_() for t in (x, w)]
        exact = conv(*wide, **given)
        pairs = zip([y, *fl.autograd.grad(y, (x, w), dy)], [exact, *fl.autograd.grad(exact, wide, dy.double())], ("y", "dx", "dw"), strict=True)
        for got, want, what in pairs:
            want = want.detach().numpy()
            off = np.abs(got.detach().double().numpy() - want).max()
            assert off <= eps * max(np.abs(want).max(), 1), f"{what} of {case} is off by {off}"
