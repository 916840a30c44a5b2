"""Checks of values, and copies to write to, that also hold inside of `func`'s transformations."""

from __future__ import annotations

from flambeau._C import Tensor, ops


def held(x: Tensor) -> Tensor:
    """The numbers that a check of x reads: those of all samples inside of `vmap`, without tangents in forward mode."""
    if not getattr(type(x), "_sees_parts", False):
        return x
    from flambeau.func._levels import held_by

    return held_by(x)


def writable(x: Tensor, part: Tensor) -> Tensor:
    """A copy of x to which `part` can be written: where that is one value per sample, or has a tangent, so is the copy."""
    if not getattr(type(part), "_sees_parts", False):
        return ops.clone(x)
    return ops.where(ops.full((), True), x, ops.new_zeros(part, (), dtype=x.dtype))
