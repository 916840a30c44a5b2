"""`rearrange`: axes split, reordered and merged as a pattern of names says (Rogozhnikov, "Einops", ICLR 2022)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors

_DOTS, _MERGED = "...", "(...)"  # outside of parentheses, and inside
_TOKEN = re.compile(r"\s*(?:(\.\.\.)|([A-Za-z_]\w*)|(\d+)|([()]))")


def _groups(side: str, pattern: str) -> list[list[str]]:
    """The axes of one side, each as the names that it is made of: none for an axis of size 1."""
    found: list[list[str]] = []
    group: list[str] | None = None
    at = 0
    while at < len(side.rstrip()):
        token = _TOKEN.match(side, at)
        if token is None:
            raise ValueError(f"rearrange: {side[at:].split()[0]!r} in {pattern!r}; expected names, 1, parentheses or '...'")
        at = token.end()
        dots, name, number, bracket = token.groups()
        if bracket == "(":
            if group is not None:
                raise ValueError(f"rearrange: parentheses in parentheses in {pattern!r}; expected one level")
            group = []
        elif bracket:
            if group is None:
                raise ValueError(f"rearrange: a ) without its ( in {pattern!r}")
            found.append(group)
            group = None
        elif number:
            if number != "1":
                raise ValueError(f"rearrange: an axis {number} without a name in {pattern!r}; expected a name, or 1")
            if group is None:
                found.append([])
        elif group is None:
            found.append([dots or name])
        else:
            group.append(_MERGED if dots else name)
    if group is not None:
        raise ValueError(f"rearrange: a ( without its ) in {pattern!r}")
    names = [name for axis in found for name in axis]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"rearrange: {', '.join(twice)} more than once on one side of {pattern!r}")
    return found


def _sizes(axis: list[str], size: int, known: dict[str, int], pattern: str) -> list[int]:
    """The sizes of the names that an axis is made of, of which one may follow from the others."""
    open_ = [name for name in axis if name not in known]
    product = math.prod(known[name] for name in axis if name in known)
    if len(open_) > 1:
        raise ValueError(f"rearrange: the sizes of {' and '.join(open_)} in {pattern!r}; give all but one of them as keywords")
    if (size % product if product else size) if open_ else size != product:
        said = ", ".join(f"{name} = {known[name]}" for name in axis if name in known) or "1"
        raise _C.ShapeError(f"rearrange: an axis of size {size} for ({' '.join(axis)}) in {pattern!r}, with {said}")
    known |= dict.fromkeys(open_, size // product if product else 0)
    return [known[name] for name in axis]


@wants_tensors
def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Axes split, reordered and merged: `pattern` names those of the tensor, then those of the result.

    Several names in parentheses are one axis, the last of them runs fastest. `...` stands for any axes, `()` and 1 for one of size 1.

    Args:
        tensor: a list of tensors is stacked along a new first axis.
        axes_lengths: sizes of names in parentheses, of all but one in each.

    Raises:
        ValueError: a pattern that says nothing, or less than it should.
        ShapeError: a shape that does not fit it.

    Example:
        >>> import flambeau as fl
        >>> images = fl.zeros(8, 4, 6, 3)
        >>> fl.func.rearrange(images, "b (h s) w c -> b c h (w s)", s=2).shape
        flambeau.Size([8, 3, 2, 12])
    """
    x: Any = tensor if isinstance(tensor, Tensor) else ops.stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: {pattern!r}; expected one '->'")
    left, right = (_groups(side, pattern) for side in sides)
    names = [{name for axis in side for name in axis} for side in (left, right)]
    if _MERGED in names[0] or (names[1] & {_DOTS, _MERGED} and _DOTS not in names[0]):
        raise ValueError(f"rearrange: {pattern!r}; expected '...' on the left, too, and not in parentheses there")
    if alone := sorted((names[0] ^ names[1]) - {_DOTS, _MERGED}):
        raise ValueError(f"rearrange: {', '.join(alone)} on one side of {pattern!r} alone")
    if unknown := sorted(axes_lengths.keys() - names[0]):
        raise ValueError(f"rearrange: sizes of {', '.join(unknown)}, which are not in {pattern!r}")
    free = x.ndim - len(left) + (_DOTS in names[0])
    if free < 0 or (free and _DOTS not in names[0]):
        raise _C.ShapeError(f"rearrange: the tensor has shape {list(x.shape)}, and {pattern!r} names {len(left)} axes")
    filled = [f"{_DOTS}{i}" for i in range(free)]  # a name for each axis that the dots stand for

    def spelled(side: list[list[str]]) -> list[list[str]]:
        axes: list[list[str]] = []
        for axis in side:
            axes += [[n] for n in filled] if axis == [_DOTS] else [[n for name in axis for n in (filled if name == _MERGED else [name])]]
        return axes

    left, right = spelled(left), spelled(right)
    known = dict(axes_lengths)
    split = [size for axis, n in zip(left, x.shape, strict=True) for size in _sizes(axis, n, known, pattern)]
    order = [name for axis in left for name in axis]
    x = x.reshape(split).permute([order.index(name) for axis in right for name in axis])
    return x.reshape([math.prod(known[name] for name in axis) for axis in right])  # type: ignore[no-any-return]
