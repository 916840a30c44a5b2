"""The parts of a graph that a backend runs: as large as they can be, and none needs what comes out of itself by way of others.

    x -> a -> u -> b      a and b supported, u not:  two parts, since a way leads from a by u to b
    x -> a, x -> b        one part
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.operator_support import OperatorSupportBase
from flambeau.fx.passes.tools_common import qualified_name
from flambeau.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]

_GETITEM = "_operator.getitem"


class Partition:
    """Nodes that a backend runs as one, and a number for each, by which they are ordered."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None) -> None:
        listed = list(nodes or ())
        orders = [None] * len(listed) if node_orders is None else list(node_orders)
        if len(listed) != len(orders):
            raise AssertionError(f"Partition: {len(listed)} nodes and {len(orders)} node_orders; expected as many")
        self.id = id
        self.nodes: dict[Node, int | None] = dict(zip(listed, orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Adds a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Takes a node out."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes it has."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds the parts of a graph whose nodes `operator_support` supports, and makes modules of them.

    Args:
        graph_module: whose graph it is.
        allows_single_node_partition: a part may be one function that computes.
        non_compute_ops: paths of functions that do not count as such, beside `operator.getitem`.
        allowed_single_node_partition_ops: paths of functions that may be a part alone.
        skip_horizontal_fusion: only nodes that use each other become one part.

    >>> import flambeau as fl
    >>> from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from flambeau.fx.passes.operator_support import create_op_support
    >>> gm = fl.fx.symbolic_trace(lambda x: fl.sin(fl.relu(x + 1)))
    >>> support = create_op_support(lambda submodules, node: node.name in ("add", "relu"))
    >>> fused = CapabilityBasedPartitioner(gm, support).partition_and_fuse()
    >>> [node.name for node in fused.graph.nodes]
    ['x', 'fused_0', 'sin', 'output']
    """

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase, allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None, allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:  # fmt: skip
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition, self.skip_horizontal_fusion = allows_single_node_partition, skip_horizontal_fusion
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())

    def propose_partitions(self) -> list[Partition]:
        """The parts, each with its nodes in the order of the graph."""
        modules = dict(self.graph_module.named_modules())
        parts = _Parts()
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            new = parts.add(node, order) if self.operator_support.is_node_supported(modules, node) else None
            begin = [] if new is None else [new]
            if not self.skip_horizontal_fusion:
                parts.merge(list(dict.fromkeys([*begin, *sorted(parts.first, key=parts.first.__getitem__)])))
            elif begin:
                parts.merge(list(dict.fromkeys([*begin, *(parts.home[user] for user in node.users if user in parts.home)])))
        found = parts.found
        for part in found.values():
            part.nodes = dict(sorted(part.nodes.items(), key=lambda entry: -(entry[1] or 0)))
        self._take_items(parts)
        if not self.allows_single_node_partition:
            found = {i: part for i, part in found.items() if self._functions_in(part) > 1}
        return [part for part in found.values() if part.size()]

    def _take_items(self, parts: _Parts) -> None:
        """What takes one of several results is in the part of the node that has them."""
        moved = True
        while moved:
            moved = False
            for node in self.graph_module.graph.nodes:
                if all(user.op == "call_function" and qualified_name(user.target) == _GETITEM for user in node.users):
                    for user in node.users:
                        moved |= parts.move(user, parts.home.get(node))

    def _functions_in(self, part: Partition) -> int:
        """How many functions compute in it; one that may be alone counts twice."""
        names = [qualified_name(node.target) for node in part.nodes if node.op == "call_function"]
        skipped = {_GETITEM, "torch.ops.aten.view", *self.non_compute_ops}
        return sum(name not in skipped for name in names) + sum(name in self.allowed_single_node_partition_ops for name in names)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Makes modules of parts, which the graph calls: the module, changed."""
        return fuse_by_partitions(self.graph_module, [part.nodes for part in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes functions that do not compute out of the parts, where all before them or all behind them is outside."""
        for part in partitions:
            inside = set(part.nodes)
            for node in part.nodes:
                if self._is_idle(node) and not any(used in inside for used in node.all_input_nodes):
                    inside.discard(node)
            for node in reversed(part.nodes):
                if self._is_idle(node) and not any(user in inside for user in node.users):
                    inside.discard(node)
            for node in [node for node in part.nodes if node not in inside]:
                part.remove_node(node)

    def _is_idle(self, node: Node) -> bool:
        return node.op == "call_function" and qualified_name(node.target) in self.non_compute_ops

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Finds the parts, and makes modules of them."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


class _Parts:
    """Nodes in parts, which are merged."""

    def __init__(self) -> None:
        self.found: dict[int, Partition] = {}
        self.home: dict[Node, int] = {}
        self.first: dict[int, int] = {}  # a part's id -> the smallest id of those that became it
        self._next = itertools.count()

    def add(self, node: Node, order: int) -> int:
        new = next(self._next)
        self.found[new], self.home[node], self.first[new] = Partition(new, [node], [order]), new, new
        return new

    def move(self, node: Node, part: int | None) -> bool:
        """Puts a node into a part, or into none. Returns whether it was elsewhere."""
        was = self.home.get(node)
        if was == part:
            return False
        if was is not None:
            self.found[was].remove_node(node)
            del self.home[node]
        if part is not None:
            self.found[part].add_node(node)
            self.home[node] = part
        return True

    def merge(self, ids: list[int]) -> None:
        """Merges the first part with each other one where it can be; what is larger keeps its id."""
        if not ids:
            return
        kept = ids[0]
        for other in ids[1:]:
            if self._is_circle(kept, other):
                continue
            kept, gone = (other, kept) if self.found[kept].size() < self.found[other].size() else (kept, other)
            self.first[kept] = min(self.first[kept], self.first.pop(gone))
            removed = self.found.pop(gone)
            self.found[kept].nodes.update(removed.nodes)
            self.home.update(dict.fromkeys(removed.nodes, kept))

    def _is_circle(self, a: int, b: int) -> bool:
        """Whether a way leads out of both and back, where what enters another part comes out of all of it."""
        both = (a, b)
        waiting = [user for i in both for node in self.found[i].nodes for user in node.users if self.home.get(user) not in both]
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            part = self.home.get(node)
            if part in both:
                return True
            if node not in seen:
                group = [node] if part is None else list(self.found[part].nodes)
                seen.update(group)
                waiting += [user for member in group for user in member.users]
        return False
