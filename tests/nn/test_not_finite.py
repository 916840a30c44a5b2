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


def test_places_that_are_no_numbers():
    """A place that is NaN or infinite has no value, but for those that are moved into the picture."""
    nan, inf = float("nan"), float("inf")
    picture = fl.arange(9.0).view(1, 1, 3, 3) + 1
    grid = fl.tensor([[nan, 0.0], [inf, 0.0], [0.0, -inf], [0.0, 0.0], [5.0, 5.0]]).view(1, 1, 5, 2)
    sampled = {
        (mode, padding): F.grid_sample(picture, grid, mode, padding, align_corners=True).flatten().tolist()
        for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection")
    }  # fmt: skip
    lost = [nan, nan, nan, 5.0]
    for mode in ("bilinear", "bicubic"):
        np.testing.assert_array_equal(sampled[mode, "zeros"], [*lost, 0.0])
    np.testing.assert_array_equal(sampled["bicubic", "border"][:4], lost)
    np.testing.assert_array_equal(sampled["nearest", "zeros"], [0.0, 0.0, 0.0, 5.0, 0.0])
    for mode in ("bilinear", "nearest"):
        assert sampled[mode, "border"] == [4.0, 6.0, 2.0, 5.0, 9.0] and sampled[mode, "reflection"][:4] == [4.0, 4.0, 2.0, 5.0]
    volume = F.grid_sample(fl.ones(1, 2, 2, 2, 2), fl.tensor([[nan, 0.0, 0.0], [0.0, 0.0, 0.0]]).view(1, 1, 1, 2, 3), align_corners=True)
    np.testing.assert_array_equal(volume.flatten().tolist(), [nan, 1.0, nan, 1.0])
    x, g = picture.clone().requires_grad_(), grid.clone().requires_grad_()
    F.grid_sample(x, g, align_corners=True)[..., 3:].sum().backward()
    assert x.grad.sum().item() == 1 and g.grad.isfinite().all()


def test_hardswish_of_infinities():
    y = F.hardswish(fl.tensor([-np.inf, -4.0, np.inf])).numpy()
    assert np.isnan(y[0]) and y[1] == 0 and np.signbit(y[1]) and y[2] == np.inf
