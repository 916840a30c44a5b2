"""Sums that accumulate in the memory of an operand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flambeau.graph._graph import Graph
from flambeau.graph._structure import Node, Ref
from flambeau.graph.passes._rewrite import rebuild

SUMS = {"add": "add_"}


def inplace_sums(graph: Graph, sums: Mapping[str, str] = SUMS) -> Graph:
    """Turns `a + b` into an addition in place where an operand dies: gradients of a value used several times add up in
    one buffer.

        before   %4 = add(%2, %3)             after   add_(%2!, %3)
                 %6 = add(%4, %5)                     add_(%2!, %5)
                 return %6                            return %2

    The operand must be all of an intermediate buffer, as large as the sum and of its dtype, and the last reader must be the sum. The
    second operand is taken only if the op has no other arguments than ones (`alpha`).

    >>> from flambeau import graph
    >>> graph.passes.inplace_sums(graph.example()).print()
    graph(%0: f32[8, 16] x, %1: f32[16, 16] w, %2: f32[16] b):
      %3: f32[8, 16] = matmul(%0: f32[8, 16], %1: f32[16, 16])  # layer.py:3
      add_(%3!: f32[8, 16], %2: f32[16])  # layer.py:3
      %4: f32[8, 16] = relu(%3: f32[8, 16])  # layer.py:3
      %5: f32[8, 16] = matmul(%4: f32[8, 16], %1: f32[16, 16])  # layer.py:4
      add_(%5!: f32[8, 16], %0: f32[8, 16])  # layer.py:4
      %6: f32[16] = sum(%5: f32[8, 16], (0,))  # layer.py:5
      return %6
    """
    values, lives = graph.values, graph.lives()
    buffers = list(graph.buffers)
    moved: dict[int, int] = {}
    nodes: list[Node] = []

    def root(buffer: int) -> int:
        return moved.get(buffer, buffer)

    def dying(index: int, node: Node) -> int | None:
        """The position of the operand that the sum may be added to."""
        (out,) = node.outs
        made = values[out]
        if lives[made.buffer].start != index or graph.buffers[made.buffer].kind not in ("intermediate", "output"):
            return None
        first, second = node.args[:2]
        if not isinstance(first, Ref) or not isinstance(second, Ref) or values[first.value].buffer == values[second.value].buffer:
            return None
        for position, ref in enumerate((first, second)):
            value = values[ref.value]
            buffer = value.buffer
            if (
                lives[buffer].end == index
                and graph.buffers[buffer].kind == "intermediate"
                and replace(value, buffer=made.buffer) == made
                and graph.buffers[buffer].nbytes == graph.buffers[made.buffer].nbytes
                and graph.buffers[buffer].device == graph.buffers[made.buffer].device
                and (position == 0 or all(type(arg) in (int, float) and arg == 1 for arg in node.args[2:]))
            ):
                return position
        return None

    for index, node in enumerate(graph.nodes):
        position = dying(index, node) if node.op in sums and len(node.outs) == 1 and len(node.args) >= 2 and not node.writes else None
        if position is None:
            nodes.append(node)
            continue
        taken, other = node.args[position], node.args[1 - position]
        assert isinstance(taken, Ref)
        nodes.append(Node(sums[node.op], (taken, other, *node.args[2:]), (), (taken.value,), node.source))
        source, target = root(values[taken.value].buffer), values[node.outs[0]].buffer
        moved[target] = source
        # The caller gets what was an intermediate buffer.
        if buffers[target].kind == "output":
            buffers[source] = replace(buffers[source], kind="output", name=buffers[source].name or buffers[target].name)
    return rebuild(graph, nodes, moved, buffers)
