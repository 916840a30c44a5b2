"""Layers that only rearrange: flatten, unflatten, padding, resizing, pixel shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._errors import NotThereError
from flambeau._info import per_axis
from flambeau.nn import functional as F
from flambeau.nn.module import Module


class Flatten(Module):
    """Joins the dimensions start_dim .. end_dim into one.

    >>> import flambeau as fl
    >>> fl.nn.Flatten()(fl.zeros(2, 3, 4)).shape
    flambeau.Size([2, 12])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits the dimension `dim` into `unflattened_size`."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim = {dim!r}; expected an int")
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, (int, Integral)) for n in unflattened_size):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}: {unflattened_size!r}"
            )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class _Pad(Module):
    _fl_n = 0
    _fl_mode = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = per_axis(type(self).__name__, "padding", padding, 2 * self._fl_n)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (n := (self._fl_n + 1, self._fl_n + 2)):
            raise NotThereError(f"{type(self).__name__}: input has shape {list(input.shape)}; expected {n[0]} or {n[1]} axes")
        return F.pad(input, self.padding, self._fl_mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with a value: (left, right)."""

    _fl_n = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with a value: (left, right, top, bottom)."""

    _fl_n = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with a value: (left, right, top, bottom, front, back)."""

    _fl_n = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pads the last three dimensions with zeros."""


class _ReflectionPadNd(_Pad):
    __constants__ = ["padding"]
    _fl_mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads by reflection, without repeating the border."""

    _fl_n = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads by reflection, without repeating the border."""

    _fl_n = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads by reflection, without repeating the border."""

    _fl_n = 3


class _ReplicationPadNd(_Pad):
    __constants__ = ["padding"]
    _fl_mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads by repeating the border."""

    _fl_n = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads by repeating the border."""

    _fl_n = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads by repeating the border."""

    _fl_n = 3


class _CircularPadNd(_Pad):
    __constants__ = ["padding"]
    _fl_mode = "circular"


class CircularPad1d(_CircularPadNd):
    """Pads with what stands at the other end."""

    _fl_n = 1


class CircularPad2d(_CircularPadNd):
    """Pads with what stands at the other end."""

    _fl_n = 2


class CircularPad3d(_CircularPadNd):
    """Pads with what stands at the other end."""

    _fl_n = 3


class Upsample(Module):
    """Resizes to `size` or by `scale_factor`; see `functional.interpolate`."""

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, Real):
            scale_factor = float(scale_factor)
        elif isinstance(scale_factor, (tuple, list)):
            scale_factor = tuple(float(f) for f in scale_factor)
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def __setstate__(self, state: dict[str, Any]) -> None:
        again = None if state.get("scale_factor") is None else True  # as it was before there was the argument
        super().__setstate__({**state, "recompute_scale_factor": state.get("recompute_scale_factor", again)})

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor}, mode={self.mode!r}"
        return f"size={self.size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with mode 'nearest'."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` with mode 'bilinear' and aligned corners."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class _Blocks(Module):
    def __init__(
        self, kernel_size: int | Sequence[int], dilation: int | Sequence[int], padding: int | Sequence[int],
        stride: int | Sequence[int],
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Unfold(_Blocks):
    """The windows of a convolution as columns: [N, C, H, W] -> [N, C KH KW, windows]."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Blocks):
    """Adds columns up where Unfold took them from: [N, C KH KW, windows] -> [N, C, *output_size]."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class PixelShuffle(Module):
    """Moves blocks of channels into space: [*, C r^2, H, W] -> [*, C, H r, W r]."""

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of PixelShuffle."""

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
