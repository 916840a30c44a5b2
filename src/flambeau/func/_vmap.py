"""`vmap`: a function of one sample, called with a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from flambeau._C import ArgumentError, Tensor, ops
from flambeau._errors import RefusedTypeError
from flambeau._info import a_function
from flambeau.func import _draws
from flambeau.func._batched import BatchLevel
from flambeau.func._levels import opened, shape_of
from flambeau.func._tree import Make, children, flatten, spread

RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that calls `func` for each sample of a batch, by ops on whole batches.

    Args:
        func: of tensors, or tuples, lists and dicts of them; returns such.
        in_dims: the axis of each positional argument along which the samples lie, None for what all share. One value for all, or
            a structure that begins like the arguments. Keyword arguments are shared by all.
        out_dims: where the samples are to lie in the results, one value for all or a structure that begins like them.
        randomness: what a random op makes inside. 'error' refuses it, 'different' draws for every sample, 'same' draws once.
        chunk_size: of how many samples is computed at once; None: all.

    Returns:
        The function, with the arguments of `func`.

    Raises:
        ValueError: `in_dims` or `out_dims` of another structure, axes that are not there, numbers of samples that differ, results
            that are no tensors.
        RuntimeError: a random op with 'error'; the value of a tensor decides what the function does.

    Example:
        >>> import flambeau as fl
        >>> dots = fl.vmap(fl.dot)
        >>> dots(fl.tensor([[1.0, 2.0], [3.0, 4.0]]), fl.ones(2, 2))
        tensor([3., 7.])
    """
    a_function("vmap", func)
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and (isinstance(chunk_size, bool) or not isinstance(chunk_size, (int, Integral)) or chunk_size < 1):
        raise RefusedTypeError(f"vmap: chunk_size = {chunk_size!r}; expected None or at least 1")

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, build = flatten(list(args))
        dims = _in_dims(in_dims, args, leaves)
        size = _batch_size(leaves, dims)
        call = _Call(functools.partial(func, **kwargs), build, out_dims, randomness)
        if chunk_size is None or size <= chunk_size:
            return call(leaves, dims, size)
        if size // int(chunk_size) >= 2**31:
            raise ArgumentError(f"vmap: chunk_size = {chunk_size} of {size} samples; expected one that leaves fewer than 2^31 chunks")
        return call.in_chunks(leaves, dims, size, chunk_size)

    return mapped


def _in_dims(in_dims: Any, args: Sequence[Any], leaves: Sequence[Any]) -> list[int | None]:
    """For each leaf of the arguments its axis, counted from the front, or None."""
    if not isinstance(in_dims, int) and not isinstance(in_dims, tuple):
        raise RefusedTypeError(f"vmap: in_dims = {in_dims!r}; expected an int, or a tuple with a value for each positional argument")
    if not args:
        raise ValueError("vmap: there are no positional arguments; expected at least one tensor to map over")
    dims = spread("vmap", "in_dims", in_dims, args)
    found: list[int | None] = []
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            found.append(None)
        elif isinstance(dim, bool) or not isinstance(dim, int):
            raise RefusedTypeError(f"vmap: in_dims has {dim!r}; expected an int or None for each argument")
        elif not isinstance(leaf, Tensor) and not is_container(leaf):
            raise ValueError(f"vmap: in_dims = {in_dims!r} maps over a {type(leaf).__name__}; expected None for what is no tensor")
        else:
            rank = len(_sizes(leaf))
            if not -rank <= dim < rank:
                expected = f"{-rank} <= dim <= {rank - 1}" if rank else "None"
                kind = "tensor" if isinstance(leaf, Tensor) else type(leaf).__name__
                raise ValueError(
                    f"vmap: Got in_dim={dim} for some input, but that input is a {kind} of shape {list(_sizes(leaf))}; expected {expected}"
                )
            found.append(dim % rank)
    return found


def _batch_size(leaves: Sequence[Any], dims: Sequence[int | None]) -> int:
    sizes = [_sizes(leaf)[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: no argument is mapped over; expected an axis in in_dims for at least one tensor")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
    return int(sizes[0])


class _Call:
    """One call of a mapped function."""

    def __init__(self, func: Callable[..., Any], build: Make, out_dims: Any, randomness: str) -> None:
        self.func, self.build, self.out_dims, self.randomness = func, build, out_dims, randomness

    def __call__(self, leaves: Sequence[Any], dims: Sequence[int | None], size: int) -> Any:
        results, build, _ = self._results(leaves, dims, size)
        return build(results)

    def in_chunks(self, leaves: Sequence[Any], dims: Sequence[int | None], size: int, chunk: int) -> Any:
        if any(is_container(leaf) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None):
            raise NotImplementedError(f"vmap: chunk_size = {chunk} with a container that adds the axis itself; leave chunk_size out")
        parts = []
        again = _draws.Again(None) if self.randomness == "same" else None
        for start in range(0, size, chunk):
            if again:
                again()
            count = min(chunk, size - start)
            some = [leaf if dim is None else ops.narrow(leaf, dim, start, count) for leaf, dim in zip(leaves, dims, strict=True)]
            parts.append(self._results(some, dims, count))
        columns = zip(*(results for results, _, _ in parts), strict=True)
        outs = parts[0][2]
        return parts[0][1]([column[0] if dim is None else ops.cat(list(column), dim) for column, dim in zip(columns, outs, strict=True)])

    def _results(self, leaves: Sequence[Any], dims: Sequence[int | None], size: int) -> tuple[list[Any], Make, list[Any]]:
        level = BatchLevel(size, self.randomness)
        inner = [leaf if dim is None else _inside(level, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
        args = self.build(inner)
        with opened(level), _draws.decided_by(level):
            out = self.func(*args)
            results, build = flatten(out)
            results = [level.kept(result) for result in results]
        wanted = self.out_dims
        if children(out) is None and isinstance(wanted, tuple) and len(wanted) == 1:
            (wanted,) = wanted  # of the only result
        outs = spread("vmap", "out_dims", wanted, out)
        for result, dim in zip(results, outs, strict=True):
            if not isinstance(result, Tensor) and not is_container(result) and dim is not None:
                kind = type(result).__name__
                expected = "tensors, or tuples, lists and dicts of them, and None in out_dims for anything else"
                raise RefusedTypeError(f"vmap: the function must only return Tensors, got type {kind}; expected {expected}")
        return [_outside(level, result, dim, size) for result, dim in zip(results, outs, strict=True)], build, outs


def is_container(x: Any) -> bool:
    """Whether a value is no tensor and says itself what stands for it inside of vmap, as those of the package tensordict do."""
    kind = type(x)
    return not isinstance(x, Tensor) and hasattr(kind, "_add_batch_dim") and hasattr(kind, "_maybe_remove_batch_dim")


def _sizes(x: Any) -> Sequence[int]:
    return x.batch_size if is_container(x) else shape_of(x)  # type: ignore[no-any-return]


def _inside(level: BatchLevel, x: Any, dim: int) -> Any:
    return x._add_batch_dim(in_dim=dim, vmap_level=level) if is_container(x) else level.wrap(_front(x, dim))


def _outside(level: BatchLevel, x: Any, dim: Any, size: int) -> Any:
    return x._maybe_remove_batch_dim("vmap", vmap_level=level, batch_size=size, out_dim=dim) if is_container(x) else _result(level, x, dim)


def _front(x: Tensor, dim: int) -> Tensor:
    """x with an axis moved to the front."""
    if dim == 0:
        return x
    rank = len(shape_of(x))
    return ops.permute(x, (dim, *(d for d in range(rank) if d != dim)))


def _result(level: BatchLevel, x: Tensor, dim: Any) -> Tensor:
    """What stands for a batch inside, outside."""
    if dim is None:
        if not isinstance(x, Tensor):
            return x
        if level.holds(x):
            raise ValueError("vmap: out_dims has None for a result that differs between samples; expected an axis")
        return x
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise RefusedTypeError(f"vmap: out_dims has {dim!r}; expected an int, or None for a result that all samples share")
    value = level.full(x)
    rank = len(shape_of(value))
    if not -rank <= dim < rank:
        expected = f"{-rank} <= dim <= {rank - 1}"
        raise IndexError(f"vmap: out_dims has {dim}, but a result has {rank} axes with that of the samples; expected {expected}")
    dim %= rank
    return value if dim == 0 else ops.permute(value, (*range(1, dim + 1), 0, *range(dim + 1, rank)))


def batch_result(level: BatchLevel, x: Tensor, dim: int | None) -> Tensor:
    """A result that a rule of the user's computed of values, as a batch along `dim`."""
    return x if dim is None else level.wrap(_front(x, dim % len(shape_of(x))))
