"""Recurrent layers as functions of their weights, and norms that say the statistics which they divided by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import ShapeError, Tensor, bfloat16, float16, float32, ops
from flambeau._out import takes_out
from flambeau._spelled import spelled
from flambeau.nn import functional as F
from flambeau.nn.modules.rnn import run_layers

__all__ = ["gru", "lstm", "native_batch_norm", "native_group_norm", "native_layer_norm", "rnn_relu", "rnn_tanh"]

_DENSE = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")


def _read(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, of the form for sequences or of that for the data of a `PackedSequence`."""
    packed = "batch_sizes" in kwargs or "data" in kwargs
    if len(args) > 2:  # the parameters are a sequence, and stand third or fourth
        packed = isinstance(args[1], Tensor) and not (name != "lstm" and isinstance(args[2], (tuple, list)))
    names = _PACKED if packed else _DENSE
    given = dict(zip(names, args))
    if len(args) > len(names) or given.keys() & kwargs.keys() or (given.keys() | kwargs.keys()) != set(names):
        wanted = " or ".join(f"({', '.join(form)})" for form in (_DENSE, _PACKED))
        found = f"{len(args)} by position, and {', '.join(sorted(kwargs)) or 'none'} by name"
        raise TypeError(f"{name}() received an invalid combination of arguments: {found}; expected {wanted}")
    return given | kwargs


def _sizes(name: str, batch_sizes: Tensor) -> list[int]:
    if batch_sizes.dim() != 1 or batch_sizes.is_floating_point() or batch_sizes.is_complex():
        given = f"{batch_sizes.dtype} of shape {list(batch_sizes.shape)}"
        raise ShapeError(f"{name}: batch_sizes are {given}; expected integers, one for each step")
    return batch_sizes.tolist()  # type: ignore[no-any-return]


def _layers(mode: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    given = _read(name, args, kwargs)
    packed = "data" in given
    sizes = _sizes(name, given["batch_sizes"]) if packed else None
    x: Tensor = given["data"] if packed else given["input"]
    states = tuple(given["hx"]) if mode == "LSTM" else (given["hx"],)
    projects = mode == "LSTM" and states[0].shape[-1] != states[1].shape[-1]
    directions = 2 if given["bidirectional"] else 1
    per = (4 if given["has_biases"] else 2) + projects
    params, runs = list(given["params"]), given["num_layers"] * directions
    if len(params) != per * runs:
        wanted = f"{per} for each of {given['num_layers']} layers in {directions} directions"
        raise ShapeError(f"{name}: {len(params)} params; expected {wanted}")
    batch_first = not packed and given["batch_first"]
    out, last = run_layers(
        mode, x.transpose(0, 1) if batch_first else x, sizes, states, [params[k * per : (k + 1) * per] for k in range(runs)],
        bool(given["bidirectional"]), projects, given["dropout"] if given["train"] else 0.0,
    )  # fmt: skip
    return out.transpose(0, 1) if batch_first else out, *last


def _function(name: str, mode: str, about: str) -> Callable[..., tuple[Tensor, ...]]:
    def function(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return _layers(mode, name, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{about} as a function of its weights.

    Called as `{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, or with the parts of a
    `PackedSequence` as `{name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)`.

    Args:
        params: of each layer and direction in turn w_ih, w_hh, then b_ih and b_hh with `has_biases`{", then a projection where h is narrower than c" if name == "lstm" else ""}.

    Shape:
        input [T, B, I], with batch_first [B, T, I]; states [layers * directions, B, H] -> the output, and the last state{"s h and c" if name == "lstm" else ""}
    """  # noqa: E501
    return function


lstm = _function("lstm", "LSTM", "`nn.LSTM`")
gru = _function("gru", "GRU", "`nn.GRU`")
rnn_tanh = _function("rnn_tanh", "RNN_TANH", "`nn.RNN`")
rnn_relu = _function("rnn_relu", "RNN_RELU", "`nn.RNN(nonlinearity='relu')`")


# ---- norms: the result, the mean and 1 / sqrt(variance + eps)


def _statistics(x: Tensor, dims: Any, eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    wide = x.to(float32) if x.dtype in (float16, bfloat16) else x
    mean, rstd = wide.mean(dims, keepdim=keepdim), (wide.var(dims, correction=0, keepdim=keepdim) + eps).rsqrt()
    return mean.to(x.dtype), rstd.to(x.dtype)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.layer_norm`, and the mean and 1 / sqrt(variance + eps) of each row, which have no gradients.

    Shape: input [*, *normalized_shape] -> the same, and twice [*, 1, ...].

    >>> import flambeau as fl
    >>> fl.native_layer_norm(fl.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    out = F.layer_norm(input, normalized_shape, weight, bias, eps)
    return out, *_statistics(input.detach(), tuple(range(-len(normalized_shape), 0)), eps, True)


@spelled()
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.group_norm`, and the mean and 1 / sqrt(variance + eps) of each group.

    Shape: input [N, C, *] with HxW elements in * -> the same, and twice [N, group].

    Raises:
        ShapeError: the sizes are not those of the input.
    """
    if tuple(input.shape[:2]) != (N, C) or math.prod(input.shape[2:]) != HxW:
        raise ShapeError(f"native_group_norm: N = {N}, C = {C}, HxW = {HxW}, but input has shape {list(input.shape)}")
    out = F.group_norm(input, group, weight, bias, eps)
    return out, *_statistics(input.reshape(N, group, C // group * HxW), -1, eps, False)


@takes_out
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`nn.functional.batch_norm`, and the mean and 1 / sqrt(variance + eps) of each channel, without gradients; empty where not training.

    Shape: input [N, C, *] -> the same, and twice [C], or [0].
    """
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        none = ops.empty((0,), dtype=input.dtype, device=input.device)
        return out, none, none.clone()
    return out, *_statistics(input.detach(), [d for d in range(input.dim()) if d != 1], eps, False)
