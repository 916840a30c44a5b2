"""`torch.fx._pytree`: arguments of graphs, taken apart as they were when the graph was made."""

from __future__ import annotations

from typing import Any

from flambeau.compat._torch.overlay.utils import _pytree as pytree

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree_given: Any, spec: Any, exact_structural_match: bool = False) -> list[Any]:
    """The leaves, of what is built as `spec` says.

    Raises:
        ValueError: it is not.
    """
    leaves, found = pytree.tree_flatten(_as_built(pytree_given, spec))
    if found != spec:
        raise ValueError(f"tree_flatten_spec: the arguments are built as\n{found}\nexpected, as when the graph was made,\n{spec}")
    return leaves


def _as_built(given: Any, spec: Any) -> Any:
    """Positional arguments are said as a list, also beside those by name, and are a tuple."""
    if isinstance(given, list) and spec.type is tuple:
        return tuple(given)
    if isinstance(given, tuple) and given and isinstance(given[0], list) and spec.type is tuple:
        return (_as_built(given[0], spec.child(0)), *given[1:])
    return given
