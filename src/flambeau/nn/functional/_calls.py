"""A way to call an op that the families share: without a batch axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import ShapeError, Tensor
from flambeau._errors import NoTensorError


def batched(
    name: str, op: Callable[..., Any], axes: int, input: Tensor, *args: Any
) -> Any:
    """`op`, which wants a batch axis, for input with or without one; errors speak of `name`."""
    try:
        have = input.ndim
        alone = input.unsqueeze(0) if have == axes + 1 else None
    except AttributeError:
        raise NoTensorError(f"{name}: input is a {type(input).__name__}; expected a Tensor") from None
    if have != axes + 2 and have != axes + 1:
        letters = ", ".join(("L",) if axes == 1 else ("D", "H", "W")[3 - axes :])
        ranks = f"{axes + 1}D or {axes + 2}D"
        what = f"Expected {ranks} tensor" if name.startswith("adaptive") else f"Expected {ranks} (batch mode) tensor"
        if axes > 1 and "_pool" in name and not name.startswith("adaptive"):
            what = f"non-empty {ranks} (batch mode) tensor expected for input"
        raise ShapeError(f"{name}: {what}, but got {list(input.shape)}; expected [N, C, {letters}] or [C, {letters}]")
    try:
        if have == axes + 2:
            return op(input, *args)
        result = op(alone, *args)
    except (ValueError, TypeError, RuntimeError) as error:
        # The op may have a name of its own, `max_pool2d_with_indices` for `max_pool2d`.
        text = str(error)
        own = text.partition(":")[0]
        if own == name or not own.isidentifier():
            raise
        raise type(error)(name + text[len(own) :]) from None
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)
