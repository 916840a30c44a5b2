"""A layered layout: where boxes and lines of a directed graph go.

    1. a box's layer is the longest way that leads to it
    2. an edge over a few layers gets a bend in each that it crosses; a longer one runs in a lane at the right
    3. boxes are ordered within their layers by where their neighbours are, down and up a few times
    4. they are moved over their neighbours as far as their order and widths allow

Everything is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

LONG = 4  # layers; edges over more go in lanes
SWEEPS = 6
GAP_X, GAP_Y, LANE = 28.0, 46.0, 9.0


@dataclass(slots=True)
class Layout:
    centres: list[tuple[float, float]]  # of the boxes
    lines: list[list[tuple[float, float]]]  # of the edges, from border to border
    lanes: list[bool]  # whether an edge runs in one
    width: float
    height: float


def lay_out(boxes: list[tuple[float, float]], edges: list[tuple[int, int]], carried: list[int]) -> Layout:
    """`boxes` are widths and heights; an edge leads from an earlier box to a later one. What is `carried` from one box along
    several edges shares a lane."""
    n = len(boxes)
    layer = [0] * n
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layer[target] = max(layer[target], layer[source] + 1)
    # What is wanted first by a later box moves down to it.
    nearest: dict[int, int] = {}
    into = {target for _, target in edges}
    for source, target in edges:
        nearest[source] = min(nearest.get(source, layer[target]), layer[target])
    for box in range(n):
        if box not in into and box in nearest:
            layer[box] = nearest[box] - 1

    widths = [box[0] for box in boxes]
    chains: list[list[int]] = []
    at_layer = list(layer)
    for source, target in edges:
        chain = [source]
        if layer[target] - layer[source] <= LONG:
            for between in range(layer[source] + 1, layer[target]):
                at_layer.append(between)
                widths.append(4.0)
                chain.append(len(widths) - 1)
        chains.append([*chain, target])
    layers: list[list[int]] = [[] for _ in range(max(at_layer, default=-1) + 1)]
    for item, at in enumerate(at_layer):
        layers[at].append(item)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for chain, (source, target) in zip(chains, edges):
        if layer[target] - layer[source] <= LONG:
            for upper, lower in zip(chain, chain[1:]):
                above[lower].append(upper)
                below[upper].append(lower)

    _order(layers, above, below)
    xs = _columns(layers, widths, above, below)
    heights = [max((boxes[item][1] for item in items if item < n), default=0.0) for items in layers]
    ys, y = [], 20.0
    for height in heights:
        ys.append(y)
        y += height + GAP_Y
    left = min((xs[i] - widths[i] / 2 for i in range(len(widths))), default=0.0) - 20
    xs = [x - left for x in xs]
    right = max((xs[i] + widths[i] / 2 for i in range(len(widths))), default=0.0)

    lane_of, n_lanes = _lanes(edges, carried, layer)
    lines: list[list[tuple[float, float]]] = []
    for index, ((source, target), chain) in enumerate(zip(edges, chains)):
        start = (xs[source], ys[layer[source]] + boxes[source][1])
        end = (xs[target], ys[layer[target]])
        if index in lane_of:
            x = right + 16 + LANE * lane_of[index]
            down, up = ys[layer[source]] + heights[layer[source]] + GAP_Y * 0.3, end[1] - GAP_Y * 0.3
            lines.append([start, (start[0], down), (x, down), (x, up), (end[0], up), end])
            continue
        line = [start]
        for bend in chain[1:-1]:
            top = ys[at_layer[bend]]
            line += [(xs[bend], top), (xs[bend], top + heights[at_layer[bend]])]
        lines.append([*line, end])
    centres = [(xs[i], ys[layer[i]] + boxes[i][1] / 2) for i in range(n)]
    return Layout(centres, lines, [i in lane_of for i in range(len(edges))], right + 32 + LANE * n_lanes, y - GAP_Y + 20)


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    place: dict[int, float] = {}
    for items in layers:
        place.update((item, float(at)) for at, item in enumerate(items))
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        for items in reversed(layers) if sweep % 2 else layers:
            centre = {
                item: sum(place[other] for other in neighbours[item]) / len(neighbours[item]) if neighbours[item] else place[item]
                for item in items
            }
            items.sort(key=lambda item: (centre[item], place[item]))
            place.update((item, float(at)) for at, item in enumerate(items))


def _columns(layers: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]]) -> list[float]:
    xs = [0.0] * len(widths)
    for sweep in range(SWEEPS + 1):
        neighbours = below if sweep % 2 else above
        for items in reversed(layers) if sweep % 2 else layers:
            wish = []
            for item in items:
                near = sorted(xs[other] for other in neighbours[item])
                wish.append((near[(len(near) - 1) // 2] + near[len(near) // 2]) / 2 if near else xs[item])
            _spread(items, wish, widths, xs)
    return xs


def _spread(items: list[int], wish: list[float], widths: list[float], xs: list[float]) -> None:
    """Puts items as near to their wishes as their order and widths allow: neighbours that collide move as one."""
    groups: list[list[float]] = []  # where the first one is, sum of what its items wish for that, count, width
    counts: list[int] = []
    for at, item in enumerate(items):
        before = (widths[items[at - 1]] + widths[item]) / 2 + GAP_X if at else 0.0
        groups.append([wish[at], wish[at], 1.0, 0.0])
        counts.append(1)
        while len(groups) > 1:
            left, group = groups[-2], groups[-1]
            room = left[0] + left[3] + before
            if group[0] >= room:
                break
            shift = left[3] + before
            left[1] += group[1] - shift * group[2]
            left[2] += group[2]
            left[0] = left[1] / left[2]
            left[3] = shift + group[3]
            counts[-2] += counts[-1]
            groups.pop()
            counts.pop()
            first = sum(counts[:-1])
            if first:
                before = (widths[items[first - 1]] + widths[items[first]]) / 2 + GAP_X
    at = 0
    for group, count in zip(groups, counts):
        x = group[0]
        for offset in range(count):
            if offset:
                x += (widths[items[at - 1]] + widths[items[at]]) / 2 + GAP_X
            xs[items[at]] = x
            at += 1


def _lanes(edges: list[tuple[int, int]], carried: list[int], layer: list[int]) -> tuple[dict[int, int], int]:
    """Lanes of long edges, the innermost that is free."""
    ends: list[int] = []
    lane_of: dict[int, int] = {}
    shared: dict[tuple[int, int], int] = {}
    long = [index for index, (source, target) in enumerate(edges) if layer[target] - layer[source] > LONG]
    for index in sorted(long, key=lambda i: (layer[edges[i][0]], edges[i][0], carried[i], edges[i][1])):
        source, target = edges[index]
        lane = shared.get((source, carried[index]))
        if lane is None:
            lane = next((at for at, end in enumerate(ends) if end <= layer[source]), len(ends))
            shared[source, carried[index]] = lane
        if lane == len(ends):
            ends.append(0)
        ends[lane] = max(ends[lane], layer[target])
        lane_of[index] = lane
    return lane_of, len(ends)
