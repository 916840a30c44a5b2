"""A schedule as data: per rank a list of actions, which can be made, checked, lowered, simulated, drawn, saved and executed.

An action is one letter, a stage and a micro-batch; `2F0` is the forward of micro-batch 0 through stage 2:

    F  forward                                   R  recompute of the forward, before its backward
    B  backward, I and W in one                  I  gradients of the inputs        W  gradients of the parameters
    SENDF RECVF SENDB RECVB                      outputs to the next stage and from the one before, gradients the other way
    REDUCE                                       the gradients of a stage's parameters are complete

Ranks issue their actions in order and wait only for data. `+` between two actions says that they may overlap (DualPipe); it is a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

COMPUTE = ("F", "R", "B", "I", "W")
COMMUNICATION = ("SENDF", "RECVF", "SENDB", "RECVB")
OPS = (*COMPUTE, *COMMUNICATION, "REDUCE")

_ACTION = re.compile(r"(\d+)([A-Z]+?)(\d*)")


class ScheduleError(ValueError):
    """A schedule that no pipeline can follow; the message names ranks and actions."""


class Action(NamedTuple):
    """What a rank does at one moment. `micro` is -1 for REDUCE; `overlaps`: with the next one, if the executor likes."""

    op: str
    stage: int
    micro: int = -1
    overlaps: bool = False

    def __str__(self) -> str:
        return f"{self.stage}{self.op}{self.micro if self.micro >= 0 else ''}"


def parse_action(text: str) -> Action:
    """The action that `str()` wrote.

    >>> parse_action("2F0")
    Action(op='F', stage=2, micro=0, overlaps=False)
    """
    match = _ACTION.fullmatch(text)
    if not match or match[2] not in OPS or (match[3] == "") != (match[2] == "REDUCE"):
        raise ScheduleError(f"{text!r} is no action; expected a stage, one of {', '.join(OPS)}, and a micro-batch, as 2F0 or 2REDUCE")
    return Action(match[2], int(match[1]), int(match[3] or -1))


class Ranks:
    """The actions of each rank, and what follows from them alone: `Schedule` without its checks and passes."""

    __slots__ = ("micro_batches", "name", "rank_of", "ranks", "stages")

    def __init__(self, ranks: Iterable[Iterable[Action]], name: str) -> None:
        self.ranks: tuple[tuple[Action, ...], ...] = tuple(tuple(actions) for actions in ranks)
        self.name = name
        self.rank_of: dict[int, int] = {}  # stage -> rank
        for rank, actions in enumerate(self.ranks):
            for a in actions:
                if self.rank_of.setdefault(a.stage, rank) != rank:
                    before = self.rank_of[a.stage]
                    raise ScheduleError(f"stage {a.stage} is on rank {before} and, by {a}, on rank {rank}; expected one rank")
        self.stages = len(self.rank_of)
        self.micro_batches = 1 + max((a.micro for _, a in self), default=-1)

    def __iter__(self) -> Iterator[tuple[int, Action]]:
        """Rank and action, rank by rank."""
        for rank, actions in enumerate(self.ranks):
            for a in actions:
                yield rank, a

    @property
    def ops(self) -> set[str]:
        """The letters that occur."""
        return {a.op for _, a in self}
