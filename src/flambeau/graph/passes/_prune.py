"""Leaves out what nobody needs."""

from __future__ import annotations

import math

from flambeau.graph._graph import Graph
from flambeau.graph._structure import ITEM_BYTES
from flambeau.graph.passes._rewrite import Effects, has_effects, rebuild


def prune(graph: Graph, effects: Effects = ()) -> Graph:
    """Keeps the nodes that outputs, the caller's memory or ops with `effects` need.

        before   %2 = exp(%0)                 after   %4 = mul(%0, %0)
                 %3 = sum(%2)                         add_(%1!, %4)
                 %4 = mul(%0, %0)                     return %4
                 add_(%1!, %4)
                 return %4

    (%1 is a parameter: to write it counts.) `effects` names ops that must run though nobody reads what they make: random
    draws move their generator on, opaque ones do what nobody knows.

    >>> from dataclasses import replace
    >>> from flambeau import graph
    >>> g = graph.example()
    >>> graph.passes.prune(replace(g, outputs=(0,)))
    Graph(0 nodes, 3 buffers)
    """
    stays, values = has_effects(effects), graph.values
    needed = {values[value].buffer for value in graph.outputs}
    needed |= {index for index, buffer in enumerate(graph.buffers) if buffer.kind in ("argument", "parameter")}
    keep = []
    for node, (reads, writes) in zip(reversed(graph.nodes), reversed(graph.touched())):
        if not stays(node) and not any(buffer in needed for buffer in writes):
            continue
        keep.append(node)
        for out in node.outs:
            value = values[out]
            if math.prod(value.sizes) * ITEM_BYTES[value.dtype] == graph.buffers[value.buffer].nbytes:
                needed.discard(value.buffer)  # all of it is new; what was there before nobody sees
        needed.update(reads)
    return rebuild(graph, keep[::-1], {})
