"""What a worker process is given, and what to say where it can not be pickled."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

from flambeau._C import Tensor
from flambeau.multiprocessing._sharing import reduce_tensor

_DEPTH = 8  # how far inside of a dataset the part is looked for


class Sealed:
    """A dataset, `worker_init_fn` and recipe for another process; a fork gets them as they are.

    They are pickled apart from what starts the process, so that a worker that can not read them can say so.

    Raises:
        PicklingError: when it is pickled, and they can not be.
    """

    def __init__(self, dataset: Any, init_fn: Any, recipe: Any) -> None:
        self._parts: Any = dataset, init_fn, recipe
        self._data: bytes | None = None

    def open(self) -> tuple[Any, Any, Any]:
        """The three."""
        if self._data is not None:
            self._parts, self._data = pickle.loads(self._data), None
        parts: tuple[Any, Any, Any] = self._parts
        return parts

    def __getstate__(self) -> dict[str, Any]:
        try:
            data = _dumps(self._parts)
        except Exception as error:
            raise pickle.PicklingError(_refusal(self._parts, error)) from error
        return {"_parts": None, "_data": data}


def _dumps(value: Any) -> bytes:
    """Tensors that are not shared by value: a worker has a copy of the dataset, which may hold more of them than files can be open."""
    data = io.BytesIO()
    packer = ForkingPickler(data, pickle.HIGHEST_PROTOCOL)
    packer.dispatch_table = {**packer.dispatch_table, Tensor: reduce_tensor}
    packer.dump(value)
    return data.getvalue()


def _refusal(parts: tuple[Any, Any, Any], error: Exception) -> str:
    dataset, init_fn, recipe = parts
    named = {"worker_init_fn": init_fn, "collate_fn": recipe.collate, "dataset": dataset}
    found = next((part for name, value in named.items() if (part := _culprit(value, name, 0)) is not None), None)
    name, value, why = found or ("dataset", dataset, error)
    return (
        f"DataLoader: {name} = {_shown(value)} can not be pickled for a worker process: {why}. Put functions and classes at the top of a "
        "module (a def for a lambda) and open files in the worker; or take worker threads, which pickle nothing (leave out "
        "multiprocessing_context)"
    )


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # one that is not all there
        text = object.__repr__(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _culprit(value: Any, name: str, depth: int) -> tuple[str, Any, Exception] | None:
    """The innermost part that can not be pickled, with its name and the reason."""
    try:
        _dumps(value)
    except Exception as error:
        inside = _inside(value, name) if depth < _DEPTH else ()
        return next((part for n, v in inside if (part := _culprit(v, n, depth + 1)) is not None), (name, value, error))
    return None


def _inside(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield f"{name}.func", value.func
        yield f"{name}.args", value.args
        yield f"{name}.keywords", value.keywords
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{i}]", item) for i, item in enumerate(value))
    elif not callable(value) or not hasattr(value, "__qualname__"):  # what is in a function or class is not what is pickled of it
        yield from ((f"{name}.{key}", item) for key, item in getattr(value, "__dict__", {}).items())
