"""Convolutions and transposed convolutions over one, two and three dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor, ops
from flambeau._info import per_axis
from flambeau._warn import warn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

_convs = (F.conv1d, F.conv2d, F.conv3d)  # Note [Functions that programs replace]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _tuple(op: str, name: str, value: Any, n: int) -> tuple[int, ...]:
    if isinstance(value, (tuple, list)) and len(value) == 1:  # as the functions read it
        value = value[0]
    return per_axis(op, name, value, n)


class _ConvNd(Module):
    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels", "kernel_size",
    ]  # fmt: skip
    weight: Parameter
    bias: Parameter | None
    _fl_later = {"padding_mode": "zeros"}
    _fl_n = 0  # axes that the kernel moves along

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | str | Sequence[int],
        dilation: int | Sequence[int],
        transposed: bool,
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not self._fl_n:  # a class of somebody's
            self._fl_n = 1 if isinstance(kernel_size, int) else len(kernel_size)
        name, n = type(self).__name__, self._fl_n
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        if in_channels % groups:
            raise ValueError(f"{name}: in_channels must be divisible by groups, got in_channels = {in_channels} and groups = {groups}")
        if out_channels % groups:
            raise ValueError(f"{name}: out_channels must be divisible by groups, got out_channels = {out_channels} and groups = {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {_PADDING_MODES}, but got padding_mode={padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _tuple(name, "kernel_size", kernel_size, n)
        self.stride = _tuple(name, "stride", stride, n)
        self.dilation = _tuple(name, "dilation", dilation, n)
        self.output_padding = _tuple(name, "output_padding", output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        self.transposed = transposed
        self.padding: Any = padding
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"{name}: Invalid padding string {padding!r}, should be one of 'same' and 'valid', or ints")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(f"{name}: padding='same' is not supported for strided convolutions, got stride {self.stride}")
        else:
            self.padding = _tuple(name, "padding", padding, n)
        # [left, right] per dimension, last dimension first, as F.pad takes it. For other modes than zeros alone, which read `padding`.
        amounts = self._fl_pad_amounts()
        self._reversed_padding_repeated_twice: Any = amounts if isinstance(padding, str) else tuple(amounts)
        shape = (
            (in_channels, out_channels // groups)
            if transposed
            else (out_channels, in_channels // groups)
        )
        self.weight = Parameter(ops.empty(*shape, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _fl_pad_amounts(self) -> list[int]:
        if self.padding == "valid":
            return [0] * (2 * self._fl_n)
        amounts: list[int] = []
        for i in reversed(range(self._fl_n)):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[i], self.padding[i]]
        return amounts

    def reset_parameters(self) -> None:
        """Draws new initial values: U(-k, k), k = 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)
            else:  # memory that nobody wrote otherwise
                init.zeros_(self.bias)

    def _fl_padded(self, input: Tensor) -> tuple[Tensor, Any]:
        """The input with its borders, in another mode than zeros, and the padding that is left to do."""
        return ops.pad(input, tuple(self._reversed_padding_repeated_twice), self.padding_mode), (0,) * self._fl_n

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * self._fl_n:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self._fl_n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self._fl_n:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    # `forward` stands in the classes: asked of `self`, which op it is would cost 3 % of a small call.
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_conv_forward" in vars(cls) and "forward" not in vars(cls):
            cls.forward = _Conv._fl_forward_by_parts  # type: ignore[method-assign,assignment]

    def _fl_forward_by_parts(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution by another weight and bias than the layer's; where a subclass defines it, `forward` calls it."""
        x, padding = (input, self.padding) if self.padding_mode == "zeros" else self._fl_padded(input)
        conv = (F.conv1d, F.conv2d, F.conv3d)[self._fl_n - 1]
        return conv(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution (cross-correlation) over one dimension.

    Shape: [N, C, L] or [C, L]; weight [out_channels, in_channels / groups, K].
    """

    _fl_n = 1

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        bias = p["bias"] if "bias" in p else self.bias
        x, padding = (input, self.padding) if self.padding_mode == "zeros" else self._fl_padded(input)
        conv: Callable[..., Tensor] = F.conv1d
        if conv is _convs[0] and x.ndim == 3 and type(padding) is tuple:
            conv = ops.conv1d  # which wants a batch axis, and numbers
        return conv(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """Convolution (cross-correlation) over two dimensions.

    `padding` takes ints, 'same' or 'valid'; `padding_mode` is 'zeros', 'reflect', 'replicate' or
    'circular'.

    Shape: [N, C, H, W] or [C, H, W]; weight [out_channels, in_channels / groups, KH, KW].

    Raises:
        ValueError: channels that do not divide by `groups`, unknown padding words, 'same' with a
        stride.

    >>> import flambeau as fl
    >>> fl.nn.Conv2d(3, 8, 3, padding="same")(fl.zeros(2, 3, 10, 10)).shape
    flambeau.Size([2, 8, 10, 10])
    """

    _fl_n = 2

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        bias = p["bias"] if "bias" in p else self.bias
        x, padding = (input, self.padding) if self.padding_mode == "zeros" else self._fl_padded(input)
        conv: Callable[..., Tensor] = F.conv2d
        if conv is _convs[1] and x.ndim == 4 and type(padding) is tuple:
            conv = ops.conv2d  # which wants a batch axis, and numbers
        return conv(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_Conv):
    """Convolution (cross-correlation) over three dimensions; arguments as of `Conv2d`.

    Shape: [N, C, D, H, W] or [C, D, H, W]; weight [out_channels, in_channels / groups, KD, KH, KW].
    """

    _fl_n = 3

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        bias = p["bias"] if "bias" in p else self.bias
        x, padding = (input, self.padding) if self.padding_mode == "zeros" else self._fl_padded(input)
        conv: Callable[..., Tensor] = F.conv3d
        if conv is _convs[2] and x.ndim == 5 and type(padding) is tuple:
            conv = ops.conv3d  # which wants a batch axis, and numbers
        return conv(x, weight, bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        transposed: bool,
        output_padding: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros" or isinstance(padding, str):
            raise ValueError(
                f'{type(self).__name__}: Only "zeros" padding mode is supported, and ints as padding; got '
                f"padding_mode = {padding_mode!r}, padding = {padding!r}"
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(self, input: Tensor, output_size: Any, *of_the_layer: Any) -> tuple[int, ...]:
        # PyTorch's has stride, padding, kernel size, number of axes and dilation behind, which are the layer's own.
        if output_size is None:
            return self.output_padding
        n = self._fl_n
        if len(output_size) not in (n, n + 2):
            many = f"(got {len(output_size)})"
            raise ValueError(f"{type(self).__name__}: output_size must have {n} or {n + 2} elements {many} for {n + 2}D input")
        wanted = tuple(output_size)[-n:]
        extra = []
        for i in range(n):
            smallest = (
                (input.shape[input.dim() - n + i] - 1) * self.stride[i]
                - 2 * self.padding[i]
                + self.dilation[i] * (self.kernel_size[i] - 1)
                + 1
            )
            largest = smallest + self.stride[i] - 1
            if not smallest <= wanted[i] <= largest:
                raise ValueError(
                    f"{type(self).__name__}: requested an output size of {list(wanted)}, but valid sizes range from "
                    f"{smallest} to {largest} in dimension {i} (for an input of shape {list(input.shape)})"
                )
            extra.append(wanted[i] - smallest)
        return tuple(extra)

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        op = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._fl_n - 1]
        extra = self._output_padding(input, output_size)
        return op(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )


class _ConvTransposeMixin(_ConvTransposeNd):
    """PyTorch's old name of `_ConvTransposeNd`, by which packages ask `isinstance`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn("_ConvTransposeMixin is deprecated; derive from ConvTranspose1d, ConvTranspose2d or ConvTranspose3d", FutureWarning)
        super().__init__(*args, **kwargs)


class _ConvTranspose(_ConvTransposeNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip


class ConvTranspose1d(_ConvTranspose):
    """The gradient of Conv1d with respect to its input, as a layer.

    Shape: [N, C, L] or [C, L] -> [N, out_channels, (L - 1) stride - 2 padding + dilation (K - 1) +
    output_padding + 1]; weight [in_channels, out_channels / groups, K].
    """

    _fl_n = 1


class ConvTranspose2d(_ConvTranspose):
    """The gradient of Conv2d with respect to its input, as a layer.

    Shape: [N, C, H, W] or [C, H, W]; weight [in_channels, out_channels / groups, KH, KW].
    """

    _fl_n = 2


class ConvTranspose3d(_ConvTranspose):
    """The gradient of Conv3d with respect to its input, as a layer.

    Shape: [N, C, D, H, W] or [C, D, H, W]; weight [in_channels, out_channels / groups, KD, KH, KW].
    """

    _fl_n = 3
