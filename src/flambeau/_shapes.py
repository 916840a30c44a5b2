"""The shape that several have in common."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import _C
from flambeau._no_tensor import wants_tensors


@wants_tensors
def broadcast_shapes(*shapes: Sequence[int] | int) -> _C.Size:
    """The shape that tensors of these shapes broadcast to.

    Raises:
        ValueError: they do not, or a size is negative.
    """
    out: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if sizes == out:
            continue
        if len(sizes) > len(out):
            out = [*sizes[: len(sizes) - len(out)], *out]
        for i in range(-1, -len(sizes) - 1, -1):
            n = sizes[i]
            if n != out[i] and n != 1:
                if out[i] != 1:
                    given = ", ".join(map(str, shapes))
                    raise _C.ShapeError(
                        "broadcast_shapes: Shape mismatch: objects cannot be broadcast to a single shape: "
                        f"shapes {given}, for {out[i]} and {n}"
                    )
                out[i] = n
    if out and min(out) < 0:
        given = ", ".join(map(str, shapes))
        raise _C.ShapeError(
            f"broadcast_shapes: shapes {given} have a size below 0 "
            "(Attempting to broadcast a dimension with negative length!)"
        )
    return _C.Size(out)
