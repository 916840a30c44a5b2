"""Offsets in one arena, by the intervals in which memory is in use.

    bytes ^
          |  +-------------+                  a box is a buffer, or several of which one took the place of the other:
          |  |      b      +-------+          as wide as the nodes from its first write to its last use, as high as its
          |  +---+---------+   d   |          bytes. No two may overlap, and the pile should be low.
          |  | a |    c    |       |
          +--+---+---------+-------+--> nodes

The biggest is placed first, each at the smallest gap in which it fits, else on top. Ties are broken in several ways and the
lowest pile is kept; the first that is as low as the bytes that are in use at once (no plan can do better) ends the search.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """Memory that is in use from node `start` to node `end`, both included."""

    start: int
    end: int
    nbytes: int


def peak(boxes: list[Box]) -> int:
    """The most bytes that are in use at one node: a lower bound of every plan."""
    change: dict[int, int] = {}
    for box in boxes:
        change[box.start] = change.get(box.start, 0) + box.nbytes
        change[box.end + 1] = change.get(box.end + 1, 0) - box.nbytes
    most = now = 0
    for at in sorted(change):
        now += change[at]
        most = max(most, now)
    return most


def _pile(boxes: list[Box], order: list[int], limit: int | None) -> tuple[int, list[int]]:
    """Height and offsets; gives up where the pile would be no lower than `limit`."""
    offsets = [0] * len(boxes)
    height = 0
    placed: list[tuple[int, int, int, int]] = []  # offset, end of the bytes, start, end; sorted by offset
    for index in order:
        box = boxes[index]
        start, end, nbytes = box.start, box.end, box.nbytes
        best, best_gap, top = -1, 0, 0
        for begin, until, other_start, other_end in placed:
            if other_start > end or other_end < start:
                continue
            gap = begin - top
            if gap >= nbytes and (best < 0 or gap < best_gap):
                best, best_gap = top, gap
                if gap == nbytes:
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
    rounded = [Box(box.start, box.end, -(-box.nbytes // align) * align) for box in boxes]
    filled = [index for index, box in enumerate(rounded) if box.nbytes]
    if not filled:
        return 0, [0] * len(boxes)
    bound = peak([rounded[index] for index in filled])
    orders = (
        lambda i: (-rounded[i].nbytes, rounded[i].start),
        lambda i: (-rounded[i].nbytes, rounded[i].start - rounded[i].end),
        lambda i: (-rounded[i].nbytes, -rounded[i].end),
        lambda i: (-rounded[i].nbytes * (rounded[i].end - rounded[i].start + 1), rounded[i].start),
        lambda i: (rounded[i].start - rounded[i].end, -rounded[i].nbytes),
        lambda i: (rounded[i].start, -rounded[i].nbytes),
    )
    height, offsets = _pile(rounded, sorted(filled, key=orders[0]), None)
    for order in orders[1:]:
        if height == bound:
            break
        other, others = _pile(rounded, sorted(filled, key=order), height)
        if other < height:
            height, offsets = other, others
    return height, offsets
