"""Sizes of what nodes give, and nodes that call something else."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, Target, map_arg
from flambeau.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """Bytes of what a node gives, and with the parameters of the module that it calls."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target) -> None:
    """Lets the nodes that call one thing call another, with the same arguments.

    >>> import operator, flambeau as fl
    >>> gm = fl.fx.symbolic_trace(lambda x: x + 1)
    >>> replace_target_nodes_with(gm, "call_function", operator.add, "call_function", operator.mul)
    >>> gm(fl.tensor(5))
    tensor(5)
    """
    graph, made = Graph(), dict[Node, Node]()
    for node in fx_module.graph.nodes:
        if (node.op, node.target) == (old_op, old_target):
            args, kwargs = map_arg(node.args, made.__getitem__), map_arg(node.kwargs, made.__getitem__)
            made[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            made[node] = graph.node_copy(node, made.__getitem__)
    fx_module.graph = graph


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What `ShapeProp` has noted of the tensor that a node gives.

    Raises:
        RuntimeError: there is no such note.
    """
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"get_tensor_meta: nothing is known of the tensor of {node.name}; run ShapeProp(module).propagate(*args) first")
    return found  # type: ignore[no-any-return]


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Bytes of what a node gives, and these with the parameters of the module that it calls, counted in the same type."""
    meta = get_tensor_meta(node)
    n = meta.shape.numel()
    layer = fx_module.get_submodule(str(node.target)) if node.op == "call_module" else None
    parameters = sum(p.numel() for p in layer.parameters()) if layer is not None else 0
    return size_bytes(n * meta.dtype.itemsize, (n + parameters) * meta.dtype.itemsize)


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Notes `get_size_of_node` of each node as `node.size_bytes`; runs the module with `args` first, where they are given.

    >>> import flambeau as fl
    >>> gm = fl.fx.symbolic_trace(fl.nn.Sequential(fl.nn.Linear(4, 2)))
    >>> get_size_of_all_nodes(gm, [fl.ones(3, 4)])
    >>> [node.size_bytes for node in gm.graph.nodes if node.op == "call_module"]
    [size_bytes(output_size=24, total_size=64)]
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            return
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]
