"""Linear maps of the last axis."""

from __future__ import annotations

from collections.abc import Callable

from flambeau._C import ShapeError, Tensor, is_autocast_enabled, ops
from flambeau._spelled import spelled
from flambeau.amp.autocast_mode import autocast

__all__ = ["linear", "bilinear"]

linear: Callable[..., Tensor] = ops.linear


@spelled()
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x1^T W_k x2 + b_k for every output k.

    Shape: input1 [*, I1], input2 [*, I2], weight [O, I1, I2] -> [*, O].

    Raises:
        ValueError: the leading shapes differ or the features do not fit the weight.
    """
    if is_autocast_enabled():  # PyTorch's lists do not have it: it computes in the type of its arguments
        with autocast("cpu", enabled=False):
            return bilinear(input1, input2, weight, bias)
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(f"bilinear: input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}")
    out, n1, n2 = weight.shape
    if input1.shape[-1] != n1 or input2.shape[-1] != n2:
        i, have, wanted = (1, input1.shape[-1], n1) if input1.shape[-1] != n1 else (2, input2.shape[-1], n2)
        raise ShapeError(
            f"bilinear: input{i} size does not match weight size: got {have} but expected {wanted} for weight {list(weight.shape)}"
        )
    lead = tuple(input1.shape[:-1])
    x1 = input1.reshape(-1, n1)
    x2 = input2.reshape(-1, n2)
    # [B, O * I2] = x1 [B, I1] @ W [I1, O * I2], then contracted with x2.
    first = ops.matmul(x1, weight.permute(1, 0, 2).reshape(n1, out * n2)).reshape(-1, out, n2)
    result = (first * x2.unsqueeze(1)).sum(-1, dtype=first.dtype)
    if bias is not None:
        result = result + bias
    return result.reshape(*lead, out)
