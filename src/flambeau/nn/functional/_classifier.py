"""The last linear layer of a classifier and its loss in one, by chunks of rows: logits of all rows are the largest tensor there is."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from flambeau._C import (
    ArgumentError,
    ShapeError,
    Tensor,
    bfloat16,
    float16,
    float32,
    float64,
    int64,
    ops,
)
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.nn.functional._likelihood import cross_entropy
from flambeau.utils.checkpoint import checkpoint

__all__ = ["linear_cross_entropy"]

_TYPES = (None, float16, bfloat16, float32, float64)
_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclasses.dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts its rows into chunks, whose logits it drops and computes again in backward.

    Args:
        allow_retain_graph: backward may run several times anyway here.
        batch_chunk_size: rows of a chunk. None: what `chunking_method` says, or all of them.
        chunking_method: "aspect_ratio" for chunks whose logits are about as large as the input, "aspect_ratio:N" for the Nth part of
            that, "auto" for the first with types of 16 bits and for the second with N = 2 otherwise; None for `batch_chunk_size`.
        acc_policy: "auto", "accurate", "balanced" or "compact". Gradients are added up in the tensors' own type with "compact" alone.
        acc_dtype: in which type a chunk is computed. None: float32 for types of 16 bits, else the input's.

    Raises:
        ValueError: a value that is none of these.

    >>> import flambeau as fl
    >>> fl.nn.LinearCrossEntropyOptions(batch_chunk_size=64).chunking_method
    'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ArgumentError(f"LinearCrossEntropyOptions: acc_policy = {self.acc_policy!r}; expected one of {', '.join(_POLICIES)}")
        name, colon, factor = str(self.chunking_method or "auto").partition(":")
        if (name, colon) != ("auto", "") and not (name == "aspect_ratio" and (not colon or (factor.isdigit() and int(factor) > 0))):
            known = "'auto', 'aspect_ratio', 'aspect_ratio:N' or None"
            raise ArgumentError(f"LinearCrossEntropyOptions: chunking_method = {self.chunking_method!r}; expected {known}")
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ArgumentError(f"LinearCrossEntropyOptions: batch_chunk_size = {size!r}; expected a number of rows, or None")
        if self.acc_dtype not in _TYPES:
            raise ArgumentError(f"LinearCrossEntropyOptions: acc_dtype = {self.acc_dtype}; expected a type of floats, or None")

    def _rows(self, n: int, features: int, classes: int, low: bool) -> int:
        """Rows of a chunk, of n that there are."""
        method = self.chunking_method
        if method == "auto":
            method = None if self.batch_chunk_size is not None else "aspect_ratio" if low else "aspect_ratio:2"
        if method is None:
            return min(self.batch_chunk_size or n, n)
        wanted = -(-n // max(-(-classes // max(features, 1)), 1))
        size = max(min((1 << (wanted - 1).bit_length()) // int(method.partition(":")[2] or 1), n), 1)
        if self.batch_chunk_size not in (None, size):
            asked = self.batch_chunk_size
            raise ArgumentError(f"LinearCrossEntropyOptions: batch_chunk_size = {asked}, but {method} makes {size}; give one of both")
        return size


@wants_tensors
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`, by chunks of rows where `options` says so.

    Shape: input [I] or [N, I], linear_weight [C, *, I], linear_bias [C, *], target [N, *] or [N, C, *]; without N where input has none.

    Args:
        options: None computes all logits at once; otherwise the logits of a chunk of rows exist at a time, in backward too. That
            is for class numbers without smoothing, and weights [C, I]; it warns where it is given for something else.

    Raises:
        ValueError: shapes that do not fit, or `ignore_index` beside class probabilities.

    >>> import flambeau as fl
    >>> from flambeau.nn import functional as F
    >>> x, w, classes = fl.ones(4, 3), fl.zeros(10, 3), fl.tensor([1, 2, 3, 4])
    >>> F.linear_cross_entropy(x, w, classes, options=fl.nn.LinearCrossEntropyOptions(batch_chunk_size=2))
    tensor(2.3026)
    """
    _check(input, linear_weight, linear_bias, weight)
    classes, *more, features = linear_weight.shape
    shape = (*input.shape[:-1], classes, *more)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise ArgumentError(f"linear_cross_entropy: ignore_index = {ignore_index} with probabilities, which have no indices to ignore")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not more and target.dtype == int64 and label_smoothing == 0.0 and reduction in ("mean", "sum", "none"):
            low = input.dtype in (float16, bfloat16)
            rows, target = (input, target) if input.dim() == 2 else (input.unsqueeze(0), target.unsqueeze(0))
            size = options._rows(len(rows), features, classes, low)
            acc = options.acc_dtype or (float32 if low else input.dtype)
            loss = _by_chunks(rows, linear_weight, target, linear_bias, weight, reduction, ignored, size, acc)
            return loss.squeeze(0) if reduction == "none" and input.dim() == 1 else loss
        warn("linear_cross_entropy: options have no effect with label_smoothing, class probabilities or classes of several dimensions")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = ops.linear(input, linear_weight.reshape(classes * math.prod(more), features), bias).reshape(shape)
    return cross_entropy(logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing)


def _by_chunks(
    x: Tensor, w: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None, reduction: str, ignored: int, size: int, acc: Any
) -> Tensor:
    def part(x: Tensor, target: Tensor) -> Tensor:
        logits = ops.linear(x.to(acc), w.to(acc), None if bias is None else bias.to(acc))
        of_classes = None if weight is None else weight.to(acc)
        return cross_entropy(logits, target, of_classes, ignore_index=ignored, reduction="none" if reduction == "none" else "sum")

    cuts = [slice(i, i + size) for i in range(0, len(x), size)] or [slice(None)]
    parts = [checkpoint(part, x[cut], target[cut], use_reentrant=False) for cut in cuts]
    if reduction == "none":
        return ops.cat(parts).to(x.dtype)
    total: Tensor = sum(parts[1:], parts[0])
    if reduction == "mean":
        counted = target != ignored
        total = total / (counted.sum() if weight is None else weight[target[counted]].sum())
    return total.to(x.dtype)


def _check(x: Tensor, w: Tensor, bias: Tensor | None, weight: Tensor | None) -> None:
    if x.dim() not in (1, 2) or w.dim() < 2 or w.shape[-1] != x.shape[-1]:
        raise ShapeError(
            f"linear_cross_entropy: input has shape {list(x.shape)}, linear_weight {list(w.shape)}; expected [N, I] or [I], and [C, ..., I]"
        )
    if w.dim() > 2 and x.dim() == 1:
        raise ShapeError(f"linear_cross_entropy: linear_weight has shape {list(w.shape)}, input {list(x.shape)}; expected an input [N, I]")
    if bias is not None and bias.shape != w.shape[:-1]:
        raise ShapeError(f"linear_cross_entropy: linear_bias has shape {list(bias.shape)}; expected {list(w.shape[:-1])}")
    if weight is not None and tuple(weight.shape) != (w.shape[0],):
        raise ShapeError(f"linear_cross_entropy: weight has shape {list(weight.shape)}; expected [{w.shape[0]}]")
