"""Which parameter of a function an argument is for: calls in one form, and forms of functions.

Functions of the op table say their forms in their docstrings, one a line: `max(input, dim, keepdim=False) -> ...`. Functions of
Python are asked by `inspect.signature`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import numbers
import re
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import _whole_calls
from flambeau._C import Tensor
from flambeau.fx._targets import is_ours

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op", "normalize_function",
    "normalize_module", "type_matches",
]  # fmt: skip

_BY_PLACE, _BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
# What a parameter takes, where its name says so: enough to tell forms of one function apart.
_KINDS: dict[str, tuple[type, ...]] = {
    "condition": (Tensor,), "decimals": (int,), "dim": (int, list, tuple, type(None)), "index": (Tensor,), "input": (Tensor,),
    "other": (Tensor,), "src": (Tensor,), "unbiased": (bool,), "value": (numbers.Number,),
}  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """A call's arguments by position, and those by keyword."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _default(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)  # a name, such as a type


@functools.cache
def _forms(op: Callable[..., Any]) -> tuple[inspect.Signature, ...]:
    """The forms of a function of the table."""
    found = []
    name = op.__name__
    for text in re.findall(rf"^{re.escape(name)}\((.*)\) -> ", op.__doc__ or "", re.MULTILINE):
        args = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
        needed = len(args.args) - len(args.defaults)
        given: list[Any] = [(a, None if i < needed else args.defaults[i - needed], _BY_PLACE) for i, a in enumerate(args.args)]
        given += [(a, default, _BY_NAME) for a, default in zip(args.kwonlyargs, args.kw_defaults)]
        signature = inspect.Signature(
            [inspect.Parameter(a.arg, kind, default=inspect.Parameter.empty if d is None else _default(d)) for a, d, kind in given]
        )
        if signature not in found:
            found.append(signature)
    return tuple(found)


def _as_written(target: Any) -> Any:
    """The function with its own parameters: while a program is traced, functions of this library have other code."""
    return target if hasattr(target, "__wrapped__") else _whole_calls.as_written(target)


def _is_of_table(op: Any) -> bool:
    return isinstance(op, types.BuiltinFunctionType) and is_ours(str(op.__module__))


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """The forms of a function of this library's core, as signatures; None for other functions.

    With `return_schemas` a pair, whose second part is None: there are no schemas behind them.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx.operator_schemas import get_signature_for_torch_op
        >>> get_signature_for_torch_op(fl.add)
        [<Signature (input, other, *, alpha=1)>]
    """
    found = list(_forms(op)) if _is_of_table(op) else []
    return (found or None, None) if return_schemas else found or None


def check_for_mutable_operation(target: Any, args: Any, kwargs: Any) -> None:
    """Raises RuntimeError for a function of this library's that writes into an argument."""
    ours = _is_of_table(target) or (inspect.isfunction(target) and is_ours(target.__module__))
    if ours and (target.__name__.endswith("_") or (kwargs or {}).get("out") is not None):
        raise RuntimeError(f"{target.__name__}: writes into an argument, which functions of a graph do not; use the other form")


def create_type_hint(x: Any) -> Any:
    """Of a list or tuple of types the type that its values have: `list[int]` of `[int, int]`. Anything else is returned."""
    if not isinstance(x, (list, tuple)):
        return x
    kind = None
    for entry in x:
        if kind is None or (isinstance(entry, type) and isinstance(kind, type) and issubclass(kind, entry)):
            kind = entry
        elif not (isinstance(entry, type) and isinstance(kind, type) and issubclass(entry, kind)):
            kind = Any
            break
    kind = Any if kind is None else kind
    return list[kind] if isinstance(x, list) else tuple[kind, ...]  # type: ignore[valid-type]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of one type may be given where the other is asked for."""
    if signature_type == argument_type:
        return True
    origin, parts = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(part, argument_type) for part in parts)
    if origin is list and parts:
        inner = [p for p in typing.get_args(argument_type) if p is not ...]
        if typing.get_origin(argument_type) in (list, tuple):
            return bool(inner) and all(type_matches(parts[0], p) for p in inner)
        return parts[0] is int and argument_type is int
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    return isinstance(signature_type, type) and isinstance(argument_type, type) and issubclass(argument_type, signature_type)


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool) -> ArgsKwargsPair | None:
    """The call in the form of the signature; None where it is none, or the signature says no names."""
    if any(p.kind not in (_BY_PLACE, _BY_NAME) for p in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    n = 0 if only_kwargs else len(args)
    items = list(bound.arguments.items())
    return ArgsKwargsPair(tuple(value for _, value in items[:n]), dict(items[n:]))


def _fits(signature: inspect.Signature, arg_types: tuple[Any, ...], kwarg_types: dict[str, Any]) -> bool:
    """Whether types may be those of the parameters, as far as names say."""
    try:
        given = signature.bind(*arg_types, **kwarg_types).arguments
    except TypeError:
        return False
    return all(not isinstance(kind, type) or name not in _KINDS or issubclass(kind, _KINDS[name]) for name, kind in given.items())


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """A call of a function with all of its parameters: those given by position there, the others by keyword, with their defaults.

    Args:
        arg_types, kwarg_types: types of the arguments, which tell forms of one function apart.
        normalize_to_only_use_kwargs: all by keyword.

    Returns:
        None where the function does not say its parameters' names, or the call is none of its forms.

    Raises:
        RuntimeError: the call may be one of several forms.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx.operator_schemas import normalize_function
        >>> normalize_function(fl.sum, ("x", 1))
        ArgsKwargsPair(args=('x', 1), kwargs={'keepdim': False, 'dtype': None})
    """
    kwargs = kwargs or {}
    if not _is_of_table(target):
        try:
            signature = inspect.signature(_as_written(target))
        except (TypeError, ValueError):
            return None
        return _bound(signature, args, kwargs, normalize_to_only_use_kwargs)
    forms = [(form, pair) for form in _forms(target) if (pair := _bound(form, args, kwargs, normalize_to_only_use_kwargs)) is not None]
    if len(forms) > 1 and (arg_types is not None or kwarg_types is not None):
        forms = [(form, pair) for form, pair in forms if _fits(form, arg_types or (), kwarg_types or {})]
    if len(forms) > 1:
        several = ", ".join(f"{target.__name__}{form}" for form, _ in forms)
        raise RuntimeError(f"normalize_function: the call may be one of {several}; pass arg_types, or the arguments by keyword")
    return forms[0][1] if forms else None


def normalize_module(
    root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False
) -> ArgsKwargsPair | None:
    """The same for a call of a layer of this library's that lies in `root` under the path `target`; None for modules of other classes.

    Raises:
        RuntimeError: there is no such path.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx.operator_schemas import normalize_module
        >>> normalize_module(fl.nn.Sequential(fl.nn.Linear(2, 2)), "0", ("x",), normalize_to_only_use_kwargs=True)
        ArgsKwargsPair(args=(), kwargs={'input': 'x'})
    """
    try:
        layer = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(f"normalize_module: there is no module at {target!r}") from None
    if not is_ours(type(layer).__module__):
        return None
    return _bound(inspect.signature(layer.forward), args, kwargs or {}, normalize_to_only_use_kwargs)
