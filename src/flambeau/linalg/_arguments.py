"""What the functions of linear algebra that are written in Python ask of their arguments first."""

from __future__ import annotations

from flambeau._C import Tensor


def check_tensors(op: str, **given: object) -> None:
    """Raises TypeError, with the argument's name, for what is no tensor: an array has many of a tensor's methods, and would go some way."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} is a {type(value).__name__}; expected a Tensor")
