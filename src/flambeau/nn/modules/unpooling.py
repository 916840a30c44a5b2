"""Layers that put maxima back, pool random windows, or take norms of windows; and channels in another order."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from flambeau._C import Tensor
from flambeau._info import per_axis
from flambeau.nn import functional as F
from flambeau.nn.module import Module
from flambeau.nn.modules.pooling import _LPPoolNd


class _MaxUnpoolNd(Module):
    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        name, n = type(self).__name__, self._fl_axes
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, n)
        stride = self.kernel_size if stride is None else stride
        self.stride = per_axis(name, "stride", stride, n)
        self.padding = per_axis(name, "padding", padding, n)

    _fl_axes = 0

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the maxima of `MaxPool1d(..., return_indices=True)` where they were, among zeros.

    Shape: [N, C, L] or [C, L], and indices of the same shape.
    """

    _fl_axes = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the maxima of `MaxPool2d(..., return_indices=True)` where they were, among zeros.

    Shape: [N, C, H, W] or [C, H, W], and indices of the same shape.

    >>> import flambeau as fl
    >>> x = fl.tensor([[[[1.0, 2.0], [4.0, 3.0]]]])
    >>> top, at = fl.nn.MaxPool2d(2, return_indices=True)(x)
    >>> fl.nn.MaxUnpool2d(2)(top, at)
    tensor([[[[0., 0.],
              [4., 0.]]]])
    """

    _fl_axes = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the maxima of `MaxPool3d(..., return_indices=True)` where they were, among zeros.

    Shape: [N, C, D, H, W] or [C, D, H, W], and indices of the same shape.
    """

    _fl_axes = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class LPPool1d(_LPPoolNd):
    """Power mean over windows.

    Shape: [N, C, L] or [C, L].
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """Power mean over windows.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _FractionalMaxPool(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _fl_axes = 0

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self._fl_axes
        if (output_size is None) == (output_ratio is None):
            if output_size is None:
                raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio (output_size, output_ratio)")
            raise ValueError(f"{name}: only one of output_size and output_ratio may be specified")
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = (int(output_size),) * n if isinstance(output_size, (int, Integral)) else output_size
        self.output_ratio = (output_ratio,) * n if isinstance(output_ratio, float) else output_ratio
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows that begin at random places, so that any size can be reached.

    Shape: [N, C, H, W] or [C, H, W].

    Source: Graham, "Fractional max-pooling", arXiv:1412.6071.
    """

    _fl_axes = 2

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of boxes that begin at random places, so that any size can be reached.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """

    _fl_axes = 3

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class ChannelShuffle(Module):
    """Channels in the order of a transposed [groups, C / groups] table (Zhang et al., "ShuffleNet", CVPR 2018).

    Shape: [N, C, *].
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
