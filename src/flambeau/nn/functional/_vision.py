"""Positions of pictures: channels moved into space and back, and other sizes."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from flambeau._C import ArgumentError, ShapeError, Tensor, float32, float64, ops, uint8
from flambeau._errors import NotThereError
from flambeau._from_data import tensor
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain
from flambeau._warn import warn
from flambeau.autograd.modes import inference_mode
from flambeau.nn.functional import _pooling

__all__ = [
    "pixel_shuffle",
    "pixel_unshuffle",
    "interpolate",
    "upsample",
    "upsample_nearest",
    "upsample_bilinear",
]


pixel_shuffle: Callable[..., Tensor] = ops.pixel_shuffle
pixel_unshuffle: Callable[..., Tensor] = ops.pixel_unshuffle

# Which elements are mixed is arithmetic of sizes alone, so it is no op of a graph: NumPy computes it, and the tensors are kept.
_Taps = list[tuple[Any, Any]]  # (index, weight) of elements that are mixed; int64 and float64


def _places(n_in: int, n_out: int, scale: float | None, align_corners: bool) -> Any:
    """Where on the input's axis each output element lies."""
    import numpy as np

    i = np.arange(n_out, dtype=np.float64)
    if align_corners:
        return i * ((n_in - 1) / (n_out - 1) if n_out > 1 else 0.0)
    return (i + 0.5) * (1.0 / scale if scale else n_in / n_out) - 0.5


def _linear_taps(at: Any, n_in: int) -> _Taps:
    """The two elements that linear interpolation mixes."""
    at = at.clip(0)
    low = (at // 1).clip(None, n_in - 1)
    weight = at - low
    return [(low, 1 - weight), ((low + 1).clip(None, n_in - 1), weight)]


def _cubic_taps(at: Any, n_in: int) -> _Taps:
    """The four that cubic convolution mixes (Keys 1981, with a = -0.75); outside of the axis stand its ends."""
    a = -0.75
    low = at // 1
    t = at - low

    def near(x: Any) -> Any:  # |x| <= 1
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:  # 1 < |x| < 2
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    return [((low + k - 1).clip(0, n_in - 1), w) for k, w in enumerate(weights)]


_TAPS = {"linear": _linear_taps, "bilinear": _linear_taps, "trilinear": _linear_taps, "bicubic": _cubic_taps}


def _taps(mode: str, n_in: int, n_out: int, scale: float | None, align_corners: bool) -> _Taps:
    """What each output element of an axis is mixed of; of nearest ones the weight is None."""
    import numpy as np

    if mode in _TAPS:
        return [(index.astype(np.int64), weight) for index, weight in _TAPS[mode](_places(n_in, n_out, scale, align_corners), n_in)]
    half = 0.5 if mode == "nearest-exact" else 0.0
    index = ((np.arange(n_out, dtype=np.float64) + half) * (1.0 / scale if scale else n_in / n_out)) // 1
    return [(index.clip(None, n_in - 1).astype(np.int64), None)]


_MODES = {
    1: ("nearest", "nearest-exact", "linear", "area"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    3: ("nearest", "nearest-exact", "trilinear", "area"),
}


@functools.lru_cache(maxsize=256)
@inference_mode(False)  # who asks later may record gradients
def _mixture(
    mode: str, n_in: int, n_out: int, scale: float | None, align_corners: bool, twice: bool, device: Any
) -> tuple[Tensor, Tensor | None]:
    """`_taps` as indices and weights [taps, n_out]; as indices [n_out] of nearest ones."""
    import numpy as np

    index, weight = zip(*_taps(mode, n_in, n_out, scale, align_corners))
    if mode not in _TAPS:
        return tensor(index[0], device=device), None
    return tensor(np.stack(index), device=device), tensor(np.stack(weight), dtype=float64 if twice else float32, device=device)


def _resized(x: Tensor, dim: int, n_out: int, scale: float | None, mode: str, align_corners: bool) -> Tensor:
    """x with axis `dim` interpolated to n_out elements."""
    dtype = x.dtype
    index, weight = _mixture(mode, x.shape[dim], n_out, scale, align_corners, dtype is float64, x.device)
    if weight is None:
        return x.index_select(dim, index)
    wide = x if dtype in (float32, float64) else x.to(float32)
    y = ops.mix_axis(wide, dim, index, weight)
    return y if y.dtype is dtype else y.to(dtype)


@functools.lru_cache(maxsize=256)
@inference_mode(False)  # who asks later may record gradients
def _antialiased(
    n_in: int, n_out: int, scale: float | None, mode: str, align_corners: bool, twice: bool, device: Any
) -> tuple[Tensor, Tensor]:
    """Indices and weights [taps, n_out] of a filter that is as wide as what a result stands for."""
    import numpy as np

    step = ((n_in - 1) / (n_out - 1) if n_out > 1 else 0.0) if align_corners else n_in / n_out if scale is None else 1.0 / scale
    width = max(step, 1.0)
    reach = width * (1.0 if mode == "bilinear" else 2.0)
    center = step * (np.arange(n_out) + 0.5)
    first = np.maximum(center - reach + 0.5, 0.0).astype(np.int64)
    last = np.minimum(center + reach + 0.5, n_in).astype(np.int64)
    index = first + np.arange(max(int((last - first).max()), 1))[:, None]
    t = np.abs(index - center + 0.5) / width
    if mode == "bilinear":
        weight = 1.0 - t
    else:
        weight = np.where(t < 1.0, (1.5 * t - 2.5) * t * t + 1.0, ((-0.5 * t + 2.5) * t - 4.0) * t + 2.0)
    weight = np.where((index < last) & (t < (1.0 if mode == "bilinear" else 2.0)), weight, 0.0)
    total = weight.sum(0)
    weight /= np.where(total == 0.0, 1.0, total)
    index = np.minimum(index, np.maximum(last - 1, 0))  # what fills a column has weight 0, and is an element that the column has
    return tensor(index, device=device), tensor(weight, dtype=float64 if twice else float32, device=device)


def _filtered(x: Tensor, dim: int, n_out: int, scale: float | None, mode: str, align_corners: bool) -> Tensor:
    """One axis resized by the weights of `_antialiased`."""
    if n_out == x.shape[dim]:
        return x
    wide = x if x.dtype in (float32, float64) else x.to(float32)
    index, weight = _antialiased(x.shape[dim], n_out, scale, mode, align_corners, x.dtype is float64, x.device)
    result = ops.mix_axis(wide, dim, index, weight)
    return result if result.dtype is x.dtype else result.to(x.dtype)


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the positions of [N, C, L], [N, C, H, W] or [N, C, D, H, W] to `size` or by `scale_factor`.

    Modes: 'nearest', 'nearest-exact', 'linear' (3-D), 'bilinear' and 'bicubic' (4-D), 'trilinear' (5-D), 'area'.

    `antialias` (for 'bilinear' and 'bicubic') widens the filter where the result is smaller, so that each of its positions is a mean over
    all that it stands for, as Pillow does it; 'bicubic' then has a = -0.5.

    Raises:
        ValueError: neither or both of size and scale_factor, or a mode that does not fit.

    Source: Keys 1981 for 'bicubic', with a = -0.75.
    """
    try:
        return _interpolated(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    except CONFUSED as error:
        explain(error, interpolate, (input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias))
        raise


def _interpolated(
    input: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Tensor:
    if antialias is not False and antialias is not True:
        antialias = switch("interpolate", "antialias", antialias)
    if align_corners is not None and align_corners is not True and align_corners is not False:
        align_corners = switch("interpolate", "align_corners", align_corners)
    if recompute_scale_factor is not None and recompute_scale_factor is not True and recompute_scale_factor is not False:
        recompute_scale_factor = switch("interpolate", "recompute_scale_factor", recompute_scale_factor)
    have = tuple(input.shape)[2:]
    n = input.dim() - 2
    if (size is None) == (scale_factor is None):
        which = "either size or scale_factor" if size is None else "only one of size or scale_factor"
        raise ArgumentError(f"interpolate: {which} should be defined")
    if recompute_scale_factor and size is not None:
        raise ArgumentError("interpolate: recompute_scale_factor = True has no meaning with a size; give scale_factor, or leave it out")
    if n not in _MODES or mode not in _MODES[n]:
        shape = list(input.shape)
        wants = [at + 2 for at, modes in _MODES.items() if mode in modes]
        if n not in _MODES or not wants:
            modes = " | ".join(dict.fromkeys(itertools.chain(*_MODES.values())))
            raise NotThereError(
                f"interpolate: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: {modes} (got {mode}): shape {shape}"
            )
        raise NotThereError(
            f"interpolate: Got {n + 2}D input, but {mode} mode needs {wants[0]}D input: shape {shape}; "
            f"expected one of {_MODES[n]}"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: Anti-alias option is restricted to bilinear, bicubic modes, got mode = '{mode}'")
    if align_corners is not None and mode not in _TAPS:
        raise ArgumentError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            f"linear | bilinear | bicubic | trilinear (got {mode})"
        )
    for name, value in (("size", size), ("scale_factor", scale_factor)):
        if isinstance(value, (tuple, list)) and len(value) != n:
            which = "output and output size" if name == "size" else "scale_factor and scale_factor"
            first, given = which.split(" and ")
            raise ArgumentError(
                f"interpolate: Input and {first} must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(have)} and {given} of {tuple(value)}; expected a number or {n} of them"
            )
    scales: list[float | None] = [None] * n
    if size is None:
        one = isinstance(scale_factor, (int, float, Real)) or getattr(scale_factor, "ndim", 1) == 0
        factors: Any = [scale_factor] * n if one else scale_factor
        sizes = [int(math.floor(s * f)) for s, f in zip(have, factors)]
        if not recompute_scale_factor:
            scales = [float(f) for f in factors]
    else:
        each: Any = [size] * n if isinstance(size, (int, Integral)) or getattr(size, "ndim", 1) == 0 else list(size)
        sizes = [int(s) if isinstance(s, Tensor) else s for s in each]
    if max(sizes) >= 1 << 31:
        got = f"input shape {list(input.shape)} becomes positions {sizes}"
        raise ShapeError(f"interpolate: {got}; expected fewer than 2**31 along each axis")
    if min(*have, *sizes) < 1:
        raise ShapeError(f"interpolate: Input and output sizes should be greater than 0, but got input {list(have)} output {list(sizes)}")
    if mode == "area":
        pool = (_pooling.adaptive_avg_pool1d, _pooling.adaptive_avg_pool2d, _pooling.adaptive_avg_pool3d)[n - 1]
        return pool(input, tuple(sizes))
    x = input.to(float32) if input.dtype == uint8 and mode in _TAPS else input
    if antialias:
        # Bytes are rounded after each axis, the last one first, as Pillow and PyTorch do it. Else first the one that
        # is cheap and leaves less.
        for k in (0, 1) if input.dtype != uint8 and sizes[0] < x.shape[2] else (1, 0):
            x = _filtered(x, k + 2, sizes[k], scales[k], mode, bool(align_corners))
            x = (x + 0.5).floor().clamp(0, 255) if input.dtype == uint8 else x
        return x.clone() if x is input else x.to(input.dtype)
    if mode != "bicubic" and mode in _TAPS:  # an axis that keeps its size stays as it is, whatever the factor
        scales = [None if after == before else scale for before, after, scale in zip(have, sizes, scales)]
    if mode == "nearest" and n == 2:  # as PyTorch does it with pictures alone: as many elements, or twice as many, whatever the factor
        scales = [None if after in (before, 2 * before) else scale for before, after, scale in zip(have, sizes, scales)]
    for k in range(n):
        x = _resized(x, k + 2, sizes[k], scales[k], mode, bool(align_corners))
    return x if x.dtype is input.dtype else x.round().clamp(0, 255).to(uint8)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The older name of `interpolate`, which a warning tells."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """`interpolate` with mode 'nearest', which a warning tells."""
    warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead")
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with mode 'bilinear' and aligned corners, which a warning tells."""
    warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead")
    return interpolate(input, size, scale_factor, "bilinear", True)
