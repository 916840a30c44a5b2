"""Nodes of a graph that become one call of a module.

    x -> a -> b -> c -> y      with {a, b}:      x -> fused_0 -> c -> y
"""

from __future__ import annotations

import copy
import operator

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.tools_common import NodeList, sorted_nodes, stable_topological_sort
from flambeau.fx.passes.utils.common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort", "validate_partition"]


def topo_sort(nodes: NodeList) -> NodeList:
    """These nodes, each behind those that it needs; what may stand in any order stays in this one.

    Raises:
        AssertionError: they need each other.
    """
    order = sorted_nodes(nodes)
    if len(order) != len(nodes):
        raise AssertionError(f"topo_sort: {', '.join(node.name for node in nodes if node not in order)} need each other")
    return order


def validate_partition(partition: NodeList) -> bool:
    """Whether nodes can be one: no way leads out of them and back."""
    inside = set(partition)
    seen: set[Node] = set()
    waiting = [user for node in partition for user in node.users if user not in inside]
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return True


def fuse_as_graphmodule(
    gm: GraphModule, nodes: NodeList, module_name: str, partition_lookup_table: dict[Node, int | None] | None = None, *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:  # fmt: skip
    """A module of copies of nodes, which stay where they are.

    Args:
        gm: whose graph they are of.
        nodes: in an order in which each stands behind those that it needs (`topo_sort`).
        module_name: the name of its class.
        partition_lookup_table: may be given as a dict of the same nodes.
        always_return_tuple: it returns a tuple, also of one value.

    Returns:
        the module, the nodes of the graph that are its arguments, and those that are its results.

    Raises:
        AssertionError: nodes of another graph, or nodes that can not be one (`validate_partition`).
    """
    for node in nodes:
        if node.graph.owning_module is not gm or node._erased:
            raise AssertionError(f"fuse_as_graphmodule: {node.name} is no node of this {gm._get_name()}")
    if not validate_partition(nodes):
        names = ", ".join(node.name for node in nodes)
        raise AssertionError(f"fuse_as_graphmodule: {names} can not be one: a way leads out of them and back")
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    graph, made, inputs = Graph(), dict[Node, Node](), dict[Node, Node]()

    def inner(used: Node) -> Node:
        if used in inside:
            return made[used]
        if used not in inputs:
            inputs[used] = graph.placeholder(used.name, used.type)
            inputs[used].meta = copy.copy(used.meta)
        return inputs[used]

    for node in nodes:
        made[node] = graph.node_copy(node, inner)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    results = tuple(made[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    return lift_subgraph_as_module(gm, graph, class_name=module_name)[0], tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...], insertion_point: Node | None = None
) -> GraphModule:
    """Adds a module under its class's name and calls it behind `insertion_point` (None: the last of `orig_outputs`).

    Who used `orig_outputs` uses its results then.
    """
    if insertion_point is None:
        insertion_point = next((node for node in reversed(gm.graph.nodes) if node in orig_outputs), None)
    if insertion_point is None:
        raise AssertionError("insert_subgm: no orig_outputs to insert behind; expected insertion_point, the part's last node")
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, orig_inputs)
    single = len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple)
    if single:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    with gm.graph.inserting_before(call.next):
        for i, node in enumerate(orig_outputs):
            node.replace_all_uses_with(gm.graph.call_function(operator.getitem, (call, i)), propagate_meta=True)
    if orig_outputs:
        call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Takes nodes out of a module's graph, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, int | None]], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Makes each set of nodes a module, which the graph calls in their place: `fused_0`, `fused_1`, ...

    >>> import flambeau as fl
    >>> gm = fl.fx.symbolic_trace(lambda x: fl.relu(x + 1) * 2)
    >>> add, relu, mul = [node for node in gm.graph.nodes if node.op == "call_function"]
    >>> print(fuse_by_partitions(gm, [{add: None, relu: None}]).graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %fused_0 : [num_users=1] = call_module[target=fused_0](args = (%x,), kwargs = {})
        %mul : [num_users=1] = call_function[target=operator.mul](args = (%fused_0, 2), kwargs = {})
        return mul
    """
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        made, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple)
        insert_subgm(gm, made, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
