"""Arguments that mean nothing, for functions in Python: the error names the function and the argument.

Functions of the table convert their arguments and refuse one at once. A function in Python meets a list or None where it first asks for a
shape, and what leaves it is "'list' object has no attribute 'shape'", "'float' object is not iterable" or "division by zero". To look at
each argument first would cost every call; so a function (or a decorator that wraps it anyway) catches `CONFUSED`, and `explained` looks
which argument is not what its annotation says.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import NoTensorError, misfit_error

F = TypeVar("F", bound=Callable[..., Any])

# What Python itself raises where an operation does not fit its operands.
CONFUSED = (AttributeError, TypeError, ValueError, IndexError, KeyError, ArithmeticError)
_PLAIN = frozenset({AttributeError, TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError})

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NAMED = re.compile(r"[\w.]+(\(\))?: ")  # how texts of this library begin
_CALLED = re.compile(r"\S+\(\) (missing|takes|got) ")  # of a call with other arguments than there are: Python says which


def is_pythons_own(error: BaseException) -> bool:
    """Whether an operation of this library's Python code failed, and nobody raised the error by hand or named a function in its text."""
    return not names_its_function(error) and _failed_here(error)


def names_its_function(error: BaseException) -> bool:
    """Whether a text begins as those of this library do."""
    return _NAMED.match(str(error)) is not None


def _failed_here(error: BaseException) -> bool:
    if type(error) not in _PLAIN or _CALLED.match(str(error)):
        return False
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if not code.co_filename.startswith(_HERE):
        return False
    import dis

    return dis.opname[code.co_code[trace.tb_lasti]] != "RAISE_VARARGS"


# ---------------------------------------------------------------- whether a value is what an annotation says


def _is_whole(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_floating_point() and not value.is_complex()
    return hasattr(type(value), "__index__")


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    kind = type(value)
    return (hasattr(kind, "__float__") or hasattr(kind, "__index__")) and not isinstance(value, (str, bytes))


def _is_several(one: Callable[[Any], bool], value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 1
    return not isinstance(value, (str, bytes, dict)) and isinstance(value, Iterable) and all(one(part) for part in _held(value))


def _or_none(one: Callable[[Any], bool], value: Any) -> bool:
    return value is None or one(value)


def _held(value: Any) -> Iterable[Any]:
    """What lies in a list or tuple; what else is iterated over once only is not looked at."""
    return value if isinstance(value, (list, tuple)) else ()


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Tensor": (lambda v: isinstance(v, Tensor), "a Tensor"),
    "int": (_is_whole, "an int"),
    "float": (_is_number, "a number"),
    "bool": (lambda v: isinstance(v, (bool, int, float)) or _is_number(v), "a bool"),
    "str": (lambda v: isinstance(v, str), "a str"),
    "None": (lambda v: v is None, "None"),
    "Module": (lambda v: hasattr(type(v), "named_modules"), "a Module"),
}
_SEVERAL = re.compile(r"(?:Sequence|Iterable|list|tuple)\[(\w+)( \| None)?(?:, ?(?:\.\.\.|\1))*\]")
_CHOICE = re.compile(r" ?\| ?(?![^\[]*\])")  # outside of brackets
_MANY = {"Tensor": "Tensors", "int": "ints", "float": "numbers", "bool": "bools", "str": "texts"}


def _misfit(value: Any, annotation: str) -> str | None:
    """What was expected where the value is not what the annotation says; None where it is, or where the annotation leaves it open."""
    words = []
    for part in _CHOICE.split(annotation):
        several = _SEVERAL.fullmatch(part)
        fits: Callable[[Any], bool]
        if part in _KINDS:
            fits, word = _KINDS[part]
        elif part.startswith("Callable["):
            fits, word = callable, "a function"
        elif part.startswith("dict["):
            fits, word = (lambda v: isinstance(v, dict)), "a dict"
        elif several and several[1] in _MANY:
            one = _KINDS[several[1]][0]
            fits = functools.partial(_is_several, functools.partial(_or_none, one) if several[2] else one)
            word = f"a list of {_MANY[several[1]]}"
        else:
            return None
        if fits(value):
            return None
        words.append(word)
    return " or ".join(", ".join(words).rsplit(", ", 1))


def _places(value: Any, place: str = "", depth: int = 2) -> Iterator[tuple[str, Any]]:
    """A value, and what lies in lists of it, with the way there."""
    yield place, value
    if depth and isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from _places(part, f"{place}[{i}]", depth - 1)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- what is raised instead


def explained(
    error: Exception, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Exception:
    """What to raise for `error`: a TypeError that names the argument, or `error` itself where it says so already.

    The result is of the type of `error`, too, since that is what PyTorch's own functions in Python raise.
    """
    missing = error.obj if isinstance(error, AttributeError) and error.name is not None else None
    if missing is None and not _failed_here(error):
        return error
    import inspect

    plain = inspect.unwrap(function)
    try:
        given = inspect.signature(plain).bind_partial(*args, **(kwargs or {})).arguments
    except TypeError:  # arguments that the function does not have: Python says which
        return error
    op = type(args[0]).__name__ if plain.__name__ in ("__init__", "forward") else plain.__name__.lstrip("_")
    if isinstance(error, AttributeError) and error.name is not None:
        for name, value in given.items():
            wanted = str(plain.__annotations__.get(name, ""))
            if "Tensor" not in wanted and name != "tensors":
                continue
            for place, part in _places(value):
                if part is not missing or isinstance(part, Tensor) or (part is None and "None" in wanted):
                    continue
                return NoTensorError(f"{op}: {name}{place} is a {type(part).__name__}; expected a Tensor")
    text = str(error)
    named = _NAMED.match(text)
    if not _failed_here(error) or (named and text.startswith(f"{op}:")):
        return error
    for name, value in given.items():
        wanted = plain.__annotations__.get(name)
        if isinstance(alias := getattr(plain, "__globals__", {}).get(wanted), types.UnionType):
            wanted = str(alias).replace("collections.abc.", "")
        if isinstance(wanted, str) and (expected := _misfit(value, wanted)) is not None:
            shown = f"{name} is" if value is None or isinstance(value, Tensor) or "Tensor" in wanted else f"{name} = {_shown(value)} is"
            return misfit_error(error, f"{op}: {shown} a {type(value).__name__}; expected {expected}")
    return error if named else not_together(error, op, given)


def not_together(error: Exception, op: str, given: Mapping[str, Any]) -> Exception:
    """What to raise for `error` where no argument alone is at fault: an error that shows all of them."""
    got = ", ".join(f"{name} = {_shown(value)}" for name, value in given.items() if name not in ("self", "cls"))
    said = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
    return misfit_error(error, f"{op}: got {got}; expected arguments that fit together ({said})")


def _bare(value: Any) -> Any:
    """A tensor without elements in the place of each one, of the same shape and type."""
    if isinstance(value, Tensor):
        return ops.empty(tuple(value.shape), dtype=value.dtype, device="meta")
    return type(value)(map(_bare, value)) if type(value) in (tuple, list) else value


def said_by_op(error: Exception, op: str, call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception:
    """What to raise for `error`, which an op's rule for tensors of another kind (batches, sparse ones) met: what the op itself says of such
    arguments, else an error that shows them; `error` itself where it was raised by hand.
    """
    if not is_pythons_own(error):
        return error
    try:
        with _C.held(_C.set_draw_hook, None):
            call(*map(_bare, args), **{name: _bare(value) for name, value in kwargs.items()})
    except Exception as said:
        if names_its_function(said):
            return said.with_traceback(None)
    return not_together(error, op, {**{f"argument {i + 1}": value for i, value in enumerate(args)}, **kwargs})


def explain(error: Exception, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
    """Raises what `explained` found; a `raise` behind it leaves an error that needs no words as it is."""
    found = explained(error, function, args, kwargs)
    if found is not error:
        raise found from None


class _LateSignature:
    """The signature of a function, read when somebody asks. `inspect.getfullargspec` asks a wrapper itself, and not what it wraps.

    It says that it is an `inspect.Signature`, which importing flambeau does not import.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def _real(self) -> Any:
        import inspect

        return inspect.signature(self._function)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._real())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __str__(self) -> str:
        return str(self._real())

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self._real() == (other._real() if type(other) is _LateSignature else other)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(self._real())


_WRAPPED, _WANTED, _NAMES = "flambeau: what is called", "flambeau: the numbers among its parameters", "flambeau: its parameters"


def _wrapping(template: Callable[..., Any], function: Any, constants: dict[str, Any]) -> Any:
    """A wrapper with the template's code, with values in place of texts, which takes what the function takes.

    The function's parameters are among the names of its variables, where programs look for what a constructor takes. A code without
    free variables can be given more names without being compiled again.
    """
    code: types.CodeType = template.__code__  # type: ignore[attr-defined]
    own = getattr(function, "__code__", code)
    parameters = own.co_varnames[: own.co_argcount + own.co_kwonlyargcount]
    names = (*code.co_varnames, *(name for name in parameters if name not in code.co_varnames))
    values = tuple(constants.get(value, value) if isinstance(value, str) else value for value in code.co_consts)
    code = code.replace(co_consts=values, co_varnames=names, co_nlocals=len(names))
    wrapper = functools.wraps(function)(types.FunctionType(code, globals()))
    if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
        wrapper.__signature__ = _LateSignature(function)  # type: ignore[attr-defined]
    return wrapper


def _explaining(*args: Any, **kwargs: Any) -> Any:
    function: Any = "flambeau: what is called"
    try:
        return function(*args, **kwargs)
    except CONFUSED as error:
        explain(error, function, args, kwargs)
        raise


def wants_tensors(function: F) -> F:
    """Decorator, for functions that are long beside the call of a wrapper: what is no tensor, or no number, is named.

    >>> @wants_tensors
    ... def rows(x: Tensor, by: int = 1) -> int:
    ...     return x.shape[0] * by // 1
    >>> rows([1, 2])
    Traceback (most recent call last):
    flambeau._errors.NoTensorError: rows: x is a list; expected a Tensor
    """

    return _wrapping(_explaining, function, {_WRAPPED: function})  # type: ignore[no-any-return]


def explains(space: dict[str, Any], first: bool = False) -> None:
    """Has the constructors of a package's classes name the arguments that they do not take; called at the end of the package's file.

    Args:
        first: what is no number is refused at once where one is wanted, since it is used much later.
    """
    package = space["__name__"]
    for value in list(space.values()):
        if not isinstance(value, type) or issubclass(value, BaseException):
            continue
        for cls in value.__mro__:
            start = cls.__dict__.get("__init__") if cls.__module__.startswith(package) else None
            if not isinstance(start, types.FunctionType) or hasattr(start, "__wrapped__"):
                continue
            if start.__code__.co_argcount + start.__code__.co_kwonlyargcount > 1:
                cls.__init__ = (_wants_numbers if first else wants_tensors)(start)  # type: ignore[misc]


def explains_functions(space: dict[str, Any]) -> None:
    """Has a package's functions in Python, which are long beside the call of a wrapper, name the arguments that they do not take."""
    package = space["__name__"]
    for name, value in list(space.items()):
        if isinstance(value, types.FunctionType) and value.__module__.startswith(package) and not hasattr(value, "__wrapped__"):
            if value.__name__.startswith("_"):
                continue
            space[name] = clear = wants_tensors(value)
            home, own = vars(sys.modules[value.__module__]), value.__name__
            if home.get(own) is value:
                home[own] = clear


_ORDERS = frozenset({"int", "float", "int | None", "float | None", "Tensor | float", "float | Tensor"})


_NUMBERS = frozenset((int, float, bool))


def _ordering(*args: Any, **kwargs: Any) -> Any:
    start: Any = "flambeau: what is called"
    wanted: Any = "flambeau: the numbers among its parameters"
    names: Any = "flambeau: its parameters"
    for name, value in (*zip(names, args), *kwargs.items()):
        if type(value) in _NUMBERS:
            continue
        text = wanted.get(name)
        if text is None or (value is None and "None" in text) or isinstance(value, Tensor) or _is_number(value):
            continue
        kind = "an int" if text.startswith("int") else "a number"
        raise TypeError(f"{type(args[0]).__name__}: {name} = {_shown(value)} is a {type(value).__name__}; expected {kind}")
    try:
        return start(*args, **kwargs)
    except CONFUSED as error:
        explain(error, start, args, kwargs)
        raise


def _wants_numbers(start: F) -> F:
    """`wants_tensors` that looks at numbers first. A float will do for an int, as it does in PyTorch's formulas."""
    wanted = {name: text for name, text in start.__annotations__.items() if text in _ORDERS}
    code: Any = start.__code__  # type: ignore[attr-defined]
    values = {_WRAPPED: start, _WANTED: wanted, _NAMES: code.co_varnames[: code.co_argcount]}
    return _wrapping(_ordering, start, values)  # type: ignore[no-any-return]
