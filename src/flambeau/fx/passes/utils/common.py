"""A part of a module's graph as a module, with what it needs of the whole at the same paths."""

from __future__ import annotations

from flambeau.fx._members import copy_attribute
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.nn.module import Module

__all__ = ["HolderModule", "lift_subgraph_as_module"]


class HolderModule(Module):
    """Holds modules by name.

    >>> import flambeau as fl
    >>> list(dict(HolderModule({"a": fl.nn.ReLU()}).named_children()))
    ['a']
    """

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module for a graph of copies of nodes of `gm`.

    Args:
        gm: has the modules and tensors that the graph names; the result has the same ones, at the same paths.
        comp_name: what comes before their paths in the second result.
        class_name: of the module.

    Returns:
        the module, and from each path in `gm` to that in the component.
    """
    root, paths = HolderModule({}), dict[str, str]()
    for node in subgraph.nodes:
        if node.op in ("call_module", "get_attr"):
            copy_attribute(gm, root, str(node.target))
            paths[str(node.target)] = f"{comp_name}.{node.target}"
    return GraphModule(root, subgraph, class_name), paths
