"""Types of values, told while a program is traced."""

from __future__ import annotations

from typing import Any

from flambeau.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Notes the type of a value that is traced, for the graph's code; another value is left as it is.

    >>> import flambeau as fl
    >>> from flambeau.fx.annotate import annotate
    >>> traced = fl.fx.symbolic_trace(lambda x: annotate(x + 1, int) * 2)
    >>> [node.type for node in traced.graph.nodes if node.name == "add"]
    [<class 'int'>]

    Raises:
        RuntimeError: it has a type already.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(
                f"annotate: {val.node.name} has the type {val.node.type} already, where {type} is given; a parameter's type stands in "
                "the function's signature"
            )
        val.node.type = type
    return val
