"""Nested tuples, lists and dicts of values, taken apart and put together again.

A tree is a leaf, or a tuple, list, dict or named tuple of trees. Everything else, None too, is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import ArgumentError
from flambeau._errors import RefusedTypeError

Make = Callable[[list[Any]], Any]  # of as many leaves as the tree had
# Classes of programs whose objects are containers, too, and how they are taken apart: `torch.utils._pytree.register_pytree_node`.
registered: dict[type, Callable[[Any], tuple[list[Any], Make]]] = {}


def children(tree: Any) -> tuple[list[Any], Make] | None:
    """The trees in a container, and what makes such a container of others; None for a leaf."""
    kind = type(tree)
    if isinstance(tree, dict):
        keys = list(tree)
        if kind is dict:
            return list(tree.values()), lambda items: dict(zip(keys, items, strict=True))
        return list(tree.values()), lambda items: _like_dict(tree, keys, items)
    if isinstance(tree, tuple):
        if hasattr(tree, "_make"):
            return list(tree), kind._make  # type: ignore[attr-defined]
        if hasattr(tree, "n_sequence_fields"):  # what ops with several results return
            return list(tree), kind
        if kind is tuple:
            return list(tree), tuple
    elif kind is list:
        return list(tree), list
    return registered[kind](tree) if kind in registered else None


def _like_dict(tree: Any, keys: list[Any], items: list[Any]) -> Any:
    out = tree.copy()
    for key, item in zip(keys, items, strict=True):
        out[key] = item
    return out


def flatten(tree: Any) -> tuple[list[Any], Make]:
    """The leaves from left to right, and what puts others in their places."""
    found = children(tree)
    if found is None:
        return [tree], lambda leaves: leaves[0]
    parts = [flatten(child) for child in found[0]]
    leaves = [leaf for part, _ in parts for leaf in part]
    make, sizes = found[1], [len(part) for part, _ in parts]

    def build(given: list[Any]) -> Any:
        items, at = [], 0
        for (_, inner), size in zip(parts, sizes, strict=True):
            items.append(inner(given[at : at + size]))
            at += size
        return make(items)

    return leaves, build


def structure(tree: Any) -> str:
    """How a tree is nested, with a star for each leaf."""
    found = children(tree)
    if found is None:
        return "*"
    inner = [structure(child) for child in found[0]]
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(tree, inner, strict=True)) + "}"
    if isinstance(tree, list):
        return f"[{', '.join(inner)}]"
    return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """`function` of the leaves, and of those of trees with the same structure."""
    leaves, build = flatten(tree)
    columns = [flatten(other)[0] for other in others]
    return build([function(*row) for row in zip(leaves, *columns, strict=True)])


def spread(op: str, what: str, prefix: Any, tree: Any) -> list[Any]:
    """The leaves of a tree that may end early, each repeated for the leaves that `tree` has below it."""
    inner, outer = children(tree), children(prefix)
    if outer is None:
        return [prefix] * len(flatten(tree)[0])
    if inner is None or len(inner[0]) != len(outer[0]) or not _same_keys(prefix, tree):
        raise ValueError(
            f"{op}: {what} = {prefix!r} is not compatible with the structure of {_shape_of(tree)}; "
            "expected one value, or a structure that begins so"
        )
    return [leaf for p, t in zip(outer[0], inner[0], strict=True) for leaf in spread(op, what, p, t)]


def _same_keys(a: Any, b: Any) -> bool:
    if isinstance(a, dict) or isinstance(b, dict):
        return isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b)
    return True


def _shape_of(tree: Any) -> str:
    found = children(tree)
    if found is None:
        return f"a {type(tree).__name__}"
    return f"a {type(tree).__name__} of {len(found[0])}"


def chosen(op: str, argnums: int | tuple[int, ...], args: Sequence[Any]) -> tuple[list[int], bool]:
    """The positions that `argnums` names, and whether they were several."""
    many = isinstance(argnums, tuple)
    numbers: list[Any] = list(argnums) if isinstance(argnums, tuple) else [argnums]
    if not numbers:
        raise ArgumentError(f"{op}: argnums = {argnums}; expected at least one position")
    for n in numbers:
        if isinstance(n, bool) or not isinstance(n, int):
            raise RefusedTypeError(f"{op}: argnums must be int or a tuple of ints, got: {argnums!r}")
        if not -len(args) <= n < len(args):
            raise ArgumentError(f"{op}: Got argnum={n}, but only {len(args)} positional inputs")
    positive = [n % len(args) for n in numbers]
    if len(set(positive)) != len(positive):
        raise ArgumentError(f"{op}: argnums = {argnums}; expected no position twice")
    return positive, many
