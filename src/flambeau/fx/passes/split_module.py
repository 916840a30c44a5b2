"""A module in parts: each is a module of its own, and what is left calls one after the other.

    x -> a -> b -> c -> y        with split_callback: a, b -> 0; c -> 1        x -> submod_0 -> submod_1 -> y
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from flambeau.fx._members import fetch
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn.module import Module

__all__ = ["split_module"]


class Partition:
    """The nodes of one part, what it takes from others, and what others take from it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.needs: dict[str, None] = {}


def split_module(
    m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any], qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False, **unused: Any,
) -> GraphModule:  # fmt: skip
    """A module that does what `m` does by calling `submod_0`, `submod_1`, ...: `split_callback` says of each node to which it belongs.

    Parameters and attributes stay outside of the parts, and are handed to them. `qualname_map` is told where modules came from.
    keep_original_order: parts are called in the order in which their first nodes came.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.fx import symbolic_trace
        >>> from flambeau.fx.passes.split_module import split_module
        >>> net = fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.Linear(8, 2))
        >>> parts = split_module(symbolic_trace(net), net, lambda node: 0 if node.name in ("_0", "_1") else 1)
        >>> print(parts.code.strip())
        def forward(self, input) -> flambeau.Tensor:
            input_1 = input
            submod_0 = self.submod_0(input_1);  input_1 = None
            submod_1 = self.submod_1(submod_0);  submod_0 = None
            return submod_1

    Raises:
        TypeError: `m` has no graph.
        RuntimeError: two parts need each other.
    """
    if not isinstance(m, GraphModule):
        raise TypeError(f"split_module: m is a {type(m).__name__}; expected a GraphModule (fx.symbolic_trace makes one)")
    parts, place = _parts(m.graph, split_callback)
    _find_borders(m.graph, place, parts)
    order = list(parts) if keep_original_order else _ordered(parts)
    base = Graph()
    members: dict[str, Any] = {}
    made: dict[Node, Node] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            made[node] = base.node_copy(node)
            if node.op == "get_attr":
                members[str(node.target)] = fetch(m, str(node.target))
    for name in order:
        part = parts[name]
        members[part.submod_name] = _module_of(part, m, qualname_map)
        call = base.call_module(part.submod_name, tuple(made[node] for node in part.inputs))
        outputs = list(part.outputs)
        if len(outputs) == 1:
            made[outputs[0]] = call
        for i, node in enumerate(outputs if len(outputs) > 1 else ()):
            made[node] = base.call_function(operator.getitem, (call, i))
    for node in m.graph.nodes:
        if node.op == "output":
            base.output(map_arg(node.args[0], made.__getitem__), node.type)
    return GraphModule(members, base, type(m).__name__)


def _parts(graph: Graph, split_callback: Callable[[Node], Any]) -> tuple[dict[str, Partition], dict[Node, str]]:
    parts: dict[str, Partition] = {}
    place: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            name = place[node] = str(split_callback(node))
            parts.setdefault(name, Partition(name)).nodes.append(node)
    return parts, place


def _find_borders(graph: Graph, place: dict[Node, str], parts: dict[str, Partition]) -> None:
    for node in graph.nodes:
        here = place.get(node)
        for used in node.all_input_nodes:
            there = place.get(used)
            if here == there:
                continue
            if there is not None:
                parts[there].outputs.setdefault(used)
            if here is not None:
                parts[here].inputs.setdefault(used)
                if there is not None:
                    parts[here].needs.setdefault(there)


def _ordered(parts: dict[str, Partition]) -> list[str]:
    order: list[str] = []
    left = dict(parts)
    while left:
        ready = next((name for name, part in left.items() if not any(need in left for need in part.needs)), None)
        if ready is None:
            need = ", ".join(f"{name} needs {' and '.join(n for n in part.needs if n in left)}" for name, part in left.items())
            raise RuntimeError(f"split_module: cycle exists between partitions: {need}; let split_callback put these nodes in one part")
        order.append(ready)
        del left[ready]
    return order


def _module_of(part: Partition, m: GraphModule, qualname_map: dict[str, str] | None) -> GraphModule:
    graph = Graph()
    made: dict[Node, Node] = {}
    members: dict[str, Any] = {}
    for node in part.inputs:
        made[node] = graph.placeholder(node.name, node.type)
        made[node].meta = dict(node.meta)
    for node in part.nodes:
        target = node.target
        if node.op == "call_module":
            target = str(node.target).replace(".", "_")
            members[target] = fetch(m, str(node.target))
            if qualname_map is not None:
                qualname_map[f"{part.submod_name}.{target}"] = str(node.target)
        args, kwargs = map_arg(node.args, made.__getitem__), map_arg(node.kwargs, made.__getitem__)
        made[node] = graph.create_node(node.op, target, args, kwargs, type_expr=node.type)
        made[node].meta = dict(node.meta)
    outputs = tuple(made[node] for node in part.outputs)
    graph.output(outputs[0] if len(outputs) == 1 else outputs)
    return GraphModule(members, graph, part.submod_name)
