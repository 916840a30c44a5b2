"""Forward mode by dual tensors: a tensor and its derivative along a direction go through a computation together.

>>> import flambeau as fl
>>> from flambeau.autograd import forward_ad as fwd
>>> with fwd.dual_level():
...     x = fwd.make_dual(fl.tensor([1.0, 2.0]), fl.tensor([1.0, 0.0]))
...     y = fwd.unpack_dual(x * x)
>>> y.tangent
tensor([2., 0.])

`flambeau.func.jvp` is the same for functions, and composes with the other transformations. Levels nest: a tangent of an inner level
can have one of an outer level, which is how second derivatives are made. When its level ends a dual tensor is its primal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.modes import _Mode
from flambeau.func._dual import DualLevel
from flambeau.func._levels import active, dtype_of, opened, shape_of

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns."""

    primal: Tensor
    tangent: Tensor | None


def __getattr__(name: str) -> int:
    if name == "_current_level":  # where programs look whether forward mode is on: the innermost level, -1 outside of all
        return len(_entered()) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Entered(DualLevel):
    """A level that a program entered, unlike that of a `jvp`."""


def _entered() -> list[_Entered]:
    """Those of this thread, the innermost last."""
    return [level for level in active.levels if isinstance(level, _Entered)]


def enter_dual_level() -> int:
    """Begins a level, and returns its number, 0 for the outermost; levels end in the opposite order."""
    number = len(_entered())
    active.levels.append(_Entered())
    return number


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the innermost level.

    Raises:
        RuntimeError: there is none, or `level` is another one.
    """
    entered = _entered()
    if not entered or (level is not None and level != len(entered) - 1):
        raise RuntimeError(f"exit_dual_level: level = {level}, but {_there_are(entered)}; expected the innermost")
    entered[-1].open = False
    active.levels.remove(entered[-1])
    if entered[-1]._adopted:
        entered[-1].give_back()


def _there_are(entered: list[_Entered]) -> str:
    return f"the innermost level is {len(entered) - 1}" if entered else "no level was entered"


def _level(op: str, level: int | None) -> DualLevel:
    entered = _entered()
    if level is None:
        level = len(entered) - 1
    if not 0 <= level < len(entered):
        raise RuntimeError(f"{op}: level = {level}, but {_there_are(entered)}; use `with dual_level():`")
    return entered[level]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the values of `tensor` and the derivative `tangent`, in the innermost level.

    Raises:
        RuntimeError: no level was entered, or `tensor` has a tangent already.
        DTypeError: types that are no floating point or complex ones, or a complex one and another. A tangent of another precision is cast.
        ShapeError: other shapes.
    """
    for what, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor):
            raise TypeError(f"make_dual: {what} is a {type(x).__name__}; expected a Tensor")
    found = _level("make_dual", level)
    dtype, other = dtype_of(tensor), dtype_of(tangent)
    if (dtype.is_floating_point, dtype.is_complex) != (other.is_floating_point, other.is_complex) or not (
        dtype.is_floating_point or dtype.is_complex
    ):
        raise _C.DTypeError(f"make_dual: tensor is {dtype}, tangent {other}; expected floating point types, or complex ones")
    if shape_of(tensor) != shape_of(tangent):
        shapes = f"tensor has shape {list(shape_of(tensor))}, tangent {list(shape_of(tangent))}"
        raise _C.ShapeError(f"make_dual: {shapes}; expected equal shapes (Trying to set a forward gradient that has a different size)")
    if found.holds(tensor):
        raise RuntimeError("make_dual: tensor has a tangent in this level; pass its primal (unpack_dual)")
    return found.dual(tensor.view_as(tensor), tangent if other is dtype else tangent.to(dtype))


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent, None where there is none, of a tensor in the innermost level."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual: tensor is a {type(tensor).__name__}; expected a Tensor")
    if not _entered():
        return UnpackedDualTensor(tensor, None)
    found = _level("unpack_dual", level)
    return UnpackedDualTensor(found.primal(tensor), found.tangent(tensor))


class dual_level(_Mode):
    """A level for as long as the `with` block runs; `as` gives its number. As a decorator: one for each call.

    Raises:
        RuntimeError: where it ends, a level that was entered inside of it has not ended.
    """

    def __enter__(self) -> int:
        self._region = _region()
        return self._region.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._region.__exit__(*exc)


@contextlib.contextmanager
def _region() -> Iterator[int]:
    level, number = _Entered(), len(_entered())
    with opened(level):
        yield number
        if _entered()[-1] is not level:
            exit_dual_level(level=number)
