"""`torch._foreach_*`: one op over lists of tensors. Each is the op of that name on every tensor; the form with _ writes in place and returns nothing."""

from __future__ import annotations

from collections.abc import Callable
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


def _method(op: str, x: Any) -> Callable[..., Any]:
    """The in-place method of a tensor; a number stands beside it as a tensor where the op takes only these."""
    other = {"maximum": "maximum", "minimum": "minimum"}.get(op)
    if other is None:
        return getattr(x, op + "_")  # type: ignore[no-any-return]

    def write(value: Any) -> Any:
        value = value if isinstance(value, flambeau.Tensor) else flambeau.full_like(x, value)
        return x.copy_(getattr(flambeau, other)(x, value))

    return write


def _inplace(op: str) -> Callable[..., None]:
    name = f"_foreach_{op}_"

    def run(tensors: Any, *args: Any, **kwargs: Any) -> None:
        if op in ("addcmul", "addcdiv"):
            first, second, *rest = args
            if unknown := kwargs.keys() - {"value", "scalars", "tensors"}:
                raise TypeError(f"{name}: unexpected argument {min(unknown)}; expected value, scalars or tensors")
            value = rest[0] if rest else kwargs.get("value", kwargs.get("scalars", kwargs.get("tensors", 1)))
            value = value.tolist() if isinstance(value, flambeau.Tensor) and value.ndim else value
            for x, a, b, v in zip(tensors, first, second, _spread(name, value, len(tensors))):
                getattr(x, op + "_")(a, b, value=v)
            return
        columns = [_spread(name, a, len(tensors)) for a in args]
        extra = {k: kwargs[k] for k in _BY_NAME.get(op, ()) if k in kwargs}
        if unknown := kwargs.keys() - {*_OTHERS, *extra}:
            raise TypeError(f"{name}: unexpected argument {min(unknown)}; expected one of {', '.join((*_OTHERS, *_BY_NAME.get(op, ())))}")
        named = [_spread(name, v, len(tensors)) for k, v in kwargs.items() if k in _OTHERS]
        for x, *rest in zip(tensors, *columns, *named):
            _method(op, x)(*rest, **extra)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}_` of every tensor of a list."
    return run


def _made(op: str) -> Callable[..., Any]:
    name = f"_foreach_{op}"
    write = _inplace(op)

    def run(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        others = [a for a in (*args, *kwargs.values()) if isinstance(a, (list, tuple))]
        copies = []
        for i, x in enumerate(tensors):
            kinds = [o[i] for o in others] + [a for a in (*args, *kwargs.values()) if not isinstance(a, (list, tuple))]
            dtype = x.dtype
            for k in kinds:
                if isinstance(k, (flambeau.Tensor, int, float, complex)) and not isinstance(k, bool):
                    dtype = flambeau.promote_types(dtype, flambeau.result_type(x, k))
            floats = op in ("div", "reciprocal", "sqrt", "rsqrt", "exp", "log") and not (dtype.is_floating_point or dtype.is_complex)
            shape = flambeau.broadcast_shapes(x.shape, *(k.shape for k in kinds if isinstance(k, flambeau.Tensor)))
            room = x if shape == x.shape else x.expand(shape).contiguous()
            copies.append(room.to(flambeau.get_default_dtype() if floats else dtype, copy=room is x))
        write(copies, *args, **kwargs)
        return tuple(copies)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`{op}` of every tensor of a list."
    return run


def _foreach_norm(tensors: Any, ord: float = 2, dtype: Any = None) -> Any:
    """The norm of every tensor of a list, over all of its elements."""
    return tuple(flambeau.linalg.vector_norm(x, ord, dtype=dtype) for x in tensors)


def _foreach_max(tensors: Any) -> Any:
    """The largest element of every tensor of a list."""
    return tuple(x.max() for x in tensors)


_table: dict[str, Any] = {}
for _op in _ALL:
    _table[f"_foreach_{_op}_"] = _inplace(_op)
    if _op not in ("zero", "copy"):
        _table[f"_foreach_{_op}"] = _made(_op)
globals().update(_table)
