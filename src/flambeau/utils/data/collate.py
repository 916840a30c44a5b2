"""From a list of samples to one batch: the structure stays, the leaves become tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy"


def _rebuild(like: Any, values: list[Any]) -> Any:
    """`values` in a sequence of the type of `like`; a list of tuples without names, and where that can not be made."""
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else values
    if type(like) is list:
        return values
    try:
        if isinstance(like, MutableSequence):
            made = copy.copy(like)  # keeps attributes
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(like)(values)
    except TypeError:
        return values


def _rebuild_mapping(like: Any, entries: dict[Any, Any]) -> Any:
    """`entries` in a mapping of the type of `like`; a dict where that can not be made."""
    if type(like) is dict:
        return entries
    try:
        if isinstance(like, MutableMapping):
            made = copy.copy(like)  # keeps what is not an entry: a default factory, attributes
            made.update(entries)
            return made
        return type(like)(entries)  # type: ignore[call-arg]
    except TypeError:
        return entries


def default_convert(data: Any) -> Any:
    """Turns NumPy arrays and numbers inside a sample into tensors and leaves the rest."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data) and type(data).__name__ not in ("str_", "bytes_", "string_"):
        if type(data).__name__ == "ndarray" and data.dtype.kind in "SaUO":
            return data
        import numpy as np

        return _C.from_buffer(np.array(data))
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild(data, [default_convert(value) for value in data])
    return data


class MissingKeyError(ValueError, KeyError):
    """A sample lacks a key that the first one of its batch has."""

    __str__ = ValueError.__str__  # a KeyError shows the repr of its text


def default_collate(batch: Sequence[Any]) -> Any:
    """Stacks samples: tensors, arrays and numbers along a new first dimension, containers by entry.

    Raises:
        TypeError: a leaf of another type; the text names the place in the sample.
        ValueError: samples whose shapes or lengths differ, or without a key of the first one (which is a KeyError, too; further keys are
            left out).

    >>> from flambeau.utils.data import default_collate
    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    >>> default_collate([{"x": 1}, {"x": 2, "note": "late"}])
    {'x': tensor([1, 2])}
    """
    if not (hasattr(batch, "__iter__") or hasattr(batch, "__getitem__")):
        raise TypeError(f"default_collate: batch is a {type(batch).__name__}; expected a list of samples")
    samples = list(batch)
    if not samples:
        raise IndexError("default_collate: batch has no samples; expected at least one")
    return _collate(samples, "sample", default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    """`default_collate` with a table of one's own: what makes a batch of leaves, by their class.

    A function of the table is called as `fn(leaves, collate_fn_map=table)`. Entries of `default_collate_fn_map` are those that
    `default_collate` uses, and may be added to, replaced and called from what replaces them.

    >>> from flambeau.utils.data.collate import collate, default_collate_fn_map
    >>> table = {**default_collate_fn_map, complex: lambda batch, *, collate_fn_map: len(batch)}
    >>> collate([(1, 1j), (2, 2j)], collate_fn_map=table)
    [tensor([1, 2]), 2]
    """
    return _collate(list(batch), "sample", {} if collate_fn_map is None else collate_fn_map)


# What the table has for leaves. These look nothing up in it, so that a function which replaces one of them can call it.


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: dict[Any, Any] | None = None, where: str = "sample") -> Tensor:
    """Tensors of one shape along a new first dimension."""
    try:
        return ops.stack(list(batch), 0)
    except Exception:
        _check_shapes(batch, where)
        raise


def _check_shapes(batch: Sequence[Tensor], where: str) -> None:
    first = batch[0].shape
    for i, t in enumerate(batch):
        if t.shape != first:
            raise _C.ShapeError(
                f"default_collate: stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(t.shape)} at "
                f"entry {i} of the batch, {where}; pad them, or pass collate_fn="
            ) from None


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: dict[Any, Any] | None = None) -> Tensor:
    """Numbers as float64."""
    return _C.tensor_from(list(batch), _C.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: dict[Any, Any] | None = None) -> Tensor:
    """Whole numbers as int64, truth values as bool."""
    return _C.tensor_from(list(batch), None)


def collate_str_fn(batch: Any, *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    """Texts as they are."""
    return batch


default_collate_fn_map: dict[Any, Any] = {
    Tensor: collate_tensor_fn, float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn,
}  # fmt: skip
_LEAVES = tuple(default_collate_fn_map)


def _function_for(leaf: Any, table: dict[Any, Any]) -> Any:
    return table.get(type(leaf)) or next((fn for kind, fn in table.items() if isinstance(leaf, kind)), None)


def _collate_leaves(made: Any, leaves: Sequence[Any], where: str, table: dict[Any, Any]) -> Any:
    if made is collate_tensor_fn:  # the one that can fail, and says where
        return collate_tensor_fn(leaves, where=where)
    return made(leaves, collate_fn_map=table)


def _on_array(np: Any, value: Any) -> Tensor:
    """A tensor on an array's memory, which `collate_tensor_fn` copies; on a copy of what can not be shared."""
    if type(value) is np.ndarray and value.flags.writeable:
        try:
            return _C.from_buffer(value)
        except ValueError:  # negative strides, or elements that are not aligned
            pass
    return _C.from_buffer(np.array(value))


def _collate(batch: Sequence[Any], where: str, table: dict[Any, Any]) -> Any:
    first = batch[0]
    made = _function_for(first, table)
    if made is not None:
        return _collate_leaves(made, batch, where, table)
    if isinstance(first, _LEAVES):
        raise TypeError(f"collate: {where} is a {type(first).__name__}, for which collate_fn_map has no function")
    if _is_numpy(first):
        import numpy as np

        is_array = isinstance(first, np.ndarray)
        if first.dtype.kind in "mMV" or (is_array and first.dtype.kind in "SaUO"):
            kind = "an array" if is_array else "a number"
            raise TypeError(
                "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
                f"found {kind} of dtype {first.dtype} as {where} (pass collate_fn= for others)"
            )
        tensors = [_on_array(np, value) for value in batch]
        made = _function_for(tensors[0], table) if is_array else None
        return _collate_leaves(made or collate_tensor_fn, tensors, where, table)
    if isinstance(first, Mapping):
        keys = first.keys()
        for i, sample in enumerate(batch):
            if type(sample) is dict and sample.keys() == keys:
                continue
            if missing := [str(key) for key in first if key not in sample]:
                raise MissingKeyError(
                    f"default_collate: {where} has no key {', '.join(missing)} in sample {i} of the batch, but {sorted(map(str, sample))}; "
                    f"expected those of sample 0, {sorted(map(str, first))}"
                )
        entries = {key: _collate([s[key] for s in batch], f"{where}[{key!r}]", table) for key in first}
        return _rebuild_mapping(first, entries)
    if isinstance(first, Sequence):
        n = len(first)
        for i, sample in enumerate(batch):
            if len(sample) != n:
                raise _C.ShapeError(
                    f"default_collate: each element in list of batch should be of equal size: {where} has {len(sample)} entries in "
                    f"sample {i}, but {n} in sample 0"
                )
        columns = [_collate(col, f"{where}[{i}]", table) for i, col in enumerate(zip(*batch))]
        return _rebuild(first, columns)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)} as {where} "
        "(pass collate_fn= for others)"
    )


Collate = Callable[[list[Any]], Any]
