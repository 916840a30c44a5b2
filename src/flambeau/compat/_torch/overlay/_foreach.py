"""`torch._foreach_*`: one op over lists of tensors. Each is the op of that name on every tensor; the form with _ writes in place and returns its list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau

_UNARY = ("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh "
          "sqrt tan tanh trunc zero").split()  # fmt: skip
_BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")
_BESIDE: dict[str, tuple[tuple[str, ...], ...]] = {  # what stands beside the list, by position, with the names that each may have
    **dict.fromkeys(_UNARY, ()),
    **dict.fromkeys(_BINARY, (("other", "scalar", "scalars", "exponent"),)),
    "copy": (("src",), ("non_blocking",)),
    "lerp": (("tensors1",), ("weight", "weights")),
    "addcmul": (("tensor1",), ("tensor2",), ("value", "scalars", "tensors")),
    "addcdiv": (("tensor1",), ("tensor2",), ("value", "scalars", "tensors")),
}
_NEEDED = {"copy": 1, "addcmul": 2, "addcdiv": 2}  # of others, all
_LISTS = {"copy": 1, "lerp": 1, "addcmul": 2, "addcdiv": 2}  # so many of the first are lists, never one for all
_BY_NAME = {"add": ("alpha",), "sub": ("alpha",)}
_ALL = tuple(_BESIDE)


def _spread(name: str, value: Any, count: int) -> list[Any]:
    """One value per tensor: of a list its items, of anything else itself each time."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise RuntimeError(f"{name}: got {len(value)} values for {count} tensors; expected one for each")
        return list(value)
    return [value] * count


def _listed(name: str, what: str, value: Any) -> list[Any]:
    """What must be a list of tensors, and not empty."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name}: {what} is a {type(value).__name__}; expected a list or tuple of tensors")
    for i, x in enumerate(value):
        if not isinstance(x, flambeau.Tensor):
            raise TypeError(f"{name}: {what}[{i}] is a {type(x).__name__}; expected a tensor")
    if not value:
        raise RuntimeError(f"{name}: {what} is empty; expected at least one tensor")
    return list(value)


def _beside(op: str, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments beside the list in their order, and what is given by name alone."""
    slots = _BESIDE[op]
    if len(args) > len(slots):
        raise TypeError(f"{name}: got {len(args)} arguments beside the list; expected {len(slots)}")
    given, rest = list(args), dict(kwargs)
    for names in slots[len(args) :]:
        named = [n for n in names if n in rest]
        if not named:
            break
        given.append(rest.pop(named[0]))
    if unknown := rest.keys() - {*_BY_NAME.get(op, ())}:
        names_known = [*(n for slot in slots for n in slot), *_BY_NAME.get(op, ())]
        raise TypeError(f"{name}: unexpected argument {min(unknown)}; expected {', '.join(names_known) or 'the list alone'}")
    if len(given) < _NEEDED.get(op, len(slots)):
        raise TypeError(f"{name}: {' or '.join(slots[len(given)])} is missing")
    for slot, value in zip(slots[: _LISTS.get(op, 0)], given):
        _listed(name, slot[0], value)
    return given, rest


def _calls(op: str, name: str, tensors: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    """Each tensor, and what the op is called with beside it."""
    tensors = _listed(name, "self", tensors)
    given, extra = _beside(op, name, args, kwargs)
    if op in ("addcmul", "addcdiv") and len(given) == 3 and isinstance(given[2], flambeau.Tensor) and given[2].ndim:
        given[2] = given[2].tolist()
    columns = [_spread(name, a, len(tensors)) for a in given]
    for i, x in enumerate(tensors):
        beside = [c[i] for c in columns]
        if op in ("addcmul", "addcdiv"):
            yield x, beside[:2], {"value": beside[2]} if len(beside) == 3 else {}
        else:
            yield x, beside, extra


def _method(op: str, *beside: Any) -> str:
    """What a tensor's method is called: the greater (smaller) of it and a number is what that number bounds."""
    bounds = {"maximum": "clamp_min", "minimum": "clamp_max"}
    return bounds[op] if op in bounds and not isinstance(beside[0], flambeau.Tensor) else op


def _inplace(op: str) -> Callable[..., Any]:
    name = f"_foreach_{op}_"

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        for x, rest, extra in _calls(op, name, self, args, kwargs):
            method = _method(op, *rest[:1])
            if method in ("maximum", "minimum"):
                x.copy_(getattr(x, method)(*rest))
            else:
                getattr(x, method + "_")(*rest, **extra)
        return self

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}_` of every tensor of a list."
    return run


def _made(op: str) -> Callable[..., Any]:
    name = f"_foreach_{op}"

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if op == "pow" and isinstance(self, (bool, int, float, complex)):  # one number to the power of each tensor
            return tuple(self**x for x in _listed(name, "exponent", _beside(op, name, args, kwargs)[0][0]))
        return tuple(getattr(x, _method(op, *rest[:1]))(*rest, **extra) for x, rest, extra in _calls(op, name, self, args, kwargs))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}` of every tensor of a list."
    return run


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The norm of every tensor of a list, over all of its elements."""
    return tuple(flambeau.linalg.vector_norm(x, ord, dtype=dtype) for x in _listed("_foreach_norm", "self", self))


def _foreach_powsum(self: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The sum of all |element|^ord of every tensor of a list: `_foreach_norm` without the root."""
    return tuple((x if dtype is None else x.to(dtype)).abs().pow(ord).sum() for x in _listed("_foreach_powsum", "self", self))


def _foreach_clone(self: Any, *, memory_format: Any = None) -> Any:
    """A copy of every tensor of a list."""
    return tuple(x.clone() for x in _listed("_foreach_clone", "self", self))


def _foreach_max(self: Any) -> Any:
    """The largest element of every tensor of a list."""
    return tuple(x.max() for x in _listed("_foreach_max", "self", self))


_table: dict[str, Any] = {}
for _op in _ALL:
    _table[f"_foreach_{_op}_"] = _inplace(_op)
    if _op not in ("zero", "copy"):
        _table[f"_foreach_{_op}"] = _made(_op)
globals().update(_table)
