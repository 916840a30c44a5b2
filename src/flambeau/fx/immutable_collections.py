"""The lists and dicts that a node's arguments are made of: they can be read and hashed, not changed, as the graph counts who is used where.

>>> args = immutable_list([1, 2])
>>> args.append(3)
Traceback (most recent call last):
    ...
TypeError: immutable_list.append: arguments of a node can not be changed in place; make a new list and assign it: node.args = (...)
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["immutable_dict", "immutable_list"]


def _refusal(kind: str, method: str) -> Any:
    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        what = kind.removeprefix("immutable_")
        raise TypeError(
            f"{kind}.{method}: arguments of a node can not be changed in place; make a new {what} and assign it: node.args = (...)"
        )

    return refused


class immutable_list(list[Any]):  # noqa: N801
    """A list that can not be changed; one inside of the arguments of a node."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_list, (list(self),)


class immutable_dict(dict[Any, Any]):  # noqa: N801
    """A dict that can not be changed; the keyword arguments of a node, and one inside of its arguments."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_dict, (dict(self),)


_SHARED = ("__delitem__", "__setitem__", "clear", "pop")
for _name in (*_SHARED, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort"):
    setattr(immutable_list, _name, _refusal("immutable_list", _name))
for _name in (*_SHARED, "__ior__", "popitem", "setdefault", "update"):
    setattr(immutable_dict, _name, _refusal("immutable_dict", _name))
