"""Normalisations: over the batch, a sample, a group of channels, a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flambeau._C import ArgumentError, ShapeError, Tensor, ops
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain, wants_tensors
from flambeau._out import deliver
from flambeau.autograd import no_grad

__all__ = [
    "batch_norm",
    "instance_norm",
    "layer_norm",
    "group_norm",
    "rms_norm",
    "normalize",
    "local_response_norm",
]


def check_eps(op: str, eps: float, training: bool) -> None:
    """Refuses an eps under which a variance of 0 would be divided by, or a root of a negative number taken."""
    if eps < 0 or (training and eps == 0):
        raise ArgumentError(f"{op}: eps = {eps}; expected eps > 0")


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
    try:
        check_eps("batch_norm", eps, training)
        flat = input.ndim < 2
        single = training and not flat and 0 < input.numel() == input.shape[1]
    except CONFUSED as error:
        explain(error, batch_norm, (input, running_mean, running_var, weight, bias, training, momentum, eps))
        raise
    if flat:
        raise ShapeError(f"batch_norm: input has shape {list(input.shape)}; expected [N, C, *]")
    if single:
        raise ArgumentError(
            f"batch_norm: Expected more than 1 value per channel when training, but input has shape "
            f"{list(input.shape)} (use a larger batch or .eval())"
        )
    return ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@wants_tensors
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

    Raises:
        ValueError: one position per channel, or only one of the running statistics.

    Source: Ulyanov et al. 2016.
    """
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("instance_norm: only one of running_mean and running_var is given; expected both or none")
    if use_input_stats is not True and use_input_stats is not False:
        use_input_stats = switch("instance_norm", "use_input_stats", use_input_stats)
    if not use_input_stats:
        return ops.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = input.shape[:2]
    positions = math.prod(input.shape[2:])
    if positions == 1:
        raise ArgumentError(f"instance_norm: Expected more than 1 spatial element when training, but input has shape {list(input.shape)}")
    if running_mean is not None and running_var is not None and input.numel():
        with no_grad():
            flat = input.detach().reshape(n, c, positions)
            mean = flat.mean(-1).mean(0)
            var = flat.var(-1).mean(0)
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_(var.to(running_var.dtype), alpha=momentum)
    return ops.group_norm(input, c, weight, bias, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises over the last dimensions.

    Source: Ba et al. 2016, eq. 4.
    """
    try:
        return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    except CONFUSED as error:
        explain(error, layer_norm, (input, normalized_shape, weight, bias, eps))
        raise


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
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root mean square over the last dimensions.

    Source: Zhang and Sennrich 2019, eq. 4.
    """
    try:
        return ops.rms_norm(input, tuple(normalized_shape), weight, eps)
    except CONFUSED as error:
        explain(error, rms_norm, (input, normalized_shape, weight, eps))
        raise


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """x / max(norm(x), eps) along `dim`.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.normalize(fl.tensor([[3.0, 4.0]]), dim=1)
        tensor([[0.6000, 0.8000]])
    """
    try:
        result: Tensor = input / ops.norm(input, p, dim, keepdim=True).clamp(min=eps)
    except CONFUSED as error:
        explain(error, normalize, (input, p, dim, eps))
        raise
    return deliver("normalize", result, out)


@wants_tensors
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divides by a local sum of squares over `size` neighbouring channels.

    Raises:
        ValueError: fewer than three axes.

    Source: Krizhevsky et al. 2012, section 3.3.
    """
    if input.ndim < 3:
        raise ArgumentError(f"local_response_norm: Expected 3D or higher dimensionality, [N, C, *]: input has shape {list(input.shape)}")
    if not input.numel():
        return input
    n, c = input.shape[:2]
    flat = (input * input).reshape(n, 1, c, -1)
    padded = ops.pad(flat, (0, 0, size // 2, (size - 1) // 2), "constant", 0)
    mean = ops.avg_pool2d(padded, (size, 1), 1, 0, False, True).reshape(input.shape)
    return input / (mean * alpha + k) ** beta
