"""Activations, and softmax with its relatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from flambeau._C import ArgumentError, DTypeError, Tensor, ops
from flambeau._C import bool as flambeau_bool
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain, explained, wants_tensors
from flambeau._warn import warn

__all__ = [
    "relu6",
    "selu",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "relu",
    "sigmoid",
    "tanh",
    "gelu",
    "logsigmoid",
    "softsign",
    "tanhshrink",
    "softshrink",
    "hardshrink",
    "softplus",
    "prelu",
    "glu",
    "relu_",
    "leaky_relu",
    "elu",
    "leaky_relu_",
    "rrelu",
    "rrelu_",
    "elu_",
    "celu",
    "hardtanh",
    "threshold",
    "hardtanh_",
    "celu_",
    "selu_",
    "threshold_",
    "softmax",
    "log_softmax",
    "softmin",
    "gumbel_softmax",
]


class Activation(Protocol):
    def __call__(self, input: Tensor, inplace: bool = False) -> Tensor: ...


def _simple(name: str) -> Activation:
    op, op_ = getattr(ops, name), getattr(ops, name + "_")

    def activation(input: Tensor, inplace: bool = False) -> Tensor:
        result: Tensor = op_(input) if inplace else op(input)
        return result

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"Applies {name} element-wise; `inplace` writes the result into the input."
    return activation


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, x), 6), element by element; `inplace` writes the result into the input."""
    try:
        return (ops.relu6_ if inplace else ops.relu6)(input)
    except DTypeError:
        if not _is_whole(input):
            raise
    return _hardtanh_of_integers(input, 0, 6, inplace)


selu: Activation = _simple("selu")
silu: Activation = _simple("silu")
mish: Activation = _simple("mish")
hardswish: Activation = _simple("hardswish")
hardsigmoid: Activation = _simple("hardsigmoid")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(0, x); `inplace` writes the result into the input.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.relu(fl.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    try:
        return input.relu_() if inplace else ops.relu(input)
    except AttributeError as error:
        raise explained(error, relu, (input,)) from None


# Functions of Python's where PyTorch has such, though an op does it all: packages keep attributes on them.
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return ops.tanh(input)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return ops.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return ops.tanhshrink(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second.

    Source: Dauphin et al. 2016.
    """
    return ops.glu(input, dim)


gelu: Callable[..., Tensor] = ops.gelu
logsigmoid: Callable[..., Tensor] = ops.logsigmoid
softshrink: Callable[..., Tensor] = ops.softshrink
hardshrink: Callable[..., Tensor] = ops.hardshrink
softplus: Callable[..., Tensor] = ops.softplus
prelu: Callable[..., Tensor] = ops.prelu


def relu_(input: Tensor) -> Tensor:
    """relu into the input itself."""
    try:
        return input.relu_()
    except AttributeError as error:
        raise explained(error, relu_, (input,)) from None


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """max(0, x) + negative_slope * min(0, x)."""
    return (ops.leaky_relu_ if inplace else ops.leaky_relu)(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu with a slope per element, drawn from U(lower, upper) while training and their mean otherwise.

    Raises:
        ValueError: `lower` above `upper`, or one of them no finite number.

    Source: Xu et al. 2015.
    """
    if training is not True and training is not False:
        training = switch("rrelu", "training", training)
    try:
        if not -math.inf < lower <= upper < math.inf:
            raise ArgumentError(
                f"rrelu: Lower bound should be less than or equal to the upper bound, and both finite: lower = {lower}, upper = {upper}"
            )
    except CONFUSED as error:
        explain(error, rrelu, (input, lower, upper, training, inplace))
        raise
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    try:
        plain = input.detach()
    except AttributeError as error:
        raise explained(error, rrelu, (input,)) from None
    slopes = ops.where(plain <= 0, ops.rand_like(plain) * (upper - lower) + lower, 1.0)
    return (ops.mul_ if inplace else ops.mul)(input, slopes)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu into the input itself."""
    return rrelu(input, lower, upper, training, inplace=True)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x) - 1)).

    Source: Clevert et al. 2015.
    """
    return (ops.elu_ if inplace else ops.elu)(input, alpha)


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
    if alpha == 0:
        raise ArgumentError("celu: alpha = 0; alpha cannot be 0 for CELU, which divides by it")
    return (ops.celu_ if inplace else ops.celu)(input, alpha)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamps to [min_val, max_val]."""
    try:
        if min_val > max_val:
            raise ArgumentError(f"hardtanh: min_val = {min_val}, max_val = {max_val}; expected min_val <= max_val")
    except CONFUSED as error:
        explain(error, hardtanh, (input, min_val, max_val, inplace))
        raise
    try:
        return (ops.hardtanh_ if inplace else ops.hardtanh)(input, min_val, max_val)
    except DTypeError:
        if not _is_whole(input):
            raise
    return _hardtanh_of_integers(input, min_val, max_val, inplace)


def _is_whole(input: Tensor) -> bool:
    """Whether it is a tensor of integers."""
    return not input.dtype.is_floating_point and not input.dtype.is_complex and input.dtype is not flambeau_bool


def _hardtanh_of_integers(input: Tensor, min_val: float, max_val: float, inplace: bool) -> Tensor:
    low, high = int(min_val), int(max_val)
    if low < 0 and not input.dtype.is_signed:
        raise ArgumentError(f"hardtanh: min_val = {min_val} of {input.dtype}, which has no numbers below 0; expected min_val >= 0")
    return (ops.clamp_ if inplace else ops.clamp)(input, low, high)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else `value`."""
    return (ops.threshold_ if inplace else ops.threshold)(input, threshold, value)


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
    return ops.threshold_(input, threshold, value)


def _softmax_dim(op: str, dim: int | None, ndim: int) -> int:
    if dim is None:
        dim = 0 if ndim in (0, 1, 3) else 1
        warn(f"{op}: dim was not given and became {dim}; pass dim=")
    return dim


def _check_stacklevel(op: str, stacklevel: Any) -> None:
    """The third position is a number that only warnings would read; a type there was meant for `dtype`, and would be ignored."""
    if not isinstance(stacklevel, int):
        warn(f"{op}: _stacklevel = {stacklevel} has no effect; pass dtype= by its name")


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`.

    `_stacklevel` is ignored, as warnings name the user's line by themselves.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.softmax(fl.zeros(2), dim=0)
        tensor([0.5000, 0.5000])
    """
    _check_stacklevel("softmax", _stacklevel)
    try:
        dim = _softmax_dim("softmax", dim, input.dim())
        return ops.softmax(input if dtype is None else input.to(dtype), dim)
    except CONFUSED as error:
        explain(error, softmax, (input, dim))
        raise


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """log(softmax(x)) along `dim`, computed without the detour; `_stacklevel` is ignored."""
    _check_stacklevel("log_softmax", _stacklevel)
    try:
        dim = _softmax_dim("log_softmax", dim, input.dim())
        return ops.log_softmax(input if dtype is None else input.to(dtype), dim)
    except CONFUSED as error:
        explain(error, log_softmax, (input, dim))
        raise


@wants_tensors
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """softmax(-x) along `dim`; `_stacklevel` is ignored."""
    _check_stacklevel("softmin", _stacklevel)
    return softmax(-input, dim, dtype=dtype)


@wants_tensors
def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draws from the Gumbel-softmax distribution; `hard` gives one-hot with the soft gradient.

    `eps` is deprecated and has no effect.

    Source: Jang et al. 2016, eq. 1.
    """
    if hard is not False and hard is not True:
        hard = switch("gumbel_softmax", "hard", hard)
    if eps != 1e-10:
        warn(f"gumbel_softmax: eps = {eps} is deprecated and has no effect; dim is the fifth argument, or dim=")
    uniform = ops.empty_like(logits).exponential_()
    soft = ops.softmax((logits - uniform.log()) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = ops.zeros_like(logits).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft
