"""Results with named parts, as `x.max(dim)` returns them: what a file calls them, and how they are made of what it holds."""

from __future__ import annotations

import functools
from typing import Any

from flambeau.serialization._errors import FileFormatError, short


@functools.cache
def result_type(name: str) -> Any:
    """The type that a file names, by PyTorch's name or ours; None for another name."""
    module, _, last = name.rpartition(".")
    if module not in ("torch.return_types", "flambeau.return_types"):
        return None
    from flambeau import return_types  # which computes one result of each type

    return next((kind for kind in return_types.all_return_types if kind.__name__ == last), None)


def made_result(kind: Any, args: tuple[Any, ...]) -> Any:
    """A result of its parts: of one tuple of them, as most types of results are called, or of these as they are.

    Raises:
        FileFormatError: it has others.
    """
    several = hasattr(kind, "_make")
    parts = args[0] if args and isinstance(args[0], tuple) else args if several else args[:1]
    try:
        return kind._make(parts) if several else kind(parts)
    except TypeError as error:
        raise FileFormatError(f"a result of return_types.{kind.__name__} is made of {short(parts)}, which are not its parts") from error
