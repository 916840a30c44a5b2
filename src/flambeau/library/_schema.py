"""What an op takes and returns: read from a schema's text, or from a function's annotations.

    (Tensor x, Tensor(a1!)[] out, SymInt n=3, *, ScalarType? dtype=None) -> (Tensor, Tensor)

`(a1!)` stands behind what the op writes to.
"""

from __future__ import annotations

import ast
import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau._errors import SchemaError


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, Tensor)


_PLAIN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "Tensor": ("a Tensor", lambda v: isinstance(v, Tensor)),
    "SymInt": ("an int", _is_int),
    "int": ("an int", _is_int),
    "float": ("a float", lambda v: isinstance(v, (int, float)) or (hasattr(v, "__float__") and not isinstance(v, Tensor))),
    "bool": ("a bool", lambda v: isinstance(v, bool)),
    "str": ("a str", lambda v: isinstance(v, str)),
    "ScalarType": ("a dtype", lambda v: isinstance(v, _C.dtype)),
    "Device": ("a device", lambda v: isinstance(v, (_C.device, str))),
    "Scalar": ("a number", lambda v: isinstance(v, (int, float, complex))),
}
_SAME = {"number": "Scalar", "dtype": "ScalarType", "device": "Device"}
_TYPE = re.compile(r"(\w+)(\(\w+!?\))?(\?)?(\[\d*\])?(\?)?$")


class Kind(NamedTuple):
    """The type of an argument: `Tensor?[]` is a list of items that may be None."""

    item: str
    item_optional: bool = False
    many: bool = False
    optional: bool = False

    def __str__(self) -> str:
        return self.item + "?" * self.item_optional + "[]" * self.many + "?" * self.optional

    @property
    def tensors(self) -> bool:
        """Whether it is a tensor, or several."""
        return self.item == "Tensor"

    def takes(self, value: Any) -> bool:
        """Whether a value is of it."""
        if value is None and self.optional:
            return True
        one = _PLAIN[self.item][1]
        if not self.many:
            return one(value)
        return isinstance(value, (tuple, list)) and all(one(v) or (v is None and self.item_optional) for v in value)

    @property
    def words(self) -> str:
        """For errors."""
        one = _PLAIN[self.item][0]
        words = f"a list of {one.split(' ', 1)[1]}s" if self.many else one
        return words + (" or None" if self.optional else "")


class Argument(NamedTuple):
    """One argument."""

    name: str
    kind: Kind
    default: Any = inspect.Parameter.empty
    keyword_only: bool = False
    mutated: bool = False
    alias: str = ""

    def __str__(self) -> str:
        text = str(self.kind)
        if self.alias:
            text = "Tensor" + self.alias + text[len("Tensor") :]
        default = "" if self.default is inspect.Parameter.empty else f"={_said(self.default)}"
        return f"{text} {self.name}{default}"


class Schema(NamedTuple):
    """Arguments and results of an op."""

    arguments: tuple[Argument, ...]
    returns: tuple[Kind, ...]
    name: str = ""  # "namespace::name" of the op

    def __str__(self) -> str:
        return self.name + self.form

    @property
    def form(self) -> str:
        """The text without the op's name."""
        parts: list[str] = []
        star = False
        for argument in self.arguments:
            if argument.keyword_only and not star:
                parts.append("*")
                star = True
            parts.append(str(argument))
        kinds = [str(kind) for kind in self.returns]
        return f"({', '.join(parts)}) -> {kinds[0] if len(kinds) == 1 else '(' + ', '.join(kinds) + ')'}"

    @property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments that can be given by position."""
        return tuple(a for a in self.arguments if not a.keyword_only)

    @property
    def is_mutable(self) -> bool:
        """Whether the op writes to an argument."""
        return any(a.mutated for a in self.arguments)

    def bind(self, op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values of all arguments in order, defaults filled in.

        Raises:
            TypeError: they do not fit.
        """
        positional = self.positional
        if len(args) > len(positional):
            raise SchemaError(f"{op}: {len(args)} positional arguments; expected at most {len(positional)}: {op}{self.form}")
        names = [a.name for a in self.arguments]
        if unknown := [k for k in kwargs if k not in names]:
            raise SchemaError(f"{op}: there is no argument '{unknown[0]}'; expected {op}{self.form}")
        values = []
        for i, argument in enumerate(self.arguments):
            if i < len(args) and not argument.keyword_only:
                if argument.name in kwargs:
                    raise SchemaError(f"{op}: argument '{argument.name}' is given twice; expected {op}{self.form}")
                value = args[i]
            else:
                value = kwargs.get(argument.name, argument.default)
                if value is inspect.Parameter.empty:
                    raise SchemaError(f"{op}: argument '{argument.name}' is missing; expected {op}{self.form}")
            if not argument.kind.takes(value):
                raise SchemaError(f"{op}: argument '{argument.name}' is {_described(value)}; expected {argument.kind.words}")
            values.append(value)
        return values

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Values of all arguments as a call has them: positions, and keywords."""
        pairs = list(zip(self.arguments, values, strict=True))
        return tuple(v for a, v in pairs if not a.keyword_only), {a.name: v for a, v in pairs if a.keyword_only}

    def mutated(self, values: Sequence[Any]) -> list[Tensor]:
        """The tensors among the values that the op writes to."""
        found: list[Tensor] = []
        for argument, value in zip(self.arguments, values, strict=True):
            if argument.mutated:
                found += [v for v in (value if argument.kind.many else (value,)) if isinstance(v, Tensor)]
        return found

    def check_result(self, op: str, result: Any) -> None:
        """Raises TypeError where a kernel returned something else than is declared."""
        want = self.returns
        if not want:
            if result is not None and result != ():
                raise SchemaError(f"{op}: the function returned {_described(result)}; expected None: {op}{self.form}")
            return
        if len(want) > 1 and (not isinstance(result, (tuple, list)) or len(result) != len(want)):
            raise SchemaError(f"{op}: the function returned {_described(result)}; expected {len(want)} results: {op}{self.form}")
        for i, (kind, value) in enumerate(zip(want, result if len(want) > 1 else (result,), strict=True)):
            if not kind.takes(value):
                which = f"result {i}" if len(want) > 1 else "the result"
                raise SchemaError(f"{op}: {which} is {_described(value)}; expected {kind.words}: {op}{self.form}")


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        kinds = sorted({type(v).__name__ for v in value})
        return f"a {type(value).__name__} of {len(value)} ({', '.join(kinds)})" if value else f"an empty {type(value).__name__}"
    return "None" if value is None else f"a {type(value).__name__}" + (f" ({value!r})" if isinstance(value, (int, float, str)) else "")


def _said(default: Any) -> str:
    if isinstance(default, str):
        return f'"{default}"'
    return default.name if isinstance(default, _C.dtype) else str(default)


# ---------------------------------------------------------------- from text


def _kind(text: str, whole: str) -> tuple[Kind, str]:
    match = _TYPE.match(text)
    name = _SAME.get(match[1], match[1]) if match else ""
    if match is None or name not in _PLAIN:
        raise _C.ArgumentError(f"schema '{whole}': type '{text}'; expected one of {', '.join(_PLAIN)} with ?, [] or []? behind it")
    if match[2] and name != "Tensor":
        raise _C.ArgumentError(f"schema '{whole}': type '{text}'; only tensors are written to")
    many = match[4] is not None
    first, last = match[3] is not None, match[5] is not None
    return Kind(name, first and many, many, last if many else first), match[2] or ""


def _default(text: str, kind: Kind, whole: str) -> Any:
    text = text.strip()
    if kind.item == "ScalarType" and isinstance(getattr(_C, text.rpartition(".")[2], None), _C.dtype):
        return getattr(_C, text.rpartition(".")[2])
    try:
        value = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        raise _C.ArgumentError(f"schema '{whole}': default '{text}'; expected a number, a text, a list, True, False or None") from None
    if kind.many and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value]
    if not kind.takes(value):
        raise _C.ArgumentError(f"schema '{whole}': default '{text}'; expected {kind.words}")
    return value


def _pieces(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    out, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    out.append(text[start:])
    return [piece.strip() for piece in out if piece.strip()]


def parse(text: str) -> Schema:
    """A schema from its text.

    Raises:
        ValueError: it is none; says which part.
    """
    head, arrow, tail = text.strip().rpartition("->")
    head, tail = head.strip(), tail.strip()
    if not arrow or not head.startswith("(") or not head.endswith(")"):
        raise _C.ArgumentError(f"schema '{text}'; expected something like '(Tensor x, int n=1) -> Tensor'")
    arguments: list[Argument] = []
    keyword_only = False
    for piece in _pieces(head[1:-1]):
        if piece == "*":
            keyword_only = True
            continue
        declared, equals, default = piece.partition("=")
        words = declared.split()
        if len(words) != 2 or not words[1].isidentifier():
            raise _C.ArgumentError(f"schema '{text}': argument '{piece}'; expected a type and a name, and maybe a default")
        kind, alias = _kind(words[0], text)
        if words[1] in (a.name for a in arguments):
            raise _C.ArgumentError(f"schema '{text}': two arguments are called '{words[1]}'")
        value = _default(default, kind, text) if equals else inspect.Parameter.empty
        arguments.append(Argument(words[1], kind, value, keyword_only, alias.endswith("!)"), alias))
    several = tail.startswith("(")
    if several and not tail.endswith(")"):
        raise _C.ArgumentError(f"schema '{text}': results '{tail}'; expected a type, or several in parentheses")
    returns = []
    for piece in _pieces(tail[1:-1] if several else tail):
        kind, alias = _kind(piece.split()[0], text)
        if alias:
            raise _C.ArgumentError(f"schema '{text}': a result is an argument or a view of one; expected new ones alone: return () instead")
        returns.append(kind)
    if not several and len(returns) != 1:
        raise _C.ArgumentError(f"schema '{text}': results '{tail}'; expected a type, or several in parentheses")
    return Schema(tuple(arguments), tuple(returns))


# ---------------------------------------------------------------- from annotations

_ANNOTATIONS: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _C.dtype: "ScalarType", _C.device: "Device",
    complex: "Scalar",
}  # fmt: skip


def _annotated(annotation: Any) -> Kind | None:
    if annotation in _ANNOTATIONS:
        return Kind(_ANNOTATIONS[annotation])
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        others = [a for a in inside if a is not type(None)]
        if set(others) in ({int, float, bool}, {int, float}, {int, float, complex}, {int, float, bool, complex}):
            found: Kind | None = Kind("Scalar")
        else:
            found = _annotated(others[0]) if len(others) == 1 else None
        return found._replace(optional=len(others) < len(inside)) if found and not found.optional else None
    if origin in (list, collections.abc.Sequence) and len(inside) == 1:
        item = _annotated(inside[0])
        if item and not item.many:
            return Kind(item.item, item.optional, True)
    if origin is tuple and len(inside) == 2 and inside[1] is Ellipsis:
        item = _annotated(inside[0])
        if item and not item.many:
            return Kind(item.item, item.optional, True)
    return None


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None, tags: Any = ()
) -> str:
    """The schema of a function, from the annotations of its arguments and its result.

    Args:
        mutates_args: the names of the tensors that it writes to, or "unknown": any of them.
        op_name: stands in front, if it is given.
        tags: PyTorch's; two of them say which arguments results are, which a schema here does not hold.

    Raises:
        ValueError: a tag is `inplace` or `out`.
        ValueError: an annotation is missing, or says nothing that an op can take or return.

    >>> import flambeau as fl
    >>> def scale_(x: fl.Tensor, factor: float = 2.0, *, rounds: int | None = None) -> None: ...
    >>> fl.library.infer_schema(scale_, mutates_args={"x"})
    '(Tensor(a0!) x, float factor=2.0, *, SymInt? rounds=None) -> ()'
    """
    signature = inspect.signature(prototype_function)
    at = f"infer_schema({getattr(prototype_function, '__name__', 'func')})"
    for tag in tags if isinstance(tags, (list, tuple, set, frozenset)) else () if tags is None else (tags,):
        if getattr(tag, "name", tag) in ("inplace", "out"):
            raise ValueError(f"{at}: tags has {tag}; expected others: results are tensors of their own, pass mutates_args")
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        raise ValueError(f"{at}: an annotation can not be read: {error}") from error
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(f"{at}: mutates_args = {mutates_args!r}; expected names of arguments, or 'unknown'")
    named = () if isinstance(mutates_args, str) else tuple(mutates_args)
    if lost := [n for n in named if n not in signature.parameters]:
        raise ValueError(f"{at}: mutates_args has '{lost[0]}'; expected names among {list(signature.parameters)}")
    arguments = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"{at}: {parameter} takes any number of arguments; expected a fixed number")
        if name not in hints:
            raise ValueError(
                f"{at}: argument '{name}' has no annotation; expected Tensor, int, float, bool, str, dtype, device, or lists of them"
            )
        kind = _annotated(hints[name])
        if kind is None:
            raise ValueError(
                f"{at}: argument '{name}' is annotated {hints[name]}; expected Tensor, int, float, bool, str, dtype, device, Optional "
                f"or list of them"
            )
        if name in named and not kind.tensors:
            raise ValueError(f"{at}: mutates_args has '{name}', which is annotated {hints[name]}; expected a Tensor")
        mutated = name in named or (isinstance(mutates_args, str) and kind.tensors)
        default = parameter.default
        if default is not parameter.empty and not kind.takes(default):
            raise ValueError(f"{at}: argument '{name}' has the default {default!r}; expected {kind.words}")
        arguments.append(Argument(name, kind, default, parameter.kind is parameter.KEYWORD_ONLY, mutated, f"(a{i}!)" if mutated else ""))
    if "return" not in hints:
        raise ValueError(f"{at}: the result has no annotation; expected -> Tensor, a tuple or list of Tensors, or None")
    return (op_name or "") + str(Schema(tuple(arguments), _results(at, hints["return"])))


def _results(at: str, annotation: Any) -> tuple[Kind, ...]:
    if annotation is type(None):
        return ()
    inside = typing.get_args(annotation)
    several = typing.get_origin(annotation) is tuple and Ellipsis not in inside
    kinds = [_annotated(a) for a in (inside if several else (annotation,))]
    for kind in kinds:
        listed = kind is not None and kind.many and not kind.tensors
        if kind is None or kind.optional or listed or kind.item in ("str", "ScalarType", "Device"):
            raise ValueError(
                f"{at}: the result is annotated {annotation}; expected Tensor, list[Tensor], int, float, bool, a tuple of these, or None"
            )
    return tuple(kind for kind in kinds if kind)
