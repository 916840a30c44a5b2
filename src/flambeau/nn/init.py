"""Initial values for parameters, written in place and outside of autograd.

`fan_in` is the number of inputs that meet in one output, `fan_out` the number of outputs one input
reaches: for a weight [out, in, *kernel] they are in * prod(kernel) and out * prod(kernel).
"""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.autograd import no_grad

_GAINS = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


@wants_tensors
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns the factor that keeps the variance through `nonlinearity`.

    Raises:
        ValueError: the name is unknown.

    >>> import flambeau as fl
    >>> round(fl.nn.init.calculate_gain("leaky_relu", 0.2), 4)
    1.3868
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        names = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ValueError(f"calculate_gain: Unsupported nonlinearity {nonlinearity}; expected one of {names}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, "
            f"got shape {list(tensor.shape)}"
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"init: Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode.lower() == "fan_in" else fan_out


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warn("Initializing zero-element tensors is a no-op")
    return True


@wants_tensors
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with U(a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


@wants_tensors
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with N(mean, std^2)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


@wants_tensors
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fills with N(mean, std^2) restricted to [a, b], by the inverse of the distribution
    function.
    """

    def cdf(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warn(f"trunc_normal_: mean = {mean} is more than 2 std = {2 * std} away from [{a}, {b}]; the values may be distributed otherwise")
    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    with no_grad():
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
        tensor.erfinv_()
        tensor.mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(min=a, max=b)


@wants_tensors
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with `val`."""
    with no_grad():
        return tensor.fill_(val)


@wants_tensors
def ones_(tensor: Tensor) -> Tensor:
    """Fills with 1."""
    return constant_(tensor, 1.0)


@wants_tensors
def zeros_(tensor: Tensor) -> Tensor:
    """Fills with 0."""
    return constant_(tensor, 0.0)


@wants_tensors
def eye_(tensor: Tensor) -> Tensor:
    """Makes a 2-D tensor the identity.

    Raises:
        ValueError: the tensor is not 2-D.
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1)
    return tensor


@wants_tensors
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Makes a convolution weight [out, in / groups, *kernel] pass its input through.

    Raises:
        ValueError: not 3 to 5 dimensions, or `out` is not divisible by `groups` >= 1.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"dirac_: Only tensors with 3, 4, or 5 dimensions are supported, got shape {list(tensor.shape)}")
    if groups < 1 or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups, got {tensor.shape[0]} output channels and groups = {groups}")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    if tensor.numel() == 0:
        return tensor
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for i in range(min(per_group, tensor.shape[1])):
                where = (g * per_group + i, i, *centre)
                tensor[where] = 1
    return tensor


@wants_tensors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, eq. 16.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


@wants_tensors
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills with N(0, gain^2 * 2 / (fan_in + fan_out)).

    Source: Glorot and Bengio 2010, eq. 12.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


@wants_tensors
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills with U(-b, b), b = gain * sqrt(3 / fan).

    Source: He et al. 2015, "Delving Deep into Rectifiers", section 2.2.
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


@wants_tensors
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills with N(0, gain^2 / fan).

    Source: He et al. 2015, eq. 10 and 14.
    """
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


@wants_tensors
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fills with a (semi-)orthogonal matrix times `gain`; later dimensions are flattened.

    Source: Saxe et al. 2013, "Exact solutions to the nonlinear dynamics of learning".
    """
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_: Only tensors with 2 or more dimensions are supported, got shape {list(tensor.shape)}")
    if not tensor.is_floating_point():
        raise _C.DTypeError(f"orthogonal_: the tensor is {tensor.dtype}; expected a floating point type")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    cols = tensor.numel() // rows
    with no_grad():
        exact = _C.float64 if tensor.dtype is _C.float64 else _C.float32
        drawn = tensor.new_empty((rows, cols), dtype=exact).normal_(0, 1, generator=generator)
        q, r = ops.linalg_qr(drawn.t() if rows < cols else drawn, "reduced")
        q = ops.mul(q, ops.sign(ops.diagonal(r)))
        tensor.copy_(ops.mul(q.t() if rows < cols else q, gain).reshape(tensor.shape))
    return tensor


@wants_tensors
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a 2-D tensor with N(0, std^2) and sets the share `sparsity` of each column to zero.

    Source: Martens 2010, "Deep learning via Hessian-free optimization".
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: Only tensors with 2 dimensions are supported, got shape {list(tensor.shape)}")
    rows, cols = tensor.shape
    n_zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[ops.randperm(rows, generator=generator, device=tensor.device)[:n_zeros], col] = 0
    return tensor


# ---- the names before 0.4: the same functions, with a warning

OLD_NAMES = ("uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal",
             "orthogonal", "sparse")  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in OLD_NAMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    present = globals()[name + "_"]

    def older(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"nn.init.{name} is the older name of nn.init.{name}_, which writes into the tensor as it does", FutureWarning)
        return present(*args, **kwargs)  # type: ignore[no-any-return]

    older.__name__ = older.__qualname__ = name
    older.__doc__ = f"`{name}_`, by its older name."
    return older
