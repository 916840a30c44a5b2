"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flambeau.graph._graph import Graph
from flambeau.graph._structure import Arg, DType, Node, Ref
from flambeau.graph.passes._rewrite import Effects, has_effects, rebuild


def _key_of(arg: Arg, of_operand: Callable[[Ref], Any]) -> Any:
    if isinstance(arg, Ref):
        return of_operand(arg)
    if isinstance(arg, tuple):
        return tuple([_key_of(part, of_operand) for part in arg])
    return (type(arg).__name__, arg.name if isinstance(arg, DType) else repr(arg))  # 1, 1.0 and True differ


def cse(graph: Graph, effects: Effects = ()) -> Graph:
    """Lets nodes of the same op, arguments and operands share one result.

        before   %2 = exp(%0)                 after   %2 = exp(%0)
                 %3 = exp(%0)                         %4 = mul(%2, %2)
                 %4 = mul(%2, %3)                     return %4
                 return %4

    Operands are the same if they are the same view of the same memory, and nobody has written it in between. Left alone are
    nodes that write in place, ops with `effects` (random, opaque), results that somebody writes to afterwards, and
    two outputs of the graph, which must not share memory.

    >>> from flambeau import graph
    >>> graph.passes.cse(graph.example()) == graph.example()
    True
    """
    opaque, values = has_effects(effects), graph.values
    writers = Counter(buffer for _, writes in graph.touched() for buffer in writes)
    buffers = list(graph.buffers)
    version: Counter[int] = Counter()
    moved: dict[int, int] = {}
    known: dict[Any, Node] = {}
    keep: list[Node] = []

    def of_operand(ref: Ref) -> Any:
        value = values[ref.value]
        buffer = moved.get(value.buffer, value.buffer)
        return (buffer, version[buffer], value.dtype, value.sizes, value.strides, value.offset)

    def owned(node: Node) -> list[int] | None:
        """The buffers of the outputs, if each has one that nobody else writes."""
        found = [values[out].buffer for out in node.outs]
        plain = all(writers[b] == 1 and graph.buffers[b].kind in ("intermediate", "output") for b in found)
        return found if plain and len(set(found)) == len(found) else None

    for node, (_, writes) in zip(graph.nodes, graph.touched()):
        made = owned(node)
        if node.outs and not node.writes and made is not None and not opaque(node):
            shapes = [(v.dtype, v.sizes, v.strides, v.offset) for v in map(values.__getitem__, node.outs)]
            key = (node.op, _key_of(node.args, of_operand), *shapes, *((buffers[b].nbytes, buffers[b].device) for b in made))
            twin = known.setdefault(key, node)
            if twin is not node:
                theirs = [values[out].buffer for out in twin.outs]
                if not any(buffers[a].kind == buffers[b].kind == "output" for a, b in zip(theirs, made)):
                    for a, b in zip(theirs, made):
                        moved[b] = a
                        kind = "output" if "output" in (buffers[a].kind, buffers[b].kind) else "intermediate"
                        buffers[a] = replace(buffers[a], kind=kind, name=buffers[a].name or buffers[b].name)
                    continue
        version.update(moved.get(buffer, buffer) for buffer in writes)
        keep.append(node)
    return rebuild(graph, keep, moved, buffers)
