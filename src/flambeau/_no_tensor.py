"""Something else in the place of a tensor, for functions in Python: the error names the function and the argument.

Functions of the table convert their arguments and refuse one at once. A function in Python meets a list or None where it first asks for a
shape, and what leaves it is "'list' object has no attribute 'shape'". To look at each argument first would cost every call; so a function
(or a decorator that wraps it anyway) catches the AttributeError, and `explained` looks which argument it was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from flambeau._C import Tensor
from flambeau._errors import NoTensorError

F = TypeVar("F", bound=Callable[..., Any])


def explained(
    error: AttributeError, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> AttributeError:
    """What to raise for `error`: a TypeError that names the argument, or `error` itself where no argument is what lacks the attribute.

    The result is an AttributeError, too, since that is what PyTorch's own functions in Python raise.
    """
    if error.name is None:  # raised by hand, or explained already
        return error
    import inspect

    plain = inspect.unwrap(function)
    given = inspect.signature(plain).bind_partial(*args, **(kwargs or {})).arguments
    for name, value in given.items():
        wanted = str(plain.__annotations__.get(name, ""))
        if "Tensor" not in wanted and name != "tensors":
            continue
        every = value if isinstance(value, (list, tuple)) else ()
        for place, part in [("", value), *((f"[{i}]", part) for i, part in enumerate(every))]:
            if part is not error.obj or isinstance(part, Tensor) or (part is None and "None" in wanted):
                continue
            return NoTensorError(f"{plain.__name__}: {name}{place} is a {type(part).__name__}; expected a Tensor")
    return error


def wants_tensors(function: F) -> F:
    """Decorator, for functions that are long beside the call of a wrapper: what is no tensor is named.

    >>> @wants_tensors
    ... def rows(x: Tensor) -> int:
    ...     return x.shape[0]
    >>> rows([1, 2])
    Traceback (most recent call last):
    flambeau._errors.NoTensorError: rows: x is a list; expected a Tensor
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AttributeError as error:
            raise explained(error, function, args, kwargs) from None

    return wrapper  # type: ignore[return-value]
