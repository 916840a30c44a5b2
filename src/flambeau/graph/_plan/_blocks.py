"""Blocks from a pool, matched by size: co-sharing as the MXNet paper has it, with the rules of its planner.

The program is walked in order. An output asks for a block when its node is reached; blocks go back when the last node
that touches their buffer has run. A request of `size` takes from the free blocks of its device the smallest of at least
`size` and at most `range * size` bytes; else the largest of at least `size / range`, which grows; else a new block. Of
equal ones the first that was released goes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence

from flambeau.graph._structure import Structure


class Pool:
    """The blocks: `sizes[i]` bytes on `devices[i]`. Range 0 shares nothing."""

    def __init__(self, match_range: int) -> None:
        self.match_range = match_range
        self.sizes: list[int] = []
        self.devices: list[str] = []
        # By device: (size, when it was released, block, colour of the node that released it), sorted.
        self._free: dict[str, list[tuple[int, int, int, int]]] = {}
        self._releases = 0

    def request(self, size: int, device: str, colour: int) -> int:
        if self.match_range:
            free = self._free.get(device, [])
            middle = bisect_left(free, (size,))
            for at in range(middle, len(free)):
                if free[at][0] > size * self.match_range:
                    break
                if free[at][3] == colour:
                    return free.pop(at)[2]
            at = middle
            while at:
                # The first of those of equal size.
                begin = bisect_left(free, (free[at - 1][0],))
                if free[begin][0] * self.match_range < size:
                    break
                for same in range(begin, at):
                    if free[same][3] == colour:
                        block = free.pop(same)[2]
                        self.sizes[block] = size
                        return block
                at = begin
        self.sizes.append(size)
        self.devices.append(device)
        return len(self.sizes) - 1

    def release(self, block: int, colour: int) -> None:
        self._releases += 1
        insort(self._free.setdefault(self.devices[block], []), (self.sizes[block], self._releases, block, colour))


def assign(
    graph: Structure, planned: Collection[int], took: Mapping[int, int], match_range: int, colours: Sequence[int]
) -> tuple[dict[int, int], Pool]:
    """The block of each planned buffer. `colours` are the nodes': memory is shared among equal ones."""
    pool, lives, buffers = Pool(match_range), graph.lives(), graph.buffers
    block_of: dict[int, int] = {}
    given_on = set(took.values())
    for index, (reads, writes) in enumerate(graph.touched()):
        for buffer in writes:
            if buffer in planned and buffer not in block_of:
                source = took.get(buffer)
                if source is None:
                    block_of[buffer] = pool.request(buffers[buffer].nbytes, buffers[buffer].device, colours[index])
                else:
                    block_of[buffer] = block_of[source]
        for buffer in dict.fromkeys((*reads, *writes)):
            if buffer in planned and lives[buffer].end == index and buffer not in given_on:
                pool.release(block_of[buffer], colours[index])
    return block_of, pool


def colour_nodes(graph: Structure, parallel: int) -> list[int]:
    """Colours by taking the longest path out of the graph, `parallel` - 1 times; nodes on one path never run in parallel."""
    n = len(graph.nodes)
    colours = [parallel - 1] * n
    if parallel <= 1:
        return colours
    before = graph.dependencies()
    weight = [1] * n
    for colour in range(parallel - 1):
        longest, follows = [0] * n, [-1] * n  # of the nodes on a way that starts here, those without a colour; where it goes
        most, at = 0, -1
        for index in reversed(range(n)):
            longest[index] += weight[index]
            if longest[index] > most:
                most, at = longest[index], index
            for previous in before[index]:
                if longest[index] > longest[previous]:
                    longest[previous], follows[previous] = longest[index], index
        while at >= 0:
            if weight[at]:
                colours[at], weight[at] = colour, 0
            at = follows[at]
    return colours
