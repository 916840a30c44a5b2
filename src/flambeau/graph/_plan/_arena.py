"""Offsets in one arena, by the intervals in which memory is in use.

    bytes ^
          |  +-------------+                  a box is a buffer, or several of which one took the place of the other:
          |  |      b      +-------+          as wide as the nodes from its first write to its last use, as high as its
          |  +---+---------+   d   |          bytes. No two may overlap, and the pile should be low.
          |  | a |    c    |       |
          +--+---+---------+-------+--> nodes

Each box goes into the smallest gap in which it fits (tiny ones into the first), else on top. The biggest goes first; then
those that are in use where most bytes are, then those of the longest life are tried first, and the lowest pile is kept. One that is
as low as the bytes that are in use at once ends the search: no plan can do better.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

MAX_BYTES = 2**63


def round_up(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


@dataclass(frozen=True, slots=True)
class Box:
    """Memory that is in use from node `start` to node `end`, both included."""

    start: int
    end: int
    nbytes: int


def peak(boxes: list[Box]) -> tuple[int, int]:
    """The most bytes that are in use at one node, a lower bound of every plan; and the node."""
    change: dict[int, int] = {}
    for box in boxes:
        change[box.start] = change.get(box.start, 0) + box.nbytes
        change[box.end + 1] = change.get(box.end + 1, 0) - box.nbytes
    most = now = node = 0
    for at in sorted(change):
        now += change[at]
        if now > most:
            most, node = now, at
    return most, node


def _pile(boxes: list[Box], order: list[int], tiny: int, limit: int | None) -> tuple[int, list[int]]:
    """Height and offsets; gives up where the pile would be no lower than `limit`."""
    offsets = [0] * len(boxes)
    height = 0
    placed: list[tuple[int, int, int, int]] = []  # offset, end of the bytes, start, end; sorted by offset
    for index in order:
        box = boxes[index]
        start, end, nbytes = box.start, box.end, box.nbytes
        enough = box.nbytes if nbytes > tiny else MAX_BYTES  # a gap as small as this needs no better one
        best, best_gap, top = -1, MAX_BYTES, 0
        for begin, until, other_start, other_end in placed:
            if other_start > end or other_end < start:
                continue
            gap = begin - top
            if nbytes <= gap < best_gap:
                best, best_gap = top, gap
                if gap <= enough:
                    break
            if until > top:
                top = until
        offset = top if best < 0 else best
        offsets[index] = offset
        if offset + nbytes > height:
            height = offset + nbytes
            if limit is not None and height >= limit:
                return height, offsets
        insort(placed, (offset, offset + nbytes, start, end))
    return height, offsets


def place(boxes: list[Box], align: int) -> tuple[int, list[int]]:
    """Bytes of the arena and the offset of each box."""
    whole = [Box(box.start, box.end, round_up(box.nbytes, align)) for box in boxes]
    bound, fullest = peak(whole)
    rounded, parts = _bundled(whole, bound >> 12)
    filled = [index for index, box in enumerate(rounded) if box.nbytes]
    life = [box.end - box.start + 1 for box in rounded]
    orders: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-rounded[i].nbytes, rounded[i].start),
        lambda i: (not rounded[i].start <= fullest <= rounded[i].end, -rounded[i].nbytes, rounded[i].start),
        lambda i: (-life[i], -rounded[i].nbytes),
    )
    height, offsets = _pile(rounded, sorted(filled, key=orders[0]), bound >> 12, None)
    for order in orders[1:]:
        if height > bound:
            other, others = _pile(rounded, sorted(filled, key=order), bound >> 12, height)
            if other < height:
                height, offsets = other, others
    result = [0] * len(boxes)
    for offset, members in zip(offsets, parts):
        for index in members:
            result[index] = offset
            offset += whole[index].nbytes
    return height, result


def _bundled(boxes: list[Box], tiny: int) -> tuple[list[Box], list[list[int]]]:
    """Tiny boxes of one time (the means and variances of a normalisation) as one, with the boxes that each is made of."""
    bundles: dict[tuple[int, int, int], list[int]] = {}
    for index, box in enumerate(boxes):
        bundles.setdefault((box.start, box.end, -1 if box.nbytes <= tiny else index), []).append(index)
    parts = list(bundles.values())
    return [Box(boxes[p[0]].start, boxes[p[0]].end, sum([boxes[i].nbytes for i in p])) for p in parts], parts
