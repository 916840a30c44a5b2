"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

from flambeau._C import Tensor
from flambeau.nn import functional as F
from flambeau.nn.module import Module


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _fl_function: ClassVar[str]  # looked up in F: Note [Functions that programs replace]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        # With return_indices a pair, which type checkers are not told: it is rare, and unpacked at once.
        pooled: Tensor = getattr(F, self._fl_function)(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )
        return pooled

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maximum over windows.

    Shape: [N, C, L] or [C, L].
    """

    _fl_function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """Maximum over windows; `return_indices` also gives the flat positions.

    Shape: [N, C, H, W] or [C, H, W].

    >>> import flambeau as fl
    >>> fl.nn.MaxPool2d(2)(fl.zeros(1, 3, 8, 8)).shape
    flambeau.Size([1, 3, 4, 4])
    """

    _fl_function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """Maximum over windows; `return_indices` also gives the positions in the flattened [D, H, W].

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """

    _fl_function = "max_pool3d"


def _single(value: Any) -> tuple[int, ...]:
    return (int(value),) if isinstance(value, (int, Integral)) else tuple(value)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Mean over windows.

    Shape: [N, C, L] or [C, L].
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPool(_AvgPoolNd):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
    _fl_function: ClassVar[str]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        pooled: Tensor = getattr(F, self._fl_function)(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )
        return pooled


class AvgPool2d(_AvgPool):
    """Mean over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """

    _fl_function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """Mean over windows.

    Shape: [N, C, D, H, W] or [C, D, H, W].
    """

    _fl_function = "avg_pool3d"
    _fl_later = {"padding": 0, "ceil_mode": False, "count_include_pad": True}


class _AdaptivePool(Module):
    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    __constants__ = ["output_size"]


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean over windows chosen to give `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean over windows chosen to give `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean over windows chosen to give `output_size`; None keeps an input size.

    Shape: [N, C, D, H, W] -> [N, C, *output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(_AdaptivePool):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen to give `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        pooled: Tensor = F.adaptive_max_pool1d(input, self.output_size, self.return_indices)
        return pooled


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen to give `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        pooled: Tensor = F.adaptive_max_pool2d(input, self.output_size, self.return_indices)
        return pooled


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen to give `output_size`; None keeps an input size.

    Shape: [N, C, D, H, W] -> [N, C, *output_size], or both without N.
    """

    def forward(self, input: Tensor) -> Tensor:
        pooled: Tensor = F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
        return pooled


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool2d(_LPPoolNd):
    """Power mean over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)
