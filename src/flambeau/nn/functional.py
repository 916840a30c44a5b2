"""`flambeau.nn.functional`: layers without state.

Most names come straight from the op library; this file adds what is a composition of ops, turns
`reduction` and padding words into what the ops take, and refuses what would otherwise broadcast in
silence: a loss between [N, 1] and [N] is an error here, not an [N, N] matrix.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops
from flambeau.amp.autocast_mode import widens
from flambeau.autograd import is_grad_enabled, no_grad

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(op: str, reduction: str) -> int:
    try:
        return _REDUCTIONS[reduction]
    except (KeyError, TypeError):
        raise ValueError(
            f"{op}: reduction = {reduction!r}; expected 'none', 'mean' or 'sum'"
        ) from None


def _same_shape(
    op: str, input: Tensor, target: Tensor, names: tuple[str, str] = ("input", "target")
) -> None:
    if input.shape != target.shape:
        raise ShapeError(
            f"{op}: {names[1]} has shape {list(target.shape)}, but {names[0]} has shape "
            f"{list(input.shape)}; "
            "expected equal shapes (losses do not broadcast: reshape, squeeze or expand one of "
            "them)"
        )


def _reduce(op: str, loss: Tensor, reduction: str) -> Tensor:
    kind = _reduction(op, reduction)
    return loss if kind == 0 else loss.mean() if kind == 1 else loss.sum()


def _weighted_reduce(op: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return _reduce(op, loss, reduction)
    if weight.shape != loss.shape:
        raise ShapeError(
            f"{op}: weight has shape {list(weight.shape)}; expected the input's {list(loss.shape)}"
        )
    weighted = loss * weight
    if _reduction(op, reduction) == 1:
        return weighted.sum() / weight.sum()
    return _reduce(op, weighted, reduction)


def _apply(op: Callable[..., Tensor], x: Tensor, inplace: bool, *args: Any) -> Tensor:
    """op(x, *args), written into `x` with `inplace`.

    What the op keeps for backward is then a copy of `x`, which the write does not reach.
    """
    if not inplace:
        return op(x, *args)
    source = x.clone() if x.requires_grad and is_grad_enabled() else x
    return x.copy_(op(source, *args))


def _batched(
    name: str, op: Callable[..., Any], axes: int, input: Tensor, *args: Any
) -> Any:
    """`op`, which wants a batch axis, for input with or without one; errors speak of `name`."""
    if input.ndim not in (axes + 1, axes + 2):
        letters = ", ".join(("L",) if axes == 1 else ("D", "H", "W")[3 - axes :])
        raise ShapeError(
            f"{name}: input has shape {list(input.shape)}; expected [N, C, {letters}] or [C, {letters}]"
        )
    try:
        if input.ndim == axes + 2:
            return op(input, *args)
        result = op(input.unsqueeze(0), *args)
    except (ValueError, TypeError, RuntimeError) as error:
        # The op may have a name of its own, `max_pool2d_with_indices` for `max_pool2d`.
        text = str(error)
        own = text.partition(":")[0]
        if own == name or not own.isidentifier():
            raise
        raise type(error)(name + text[len(own) :]) from None
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


# ------------------------------------------------------------------------------ linear, convolution

linear: Callable[..., Tensor] = ops.linear


def _convolution(op: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    """`op` with what the table's op leaves to Python: padding by name, and input without a batch axis."""
    name = f"conv{axes}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        if input.ndim == axes + 1:
            return conv(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"{name}: padding = '{padding}'; expected 'same', 'valid' or ints")
            if padding == "valid":
                return op(input, weight, bias, stride, 0, dilation, groups)
            if any(s != 1 for s in ([stride] if isinstance(stride, int) else stride)):
                raise ValueError(f"{name}: padding = 'same' with stride = {stride}; expected stride 1")
            steps = [dilation] * axes if isinstance(dilation, int) else list(dilation)
            totals = [d * (k - 1) for d, k in zip(steps, weight.shape[2:], strict=True)]
            if any(t % 2 for t in totals):  # one element more at the end
                pairs = [side for t in reversed(totals) for side in (t // 2, t - t // 2)]
                return op(ops.constant_pad(input, pairs), weight, bias, 1, 0, dilation, groups)
            return op(input, weight, bias, 1, [t // 2 for t in totals], dilation, groups)
        return op(input, weight, bias, stride, padding, dilation, groups)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Convolution over the last {axes} axes; padding is ints, 'same' or 'valid'.

    Shape:
        input [N, C, ...] or [C, ...], weight [O, C / groups, ...] -> [N, O, ...] or [O, ...].
    """
    return conv


conv1d = _convolution(ops.conv1d, 1)
conv2d = _convolution(ops.conv2d, 2)
conv3d = _convolution(ops.conv3d, 3)
conv_transpose3d: Callable[..., Tensor] = ops.conv_transpose3d


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over one dimension.

    Shape: input [N, C, L] or [C, L], weight [C, out / groups, K].
    """
    return _batched(  # type: ignore[no-any-return]
        "conv_transpose1d", ops.conv_transpose1d, 1, input,
        weight, bias, stride, padding, output_padding, groups, dilation,
    )  # fmt: skip


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution over two dimensions.

    Shape: input [N, C, H, W] or [C, H, W], weight [C, out / groups, KH, KW].
    """
    return _batched(  # type: ignore[no-any-return]
        "conv_transpose2d", ops.conv_transpose2d, 2, input,
        weight, bias, stride, padding, output_padding, groups, dilation,
    )  # fmt: skip


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x1^T W_k x2 + b_k for every output k.

    Shape: input1 [*, I1], input2 [*, I2], weight [O, I1, I2] -> [*, O].

    Raises:
        ValueError: the leading shapes differ or the features do not fit the weight.
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"bilinear: input1 has shape {list(input1.shape)}, input2 {list(input2.shape)}; all "
            "but "
            "the last dimension must agree"
        )
    out, n1, n2 = weight.shape
    if input1.shape[-1] != n1 or input2.shape[-1] != n2:
        raise ShapeError(
            f"bilinear: weight {list(weight.shape)} takes {n1} and {n2} features, but the inputs "
            "have "
            f"{input1.shape[-1]} and {input2.shape[-1]}"
        )
    lead = tuple(input1.shape[:-1])
    x1 = input1.reshape(-1, n1)
    x2 = input2.reshape(-1, n2)
    # [B, O * I2] = x1 [B, I1] @ W [I1, O * I2], then contracted with x2.
    first = ops.matmul(x1, weight.permute(1, 0, 2).reshape(n1, out * n2)).reshape(-1, out, n2)
    result = (first * x2.unsqueeze(1)).sum(-1)
    if bias is not None:
        result = result + bias
    return result.reshape(*lead, out)


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads the last dimensions; `pad` counts from the last one: (left, right, top, bottom, ...).

    Raises:
        ValueError: `mode` is unknown.
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ValueError(
            f"pad: mode = {mode!r}; expected 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if mode == "constant":
        return ops.pad(input, tuple(pad), "constant", 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: value = {value} has no meaning with mode = '{mode}'")
    return ops.pad(input, tuple(pad), mode)


# ------------------------------------------------------------------------------------------ pooling


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, L] or [C, L].
    """
    op = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    stride = kernel_size if stride is None else stride
    return _batched(
        "max_pool1d", op, 1, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    op = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    stride = kernel_size if stride is None else stride
    return _batched(
        "max_pool2d", op, 2, input, kernel_size, stride, padding, dilation, ceil_mode
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, L] or [C, L].
    """
    stride = kernel_size if stride is None else stride
    return _batched(  # type: ignore[no-any-return]
        "avg_pool1d", ops.avg_pool1d, 1, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad,
    )  # fmt: skip


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    stride = kernel_size if stride is None else stride
    rest = () if divisor_override is None else (divisor_override,)
    return _batched(  # type: ignore[no-any-return]
        "avg_pool2d", ops.avg_pool2d, 2, input,
        kernel_size, stride, padding, ceil_mode, count_include_pad, *rest,
    )  # fmt: skip


def _adaptive_size(op: str, input: Tensor, output_size: Any, axes: int) -> tuple[int, ...]:
    sizes = (output_size,) * axes if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if len(sizes) != axes:
        raise ValueError(f"{op}: output_size = {output_size}; expected one int or {axes}")
    return tuple(s if o is None else o for o, s in zip(sizes, input.shape[-axes:]))


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    name = "adaptive_avg_pool1d"
    sizes = _adaptive_size(name, input, output_size, 1)
    return _batched(name, ops.adaptive_avg_pool1d, 1, input, sizes)  # type: ignore[no-any-return]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Mean over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    name = "adaptive_avg_pool2d"
    sizes = _adaptive_size(name, input, output_size, 2)
    return _batched(name, ops.adaptive_avg_pool2d, 2, input, sizes)  # type: ignore[no-any-return]


def _adaptive_max_pool(axes: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{axes}d"
    sizes = _adaptive_size(name, input, output_size, axes)
    op = ops.adaptive_max_pool1d_with_indices if axes == 1 else ops.adaptive_max_pool2d_with_indices
    values, indices = _batched(name, op, axes, input, sizes)
    return (values, indices) if return_indices else values


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size` positions.

    Shape: [N, C, L] -> [N, C, output_size], or both without N.
    """
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over windows chosen so that the result has `output_size`; None keeps an input size.

    Shape: [N, C, H, W] -> [N, C, *output_size], or both without N.
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Power mean (sum |x|^p)^(1/p) over windows.

    Shape: [N, C, H, W] or [C, H, W].
    """
    kh, kw = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    mean = avg_pool2d(input.abs() ** norm_type, (kh, kw), stride, 0, ceil_mode)
    return (mean * (kh * kw)) ** (1.0 / norm_type)


# -------------------------------------------------------------------------------------- activations


def _simple(name: str) -> Callable[..., Tensor]:
    op = getattr(ops, name)

    def activation(input: Tensor, inplace: bool = False) -> Tensor:
        return _apply(op, input, inplace)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"Applies {name} element-wise; `inplace` writes the result into the input."
    return activation


relu6 = _simple("relu6")
selu = _simple("selu")
silu = _simple("silu")
mish = _simple("mish")
hardswish = _simple("hardswish")
hardsigmoid = _simple("hardsigmoid")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, x); `inplace` writes the result into the input."""
    return input.relu_() if inplace else ops.relu(input)


sigmoid: Callable[..., Tensor] = ops.sigmoid
tanh: Callable[..., Tensor] = ops.tanh
gelu: Callable[..., Tensor] = ops.gelu
logsigmoid: Callable[..., Tensor] = ops.logsigmoid
softsign: Callable[..., Tensor] = ops.softsign
tanhshrink: Callable[..., Tensor] = ops.tanhshrink
softshrink: Callable[..., Tensor] = ops.softshrink
hardshrink: Callable[..., Tensor] = ops.hardshrink
softplus: Callable[..., Tensor] = ops.softplus
prelu: Callable[..., Tensor] = ops.prelu
glu: Callable[..., Tensor] = ops.glu


def relu_(input: Tensor) -> Tensor:
    """relu into the input itself."""
    return input.relu_()


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """max(0, x) + negative_slope * min(0, x)."""
    return _apply(ops.leaky_relu, input, inplace, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x) - 1)).

    Source: Clevert et al. 2015.
    """
    return _apply(ops.elu, input, inplace, alpha)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """leaky_relu into the input itself."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """elu into the input itself."""
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Source: Barron 2017.
    """
    return _apply(ops.celu, input, inplace, alpha)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamps to [min_val, max_val]."""
    return _apply(ops.hardtanh, input, inplace, min_val, max_val)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else `value`."""
    return _apply(ops.threshold, input, inplace, threshold, value)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """hardtanh into the input itself."""
    return hardtanh(input, min_val, max_val, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu into the input itself."""
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """selu into the input itself."""
    return selu(input, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """threshold into the input itself."""
    return _apply(ops.threshold, input, True, threshold, value)


def _softmax_dim(op: str, dim: int | None, ndim: int) -> int:
    if dim is None:
        dim = 0 if ndim in (0, 1, 3) else 1
        warnings.warn(f"{op}: dim was not given and became {dim}; pass dim=", stacklevel=4)
    return dim


def softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
    dim = _softmax_dim("softmax", dim, input.dim())
    return ops.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """log(softmax(x)) along `dim`, computed without the detour."""
    dim = _softmax_dim("log_softmax", dim, input.dim())
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim)


def softmin(input: Tensor, dim: int | None = None, dtype: Any = None) -> Tensor:
    """softmax(-x) along `dim`."""
    return softmax(-input, dim, dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1, generator: Any = None
) -> Tensor:
    """Draws from the Gumbel-softmax distribution; `hard` gives one-hot with the soft gradient.

    Source: Jang et al. 2016, eq. 1.
    """
    uniform = ops.empty_like(logits).exponential_(generator=generator)
    soft = ops.softmax((logits - uniform.log()) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = ops.zeros_like(logits).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


# ------------------------------------------------------------------------------------ normalisation


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel over the batch (training) or with the running statistics.

    Shape: [N, C, *].

    Raises:
        ValueError: training with one value per channel.

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """
    if training and input.numel() == input.shape[1] and input.numel() > 0:
        raise ValueError(
            f"batch_norm: training needs more than one value per channel, but input has shape "
            f"{list(input.shape)} (use a larger batch or .eval())"
        )
    return ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel of every sample over its positions.

    Shape: [N, C, *].

    Source: Ulyanov et al. 2016.
    """
    if not use_input_stats:
        return ops.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = input.shape[:2]
    positions = math.prod(input.shape[2:])
    if positions == 1:
        raise ValueError(
            f"instance_norm: needs more than one position per channel, but input has shape "
            f"{list(input.shape)}"
        )
    if running_mean is not None and running_var is not None:
        with no_grad():
            flat = input.detach().reshape(n, c, positions)
            mean = flat.mean(-1).mean(0)
            var = flat.var(-1).mean(0)
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_(var.to(running_var.dtype), alpha=momentum)
    return ops.group_norm(input, c, weight, bias, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises over the last dimensions.

    Source: Ba et al. 2016, eq. 4.
    """
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises groups of channels of every sample.

    Shape: [N, C, *].

    Source: Wu and He 2018.
    """
    return ops.group_norm(input, num_groups, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root mean square over the last dimensions.

    Source: Zhang and Sennrich 2019, eq. 4.
    """
    return ops.rms_norm(input, tuple(normalized_shape), weight, eps)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm(x), eps) along `dim`."""
    return input / ops.norm(input, p, dim, keepdim=True).clamp(min=eps)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divides by a local sum of squares over `size` neighbouring channels.

    Source: Krizhevsky et al. 2012, section 3.3.
    """
    n, c = input.shape[:2]
    flat = (input * input).reshape(n, 1, c, -1)
    padded = ops.pad(flat, (0, 0, size // 2, (size - 1) // 2), "constant", 0)
    mean = ops.avg_pool2d(padded, (size, 1), 1, 0, False, True).reshape(input.shape)
    return input / (mean * alpha + k) ** beta


# ------------------------------------------------------------------------------------------ dropout


def _check_p(op: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{op}: p = {p}; expected a probability, 0 <= p <= 1")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability `p` and divides the rest by 1 - p.

    Raises:
        ValueError: `p` is no probability.

    Source: Srivastava et al. 2014.
    """
    _check_p("dropout", p)
    return _apply(ops.dropout, input, inplace and training, p, training)


def _feature_dropout(op: str, x: Tensor, p: float, training: bool, inplace: bool, n: int) -> Tensor:
    _check_p(op, p)
    if n == 2 and x.dim() == 2:
        warnings.warn(
            f"{op}: input has shape {list(x.shape)}; its elements are dropped one by one (dropout "
            "says so, [N, C, H, W] or [C, H, W] drops channels)",
            stacklevel=3,
        )
        return dropout(x, p, training, inplace)
    if x.dim() not in (n + 1, n + 2):
        raise ShapeError(f"{op}: input has shape {list(x.shape)}; expected {n + 1} or {n + 2} dims")
    if not training or p == 0.0:
        return x
    lead = x.dim() - n
    mask = ops.dropout(ops.ones_like(x[(slice(None),) * lead + (slice(0, 1),) * n]), p, True)
    return _apply(ops.mul, x, inplace, mask.detach())


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of [N, C, L] or [C, L]."""
    return _feature_dropout("dropout1d", input, p, training, inplace, 1)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of [N, C, H, W] or [C, H, W]."""
    return _feature_dropout("dropout2d", input, p, training, inplace, 2)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks.

    Source: Klambauer et al. 2017, section 3.
    """
    _check_p("alpha_dropout", p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return _apply(ops.mul, input, inplace, 0.0)
    saturated = -1.7580993408473766  # -lambda * alpha of SELU
    a = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * saturated**2))
    b = -a * saturated * p
    keep = (ops.rand_like(input) >= p).to(input.dtype)
    result = (input * keep + (1.0 - keep) * saturated) * a + b
    return input.copy_(result) if inplace else result


# ---------------------------------------------------------------------------------------- embedding


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Looks up rows of `weight`; the row `padding_idx` gets no gradient.

    Shape: input [*] of int, weight [V, D] -> [*, D].

    Raises:
        ValueError: `padding_idx` is out of range, or `sparse=True`.
    """
    if sparse:
        raise ValueError("embedding: sparse = True; gradients are dense here, use sparse=False")
    n = weight.shape[0]
    if padding_idx is None:
        row = -1
    elif -n <= padding_idx < n:
        row = padding_idx % n
    else:
        raise ValueError(f"embedding: padding_idx = {padding_idx}, but weight has {n} rows")
    if max_norm is not None:
        with no_grad():
            used = ops.unique_sorted(input.reshape(-1))[0]
            rows = weight.detach()[used]
            norms = ops.norm(rows, norm_type, 1, keepdim=True)
            scale = ops.where(norms > max_norm, max_norm / (norms + 1e-7), ops.ones_like(norms))
            weight.detach()[used] = rows * scale
    result = ops.embedding(weight, input, row)
    if scale_grad_by_freq and result.requires_grad:
        counts = ops.bincount(input.reshape(-1), minlength=n)[input].to(result.dtype)
        fixed = result.detach()
        result = fixed + (result - fixed) / counts.unsqueeze(-1)
    return result


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Rows of zeros with a one at each index; -1 classes means one more than the largest index.

    Shape:
        tensor int64 [*] -> int64 [*, num_classes].
    """
    if num_classes == -1:
        if tensor.numel() == 0:
            raise ValueError("one_hot: num_classes can not be inferred from an empty tensor; give it")
        num_classes = int(tensor.max().item()) + 1
    return ops.one_hot(tensor, num_classes)


# ------------------------------------------------------------------------------------------- losses


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log of the softmax probability of the target class.

    Shape: input [C], [N, C] or [N, C, *]; target class indices without the C dimension, or class
    probabilities of the input's shape.

    Raises:
        ValueError: the shapes do not fit, or `label_smoothing` is outside [0, 1].
    """
    kind = _reduction("cross_entropy", _legacy(size_average, reduce, reduction))
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing = {label_smoothing}; expected 0 to 1")
    if not target.is_floating_point():
        return ops.cross_entropy(input, target, weight, kind, ignore_index, label_smoothing)
    return _cross_entropy_of_shares(input, target, weight, kind, label_smoothing)


@widens
def _cross_entropy_of_shares(input: Tensor, target: Tensor, weight: Tensor | None, kind: int, label_smoothing: float) -> Tensor:
    _same_shape("cross_entropy (class probabilities)", input, target)
    dim = 0 if input.dim() == 1 else 1
    n_classes = input.shape[dim]
    if label_smoothing > 0.0:
        target = target * (1.0 - label_smoothing) + label_smoothing / n_classes
    log_p = ops.log_softmax(input, dim)
    if weight is not None:
        log_p = log_p * weight.reshape((n_classes,) + (1,) * (input.dim() - 1 - dim))
    loss = -(log_p * target).sum(dim)
    if kind == 1:
        return loss.sum() / max(loss.numel(), 1)
    return loss if kind == 0 else loss.sum()


@widens
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood from log probabilities.

    Shape: input [C], [N, C] or [N, C, *]; target the same without C.
    """
    kind = _reduction("nll_loss", _legacy(size_average, reduce, reduction))
    return ops.nll_loss(input, target, weight, kind, ignore_index)


def _legacy(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


@widens
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)^2.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    _same_shape("mse_loss", input, target)
    reduction = _legacy(size_average, reduce, reduction)
    if weight is None:
        return ops.mse_loss(input, target, _reduction("mse_loss", reduction))
    diff = input - target
    return _weighted_reduce("mse_loss", diff * diff, weight, reduction)


@widens
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    _same_shape("l1_loss", input, target)
    reduction = _legacy(size_average, reduce, reduction)
    return _weighted_reduce("l1_loss", (input - target).abs(), weight, reduction)


@widens
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2.

    Source: Girshick 2015, "Fast R-CNN", eq. 3.
    """
    _same_shape("smooth_l1_loss", input, target)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta = {beta}; expected beta >= 0")
    reduction = _legacy(size_average, reduce, reduction)
    d = (input - target).abs()
    if beta == 0:
        return _reduce("smooth_l1_loss", d, reduction)
    loss = ops.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta)
    return _reduce("smooth_l1_loss", loss, reduction)


@widens
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """d^2 / 2 where d = |input - target| < delta, else delta * (d - delta / 2).

    Source: Huber 1964.
    """
    _same_shape("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta = {delta}; expected delta > 0")
    d = (input - target).abs()
    loss = ops.where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta)
    return _weighted_reduce("huber_loss", loss, weight, reduction)


@widens
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) for probabilities x.

    Raises:
        ValueError: the shapes differ (nothing is broadcast), or an input or target is outside
        [0, 1].
    """
    _same_shape("binary_cross_entropy", input, target)
    kind = _reduction("binary_cross_entropy", _legacy(size_average, reduce, reduction))
    if weight is not None and weight.shape != input.shape:
        weight = weight.expand(input.shape)
    return ops.binary_cross_entropy(input, target, weight, kind)


@widens
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), stable for large |input|.

    Raises:
        ValueError: the shapes differ (nothing is broadcast).
    """
    op = "binary_cross_entropy_with_logits"
    _same_shape(op, input, target)
    kind = _reduction(op, _legacy(size_average, reduce, reduction))
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, kind)


@widens
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log target - input), the input being log probabilities.

    `reduction='batchmean'` divides the sum by the batch size, which is the mathematical value.
    """
    _same_shape("kl_div", input, target)
    reduction = _legacy(size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        positive = target > 0
        safe = ops.where(positive, target, ops.ones_like(target))
        entropy = ops.where(positive, target * safe.log(), ops.zeros_like(target))
        loss = entropy - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0]
    if reduction not in _REDUCTIONS:
        raise ValueError(
            f"kl_div: reduction = {reduction!r}; expected 'none', 'batchmean', 'mean' or 'sum'"
        )
    if reduction == "mean":
        warnings.warn(
            "kl_div: reduction = 'mean' divides by all elements; 'batchmean' is the KL divergence",
            stacklevel=2,
        )
    return _reduce("kl_div", loss, reduction)


@widens
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a Poisson distribution with rate exp(input) (or input)."""
    _same_shape("poisson_nll_loss", input, target)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        big = target > 1
        safe = ops.where(big, target, ops.ones_like(target))
        stirling = safe * safe.log() - safe + 0.5 * (safe * (2 * math.pi)).log()
        loss = loss + ops.where(big, stirling, ops.zeros_like(target))
    return _reduce("poisson_nll_loss", loss, reduction)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`; the shapes broadcast."""
    n1 = ops.norm(x1, 2, dim, keepdim=True).clamp(min=eps)
    n2 = ops.norm(x2, 2, dim, keepdim=True).clamp(min=eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """|x1 - x2 + eps|_p along the last dimension."""
    return ops.norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


@widens
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    Shape: inputs [N, D] or [D], target [N] or [].
    """
    _same_shape("cosine_embedding_loss", input1, input2, ("input1", "input2"))
    lead = tuple(input1.shape[:-1])
    if tuple(target.shape) != lead or input1.dim() not in (1, 2):
        raise ShapeError(
            f"cosine_embedding_loss: inputs have shape {list(input1.shape)}, target "
            f"{list(target.shape)}; expected [N, D] with [N], or [D] with []"
        )
    eps = 1e-12  # under the root, as the squared norms are what is multiplied
    dot = (input1 * input2).sum(-1)
    m1 = (input1 * input1).sum(-1) + eps
    m2 = (input2 * input2).sum(-1) + eps
    cos = dot / (m1 * m2).sqrt()
    zero = ops.zeros_like(cos)
    loss = ops.where(target == 1, 1 - cos, zero)
    loss = loss + ops.where(target == -1, (cos - margin).clamp(min=0), zero)
    return _reduce("cosine_embedding_loss", loss, _legacy(size_average, reduce, reduction))


@widens
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (x1 - x2) + margin)."""
    _same_shape("margin_ranking_loss", input1, input2, ("input1", "input2"))
    _same_shape("margin_ranking_loss", input1, target, ("input1", "target"))
    loss = (margin - target * (input1 - input2)).clamp(min=0)
    return _reduce("margin_ranking_loss", loss, _legacy(size_average, reduce, reduction))


@widens
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """x where target is 1, max(0, margin - x) where it is -1."""
    _same_shape("hinge_embedding_loss", input, target)
    zero = ops.zeros_like(input)
    loss = ops.where(target == 1, input, zero)
    loss = loss + ops.where(target == -1, (margin - input).clamp(min=0), zero)
    return _reduce("hinge_embedding_loss", loss, reduction)


@widens
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * x))."""
    _same_shape("soft_margin_loss", input, target)
    return _reduce("soft_margin_loss", ops.softplus(-target * input), reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target)^2 / var) / 2; no variance counts as less than `eps`.

    Shape: input and target [N, *]; var the same, with 1 or without an axis in the last place, or
    a number.

    Raises:
        ValueError: the shapes do not fit, or a variance is negative.
    """
    op = "gaussian_nll_loss"
    _same_shape(op, input, target)
    if not isinstance(var, Tensor):
        var = ops.full_like(input.detach(), var, requires_grad=False)
    elif var.shape != input.shape:
        if tuple(var.shape) == tuple(input.shape[:-1]):
            var = var.unsqueeze(-1)
        elif tuple(var.shape) != (*input.shape[:-1], 1):
            raise ShapeError(
                f"{op}: var has shape {list(var.shape)}; expected {list(input.shape)}, 1 in the "
                "last dimension, or no last dimension"
            )
    if var.numel() and not var.is_meta:
        low = var.detach().amin().item()
        if low < 0:
            raise ValueError(f"{op}: var has an element {low:g}; expected variances >= 0")
    with no_grad():
        floor = var.detach().clamp(min=eps) - var.detach()
    var = var + floor
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(op, loss, reduction)


@widens
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin).

    Source: Balntas et al. 2016 (with `swap`, section 3.3).
    """
    _same_shape("triplet_margin_loss", anchor, positive, ("anchor", "positive"))
    _same_shape("triplet_margin_loss", anchor, negative, ("anchor", "negative"))
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = (near - far + margin).clamp(min=0)
    return _reduce("triplet_margin_loss", loss, _legacy(size_average, reduce, reduction))


# ------------------------------------------------------------------------------------------- vision


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


def _pair(op: str, name: str, value: Any) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise ValueError(f"{op}: {name} = {value}; expected one int or two")
    return pair


def _blocks(
    op: str, size: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[tuple[int, int], ...]:
    """(kernel, dilation, padding, stride, how many blocks) of `fold` and `unfold`, as pairs."""
    k, d = _pair(op, "kernel_size", kernel), _pair(op, "dilation", dilation)
    p, s = _pair(op, "padding", padding), _pair(op, "stride", stride)
    spans = [n + 2 * p[i] - d[i] * (k[i] - 1) - 1 for i, n in enumerate(size)]
    if min(*k, *d, *s) < 1 or min(*p, *spans) < 0:
        raise ShapeError(
            f"{op}: kernel_size = {kernel}, dilation = {dilation}, padding = {padding}, stride = "
            f"{stride} do not fit {size[0]} x {size[1]} positions"
        )
    return k, d, p, s, (spans[0] // s[0] + 1, spans[1] // s[1] + 1)


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
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
    n, c, h, w = input.shape
    k, d, p, s, out = _blocks("unfold", (h, w), kernel_size, dilation, padding, stride)
    x = ops.pad(input, (p[1], p[1], p[0], p[0]), "constant", 0) if any(p) else input
    for i in (0, 1):  # [N, C, OH, OW, KH, KW]
        x = x.unfold(2 + i, d[i] * (k[i] - 1) + 1, s[i])
    x = x[..., :: d[0], :: d[1]]
    return x.permute(0, 1, 4, 5, 2, 3).reshape(n, c * k[0] * k[1], out[0] * out[1])


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Adds columns up where `unfold` took them from.

    Shape: [N, C KH KW, windows] -> [N, C, *output_size], or both without N.

    Raises:
        ShapeError: the columns are not those of windows over `output_size`.
    """
    if input.ndim == 2:
        whole = fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride)
        return whole.squeeze(0)
    size = _pair("fold", "output_size", output_size)
    k, d, p, s, out = _blocks("fold", size, kernel_size, dilation, padding, stride)
    area = k[0] * k[1]
    if input.ndim != 3 or input.shape[1] % area or input.shape[2] != out[0] * out[1]:
        raise ShapeError(
            f"fold: input has shape {list(input.shape)}; expected [N, C * {area}, {out[0] * out[1]}] "
            f"for output_size = {output_size}, kernel_size = {kernel_size}"
        )
    n, c = input.shape[0], input.shape[1] // area
    # Every row of a block goes to its own place of the window: a transposed convolution.
    ones = ops.eye(area, dtype=input.dtype).reshape(area, 1, *k)
    more = tuple(size[i] - ((out[i] - 1) * s[i] - 2 * p[i] + d[i] * (k[i] - 1) + 1) for i in (0, 1))
    columns = input.reshape(n * c, area, *out)
    whole = ops.conv_transpose2d(columns, ones, None, s, p, more, 1, d)
    return whole.reshape(n, c, *size)


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


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v (Vaswani et al., NeurIPS 2017, equation 1).

    Without dropout and without a mask that needs a gradient this is one fused op that keeps no T x T matrix.

    Shape:
        query [..., T, D], key [..., S, D], value [..., S, E], mask broadcastable to [..., T, S] -> [..., T, E].
    """
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    composed = dropout_p > 0.0 or (attn_mask is not None and attn_mask.requires_grad)
    if not composed:
        return ops.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale)
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: is_causal=True with an attn_mask; expected one of them")
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.matmul(query * factor, key.transpose(-2, -1))
    if is_causal:
        keep = ops.tril(ops.ones(scores.shape[-2:], dtype=_C.bool))
        scores = scores.masked_fill(~keep, float("-inf"))
    elif attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype is _C.bool else scores + attn_mask
    return ops.matmul(ops.dropout(ops.softmax(scores, -1), dropout_p, True), value)
