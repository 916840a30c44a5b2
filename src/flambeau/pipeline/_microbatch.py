"""A batch as micro-batches: splitting what goes into a pipeline, putting together what comes out.

    scatter    {"x": [5, 3], "y": [5], "scale": 2.0}  ->  {"x": [2, 3], "y": [2], "scale": 2.0}
                                                          {"x": [2, 3], "y": [2], "scale": 2.0}
                                                          {"x": [1, 3], "y": [1], "scale": 2.0}
    gather     the way back, for outputs

A value is a nest of tuples, lists and dicts with tensors in it. Dim 0 of every tensor is the batch. One
plan, a list of sizes, splits all tensors of a nest: had each its own, samples would be lost in silence
where they differ. What is no tensor goes to every micro-batch as it is.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import ShapeError, Tensor, ops
from flambeau.nn._errors import kind_of

# m: micro-batches asked for, b: samples


def _chunk_sizes(b: int, m: int) -> list[int]:
    if b == 0:
        return [0] * m
    size = -(-b // m)
    return [min(size, b - start) for start in range(0, b, size)]


def _even_sizes(b: int, m: int) -> list[int]:
    m = max(1, min(b, m))
    return [b // m + (i < b % m) for i in range(m)]


_RULES: dict[str, Callable[[int, int], list[int]]] = {"chunk": _chunk_sizes, "even": _even_sizes}


def plan(samples: int, chunks: int, rule: str = "even") -> list[int]:
    """The sizes of the micro-batches that `samples` samples are split into.

    Args:
        samples: how many there are.
        chunks: how many micro-batches are wanted; there may be fewer.
        rule: "even" gives sizes that differ by at most one, and no empty ones unless there are no samples at
            all; "chunk" gives ceil(samples / chunks) to each but the last, as `Tensor.chunk` does.

    Raises:
        ValueError: `chunks` is not positive, or there is no such rule.

    Example:
        >>> from flambeau.pipeline._microbatch import plan
        >>> plan(5, 4), plan(5, 4, "chunk"), plan(2, 4)
        ([2, 1, 1, 1], [2, 2, 1], [1, 1])
    """
    if rule not in _RULES:
        raise ValueError(f"rule = {rule!r}; expected one of {', '.join(map(repr, _RULES))}")
    chunks = operator.index(chunks)
    if chunks < 1:
        raise ValueError(f"number of chunks must be positive integer, got {chunks}")
    return _RULES[rule](samples, chunks)


# ----------------------------------------------------------------------------------------------- nests


def _entries(value: Any) -> list[tuple[str, Any]] | None:
    """(how to index, entry) of a container, None of a leaf."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", entry) for key, entry in value.items()]
    if isinstance(value, (tuple, list)):
        return [(f"[{i}]", entry) for i, entry in enumerate(value)]
    return None


def rebuilt(value: Any, entries: Sequence[Any]) -> Any:
    """A container like `value` with other entries."""
    if isinstance(value, dict):
        new = copy.copy(value)  # keeps the order and what a subclass has besides, as a default
        new.update(zip(value, entries))
        return new
    return type(value)(*entries) if hasattr(value, "_fields") else type(value)(entries)


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, leaf) of everything in a nest that is no container."""
    entries = _entries(value)
    if entries is None:
        return [(path, value)]
    return [leaf for key, entry in entries for leaf in leaves(entry, path + key)]


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors of a nest, in order."""
    return [x for _, x in leaves(value) if isinstance(x, Tensor)]


def map_tensors(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """A nest like `value` with each tensor changed.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._microbatch import map_tensors
        >>> map_tensors([fl.ones(2), (None, 3)], lambda x: x + 1)
        [tensor([2., 2.]), (None, 3)]
    """
    if isinstance(value, Tensor):
        return change(value)
    entries = _entries(value)
    return value if entries is None else rebuilt(value, [map_tensors(entry, change) for _, entry in entries])


# --------------------------------------------------------------------------------------------- scatter


def _batch_size(inputs: Any) -> int:
    tensors = [(path, x) for path, x in leaves(inputs, "input") if isinstance(x, Tensor)]
    if not tensors:
        raise TypeError(f"expected Tensor, but got {kind_of(inputs)} with no Tensor in it: nothing says how large the batch is")
    scalars = [path for path, x in tensors if x.dim() == 0]
    if scalars:
        raise ShapeError(
            f"scatter: {', '.join(scalars)} is a 0-d tensor; chunk expects at least a 1-dimensional tensor, whose dim 0 is the "
            "batch. Give each sample its own with x.expand(batch), or, if all share it, a number: x.item()"
        )
    if len({int(x.shape[0]) for _, x in tensors}) > 1:
        sizes = ", ".join(f"{path}: {int(x.shape[0])}" for path, x in tensors)
        raise ValueError(
            f"scatter: the tensors of a batch have different sizes of dim 0 ({sizes}); expected as many samples in each. "
            "What all samples share can be expanded: x.unsqueeze(0).expand(batch, *x.shape)"
        )
    return int(tensors[0][1].shape[0])


def _pieces(value: Any, sizes: list[int]) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value.split(sizes)) if len(sizes) > 1 else [value]
    entries = _entries(value)
    if entries is None:
        return [value] * len(sizes)
    columns = [_pieces(entry, sizes) for _, entry in entries]
    return [rebuilt(value, [column[i] for column in columns]) for i in range(len(sizes))]


def scatter(inputs: Any, chunks: int, rule: str = "even") -> list[Any]:
    """Splits a batch along dim 0 into micro-batches of the same structure.

    Args:
        inputs: a tensor, or a nest of tuples, lists and dicts. What is no tensor is not split, but passed on.
        chunks: how many micro-batches are wanted.
        rule: how large they are, see `plan`.

    Returns:
        The micro-batches in order. Their tensors are views of those of `inputs`.

    Raises:
        TypeError: no tensor is in `inputs`.
        ValueError: the tensors have different numbers of samples, one has no dim 0, `chunks` is not positive, or
            there is no such rule.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._microbatch import scatter
        >>> scatter((fl.arange(5), "mean"), 3)
        [(tensor([0, 1]), 'mean'), (tensor([2, 3]), 'mean'), (tensor([4]), 'mean')]
    """
    plan(0, chunks, rule)  # checks the arguments first
    return _pieces(inputs, plan(_batch_size(inputs), chunks, rule))


# ---------------------------------------------------------------------------------------------- gather


def _shape_of(value: Any) -> str:
    """What must be alike in the outputs of all micro-batches, as an error names it."""
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, dict):
        return f"{kind_of(value)} with keys {list(value)}"
    if isinstance(value, (tuple, list)):
        return f"{kind_of(value)} of {len(value)}"
    return kind_of(value)


def _is_like(first: Any, other: Any) -> bool:
    if isinstance(first, Tensor) or isinstance(other, Tensor):
        return isinstance(first, Tensor) and isinstance(other, Tensor)
    if isinstance(first, dict):
        return isinstance(other, dict) and first.keys() == other.keys()
    if isinstance(first, (tuple, list)):
        return isinstance(other, (tuple, list)) and len(first) == len(other)
    return not isinstance(other, (dict, tuple, list))


def _is_same(a: Any, b: Any) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # an array has no single answer
        return False


def _cat(tensors: list[Tensor], path: str) -> Tensor:
    for i, x in enumerate(tensors):
        if x.dim() == 0:
            raise ShapeError(
                f"gather: {path} of micro-batch {i} is a 0-d tensor; expected at least 1-d, with the batch in dim 0. Return a value "
                "per sample and reduce after the pipeline, or x.unsqueeze(0), which gives one value per micro-batch"
            )
    return tensors[0] if len(tensors) == 1 else ops.cat(tensors, 0)


def _joined(values: list[Any], path: str) -> Any:
    first = values[0]
    for i, value in enumerate(values):
        if not _is_like(first, value):
            raise TypeError(
                f"gather: {path} of micro-batch {i} is {_shape_of(value)}, that of micro-batch 0 is {_shape_of(first)}; "
                "expected the same structure of every micro-batch"
            )
    if isinstance(first, Tensor):
        return _cat(values, path)
    if isinstance(first, dict):
        return rebuilt(first, [_joined([v[key] for v in values], f"{path}[{key!r}]") for key in first])
    if isinstance(first, (tuple, list)):
        return rebuilt(first, [_joined([v[k] for v in values], f"{path}[{k}]") for k in range(len(first))])
    for i, value in enumerate(values):
        if not _is_same(first, value):
            raise ValueError(
                f"gather: {path} is {first!r} of micro-batch 0, but {value!r} of micro-batch {i}; what is no Tensor must be the "
                "same of all. Return a Tensor with the batch in dim 0"
            )
    return first


def gather(outputs: Sequence[Any]) -> Any:
    """Puts the outputs of all micro-batches together along dim 0.

    Types of containers follow the first output. What is no tensor must be the same in all.

    Raises:
        TypeError: the outputs differ in structure.
        ValueError: there is no output, a tensor has no dim 0, or the shapes do not fit.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._microbatch import gather
        >>> gather([(fl.arange(2), None), (fl.arange(1), None)])
        (tensor([0, 1, 0]), None)
    """
    if not outputs:
        raise ValueError("gather: outputs is empty; expected that of one micro-batch or more")
    return _joined(list(outputs), "output")


# ----------------------------------------------------------------------------------------------- check


def check(value: Any, where: str) -> None:
    """Checks that a value is a tensor or a tuple of tensors, which is all that `GPipe` passes on.

    Args:
        value: what goes over a boundary of partitions.
        where: the boundary, for the error: "output of partition 1, layer 'relu'".

    Raises:
        TypeError: it is anything else: "expected Tensor, but got ...".

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._microbatch import check
        >>> check((fl.zeros(2), fl.zeros(2)), "input")
        >>> check([fl.zeros(2)], "output of partition 1, layer 'relu'")
        Traceback (most recent call last):
        TypeError: expected Tensor, but got list (output of partition 1, layer 'relu'); give a Tensor or a tuple of Tensors
    """
    if isinstance(value, Tensor):
        return
    wrong = None
    if not isinstance(value, tuple):
        wrong = kind_of(value)
    elif not value:
        wrong = "an empty tuple"
    else:
        for k, entry in enumerate(value):
            if not isinstance(entry, Tensor):
                wrong = f"{kind_of(entry)} as element {k} of a tuple"
                break
    if wrong is not None:
        raise TypeError(f"expected Tensor, but got {wrong} ({where}); give a Tensor or a tuple of Tensors")
