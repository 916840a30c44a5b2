"""`torch._foreach_*`: one op over lists of tensors. Each is the op of that name on every tensor; the form with _ writes in place and returns nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau

_UNARY = ("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh "
          "sqrt tan tanh trunc zero").split()  # fmt: skip
_BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "copy")
_OTHERS = ("other", "weight", "weights", "scalar", "scalars", "exponent", "src")
_BY_NAME = {"add": ("alpha",), "sub": ("alpha",), "copy": ("non_blocking",)}
_ALL = (*_UNARY, *_BINARY, "lerp", "addcmul", "addcdiv")


def _spread(name: str, value: Any, count: int) -> list[Any]:
    """One value per tensor: of a list its items, of anything else itself each time."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise RuntimeError(f"{name}: got {len(value)} values for {count} tensors; expected one for each")
        return list(value)
    return [value] * count


def _calls(op: str, name: str, tensors: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Any, list[Any], dict[str, Any]]]:
    """Each tensor, and what the op is called with beside it."""
    if op in ("addcmul", "addcdiv"):
        first, second, *rest = args
        if unknown := kwargs.keys() - {"value", "scalars", "tensors"}:
            raise TypeError(f"{name}: unexpected argument {min(unknown)}; expected value, scalars or tensors")
        value = rest[0] if rest else kwargs.get("value", kwargs.get("scalars", kwargs.get("tensors", 1)))
        value = value.tolist() if isinstance(value, flambeau.Tensor) and value.ndim else value
        for x, a, b, v in zip(tensors, first, second, _spread(name, value, len(tensors))):
            yield x, [a, b], {"value": v}
        return
    columns = [_spread(name, a, len(tensors)) for a in args]
    extra = {k: kwargs[k] for k in _BY_NAME.get(op, ()) if k in kwargs}
    if unknown := kwargs.keys() - {*_OTHERS, *extra}:
        raise TypeError(f"{name}: unexpected argument {min(unknown)}; expected one of {', '.join((*_OTHERS, *_BY_NAME.get(op, ())))}")
    columns += [_spread(name, v, len(tensors)) for k, v in kwargs.items() if k in _OTHERS]
    for x, *rest in zip(tensors, *columns):
        yield x, rest, extra


def _method(op: str, *beside: Any) -> str:
    """What a tensor's method is called: the greater (smaller) of it and a number is what that number bounds."""
    bounds = {"maximum": "clamp_min", "minimum": "clamp_max"}
    return bounds[op] if op in bounds and not isinstance(beside[0], flambeau.Tensor) else op


def _inplace(op: str) -> Callable[..., None]:
    name = f"_foreach_{op}_"

    def run(tensors: Any, *args: Any, **kwargs: Any) -> None:
        for x, rest, extra in _calls(op, name, tensors, args, kwargs):
            method = _method(op, *rest[:1])
            if method in ("maximum", "minimum"):
                x.copy_(getattr(x, method)(*rest))
            else:
                getattr(x, method + "_")(*rest, **extra)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}_` of every tensor of a list."
    return run


def _made(op: str) -> Callable[..., Any]:
    name = f"_foreach_{op}"

    def run(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if op == "pow" and not isinstance(tensors, (list, tuple)):  # one number to the power of each tensor
            return tuple(tensors**x for x in args[0])
        return tuple(getattr(x, _method(op, *rest[:1]))(*rest, **extra) for x, rest, extra in _calls(op, name, tensors, args, kwargs))

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}` of every tensor of a list."
    return run


def _foreach_norm(tensors: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The norm of every tensor of a list, over all of its elements."""
    return tuple(flambeau.linalg.vector_norm(x, ord, dtype=dtype) for x in tensors)


def _foreach_powsum(tensors: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The sum of all |element|^ord of every tensor of a list: `_foreach_norm` without the root."""
    return tuple((x if dtype is None else x.to(dtype)).abs().pow(ord).sum() for x in tensors)


def _foreach_clone(tensors: Any, *, memory_format: Any = None) -> Any:
    """A copy of every tensor of a list."""
    return tuple(x.clone() for x in tensors)


def _foreach_max(tensors: Any) -> Any:
    """The largest element of every tensor of a list."""
    return tuple(x.max() for x in tensors)


_table: dict[str, Any] = {}
for _op in _ALL:
    _table[f"_foreach_{_op}_"] = _inplace(_op)
    if _op not in ("zero", "copy"):
        _table[f"_foreach_{_op}"] = _made(_op)
globals().update(_table)
