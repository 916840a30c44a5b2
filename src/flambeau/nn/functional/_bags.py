"""Sums, means and maxima of rows of a table, bag by bag."""

from __future__ import annotations

from typing import TypeGuard

from flambeau import _C, _replay
from flambeau._C import ShapeError, Tensor, ops
from flambeau._from_data import tensor
from flambeau._info import switch
from flambeau._no_tensor import wants_tensors
from flambeau.nn.functional._embedding import embedding

__all__ = ["embedding_bag"]

_WHOLE = (_C.int64, _C.int32)


@wants_tensors
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduces the rows of `weight` that the indices of each bag name; an empty bag gives zeros.

    Args:
        input: indices of bags of one size, [B, n], or of all bags one after the other, [n], which begin at `offsets`.
        mode: 'sum', 'mean' or 'max'.
        per_sample_weights: factors of the rows, of input's shape; with 'sum' alone.
        include_last_offset: whether the last offset is the end.
        sparse: the gradient of `weight` is a sparse tensor; see `embedding`. With 'sum' and 'mean' alone.
        padding_idx: a row that is left out.

    Shape: weight [V, D] -> [B, D].

    Raises:
        ValueError: a wrong mode, offsets that do not fit, or options that exclude each other.
        IndexError: an index that is no row.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.functional.embedding_bag(fl.tensor([0, 2, 1]), fl.eye(3), fl.tensor([0, 2]), mode="sum")
        tensor([[1., 0., 1.],
                [0., 1., 0.]])
    """
    name = "embedding_bag"
    if scale_grad_by_freq is not False and scale_grad_by_freq is not True:
        scale_grad_by_freq = switch("embedding_bag", "scale_grad_by_freq", scale_grad_by_freq)
    if sparse is not False and sparse is not True:
        sparse = switch("embedding_bag", "sparse", sparse)
    if include_last_offset is not False and include_last_offset is not True:
        include_last_offset = switch("embedding_bag", "include_last_offset", include_last_offset)
    _check(name, input, weight, mode, scale_grad_by_freq, sparse, per_sample_weights)
    if weight.is_meta and (input.ndim == 2 or offsets is not None):
        return _shaped(input, weight, offsets, include_last_offset, padding_idx, per_sample_weights)
    if input.ndim == 2:
        if offsets is not None:
            raise _C.ArgumentError(
                f"{name}: if input is 2D, then offsets has to be None, as each row is a bag; input has shape {list(input.shape)}"
            )
        bags, n = input.shape
        ends = ops.arange(0, (bags + 1) * n, n) if n else ops.zeros((bags + 1,), dtype=_C.int64)
    elif mode != "max" and not include_last_offset and _plain(offsets):
        ends = ops.cat([offsets.to(_C.int64), ops.full((1,), input.shape[0], dtype=_C.int64)])  # the product looks at them
    else:
        starts = _starts(name, offsets, input.shape[0], include_last_offset)
        ends = tensor(starts, dtype=_C.int64)
        if starts[-1] < input.shape[0]:  # what lies behind the last bag is in none
            input = input[: starts[-1]]
            per_sample_weights = None if per_sample_weights is None else per_sample_weights[: starts[-1]]
    index = input.reshape(-1)
    if mode != "max" and weight.dtype in (_C.float32, _C.float64) and not _C.has_override(input, weight, per_sample_weights):
        try:
            rows = weight
            if max_norm or scale_grad_by_freq or sparse:
                rows = embedding(index, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
            elif padding_idx is not None or index.dtype not in _WHOLE:
                embedding(index[:0], weight, padding_idx)  # checks the arguments
            if _C.graph.recording() and not _replay.is_noting():  # a product that nobody reads looks at no index
                _inside(name, input, weight.shape[0])
            used = None if padding_idx is None else index != padding_idx % weight.shape[0]
            return _product(rows, index if rows is weight else ops.arange(index.shape[0]), ends, mode, used, per_sample_weights)
        except (ValueError, IndexError):
            if offsets is not None:
                _starts(name, offsets, input.shape[0], include_last_offset)
            _inside(name, input, weight.shape[0])
            raise
    if mode != "max" and offsets is not None:
        _starts(name, offsets, input.shape[0], include_last_offset)
    bags = ends.shape[0] - 1
    bag = ops.arange(bags, device=input.device).repeat_interleave(ends.diff())
    rows = embedding(index, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if padding_idx is not None:  # rows that are left out go to a bag of their own, so that vmap knows every shape
        bag = ops.where(index == padding_idx % weight.shape[0], bags, bag)
    out = weight.new_zeros((bags + 1, weight.shape[1]))
    if mode == "max":
        return _largest(out, bag.unsqueeze(1).expand(-1, weight.shape[1]), rows)[:bags]
    narrow = weight.dtype in (_C.bfloat16, _C.float16)
    if narrow:  # sums of 16 bits stop growing
        rows, out = rows.to(_C.float32), out.to(_C.float32)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1).unsqueeze(1)
    out = out.index_add(0, bag, rows)[:bags]
    if mode == "mean":
        counts = out.new_zeros((bags + 1,)).index_add(0, bag, ops.ones_like(bag, dtype=out.dtype))[:bags]
        out = out / counts.clamp(min=1).unsqueeze(1)
    return out.to(weight.dtype) if narrow else out


def _shaped(
    input: Tensor, weight: Tensor, offsets: Tensor | None, include_last: bool, padding_idx: int | None, factors: Tensor | None
) -> Tensor:
    """The bags of a weight on the meta device: a shape and a graph, for which no offset is read."""
    rows = embedding(input.reshape(-1), weight, padding_idx)
    if factors is not None:
        rows = rows * factors.reshape(-1).unsqueeze(1)
    bags = input.shape[0] if offsets is None else offsets.shape[0] - include_last
    return rows.sum(0, keepdim=True).repeat(bags, 1)


def _largest(out: Tensor, bag: Tensor, rows: Tensor) -> Tensor:
    """The maxima of the bags' rows, into `out`; where several are largest, the gradient is that of the first."""
    if not rows.requires_grad:
        return out.scatter_reduce(0, bag, rows, "amax", include_self=False)
    found = out.scatter_reduce(0, bag, rows.detach(), "amax", include_self=False)
    n = rows.shape[0]
    at = ops.where((rows == found.gather(0, bag)) | rows.isnan(), ops.arange(n, device=rows.device).unsqueeze(1), n)
    first = ops.full(out.shape, n, dtype=_C.int64, device=rows.device).scatter_reduce(0, bag, at, "amin")
    return ops.cat([rows, out[:1]]).gather(0, first)  # an empty bag has the zeros behind the rows


def _product(rows: Tensor, index: Tensor, ends: Tensor, mode: str, used: Tensor | None, factors: Tensor | None) -> Tensor:
    """Sums or means of the rows that `index` names and that are `used`: the product with a sparse matrix that has a row for each bag."""
    index = index.to(_C.int64)
    given = None if factors is None else factors.reshape(-1)
    if used is not None:
        index, given = index[used], None if given is None else given[used]
        ends = ops.cat([ends[:1], used.to(_C.int64).cumsum(0)])[ends]
    if given is None and mode == "sum":
        given = ops.ones((index.shape[0],), dtype=rows.dtype)
    elif given is None:
        counts = ends.diff()
        given = (1 / counts.clamp(min=1).to(rows.dtype)).repeat_interleave(counts)
    return ops.sparse_mm(ends, index, given.to(rows.dtype), rows)  # type: ignore[no-any-return]


def _inside(name: str, index: Tensor, rows: int) -> None:
    if index.numel():
        low, high = (int(end) for end in index.aminmax())
        if low < 0 or high >= rows:
            raise _C.RangeError(f"{name}: input has the value {low if low < 0 else high}; expected 0 <= value < {rows}")


def _check(name: str, input: Tensor, weight: Tensor, mode: str, by_freq: bool, sparse: bool, factors: Tensor | None) -> None:
    if mode not in ("sum", "mean", "max"):
        raise _C.ArgumentError(f"{name}: mode has to be one of sum, mean or max, got {mode!r}")
    if weight.ndim != 2:
        raise ShapeError(f"{name}: weight has shape {list(weight.shape)}; expected [V, D]")
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"{name}: input has to be 1D or 2D Tensor, [n] or [B, n], but got Tensor of dimension {input.ndim}, {list(input.shape)}"
        )
    if mode == "max" and by_freq:
        raise _C.ArgumentError(f"{name}: max mode does not support scaling the gradient by the frequency (scale_grad_by_freq)")
    if mode == "max" and sparse:
        raise _C.ArgumentError(f"{name}: sparse = True with mode = 'max'; expected mode = 'sum' or 'mean', or sparse=False")
    if factors is not None:
        if mode != "sum":
            raise NotImplementedError(f"{name}: per_sample_weights with mode = {mode!r}; expected 'sum'")
        if factors.shape != input.shape:
            raise _C.ArgumentError(
                f"{name}: per_sample_weights ({list(factors.shape)}) must have the same shape as the input ({list(input.shape)})"
            )


def _plain(offsets: Tensor | None) -> TypeGuard[Tensor]:
    return offsets is not None and offsets.ndim == 1 and offsets.dtype in _WHOLE and offsets.shape[0] > 0


def _starts(name: str, offsets: Tensor | None, n: int, include_last: bool) -> list[int]:
    """Where bags begin, and where the last one ends."""
    if offsets is None or offsets.ndim != 1:
        given = "None" if offsets is None else f"shape {list(offsets.shape)}"
        raise _C.ArgumentError(f"{name}: offsets has to be a 1D Tensor but got {given}; expected [B] with a 1-D input")
    if offsets.is_floating_point():
        raise TypeError(f"{name}: offsets is {offsets.dtype}; expected integers")
    starts: list[int] = offsets.tolist()
    if include_last and not starts:
        raise _C.ArgumentError(f"{name}: offsets is empty; expected at least one with include_last_offset")
    if starts and starts[0] != 0:
        raise _C.ArgumentError(f"{name}: offsets[0] has to be 0, where the first bag starts. However, got {starts[0]}")
    ends = starts if include_last else [*starts, n]
    for a, b in zip(ends, ends[1:]):
        if b < a:
            raise _C.ArgumentError(f"{name}: offsets {starts} go back from {a} to {b}; expected each at or after the one before, up to {n}")
    if ends and ends[-1] > n:
        raise _C.ArgumentError(f"{name}: the last bag ends at {ends[-1]}; expected at most {n}, the number of indices")
    return ends if len(ends) > 1 or include_last else [0]
