"""Products of matrices by groups: each group of rows has a matrix of its own, as the experts of a mixture have."""

from __future__ import annotations

from typing import Any

from flambeau._C import (
    ArgumentError,
    DTypeError,
    ShapeError,
    Tensor,
    bfloat16,
    float16,
    float32,
    int32,
    ops,
)
from flambeau._no_tensor import wants_tensors

__all__ = ["grouped_mm"]


@wants_tensors
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """The products of pairs of matrices, where `offs` says at which row (or column) of a 2-D operand each group ends.

    Shape, for G groups: mat_a [M, K], mat_b [G, K, N] -> [M, N], rows in groups; mat_a [G, M, K], mat_b [K, N] -> [M, N], columns in
    groups; mat_a [M, K], mat_b [K, N] -> [G, M, N], what is summed over in groups; mat_a [G, M, K], mat_b [G, K, N] -> [G, M, N],
    without `offs`. Rows and columns behind the last group are zeros. Differentiable, also twice.

    Args:
        mat_a, mat_b: of float32, bfloat16 or float16, both of the same type.
        offs: int32 of shape [G], in which no number is smaller than the one before.
        bias: None; PyTorch has no other yet.
        out_dtype: None or the type of `mat_a`.

    Raises:
        ValueError: the shapes or groups do not fit.
        TypeError: another type.

    >>> import flambeau as fl
    >>> x, experts = fl.ones(3, 2), fl.stack([fl.eye(2), 2 * fl.eye(2)])
    >>> fl.nn.functional.grouped_mm(x, experts, offs=fl.tensor([1, 3], dtype=fl.int32))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return ops.bmm(mat_a, mat_b)
    ends = [int(end) for end in offs.tolist()]
    starts = [0, *ends[:-1]]
    along = mat_b.shape[1] if mat_a.dim() == 3 else mat_a.shape[0 if mat_b.dim() == 3 else 1]
    if any(end < start for start, end in zip(starts, ends, strict=True)) or (ends and ends[-1] > along):
        raise ShapeError(f"grouped_mm: offs = {ends}; expected numbers of 0 to {along}, none smaller than the one before")
    # Parts of one split each: the gradient is written once, where one of each slice would be a zeroed tensor of the whole operand's size.
    sizes = [*(end - start for start, end in zip(starts, ends, strict=True)), along - (ends[-1] if ends else 0)]
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        if not ends:
            return mat_a.new_zeros((0, mat_a.shape[0], mat_b.shape[1]))
        pairs = zip(ops.split(mat_a, sizes, 1)[:-1], ops.split(mat_b, sizes)[:-1], strict=True)
        return ops.stack([ops.matmul(x, y) for x, y in pairs])
    rows = mat_b.dim() == 3
    if rows:
        pairs = zip(ops.split(mat_a, sizes)[:-1], ops.unbind(mat_b), strict=True)
    else:
        pairs = zip(ops.unbind(mat_a), ops.split(mat_b, sizes, 1)[:-1], strict=True)
    parts = [ops.matmul(x, y) for x, y in pairs]
    parts.append(mat_a.new_zeros((sizes[-1], mat_b.shape[2]) if rows else (mat_a.shape[1], sizes[-1])))
    return ops.cat(parts, 0 if rows else 1)


def _check(a: Tensor, b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: Any) -> None:
    if a.dtype not in (float32, bfloat16, float16) or b.dtype != a.dtype:
        raise DTypeError(f"grouped_mm: mat_a is {a.dtype}, mat_b {b.dtype}; expected float32, bfloat16 or float16, the same for both")
    if a.dim() not in (2, 3) or b.dim() not in (2, 3):
        raise ShapeError(f"grouped_mm: mat_a has shape {list(a.shape)}, mat_b {list(b.shape)}; expected two or three dimensions")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"grouped_mm: mat_a has {a.shape[-1]} columns, but mat_b {b.shape[-2]} rows; expected the same number")
    jagged = a.dim() == 2 or b.dim() == 2
    if jagged != (offs is not None):
        wanted = "offs, where the groups end" if jagged else "no offs, since the first dimension counts the groups"
        raise ArgumentError(f"grouped_mm: mat_a has shape {list(a.shape)}, mat_b {list(b.shape)}; expected {wanted}")
    if offs is not None and (offs.dim() != 1 or offs.dtype != int32):
        raise DTypeError(f"grouped_mm: offs is {offs.dtype} of shape {list(offs.shape)}; expected int32 of one dimension")
    groups = [len(offs)] if offs is not None else []
    groups += [x.shape[0] for x in (a, b) if x.dim() == 3]
    if len(set(groups)) > 1:
        counts = " and ".join(map(str, groups))
        raise ShapeError(f"grouped_mm: {counts} groups by offs and by the first dimensions; expected the same number")
    if bias is not None:
        raise ArgumentError("grouped_mm: bias is not None; add it to the result, since PyTorch takes no other here either")
    if out_dtype is not None and out_dtype != a.dtype:
        raise DTypeError(f"grouped_mm: out_dtype = {out_dtype} for a mat_a of {a.dtype}; expected the same, or None")
