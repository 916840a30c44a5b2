"""What a pass is: a function from a module with a graph to a `PassResult`."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from flambeau.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module that a pass returns, and whether it changed it."""

    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """A pass as a class: `call` works, `requires` and `ensures` may check what is there before and after.

    >>> import flambeau as fl
    >>> from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Clean(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> Clean()(fl.fx.symbolic_trace(lambda x: x + 1)).modified
    False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where the module is none for this pass."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where the pass did not do what it should."""
