"""Results of several named parts, of functions that are written in Python: they print as those of the op table do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau import _tensor

K = TypeVar("K", bound=type[Any])

made: dict[str, type[Any]] = {}  # by name: what flambeau.return_types has of them


def result(name: str) -> Callable[[K], K]:
    """Makes a NamedTuple `flambeau.return_types.NAME`, which is made of its parts or, as PyTorch's are, of one sequence of them.

    >>> import flambeau as fl
    >>> fl.frexp(fl.tensor(6.0))
    flambeau.return_types.frexp(
    mantissa=tensor(0.7500),
    exponent=tensor(3, dtype=flambeau.int32))
    """

    def decorate(kind: K) -> K:
        fields, new = kind._fields, kind.__new__

        def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and not kwargs and isinstance(args[0], (tuple, list)) and len(fields) > 1:
                args = tuple(args[0])
            return new(cls, *args, **kwargs)

        def __repr__(self: Any) -> str:
            lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
            return f"{_tensor.library}.return_types.{name}(\n{lines})"

        count = len(fields)
        counts = {"n_fields": count, "n_sequence_fields": count, "n_unnamed_fields": 0}
        for key, value in {"__new__": __new__, "__repr__": __repr__, **counts}.items():
            setattr(kind, key, value)
        kind.__module__, kind.__name__, kind.__qualname__ = f"{_tensor.library}.return_types", name, name
        made[name] = kind
        return kind

    return decorate
