"""Checks as functions, and symbolic numbers: shapes are plain numbers here, which these functions take as they are."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import wants_tensors


def _assert(condition: Any, message: Any) -> None:
    """`assert`, as a function."""
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raises RuntimeError with `assert_msg` where the one element of `input` is zero. On the meta device nothing is known, nor refused.

    >>> import flambeau as fl
    >>> fl._assert_async(fl.tensor([1, 2]).min() > 0, "counts are positive")
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"_assert_async: input = {input!r} is a {type(input).__name__}; expected a Tensor, or call _assert")
    if not isinstance(assert_msg, str):
        raise TypeError(f"_assert_async: assert_msg = {assert_msg!r} is a {type(assert_msg).__name__}; expected a str")
    if not input.is_meta and not input:
        raise RuntimeError(assert_msg)


def _check_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raises `error_type` with what `message()` returns unless `cond`, a bool, is True.

    >>> import flambeau as fl
    >>> fl._check_with(ValueError, 3 > 2, lambda: "three is more than two")
    """
    if not isinstance(cond, bool):
        way = "; call _check_tensor_all for a tensor of bools" if isinstance(cond, Tensor) else ""
        raise TypeError(f"cond is a {type(cond).__name__}; expected a bool{way}")
    if cond:
        return
    if not (isinstance(error_type, type) and issubclass(error_type, Exception)) or issubclass(error_type, Warning):
        raise AssertionError(f"error_type = {error_type!r}; expected a class of errors that is not a warning's")
    if message is not None and not callable(message):
        raise TypeError(f"message = {message!r} is a {type(message).__name__}; expected a callable, such as lambda: {message!r}")
    raise error_type("Expected cond to be True, but got False" if message is None else str(message()))


def _checker(name: str, kind: type[Exception]) -> Any:
    def check(cond: Any, message: Any = None) -> None:
        _check_with(kind, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raises {kind.__name__} with what `message()` returns unless `cond`, a bool, is True."
    return check


_check = _checker("_check", RuntimeError)
_check_index = _checker("_check_index", IndexError)
_check_value = _checker("_check_value", ValueError)
_check_type = _checker("_check_type", TypeError)
_check_not_implemented = _checker("_check_not_implemented", NotImplementedError)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Any = None) -> None:
    """Raises `error_type` with what `message()` returns unless all elements of `cond`, a tensor of bools of any shape, are True.

    >>> import flambeau as fl
    >>> fl._check_tensor_all_with(ValueError, fl.tensor([1, 2]) > 0, lambda: "counts are positive")
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond is a {type(cond).__name__}; expected a tensor of bools, or call _check_with")
    if cond.dtype is not _C.bool:
        raise TypeError(f"cond has dtype {cond.dtype}; expected a tensor of bools, such as cond != 0")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Any = None) -> None:
    """Raises RuntimeError with what `message()` returns unless all elements of `cond`, a tensor of bools of any shape, are True.

    >>> import flambeau as fl
    >>> fl._check_tensor_all(fl.tensor([1, 2]) > 0, lambda: "counts are positive")
    """
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """Raises RuntimeError unless 0 <= i (<= max)."""
    _check(i >= 0 and (max is None or i <= max), message)


class _Symbolic:
    def __init__(self, node: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: shapes here are plain numbers; expected an int, a float or a bool")


class SymInt(_Symbolic):
    """The class of PyTorch's symbolic integers; sizes here are ints, so that nothing is an instance, and none can be made."""


class SymFloat(_Symbolic):
    """The class of PyTorch's symbolic floats; nothing is an instance, and none can be made."""


class SymBool(_Symbolic):
    """The class of PyTorch's symbolic truth values; nothing is an instance, and none can be made."""


@wants_tensors
def sym_int(a: Any) -> int:
    """`int(a)`.

    >>> import flambeau as fl
    >>> fl.sym_int(2.5), fl.sym_max(1, 2.0), fl.sym_ite(True, "a", "b")
    (2, 2.0, 'a')
    """
    return int(a)


@wants_tensors
def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


@wants_tensors
def sym_max(a: Any, b: Any) -> Any:
    """`max(a, b)`, a float where one is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


@wants_tensors
def sym_min(a: Any, b: Any) -> Any:
    """`min(a, b)`, a float where one is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


@wants_tensors
def sym_sum(args: Any) -> Any:
    """`sum(args)`."""
    return sum(args)
