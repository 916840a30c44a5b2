"""Pictures at other places, and channels in another order."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau._C import (
    ArgumentError,
    ShapeError,
    Tensor,
    call_override,
    float32,
    has_override,
    is_autocast_enabled,
    ops,
)
from flambeau._info import switch
from flambeau._no_tensor import wants_tensors
from flambeau._spelled import spelled
from flambeau._warn import warn
from flambeau.amp.autocast_mode import _cast

__all__ = ["affine_grid", "channel_shuffle", "grid_sample", "native_channel_shuffle"]

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Values at places between elements.

    Args:
        grid: places from -1 to 1, x first; with `align_corners` the ends are the centres of the outer elements, else their edges.
        mode: 'bilinear' (of boxes, trilinear), 'nearest', or 'bicubic' of pictures.
        padding_mode: what lies outside: 'zeros', 'border' (the nearest element) or 'reflection'.

    Shape: input [N, C, H, W], grid [N, H', W', 2] -> [N, C, H', W']; input [N, C, D, H, W], grid [N, D', H', W', 3] -> [N, C, D', H', W'].

    Raises:
        ValueError: another mode or padding_mode.
        ShapeError: shapes that do not fit.

    Source: Jaderberg et al., "Spatial transformer networks", NeurIPS 2015.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
        >>> fl.nn.functional.grid_sample(x, fl.zeros(1, 1, 1, 2), align_corners=True).item()
        1.5
    """
    if type(input) is not type(grid) and has_override(input, grid) and not hasattr(input, "_level") and not hasattr(grid, "_level"):
        # Pictures and places of two classes: what these said of the function is said of all of it.
        options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
        return call_override(grid_sample, (input, grid), options)  # type: ignore[no-any-return]
    if not isinstance(mode, str) or mode not in _MODES:
        raise ArgumentError(f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}")
    if not isinstance(padding_mode, str) or padding_mode not in _PADDINGS:
        raise ArgumentError(f"grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: {padding_mode!r}")
    if is_autocast_enabled():
        input, grid = _cast((input, grid), float32)
    return ops.grid_sample(input, grid, _MODES[mode], _PADDINGS[padding_mode], _corners("grid_sample", align_corners))


def _corners(op: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
            "Please specify align_corners=True if the old behavior is desired"
        )
        return False
    return align_corners if type(align_corners) is bool else switch(op, "align_corners", align_corners)


def _base(n: int, like: Tensor, align_corners: bool) -> Tensor:
    """Places of n elements between -1 and 1, [n]."""
    if n <= 1:
        return ops.zeros(n, dtype=like.dtype, device=like.device)
    ends = ops.linspace(-1, 1, n, dtype=like.dtype, device=like.device)
    return ends if align_corners else ends * ((n - 1) / n)


@wants_tensors
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Grids for `grid_sample`: where affine maps `theta` send the elements of pictures of this size.

    Shape: theta [N, 2, 3], size (N, C, H, W) -> [N, H, W, 2]; theta [N, 3, 4], size (N, C, D, H, W) -> [N, D, H, W, 3].

    Raises:
        ValueError: theta holds no floating point numbers, or has another shape; or a size below 1.
    """
    size, axes = tuple(size), len(size) - 2
    if not theta.is_floating_point():
        raise ArgumentError(f"affine_grid: Expected theta to have floating point type, but got {theta.dtype}")
    if axes not in (2, 3):
        raise NotImplementedError(f"affine_grid only supports 4D and 5D sizes, (N, C, H, W) or (N, C, D, H, W). Got size {size}")
    if tuple(theta.shape) != (size[0], axes, axes + 1):
        raise ArgumentError(
            f"affine_grid: Expected a batch of {axes}D affine matrices of shape {size[0]}x{axes}x{axes + 1} for size {size}. "
            f"Got {list(theta.shape)}"
        )
    if min(size) < 1:
        raise ArgumentError(f"affine_grid: Expected non-zero, positive output size. Got {size}")
    corners = _corners("affine_grid", align_corners)
    if corners and min(size[2:]) == 1:
        warn(
            f"affine_grid: size = {size} has a single element along an axis, which lies in the middle, at 0; "
            "before PyTorch 1.3.0 it lay at -1 with align_corners=True"
        )
    places = ops.ones((*size[2:], axes + 1), dtype=theta.dtype, device=theta.device)
    for d in range(axes):
        shape = [1] * axes
        shape[d] = size[2 + d]
        places[..., axes - 1 - d] = _base(size[2 + d], theta, corners).reshape(shape)
    flat = places.reshape(1, -1, axes + 1).expand(size[0], -1, -1)
    return ops.bmm(flat, theta.transpose(1, 2)).reshape(size[0], *size[2:], axes)


@spelled()
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels in the order of a transposed [groups, C / groups] table.

    Shape: [N, C, *].

    Raises:
        ShapeError: the channels do not divide by groups.

    Source: Zhang et al., "ShuffleNet", CVPR 2018.
    """
    if input.ndim < 3:
        raise ShapeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    n, c = input.shape[:2]
    if groups < 1 or c % groups:
        raise ShapeError(f"channel_shuffle: Number of channels must be divisible by groups. Got {c} channels and {groups} groups")
    rest = -1 if input.numel() else 0  # -1 stands for no number where there are no elements
    if groups in (1, c):  # the order that it has
        return input.clone()
    return input.reshape(n, groups, c // groups, rest).transpose(1, 2).reshape(input.shape)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle` under the name of PyTorch's kernel."""
    return channel_shuffle(input, groups)
