"""False dependencies: what shared memory keeps in order, and nothing else does.

Buffers that lie in the same bytes one after another are never a race where nodes run in order. Where they may run in
parallel, the first node that writes the later buffer has to wait for all that touch the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping

from flambeau.graph._structure import Structure


def control_edges(graph: Structure, spots: Mapping[int, tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Pairs (earlier node, later node) that the graph's own dependencies and the other pairs do not imply.

    `spots` has block, offset and bytes of each planned buffer.
    """
    lives = graph.lives()
    born: dict[int, list[int]] = {}
    for buffer in spots:
        born.setdefault(lives[buffer].start, []).append(buffer)
    # Who lies where: (begin, end, nodes that touch it) by block.
    tenants: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    ancestors: list[int] = []  # of each node, as the bits of a number
    edges: list[tuple[int, int]] = []
    for index, before in enumerate(graph.dependencies()):
        known = 0
        for node in before:
            known |= ancestors[node] | 1 << node
        waits: set[int] = set()
        arrivals = born.get(index, [])
        for buffer in arrivals:
            block, begin, nbytes = spots[buffer]
            end, rest = begin + nbytes, []
            for tenant in tenants.get(block, []):
                low, high, touches = tenant
                if low >= end or high <= begin:
                    rest.append(tenant)
                    continue
                waits.update(touches)
                if low < begin:
                    rest.append((low, begin, touches))
                if high > end:
                    rest.append((end, high, touches))
            tenants[block] = rest
        for buffer in arrivals:
            block, begin, nbytes = spots[buffer]
            if nbytes:
                tenants[block].append((begin, begin + nbytes, lives[buffer].touches))
        waits.discard(index)
        for node in sorted(waits, reverse=True):  # a later one may imply the earlier ones
            if not known >> node & 1:
                known |= ancestors[node] | 1 << node
                edges.append((node, index))
        ancestors.append(known)
    return edges
