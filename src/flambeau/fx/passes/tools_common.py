"""What passes share: names of what nodes call, and orders in which every node stands behind those that it needs."""

from __future__ import annotations

import collections
import heapq
import operator
from collections.abc import Mapping
from typing import Any

from flambeau._C import Tensor
from flambeau.fx._targets import function_name
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn.module import Module

__all__ = ["CALLABLE_NODE_OPS", "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort"]

NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
_SOON = [getattr(operator, name) for name in ("add", "mul", "sub", "floordiv", "truediv", "mod", "le", "lt", "ge", "gt", "eq", "ne")]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def qualified_name(function: Any) -> str:
    """The path of a function, by which tables of what is supported know it.

    >>> import operator, flambeau as fl
    >>> qualified_name(operator.add), qualified_name(fl.relu)
    ('_operator.add', 'flambeau.relu')
    """
    name = function_name(function)
    return f"_{name}" if name.startswith("operator.") else name


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The path of the function, or of the class of the module, that a node calls; of a method its name.

    >>> import flambeau as fl
    >>> net = fl.fx.symbolic_trace(fl.nn.Sequential(fl.nn.Linear(2, 2)))
    >>> [get_node_target(dict(net.named_modules()), node) for node in net.graph.nodes if node.op == "call_module"]
    ['flambeau.nn.modules.linear.Linear']
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: {node.name} is a {node.op}; expected one of {', '.join(sorted(CALLABLE_NODE_OPS))}")
    if node.op == "call_method":
        return str(node.target)
    if node.op == "call_function":
        return qualified_name(node.target)
    module = submodules[str(node.target)]
    kind = getattr(module, "_base_class_origin", type(module))
    return f"{kind.__module__}.{kind.__name__}"


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, which `ShapeProp` has noted."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


def _rebuilt(gm: GraphModule, order: list[Node]) -> GraphModule:
    if len(order) != len(gm.graph.nodes):
        left = [node.name for node in gm.graph.nodes if node not in set(order)]
        raise RuntimeError(f"nodes that need each other in a circle, or come behind one: {', '.join(left)}")
    graph, made = Graph(), dict[Node, Node]()
    for node in order:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def sorted_nodes(nodes: NodeList) -> NodeList:
    """These nodes, each behind those that it needs, and otherwise in the order in which they came; without those of a circle."""
    place = {node: i for i, node in enumerate(nodes)}
    missing = {node: sum(used in place for used in node.all_input_nodes) for node in nodes}
    ready = [place[node] for node in nodes if not missing[node]]
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.users:
            if user in place:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, place[user])
    return order


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Gives a module a graph in which nodes stand behind those that they need, and otherwise where they stood.

    Raises:
        RuntimeError: nodes need each other.
    """
    return _rebuilt(gm, sorted_nodes(list(gm.graph.nodes)))


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Gives a module a graph in which nodes stand behind those that they need: first those that need none, then those that need these, ...

    Arithmetic and comparisons of Python's (sizes, mostly) come as soon as they can. The order is another one than before:
    `stable_topological_sort` keeps it where it can.

    Raises:
        RuntimeError: nodes need each other.

    >>> import flambeau as fl
    >>> gm = fl.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> add, mul = [node for node in gm.graph.nodes if node.op == "call_function"]
    >>> mul.append(add)
    >>> [node.name for node in legalize_graph(gm).graph.nodes]
    ['x', 'add', 'mul', 'output']
    """
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    waiting, order = collections.deque(node for node in gm.graph.nodes if not missing[node]), []
    while waiting:
        order.append(waiting.popleft())
        for user in order[-1].users:
            missing[user] -= 1
            if not missing[user]:
                soon = user.op == "call_function" and user.target in _SOON
                (waiting.appendleft if soon else waiting.append)(user)
    return _rebuilt(gm, order)


