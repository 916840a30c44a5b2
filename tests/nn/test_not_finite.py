"""Inputs of convolutions that are not finite reach the weight's gradient by the taps that see them, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F


def weight_gradient(x: np.ndarray, dy: np.ndarray, sides: tuple[int, int], stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """As written: elements that meet padding are left out."""
    n, channels, h, w = x.shape
    each, out = channels // groups, dy.shape[1] // groups
    dw = np.zeros((dy.shape[1], each, *sides))
    for o in range(dy.shape[1]):
        for c in range(each):
            for a in range(sides[0]):
                for b in range(sides[1]):
                    for r in range(dy.shape[2]):
                        for q in range(dy.shape[3]):
                            i, j = r * stride - padding + a * dilation, q * stride - padding + b * dilation
                            if 0 <= i < h and 0 <= j < w:
                                dw[o, c, a, b] += (x[:, o // out * each + c, i, j] * dy[:, o, r, q]).sum()
    return dw


@pytest.mark.parametrize("dtype", [fl.float64, fl.float32])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (1, 0, 1, 2), (2, 2, 1, 2)])
@pytest.mark.parametrize("values", [(np.inf,), (np.nan,), (np.inf, -np.inf, np.nan), ()], ids=str)
def test_taps_that_see_it(values, stride, padding, dilation, groups, dtype):
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 4, (2, 4, 7, 8)).astype(np.float64)
    for at, value in zip([(0, 1, 0, 0), (1, 1, 6, 7), (1, 2, 3, 7)], values, strict=False):
        x[at] = value
    w = fl.zeros(6, 4 // groups, 3, 2, dtype=dtype).requires_grad_()
    y = F.conv2d(fl.tensor(x, dtype=dtype), w, None, stride, padding, dilation, groups)
    dy = rng.integers(1, 4, tuple(y.shape)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        exact = weight_gradient(x, dy, (3, 2), stride, padding, dilation, groups)
    np.testing.assert_array_equal(fl.autograd.grad(y, w, fl.tensor(dy, dtype=dtype))[0].numpy(), exact)


def test_all_of_it():
    x, w = fl.full((2, 3, 9, 9), float("nan"), dtype=fl.float64), fl.zeros(4, 3, 3, 3, dtype=fl.float64).requires_grad_()
    assert fl.autograd.grad(F.conv2d(x, w, padding=1).sum(), w)[0].isnan().all()
