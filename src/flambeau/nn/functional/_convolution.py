"""Convolutions, the padding before them, and their windows as columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from flambeau._C import (
    ArgumentError,
    DTypeError,
    ShapeError,
    Tensor,
    float32,
    is_autocast_enabled,
    ops,
)
from flambeau._errors import NoTensorError, NotThereError
from flambeau._info import per_axis
from flambeau._no_tensor import CONFUSED, explain, explained, wants_tensors
from flambeau.amp.autocast_mode import _cast
from flambeau.nn.functional._activation import _is_whole
from flambeau.nn.functional._calls import batched

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "pad",
    "unfold",
    "fold",
]


class Convolution(Protocol):
    def __call__(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor: ...


def _convolution(op: Callable[..., Tensor], axes: int) -> Convolution:
    """`op` with what the table's op leaves to Python: padding by name, and input without a batch axis."""
    name = f"conv{axes}d"

    def convolved(
        input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Tensor:
        try:
            return op(input, weight, bias, stride, padding, dilation, groups)
        except DTypeError:
            others = (weight,) if bias is None else (weight, bias)
            if not all(isinstance(t, Tensor) and t.dtype is input.dtype for t in others) or not _is_whole(input) or weight.ndim != axes + 2:
                raise
        return _of_integers(op, axes, input, weight, bias, stride, padding, dilation, groups)

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Tensor:
        try:
            alone = input.unsqueeze(0) if input.ndim == axes + 1 else None
        except AttributeError as error:
            raise explained(error, conv, (input,)) from None
        if alone is not None:
            return conv(alone, weight, bias, stride, padding, dilation, groups).squeeze(0)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ArgumentError(f"{name}: padding = '{padding}'; expected 'same', 'valid' or ints")
            if padding == "valid":
                return convolved(input, weight, bias, stride, 0, dilation, groups)
            if any(s != 1 for s in per_axis(name, "stride", stride, axes)):
                raise ArgumentError(f"{name}: padding = 'same' with stride = {stride}; expected stride 1")
            if not hasattr(weight, "ndim"):
                raise NoTensorError(f"{name}: weight is a {type(weight).__name__}; expected a Tensor")
            if weight.ndim != axes + 2:
                raise ShapeError(f"{name}: weight has shape {list(weight.shape)}; expected {axes + 2} axes")
            steps = per_axis(name, "dilation", dilation, axes)
            totals = [d * (k - 1) for d, k in zip(steps, weight.shape[2:], strict=True)]
            if any(t % 2 for t in totals):  # one element more at the end
                pairs = [side for t in reversed(totals) for side in (t // 2, t - t // 2)]
                return convolved(ops.constant_pad(input, pairs), weight, bias, 1, 0, dilation, groups)
            return convolved(input, weight, bias, 1, [t // 2 for t in totals], dilation, groups)
        return convolved(input, weight, bias, stride, padding, dilation, groups)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Convolution over the last {axes} axes; padding is ints, 'same' or 'valid'.

    Shape:
        input [N, C, ...] or [C, ...], weight [O, C / groups, ...] -> [N, O, ...] or [O, ...].
    """
    return conv


def _of_integers(
    op: Callable[..., Tensor],
    axes: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    """A product of integers for each element of the window: a sum wraps as integers do."""
    floats = [t.to("meta", float32) if t is not None else None for t in (x, weight, bias)]
    shape = op(*floats, stride, padding, dilation, groups).shape  # refuses what does not fit
    name = f"conv{axes}d"
    steps, sides, apart = (per_axis(name, what, v, axes) for what, v in (("stride", stride), ("padding", padding), ("dilation", dilation)))
    x = ops.constant_pad(x, [side for p in reversed(sides) for side in (p, p)])
    x = x.reshape(x.shape[0], groups, weight.shape[1], *x.shape[2:])
    rows = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    sizes = shape[2:]
    made = ops.zeros((groups, rows.shape[1], shape[0] * math.prod(sizes)), dtype=x.dtype, device=x.device)
    for place in itertools.product(*map(range, weight.shape[2:])):
        window = x
        for d, (at, n) in enumerate(zip(place, sizes, strict=True)):
            window = window.narrow(3 + d, at * apart[d], (n - 1) * steps[d] + 1)[(slice(None),) * (3 + d) + (slice(None, None, steps[d]),)]
        columns = window.permute(1, 2, 0, *range(3, 3 + axes)).reshape(groups, rows.shape[2], made.shape[2])
        made += ops.matmul(rows[(..., *place)], columns)
    y = made.reshape(shape[1], shape[0], *sizes).transpose(0, 1).contiguous()
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


conv1d: Convolution = _convolution(ops.conv1d, 1)
conv2d: Convolution = _convolution(ops.conv2d, 2)
conv3d: Convolution = _convolution(ops.conv3d, 3)


def _transposed(op: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    """`op` with input without a batch axis."""
    name = f"conv_transpose{axes}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        dilation: int | Sequence[int] = 1,
    ) -> Tensor:
        return batched(name, op, axes, input, weight, bias, stride, padding, output_padding, groups, dilation)  # type: ignore[no-any-return]

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Transposed convolution over the last {axes} axes.

    Shape:
        input [N, C, ...] or [C, ...], weight [C, O / groups, ...] -> [N, O, ...] or [O, ...].
    """
    return conv


conv_transpose1d = _transposed(ops.conv_transpose1d, 1)
conv_transpose2d = _transposed(ops.conv_transpose2d, 2)
conv_transpose3d = _transposed(ops.conv_transpose3d, 3)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads the last dimensions; `pad` counts from the last one: (left, right, top, bottom, ...).

    Raises:
        ValueError: `mode` is unknown.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.pad(fl.ones(1, 2), (1, 0), value=7.0)
        tensor([[7., 1., 1.]])
    """
    if mode == "constant":
        try:
            return ops.pad(input, tuple(pad), "constant", 0 if value is None else value)
        except CONFUSED as error:
            explain(error, _pad, (input, pad, mode, value))
            raise
    if mode not in ("reflect", "replicate", "circular"):
        raise NotThereError(f"pad: Unrecognised padding mode {mode}; expected 'constant', 'reflect', 'replicate' or 'circular'")
    if value is not None and value != 0:
        raise ArgumentError(f'pad: Padding mode "{mode}" doesn\'t take in value argument, got {value}')
    try:
        if is_autocast_enabled() and (mode == "replicate" or (mode == "reflect" and len(pad) < 6)):  # PyTorch's list has these
            input = _cast(input, float32)
        padded = ops.pad(input, tuple(pad), mode)
        return padded if any(p > 0 for p in pad) else padded.clone()  # of a part, or of all
    except CONFUSED as error:
        explain(error, _pad, (input, pad, mode, value))
        raise


_pad = pad  # `pad` is an argument of it, too


def _blocks(
    op: str, size: Sequence[int], kernel: Any, dilation: int | Sequence[int], padding: int | Sequence[int],
    stride: int | Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """(kernel, dilation, padding, stride, how many blocks) of `fold` and `unfold`, as pairs."""
    k, d = per_axis(op, "kernel_size", kernel, 2), per_axis(op, "dilation", dilation, 2)
    p, s = per_axis(op, "padding", padding, 2), per_axis(op, "stride", stride, 2)
    spans = [n + 2 * p[i] - d[i] * (k[i] - 1) - 1 for i, n in enumerate(size)]
    if min(*k, *d, *s) < 1 or min(*p, *spans) < 0:
        given = f"kernel_size = {kernel}, dilation = {dilation}, padding = {padding}, stride = {stride}"
        if min(*k, *d, *s) < 1 or min(p) < 0:
            raise ShapeError(f"{op}: {given} do not fit {size[0]} x {size[1]} positions")
        blocks = tuple(span // n + 1 for span, n in zip(spans, s))
        raise ShapeError(
            f"{op}: {given} do not fit {size[0]} x {size[1]} positions: calculated shape of the array of sliding blocks as "
            f"{blocks}, but its components must be at least one"
        )
    return k, d, p, s, (spans[0] // s[0] + 1, spans[1] // s[1] + 1)


@wants_tensors
def unfold(
    input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1
) -> Tensor:
    """The windows of a convolution as columns.

    Shape: [N, C, H, W] -> [N, C KH KW, windows], or both without N.

    Raises:
        ShapeError: another number of axes, or windows that do not fit.
    """
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 4:
        raise ShapeError(
            f"unfold: input has shape {list(input.shape)}; expected [N, C, H, W] or [C, H, W]"
        )
    k, d, p, s, _ = _blocks("unfold", input.shape[2:], kernel_size, dilation, padding, stride)
    return ops.im2col(input, k, d, p, s)


@wants_tensors
def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Adds columns up where `unfold` took them from.

    Shape: [N, C KH KW, windows] -> [N, C, *output_size], or both without N.

    Raises:
        ShapeError: the columns are not those of windows over `output_size`.
    """
    if input.ndim == 2:
        whole = fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride)
        return whole.squeeze(0)
    size = per_axis("fold", "output_size", output_size, 2)
    k, d, p, s, out = _blocks("fold", size, kernel_size, dilation, padding, stride)
    area = k[0] * k[1]
    if input.ndim != 3 or input.shape[1] % area or input.shape[2] != out[0] * out[1]:
        what = ""
        if input.ndim == 3:
            what = "expected size of input's dimension 2 to match the calculated number of sliding blocks"
            if input.shape[1] % area:
                what = "Expected size of input's dimension 1 to be divisible by the product of kernel_size"
        raise ShapeError(
            f"fold: {what and what + ': '}input has shape {list(input.shape)}; expected [N, C * {area}, {out[0] * out[1]}] "
            f"for output_size = {output_size}, kernel_size = {kernel_size}"
        )
    return ops.col2im(input, size, k, d, p, s)
