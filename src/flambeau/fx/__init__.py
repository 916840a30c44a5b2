"""`torch.fx`: PyTorch's symbolic tracer, which is not here. Its classes can be asked about (nothing is an instance); tracing is refused."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau.nn.module import Module

__all__ = ["Graph", "GraphModule", "Node", "Proxy", "Tracer", "symbolic_trace", "wrap"]


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(f"fx.{name}: modules are not traced symbolically here; flambeau.graph records what a module computes")


class Node:
    """A node of a traced graph, of which there are none."""


class Proxy:
    """A value while PyTorch traces; nothing is one."""


class Graph:
    """A traced graph; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("Graph")


class GraphModule(Module):
    """A module of a traced graph; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("GraphModule")


class Tracer:
    """PyTorch's tracer; it can be derived from, and not used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("Tracer")


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    _refused("symbolic_trace")


def wrap(fn_or_name: Any) -> Any:
    """A mark for the tracer, which is not here: the function itself."""
    return fn_or_name


class Interpreter:
    """What runs a traced graph node by node; it can be derived from, and not made, as there are no graphs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused(type(self).__name__)


class Transformer(Interpreter):
    """What makes a traced graph of another one; it can be derived from, and not made."""
