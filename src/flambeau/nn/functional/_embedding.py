"""Rows of a table by their numbers, and numbers as rows."""

from __future__ import annotations

from typing import Any

from flambeau._C import ArgumentError, ShapeError, Tensor, is_grad_enabled, ops
from flambeau._errors import AssertedArgumentError
from flambeau._info import switch
from flambeau._no_tensor import CONFUSED, explain
from flambeau._spelled import spelled
from flambeau.autograd import Function, no_grad

__all__ = ["embedding", "one_hot"]


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

    Args:
        sparse: the gradient of `weight` is a sparse tensor, uncoalesced, with a place for each index that is not `padding_idx`.

    Shape: input [*] of int, weight [V, D] -> [*, D].

    Raises:
        ValueError: `padding_idx` is out of range, or `scale_grad_by_freq` with `sparse` where a gradient is wanted.

    Example:
        >>> import flambeau as fl
        >>> table = fl.ones(1000, 2, requires_grad=True)
        >>> fl.nn.functional.embedding(fl.tensor([7, 3, 7]), table, sparse=True).sum().backward()
        >>> table.grad.coalesce()
        tensor(indices=tensor([[3, 7]]),
               values=tensor([[1., 1.],
                              [2., 2.]]),
               size=(1000, 2), nnz=2, layout=flambeau.sparse_coo)
    """
    if sparse is not False and sparse is not True:
        sparse = switch("embedding", "sparse", sparse)
    if scale_grad_by_freq is not False and scale_grad_by_freq is not True:
        scale_grad_by_freq = switch("embedding", "scale_grad_by_freq", scale_grad_by_freq)
    try:
        if weight.ndim != 2:
            raise ShapeError(f"embedding: weight has shape {list(weight.shape)}; expected [V, D]")
        n = weight.shape[0]
        if padding_idx is None:
            row = -1
        elif -n <= padding_idx < n:
            row = padding_idx % n
        else:
            raise AssertedArgumentError(f"embedding: padding_idx = {padding_idx}, but weight has {n} rows")
        by_frequency = scale_grad_by_freq and weight.requires_grad and is_grad_enabled()
        on_meta = weight.is_meta
    except CONFUSED as error:
        explain(error, embedding, (input, weight, padding_idx))
        raise
    if sparse and by_frequency:
        raise ArgumentError(
            "embedding: scale_grad_by_freq = True, sparse = True; scale_grad_by_freq is not supported with sparse gradients, "
            "use sparse=False"
        )
    if max_norm is not None and not on_meta:
        from flambeau._older import embedding_renorm_

        with no_grad():
            embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if by_frequency:
        found: Tensor = _ByFrequency.apply(weight, input, row)
        return found
    return (ops.embedding_sparse if sparse else ops.embedding)(weight, input, row)


class _ByFrequency(Function):
    """Rows, of whose gradients is taken the mean of those of the same row, not the sum."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, indices: Tensor, padding: int) -> Tensor:
        return ops.embedding(weight, indices, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        weight, indices, ctx.padding = inputs
        ctx.count = len(weight)
        ctx.save_for_backward(indices)
        ctx.save_for_forward(indices)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        (indices,) = ctx.saved_tensors
        return _Means.apply(dy, indices, ctx.count, ctx.padding), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Any, *_: Any) -> Any:
        (indices,) = ctx.saved_tensors
        return ops.embedding(tangent, indices, ctx.padding)


class _Means(Function):
    """The gradient of `_ByFrequency`. Its own, as PyTorch's, is that of sums: the rows themselves."""

    generate_vmap_rule = True

    @staticmethod
    def forward(dy: Tensor, indices: Tensor, count: int, padding: int) -> Tensor:
        at = indices.reshape(-1)
        shares = (at != padding).to(dy.dtype) / ops.bincount(at, minlength=count)[at].to(dy.dtype)
        rows = dy.reshape(len(at), dy.shape[-1]) * shares.unsqueeze(-1)
        return ops.index_add(dy.new_zeros(count, dy.shape[-1]), 0, at, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, indices, _, ctx.padding = inputs
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx: Any, dw: Any) -> Any:
        (indices,) = ctx.saved_tensors
        rows = ops.embedding(dw, indices) * (indices != ctx.padding).to(dw.dtype).unsqueeze(-1)
        return rows, None, None, None


@spelled()
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Rows of zeros with a one at each index; -1 classes means one more than the largest index.

    Shape:
        tensor int64 [*] -> int64 [*, num_classes].

    Raises:
        IndexError: an index is negative, or not below num_classes.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.one_hot(fl.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if num_classes == -1:
        if tensor.numel() == 0:
            raise ArgumentError("one_hot: num_classes can not be inferred from an empty tensor; give it")
        num_classes = int(tensor.max().item()) + 1
    return ops.one_hot(tensor, num_classes)
