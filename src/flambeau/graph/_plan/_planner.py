"""`plan` and what it returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flambeau.graph._plan._arena import Box, peak, place, round_up
from flambeau.graph._plan._blocks import Pool, assign, colour_nodes
from flambeau.graph._plan._edges import control_edges
from flambeau.graph._plan._rules import InplaceRule, declared, merge
from flambeau.graph._structure import GraphError, Structure

MODES = ("none", "inplace", "coshare", "both", "arena")


@dataclass(frozen=True, slots=True)
class Block:
    """Memory that is allocated in one piece."""

    device: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a buffer lies: `nbytes` bytes from `offset` of a block on."""

    block: int
    offset: int
    nbytes: int


@dataclass(slots=True, eq=False)
class Plan:
    """Where the intermediate buffers of a graph lie."""

    graph: Structure
    mode: str
    blocks: tuple[Block, ...]
    places: dict[int, Place]  # of each planned buffer
    took: dict[int, int]  # buffer -> the buffer whose place it has taken over, at the node where that dies
    lower_bound: int  # bytes that are in use at once; no plan with the same `took` can have less
    _edges: list[tuple[int, int]] | None = field(default=None, repr=False)

    @property
    def total(self) -> int:
        """Bytes of all blocks."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def edges(self) -> list[tuple[int, int]]:
        """False dependencies: pairs of nodes (earlier, later) that nothing but shared memory keeps in order."""
        if self._edges is None:
            self._edges = control_edges(self.graph, {b: (p.block, p.offset, p.nbytes) for b, p in self.places.items()})
        return self._edges

    def colours(self) -> dict[int, int]:
        """A number for each planned buffer; those with one number begin at the same byte of the same block."""
        numbers: dict[tuple[int, int], int] = {}
        return {buffer: numbers.setdefault((p.block, p.offset), len(numbers)) for buffer, p in sorted(self.places.items())}

    def check(self) -> None:
        """Raises GraphError if two buffers that are in use at once overlap, or one leaves its block.

        A buffer may begin where another ends at the same node only if it has taken its place.
        """
        lives, by_block = self.graph.lives(), dict[int, list[int]]()
        for buffer, spot in self.places.items():
            room = self.blocks[spot.block].nbytes
            if spot.nbytes < self.graph.buffers[buffer].nbytes or spot.offset < 0 or spot.offset + spot.nbytes > room:
                raise GraphError(f"plan: buffer {buffer} at {spot.offset}, {spot.nbytes} bytes, leaves block {spot.block} of {room}")
            if spot.nbytes:
                by_block.setdefault(spot.block, []).append(buffer)
        for buffers in by_block.values():
            # Those in use, while the nodes are walked.
            now: list[int] = []
            for buffer in sorted(buffers, key=lambda b: (lives[b].start, b)):
                start, spot = lives[buffer].start, self.places[buffer]
                now = [other for other in now if lives[other].end >= start]
                for other in now:
                    theirs = self.places[other]
                    if (
                        theirs.offset < spot.offset + spot.nbytes
                        and spot.offset < theirs.offset + theirs.nbytes
                        and not (self.took.get(buffer) == other and lives[other].end == start)
                    ):
                        raise GraphError(f"plan: buffers {other} and {buffer} overlap in block {spot.block} at node {start}")
                now.append(buffer)


def plan(
    graph: Structure,
    mode: str = "arena",
    *,
    rule: InplaceRule | Mapping[str, Sequence[tuple[int, int]]] | None = None,
    kinds: Collection[str] = ("intermediate",),
    match_range: int | Sequence[int] = 16,
    parallel: int = 1,
    align: int = 64,
) -> Plan:
    """Decides where intermediate buffers lie.

    Args:
        mode: "none" (each buffer has memory of its own), "inplace" (outputs take the place of operands), "coshare" (dead
            buffers' memory is used again), "both", or "arena" (in place, then offsets in one arena per device).
        rule: which outputs may take which operands' places: see `elementwise` and `declared`; a mapping is declared.
            Without one nothing is done in place.
        kinds: kinds of buffers that are planned. With "output" among them, outputs lie in planned memory and stay to the
            end; they are overwritten by the next run.
        match_range: how far in size a block may be from what is asked ("coshare", "both"); of several the best is kept.
        parallel: that many colours of nodes, and memory is shared within a colour alone, so that as many
            paths of the graph stay independent ("coshare", "both").
        align: offsets in the arena are multiples of it.

    Raises:
        ValueError: an unknown mode or kind, a match range or alignment below its least, a rule that is none.

    >>> from flambeau import graph
    >>> g = graph.example()
    >>> graph.plan(g, "none").total, graph.plan(g, "arena", rule=graph.elementwise({"relu"})).total
    (2560, 1024)
    """
    if mode not in MODES:
        raise ValueError(f"plan: mode = {mode!r}; expected one of {', '.join(MODES)}")
    ranges = (match_range,) if isinstance(match_range, int) else match_range
    if not isinstance(ranges, (tuple, list)) or not ranges or not all(_is_count(number, 0) for number in ranges):
        raise ValueError(f"plan: match_range = {match_range!r}; expected one or several whole numbers >= 0")
    if isinstance(kinds, str) or not set(kinds) <= {"intermediate", "output"}:
        raise ValueError(f"plan: kinds = {kinds!r}; expected intermediate, output or both, in a list")
    if not _is_count(align, 1) or not _is_count(parallel, 1):
        raise ValueError(f"plan: align = {align!r}, parallel = {parallel!r}; expected whole numbers >= 1")
    if not (rule is None or callable(rule) or isinstance(rule, Mapping)):
        raise ValueError(f"plan: rule = {rule!r}; expected elementwise(...), declared(...), a mapping from ops to pairs, or None")
    if isinstance(rule, Mapping):
        rule = declared(rule)
    lives = graph.lives()
    planned = {index for index, buffer in enumerate(graph.buffers) if buffer.kind in kinds and lives[index].start < len(graph.nodes)}
    took = merge(graph, planned, rule) if mode in ("inplace", "both", "arena") else {}

    boxes, members = _boxes(graph, planned, took)
    bound = sum(peak([boxes[i] for i in group])[0] for group in _by_device(graph, members).values())
    if mode == "arena":
        blocks, places = _arenas(graph, boxes, members, align)
        least = sum(peak([_rounded(boxes[i], align) for i in group])[0] for group in _by_device(graph, members).values())
        if sum(block.nbytes for block in blocks) > least:
            # Seldom, but then "both" may have found something lower.
            blocks, places = min((blocks, places), _stacked(graph, assign(graph, planned, took, 16, [0] * len(graph.nodes)), align),
                                 key=lambda found: sum(block.nbytes for block in found[0]))  # fmt: skip
        return Plan(graph, mode, blocks, places, took, bound)
    if mode in ("none", "inplace"):
        ranges = (0,)
    colours = colour_nodes(graph, parallel)
    block_of, pool = min((assign(graph, planned, took, r, colours) for r in ranges), key=lambda found: sum(found[1].sizes))
    places = {buffer: Place(block, 0, graph.buffers[buffer].nbytes) for buffer, block in block_of.items()}
    return Plan(graph, mode, tuple(map(Block, pool.devices, pool.sizes)), places, took, bound)


def _is_count(number: object, least: int) -> bool:
    return type(number) is int and number >= least


def _rounded(box: Box, align: int) -> Box:
    return Box(box.start, box.end, round_up(box.nbytes, align))


def _stacked(graph: Structure, found: tuple[dict[int, int], Pool], align: int) -> tuple[tuple[Block, ...], dict[int, Place]]:
    """Blocks of a pool as one arena per device."""
    block_of, pool = found
    arenas = {device: index for index, device in enumerate(dict.fromkeys(pool.devices))}
    heights = [0] * len(arenas)
    begins = []
    for device, size in zip(pool.devices, pool.sizes):
        begins.append(heights[arenas[device]])
        heights[arenas[device]] += round_up(size, align)
    places = {
        buffer: Place(arenas[pool.devices[block]], begins[block], graph.buffers[buffer].nbytes) for buffer, block in block_of.items()
    }
    return tuple(map(Block, arenas, heights)), places


def _boxes(graph: Structure, planned: Collection[int], took: Mapping[int, int]) -> tuple[list[Box], list[list[int]]]:
    """Buffers that lie in one place, one after another, with the time in which it is in use."""
    lives = graph.lives()
    root: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for buffer in sorted(planned, key=lambda b: (lives[b].start, b)):
        root[buffer] = root[took[buffer]] if buffer in took else buffer
        groups.setdefault(root[buffer], []).append(buffer)
    members = list(groups.values())
    return [Box(lives[g[0]].start, lives[g[-1]].end, graph.buffers[g[0]].nbytes) for g in members], members


def _by_device(graph: Structure, members: list[list[int]]) -> dict[str, list[int]]:
    result: dict[str, list[int]] = {}
    for index, group in enumerate(members):
        result.setdefault(graph.buffers[group[0]].device, []).append(index)
    return result


def _arenas(graph: Structure, boxes: list[Box], members: list[list[int]], align: int) -> tuple[tuple[Block, ...], dict[int, Place]]:
    blocks: list[Block] = []
    places: dict[int, Place] = {}
    for device, indices in _by_device(graph, members).items():
        height, offsets = place([boxes[i] for i in indices], align)
        for index, offset in zip(indices, offsets):
            for buffer in members[index]:
                places[buffer] = Place(len(blocks), offset, graph.buffers[buffer].nbytes)
        blocks.append(Block(device, height))
    return tuple(blocks), places
