"""What the functions of linear algebra that are written in Python ask of their arguments first."""

from __future__ import annotations

from flambeau import _C
from flambeau._C import Tensor


def check_tensors(op: str, **given: object) -> None:
    """Raises TypeError, with the argument's name, for what is no tensor: an array has many of a tensor's methods, and would go some way."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: {name} is a {type(value).__name__}; expected a Tensor")


def wants_gradient(A: Tensor) -> bool:
    """True where a derivative of A will be asked for, by backward or along a direction, so that vectors are needed beside values."""
    if type(A) is not Tensor and _C.has_override(A):
        from flambeau.func._levels import has_tangent

        if has_tangent(A):
            return True
    return A.requires_grad and _C.is_grad_enabled()
