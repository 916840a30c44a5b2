"""A module in parts that its nodes' tags name: the parts become modules, and what is left calls them.

    x -> a -> b -> y      with a.tag = "first", b.tag = "second":      x -> first -> second -> y

`split_module` asks a function instead, and leaves parameters outside of the parts.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

from flambeau.fx._members import copy_attribute
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """`obj.a.b` for "a.b"; None where there is no such attribute.

    >>> import flambeau as fl
    >>> net = fl.nn.Sequential(fl.nn.Sequential(fl.nn.ReLU()))
    >>> getattr_recursive(net, "0.0"), getattr_recursive(net, "0.1")
    (ReLU(), None)
    """
    for part in name.split("."):
        obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Sets `obj.a.b` for "a.b"."""
    *way, last = attr.split(".")
    for part in way:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclass
class Component:
    """A part: its graph, and which nodes of the whole its arguments and results are."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None

    def taken(self, node: Node, made: dict[Node, Node]) -> Node:
        """What stands in this part's graph for a node of the whole."""
        if node.op == "get_attr":
            if node not in self.getattr_maps:
                self.getattr_maps[node] = self.graph.get_attr(str(node.target), node.type)
                self.getattr_maps[node].meta = copy.copy(node.meta)
            return self.getattr_maps[node]
        if node in made and made[node].graph is self.graph:
            return made[node]
        if node not in self.orig_inputs:
            self.orig_inputs.append(node)
            self.input_placeholders.append(self.graph.placeholder(node.name, node.type))
            self.input_placeholders[-1].meta = copy.copy(node.meta)
        return self.input_placeholders[self.orig_inputs.index(node)]


def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False, return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:  # fmt: skip
    """A module that does what `gm` does by calling a module for each tag, in their order; `node.tag` says to which one a node belongs.

    Attributes that parts read are at their old paths in each part that reads them.

    Args:
        tags: the parts' names; a node may use what has its own tag or one before it.
        return_fqn_mapping: returns also a dict from the path of each module and attribute to its new one.
        return_tuple: parts return tuples, also of one value.
        GraphModuleCls: the class of the result.

    >>> import flambeau as fl
    >>> from flambeau.fx.passes.split_utils import split_by_tags
    >>> gm = fl.fx.symbolic_trace(fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.Linear(8, 2)))
    >>> for node in gm.graph.nodes:
    ...     node.tag = "head" if node.name == "_2" else "body"
    >>> print(split_by_tags(gm, ["body", "head"]).code.strip())
    def forward(self, input_1):
        body = self.body(input_1);  input_1 = None
        head = self.head(body);  body = None
        return head

    Raises:
        AssertionError: a node without a tag, or one that uses what comes later.
    """
    parts = {tag: Component(Graph(), i, f"{tag}") for i, tag in enumerate(tags)}
    main, outside, inside = Graph(), dict[Node, Node](), dict[Node, Node]()
    used = dict[Node, None]()  # by other parts, or returned
    home: dict[Node, Component] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            outside[node] = main.placeholder(node.name, node.type)
            outside[node].meta = copy.copy(node.meta)
        elif node.op not in ("get_attr", "output"):
            if not hasattr(node, "tag"):
                raise AssertionError(f"split_by_tags: {node.name} has no tag; set node.tag to one of {tags}")
            part = home[node] = parts[node.tag]
            late = [other for other in node.all_input_nodes if other in home and home[other].order > part.order]
            if late:
                where = f"{late[0].name} of {home[late[0]].name}, which comes later"
                raise AssertionError(f"split_by_tags: {node.name} of {part.name} uses {where}")
            copied = part.graph.node_copy(node, lambda x, part=part: part.taken(x, inside))  # type: ignore[misc]
            copied.tag = node.tag  # type: ignore[attr-defined]
            inside[node] = copied
            used.update(dict.fromkeys(x for x in node.all_input_nodes if x in home and home[x] is not part))
    result = gm.graph.output_node().args[0]
    returned: list[Node] = []
    map_arg(result, returned.append)
    used.update(dict.fromkeys(node for node in returned if node in home))
    for node in used:
        home[node].orig_outputs.append(node)
    root, paths = HolderModule({}), dict[str, str]()
    for node in returned:
        if node.op == "get_attr":
            outside[node] = main.get_attr(str(node.target), node.type)
            copy_attribute(gm, root, str(node.target))
    for part in parts.values():
        _finish(part, gm, main, inside, outside, paths, return_tuple)
        root.add_module(part.name, part.gm)
    main.output(map_arg(result, outside.__getitem__))
    main._codegen = gm.graph._codegen
    made = GraphModuleCls(root, main)
    return (made, paths) if return_fqn_mapping else made


def _finish(
    part: Component, gm: GraphModule, main: Graph, inside: dict[Node, Node], outside: dict[Node, Node], paths: dict[str, str],
    as_tuple: bool,
) -> None:  # fmt: skip
    """Makes a part's module, and the nodes that call it."""
    results = tuple(inside[node] for node in part.orig_outputs)
    single = len(results) == 1 and not as_tuple
    part.graph.output(results[0] if single else results)
    part.gm, own = lift_subgraph_as_module(gm, part.graph, part.name)
    paths.update(own)
    call = main.call_module(part.name, tuple(outside[node] for node in part.orig_inputs))
    for i, node in enumerate(part.orig_outputs):
        outside[node] = call if single else main.call_function(operator.getitem, (call, i))
