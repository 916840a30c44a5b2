"""Positions of pictures: channels moved into space and back, and other sizes."""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops

__all__ = [
    "pixel_shuffle",
    "pixel_unshuffle",
    "interpolate",
    "upsample",
    "upsample_nearest",
    "upsample_bilinear",
]


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Moves blocks of channels into space.

    Shape: [*, C r^2, H, W] -> [*, C, H r, W r].

    Raises:
        ValueError: the channels do not divide by r^2.

    Source: Shi et al. 2016.
    """
    r = upscale_factor
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise ShapeError(
            f"pixel_shuffle: {c} channels (shape {list(input.shape)}) do not divide by "
            f"upscale_factor^2 = {r * r}"
        )
    n = len(lead)
    x = input.reshape(*lead, c // (r * r), r, r, h, w)
    x = x.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`.

    Shape: [*, C, H r, W r] -> [*, C r^2, H, W].
    """
    r = downscale_factor
    *lead, c, h, w = input.shape
    if h % r or w % r:
        raise ShapeError(
            f"pixel_unshuffle: {h} x {w} (shape {list(input.shape)}) does not divide by {r}"
        )
    n = len(lead)
    x = input.reshape(*lead, c, h // r, r, w // r, r)
    x = x.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return x.reshape(*lead, c * r * r, h // r, w // r)


def _interpolation_index(
    n_in: int, n_out: int, scale: float | None, align_corners: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Source positions of linear interpolation: (lower index, upper index, weight of the upper)."""
    i = ops.arange(n_out).to(_C.float64)
    if align_corners:
        pos = i * ((n_in - 1) / (n_out - 1) if n_out > 1 else 0.0)
    else:
        pos = ((i + 0.5) * (1.0 / scale if scale else n_in / n_out) - 0.5).clamp(min=0)
    low = pos.floor().clamp(max=n_in - 1)
    high = (low + 1).clamp(max=n_in - 1)
    return low.to(_C.int64), high.to(_C.int64), pos - low


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """Resizes the positions of [N, C, L] or [N, C, H, W] to `size` or by `scale_factor`.

    Modes: 'nearest', 'nearest-exact', 'linear' (3-D), 'bilinear' (4-D), 'area'.

    Raises:
        ValueError: neither or both of size and scale_factor, or a mode that does not fit.
    """
    n = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give exactly one of size and scale_factor")
    allowed = {1: ("nearest", "nearest-exact", "linear", "area")}
    allowed[2] = ("nearest", "nearest-exact", "bilinear", "area")
    if n not in allowed or mode not in allowed[n]:
        raise ValueError(
            f"interpolate: mode = {mode!r} with input shape {list(input.shape)}; expected "
            f"{allowed.get(n, 'a 3-D or 4-D input')}"
        )
    if align_corners is not None and "linear" not in mode:
        raise ValueError(f"interpolate: align_corners has no meaning with mode = '{mode}'")
    scales: list[float | None] = [None] * n
    if size is None:
        factors = [scale_factor] * n if isinstance(scale_factor, (int, float)) else scale_factor
        sizes = [int(math.floor(s * f)) for s, f in zip(input.shape[2:], factors)]
        if not recompute_scale_factor:
            scales = [float(f) for f in factors]
    else:
        sizes = [size] * n if isinstance(size, int) else list(size)
    if min(*input.shape[2:], *sizes) < 1:
        raise ShapeError(
            f"interpolate: input shape {list(input.shape)} becomes positions {sizes}; expected at least one "
            "along every axis, before and after"
        )
    if mode == "area":
        pool = ops.adaptive_avg_pool1d if n == 1 else ops.adaptive_avg_pool2d
        return pool(input, sizes[0] if n == 1 else tuple(sizes))
    x = input
    for k in range(n):
        dim, n_in, n_out = k + 2, input.shape[k + 2], sizes[k]
        if "linear" in mode:
            low, high, weight = _interpolation_index(n_in, n_out, scales[k], bool(align_corners))
            weight = weight.to(x.dtype).reshape((n_out,) + (1,) * (n - 1 - k))
            x = x.index_select(dim, low) * (1 - weight) + x.index_select(dim, high) * weight
        else:
            half = 0.5 if mode == "nearest-exact" else 0.0
            scale = scales[k]
            step = 1.0 / scale if scale else n_in / n_out
            index = ((ops.arange(n_out).to(_C.float64) + half) * step).floor()
            x = x.index_select(dim, index.clamp(max=n_in - 1).to(_C.int64))
    return x


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode 'nearest'."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode 'bilinear' and aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)
