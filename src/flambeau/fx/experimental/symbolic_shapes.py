"""Questions about sizes that a tracer does not know yet. Here every size is a number, so that they have their plain answers."""

from __future__ import annotations

from typing import Any

__all__ = [
    "free_symbols", "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "has_free_symbols", "has_free_unbacked_symbols", "has_static_value", "is_concrete_bool", "is_concrete_float", "is_concrete_int",
    "is_symbolic", "statically_known_false", "statically_known_true", "sym_and", "sym_eq", "sym_or",
]  # fmt: skip


def _given(name: str, value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise AssertionError(f"{name}: got a {type(value).__name__}; expected a {expected}")
    return value


def guard_bool(a: bool) -> bool:
    """The bool."""
    return bool(_given("guard_bool", a, bool))


def guard_int(a: int) -> int:
    """The int."""
    return int(_given("guard_int", a, int))


def guard_float(a: float) -> float:
    """The float."""
    return float(_given("guard_float", a, float))


def guard_scalar(a: Any) -> Any:
    """The number."""
    return _given("guard_scalar", a, bool, int, float)


def guard_or_false(a: bool) -> bool:
    """The bool, which is always known."""
    return bool(_given("guard_or_false", a, bool))


def guard_or_true(a: bool) -> bool:
    """The bool, which is always known."""
    return bool(_given("guard_or_true", a, bool))


def statically_known_true(x: bool) -> bool:
    """Whether it is True."""
    return bool(_given("statically_known_true", x, bool))


def statically_known_false(x: bool) -> bool:
    """Whether it is False."""
    return not _given("statically_known_false", x, bool)


def has_static_value(a: Any) -> bool:
    """True."""
    return _given("has_static_value", a, bool, int, float) is a


def is_concrete_bool(a: bool) -> bool:
    """True."""
    return _given("is_concrete_bool", a, bool) is a


def is_concrete_int(a: int) -> bool:
    """True."""
    return _given("is_concrete_int", a, bool, int) is a


def is_concrete_float(a: float) -> bool:
    """True."""
    return _given("is_concrete_float", a, float) is a


def is_symbolic(a: Any) -> bool:
    """False."""
    return False


def free_symbols(val: Any) -> set[Any]:
    """The unknowns in sizes: none."""
    return set()


def free_unbacked_symbols(x: Any) -> set[Any]:
    """Those that depend on values: none."""
    return set()


def has_free_symbols(val: Any) -> bool:
    """False."""
    return False


def has_free_unbacked_symbols(x: Any) -> bool:
    """False."""
    return False


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two numbers, or two lists or tuples of some, are equal.

    >>> sym_eq(1, 1), sym_eq((1, (2, 3)), (1, (2, 4))), sym_eq([1], [1, 2])
    (True, False, False)
    """
    both = (tuple, list)
    if isinstance(x, both) and isinstance(y, both):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, (int, bool)) and isinstance(y, (int, bool)):
        return x == y
    raise AssertionError(f"sym_eq: got a {type(x).__name__} and a {type(y).__name__}; expected ints, or lists of some")


def sym_and(x: bool, *others: bool) -> bool:
    """Whether all are true."""
    for other in others:
        x &= other
    return x


def sym_or(x: bool, *others: bool) -> bool:
    """Whether one is true."""
    for other in others:
        x |= other
    return x
