"""Where a row of ops is cut into segments: exact, by dynamic programming over the places where a cut may lie.

    position     0    1    2    3    4    5        a cut may lie before any op but the first
    op             a    b    c    d    e
    crossing        9    9    2    9               bytes that a cut there hands on

The slowest segment sets the pace, so its cost is what is minimised, under a limit of memory if there is one. Measured times are not
exact, so all cuts whose dearest segment is within a tolerance of the least are as good; of these the one is taken over which the fewest
bytes cross.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flambeau.pipeline._trace import CutError


@dataclass
class Bill:
    """What segments would take, by the positions between which they lie.

    Attributes:
        positions: where a cut may lie, with both ends.
        costs: of each op: nanoseconds, or bytes.
        crossing: bytes that a cut at a position hands on.
        memory: (start, stop) -> bytes of parameters, that one micro-batch leaves, of its input, and of its output. Indices of `positions`.
    """

    positions: list[int]
    costs: list[int]
    crossing: list[int]
    memory: dict[tuple[int, int], tuple[int, int, int, int]]


@dataclass(frozen=True)
class Limits:
    """How segments are judged.

    Besides the micro-batches that it holds, a segment holds the inputs of those by which the one before is ahead of it, and a gradient
    that comes back while it is busy. With 1F1B that is exact.

    Args:
        held: per segment, how many micro-batches it holds at once.
        memory: bytes that a segment may take, or None.
        param_scale: bytes that training takes per byte of parameters.
    """

    held: tuple[int, ...]
    memory: int | None
    param_scale: float

    def factors(self, segment: int) -> tuple[int, int, int]:
        """How often a segment has what a micro-batch leaves, inputs and outputs."""
        held = self.held[segment]
        return held, max(0, self.held[segment - 1] - held) if segment else 0, int(segment + 1 < len(self.held))

    def bytes_of(self, segment: int, parameters: int, activations: int, inputs: int, outputs: int) -> int:
        held, waiting, back = self.factors(segment)
        return math.ceil(parameters * self.param_scale) + activations * held + inputs * waiting + outputs * back


class _Chooser:
    """Dynamic programming over segments; sets of positions are the bits of an integer."""

    def __init__(self, bill: Bill, limits: Limits) -> None:
        self.limits, self.k, self.m = limits, len(limits.held), len(bill.positions) - 1
        self.bill = bill
        if self.m < self.k:
            raise CutError(f"split: there are {self.m - 1} places to cut for {self.k} stages; expected at least {self.k - 1}")
        sums = [0]
        for cost in bill.costs:
            sums.append(sums[-1] + cost)
        self.sums = [sums[p] for p in bill.positions]
        self.rows: list[list[tuple[int, int, int, int]]] = []  # by stop and start, as in the bill, parameters with what belongs to them
        if limits.memory is not None:
            taken = [[bill.memory[start, stop] for start in range(stop)] for stop in range(self.m + 1)]
            self.rows = [[(math.ceil(p * limits.param_scale), a, x, y) for p, a, x, y in row] for row in taken]
        self.fits = [[self._starts(s, stop) for stop in range(self.m + 1)] for s in range(self.k)]

    def _starts(self, s: int, stop: int) -> int:
        """From where segment s may reach to a position without more than the limit of memory."""
        limit, (held, waiting, back) = self.limits.memory, self.limits.factors(s)
        if limit is None or not stop:
            return (1 << stop) - 1
        fits = ["1" if p + held * a + waiting * x + back * y <= limit else "0" for p, a, x, y in self.rows[stop]]
        return int("".join(reversed(fits)), 2)

    def _bytes(self, s: int, start: int, stop: int) -> int:
        p, *of_micro_batch = self.rows[stop][start]
        return p + sum(n * size for n, size in zip(self.limits.factors(s), of_micro_batch))

    def _window(self, reached: int, s: int, stop: int, limit: int) -> int:
        """The starts from which segment s may reach to a position within the limit."""
        starts = reached & self.fits[s][stop]
        low = 0
        high = stop
        while low < high:  # the first start from which it does not cost too much
            middle = (low + high) // 2
            if self.sums[stop] - self.sums[middle] <= limit:
                high = middle
            else:
                low = middle + 1
        return starts >> low << low

    def reaches(self, limit: int) -> bool:
        """Whether all segments can be within the limit."""
        reached = 1
        for s in range(self.k):
            reached = sum(1 << stop for stop in range(s + 1, self.m + 1) if self._window(reached, s, stop, limit))
        return bool(reached >> self.m & 1)

    def least(self) -> int:
        """The least cost of the dearest segment."""
        low, high = 0, self.sums[-1]
        if not self.reaches(high):
            raise CutError(
                f"split: no cut into {self.k} stages takes at most memory = {self.limits.memory} bytes per stage; expected at least "
                f"{self.least_memory()}"
            )
        while low < high:
            middle = (low + high) // 2
            if self.reaches(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def least_memory(self) -> int:
        """The least limit of memory for which there is a cut."""
        best: dict[int, int] = {0: 0}
        for s in range(self.k):
            best = {
                stop: min(max(taken, self._bytes(s, start, stop)) for start, taken in best.items() if start < stop)
                for stop in range(s + 1, self.m + 1)
            }
        return best[self.m]

    def lightest(self, limit: int) -> list[int]:
        """Of all cuts within a limit that over which the fewest bytes cross, then the evenest; as indices of positions."""
        best: dict[int, tuple[int, int]] = {0: (0, 0)}
        rows: list[dict[int, int]] = []
        for s in range(self.k):
            reached = sum(1 << start for start in best)
            found: dict[int, tuple[int, int]] = {}
            row: dict[int, int] = {}
            for stop in range(s + 1, self.m + 1):
                starts = self._window(reached, s, stop, limit)
                options = [(self._after(best[a], a, stop), -a) for a in best if starts >> a & 1]
                if options:
                    found[stop], start = min(options)
                    row[stop] = -start
            best = found
            rows.append(row)
        cuts, stop = [], self.m
        for row in reversed(rows):
            stop = row[stop]
            cuts.append(stop)
        return cuts[-2::-1]

    def _after(self, before: tuple[int, int], start: int, stop: int) -> tuple[int, int]:
        return before[0] + (self.bill.crossing[start] if start else 0), max(before[1], self.sums[stop] - self.sums[start])


def choose(bill: Bill, limits: Limits, tolerance: float = 0.0) -> list[int]:
    """Where to cut.

    Args:
        tolerance: how much dearer than the least the dearest segment may be for fewer bytes to cross.

    Returns:
        The positions, one less than there are segments.

    Raises:
        CutError: there are too few places, or none of the cuts fits into memory; the error says what would do.

    Example:
        >>> from flambeau.pipeline._choose import Bill, Limits, choose
        >>> bill = Bill([0, 1, 2, 3, 4], costs=[3, 1, 1, 3], crossing=[0, 8, 8, 8, 0], memory={})
        >>> choose(bill, Limits((2, 1), None, 2.0))
        [2]
    """
    chooser = _Chooser(bill, limits)
    return [bill.positions[i] for i in chooser.lightest(math.floor(chooser.least() * (1 + tolerance)))]
