"""Schedules: made by name or read from text, lowered by passes, simulated and saved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from flambeau.pipeline._actions import Action, Ranks, ScheduleError, parse_action
from flambeau.pipeline._check import check
from flambeau.pipeline._lower import with_communication, with_recompute
from flambeau.pipeline._rules import make
from flambeau.pipeline.simulate import Costs, Timeline, simulate
from flambeau.serialization._files import path_of, write_file


class Schedule(Ranks):
    """What each rank does, in order.

    Args:
        ranks: per rank its actions.
        name: of the rule that made it.

    Attributes:
        stages: how many there are. micro_batches: how many go through them. ranks: tuples of `Action`.

    Raises:
        ScheduleError: the actions are not those of a training step, or ranks wait for each other for ever.

    Example:
        >>> from flambeau.pipeline import Schedule
        >>> print(Schedule.make("gpipe", ranks=2, micro_batches=2))
        rank 0: 0F0 0F1 0B1 0B0
        rank 1: 1F0 1F1 1B1 1B0
    """

    __slots__ = ()

    def __init__(self, ranks: Iterable[Iterable[Action]], name: str = "custom") -> None:
        super().__init__(ranks, name)
        check(self)

    @staticmethod
    def make(name: str, ranks: int, micro_batches: int, **options: int) -> Schedule:
        """A schedule by its name.

        Args:
            name: "gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v" or "dualpipe-v".
            ranks: how many.
            micro_batches: into how many parts a batch is cut.
            options: `chunks`, stages per rank of "interleaved" and "looped-bfs" (2); `warm_up` of "1f1b", forwards of rank 0 before it
                takes forward and backward in turn (ranks - 1, and less on the ranks behind): more hide latency, and hold memory.

        Example:
            >>> from flambeau.pipeline import Schedule
            >>> Schedule.make("1f1b", ranks=4, micro_batches=8).simulate().bubble
            0.2727272727272727
        """
        return Schedule(make(name, ranks, micro_batches, options), name)

    def __len__(self) -> int:
        return sum(map(len, self.ranks))

    def __eq__(self, other: object) -> bool:
        return self.ranks == other.ranks if isinstance(other, Schedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ranks)

    def __str__(self) -> str:
        return "\n".join(f"rank {rank}: {_line(actions)}" for rank, actions in enumerate(self.ranks))

    def __repr__(self) -> str:
        sizes = f"{len(self.ranks)} ranks, {self.stages} stages, {self.micro_batches} micro-batches, {len(self)} actions"
        return f"<Schedule {self.name!r}: {sizes}>"

    # ---- files

    @staticmethod
    def parse(text: str, name: str = "custom") -> Schedule:
        """The schedule that `str()` wrote: a line a rank, empty lines and what follows a # left out.

        Example:
            >>> from flambeau.pipeline import Schedule
            >>> Schedule.parse("rank 0: 0F0 0B0")
            <Schedule 'custom': 1 ranks, 1 stages, 1 micro-batches, 2 actions>
        """
        ranks: list[list[Action]] = []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.partition("#")[0].strip()
            if not line:
                continue
            head, colon, rest = line.partition(":")
            if not colon or head.split() != ["rank", str(len(ranks))]:
                raise ScheduleError(f"line {number} begins with {line[:20]!r}; expected 'rank {len(ranks)}: ' and its actions")
            try:
                ranks.append(_actions(rest))
            except ScheduleError as fault:
                raise ScheduleError(f"line {number}: {fault}") from None
        if not ranks:
            raise ScheduleError("the text has no line 'rank 0: ...'; expected one for each rank")
        return Schedule(ranks, name)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Schedule:
        """Reads what `save()` or a person wrote."""
        with open(path_of("Schedule.load", path), encoding="utf-8") as file:
            return Schedule.parse(file.read(), os.path.splitext(os.path.basename(os.fspath(path)))[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one line a rank; the file appears when it is complete."""
        text = f"# {self.name}: {self.stages} stages, {self.micro_batches} micro-batches\n{self}\n".encode()
        write_file(path_of("Schedule.save", path), lambda file: file.write(text))

    # ---- what comes of it

    def with_recompute(self, mode: str) -> Schedule:
        """With a recompute before the backward of each micro-batch ("always"), of all but the last ("except_last") or none.

        It stands right before the backward. Ranks issue in order and a recompute waits for nothing, so it runs while the rank would wait
        for the gradient.

        Example:
            >>> from flambeau.pipeline import Schedule
            >>> print(Schedule.make("gpipe", 1, 2).with_recompute("except_last"))
            rank 0: 0F0 0F1 0B1 0R0 0B0
        """
        return Schedule(with_recompute(self, mode), self.name)

    def with_communication(self) -> Schedule:
        """With the sends and receives between ranks, in an order that both sides see, and a REDUCE where a stage's gradients
        are complete.

        Example:
            >>> from flambeau.pipeline import Schedule
            >>> print(Schedule.make("gpipe", 2, 1).with_communication())
            rank 0: 0F0 0SENDF0 0RECVB0 0B0 0REDUCE
            rank 1: 1RECVF0 1F0 1B0 1SENDB0 1REDUCE
        """
        return Schedule(with_communication(self), self.name)

    def simulate(self, costs: Costs | None = None, **numbers: float | Sequence[float]) -> Timeline:
        """What would happen with these costs: `simulate(F=1, B=2, latency=0.1)`. See `Costs` and `Timeline`."""
        if costs is not None and numbers:
            raise TypeError(f"simulate: costs are given and {', '.join(numbers)}, too; expected one of both")
        return simulate(self, Costs(**numbers) if costs is None else costs)  # type: ignore[arg-type]


def _line(actions: Sequence[Action]) -> str:
    text = "".join(f"{a}{'+' if a.overlaps else ' '}" for a in actions)
    return text.rstrip()


def _actions(text: str) -> list[Action]:
    actions = []
    for word in text.split():
        parts = [parse_action(part) for part in word.split("+")]
        actions += [part._replace(overlaps=i + 1 < len(parts)) for i, part in enumerate(parts)]
    return actions
