"""What a schedule would take: a discrete-event simulation of ranks that issue their actions in order and wait for data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from flambeau.pipeline import _draw
from flambeau.pipeline._actions import Action, Ranks, ScheduleError
from flambeau.serialization._files import path_of, write_file

Cost = float | Sequence[float]


@dataclass(frozen=True)
class Costs:
    """Time of each action, one number for all stages or one per stage, in any unit.

    Args:
        F, I, W: forward, gradients of inputs, gradients of parameters.
        B: the whole backward; None is I + W.
        R: recompute; None is F.
        latency: of sending to another rank. Sends block nobody.
        activation: memory of a micro-batch's activations in a stage, in any unit. boundary: of its input alone. waiting: what is held of a
            micro-batch between I and W, activations and gradients that W needs; None is `activation`.
        late_recompute: a recompute waits for the gradient, as where both are one node.

    Example:
        >>> from flambeau.pipeline import Costs
        >>> Costs(F=[1, 2], W=3).of("B", 1)
        4.0
    """

    F: Cost = 1.0
    I: Cost = 1.0  # noqa: E741
    W: Cost = 1.0
    B: Cost | None = None
    R: Cost | None = None
    latency: float = 0.0
    activation: Cost = 1.0
    boundary: Cost = 0.0
    waiting: Cost | None = None
    late_recompute: bool = False

    def of(self, op: str, stage: int) -> float:
        """The cost of an op (or of `activation`, `boundary`, `waiting`) at a stage; of sends, receives and REDUCE none."""
        if op == "B" and self.B is None:
            return self.of("I", stage) + self.of("W", stage)
        if op == "R" and self.R is None:
            return self.of("F", stage)
        if op == "waiting" and self.waiting is None:
            return self.of("activation", stage)
        value = getattr(self, op, 0.0)
        if isinstance(value, Sequence):
            if not 0 <= stage < len(value):
                raise ValueError(f"Costs: {op} has {len(value)} numbers; expected one for stage {stage}, too")
            value = value[stage]
        if not value >= 0:
            raise ValueError(f"Costs: {op} of stage {stage} is {value}; expected a number >= 0")
        return float(value)


@dataclass(frozen=True)
class Timeline:
    """When each action of a schedule begins and ends, and what follows from that.

    Attributes:
        schedule: what was simulated.
        begin, end: per rank, of each of its actions.
        makespan: when the last action ends.
        idle: per rank the time in which it did nothing until then.
        bubble: the share of time in which ranks do nothing.
        peak: per rank the most memory of activations at a time, in units of `Costs.activation`.
    """

    schedule: Ranks
    begin: list[list[float]]
    end: list[list[float]]
    peak: list[float]
    makespan: float = field(init=False)
    idle: list[float] = field(init=False)
    bubble: float = field(init=False)

    def __post_init__(self) -> None:
        makespan = max(ends[-1] for ends in self.end)
        idle = [makespan - sum(e - b for b, e in zip(*rank)) for rank in zip(self.begin, self.end)]
        total = makespan * len(idle)
        for name, value in (("makespan", makespan), ("idle", idle), ("bubble", sum(idle) / total if total else 0.0)):
            object.__setattr__(self, name, value)

    def grid(self, unit: float | None = None) -> str:
        """A row a rank, a column a unit of time (the shortest action). Stages of a rank beyond its first are lower case.

        Example:
            >>> from flambeau.pipeline import Schedule
            >>> print(Schedule.make("1f1b", ranks=2, micro_batches=3).simulate().grid())
            r0 F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2
            r1 .  F0 B0 B0 F1 B1 B1 F2 B2 B2
        """
        return _draw.grid(self.schedule, self.begin, self.end, unit)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Writes a picture (SVG): a bar a rank, forwards, recomputes and backwards by colour, the micro-batch written in."""
        title = f"{self.makespan:.4g} in all, bubble {self.bubble:.1%}"
        text = _draw.svg(self.schedule, self.begin, self.end, title).encode()
        write_file(path_of("draw", path), lambda file: file.write(text))


def _needs(schedule: Ranks, a: Action, late_recompute: bool) -> list[tuple[str, int, int]]:
    """The actions, by op, stage and micro-batch, whose data this one waits for; "G" is whatever makes the gradient of a stage's input."""
    last = schedule.stages - 1
    if a.op == "F":
        return [("F", a.stage - 1, a.micro)] if a.stage > 0 else []
    if a.op in ("B", "I") or (a.op == "R" and late_recompute):
        return [("G", a.stage + 1, a.micro)] if a.stage < last else []
    return []  # a send goes off at once, and a receive is posted: who uses the data waits for them


def order(schedule: Ranks, late_recompute: bool = False) -> list[tuple[int, int]]:
    """An order, as pairs of rank and place in its list, in which all actions can be done.

    Raises:
        ScheduleError: there is none; the message says what each rank waits for.
    """
    done: set[tuple[str, int, int]] = set()
    at = [0] * len(schedule.ranks)
    found: list[tuple[int, int]] = []
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(schedule.ranks):
            while at[rank] < len(actions):
                a = actions[at[rank]]
                if any(need not in done for need in _needs(schedule, a, late_recompute)):
                    break
                done.add((a.op, a.stage, a.micro))
                if a.op in ("B", "I"):
                    done.add(("G", a.stage, a.micro))
                found.append((rank, at[rank]))
                at[rank] += 1
                moved = True
    stuck = [(rank, actions[at[rank]]) for rank, actions in enumerate(schedule.ranks) if at[rank] < len(actions)]
    if stuck:
        waits = "; ".join(
            f"rank {rank} is at {a}, which waits for the {'gradient' if op == 'G' else op} of micro-batch {micro} from stage {stage}"
            for rank, a in stuck for op, stage, micro in _needs(schedule, a, late_recompute)
            if (op, stage, micro) not in done
        )  # fmt: skip
        raise ScheduleError(f"ranks wait for each other for ever: {waits}")
    return found


def simulate(schedule: Ranks, costs: Costs) -> Timeline:
    """Times of all actions, and the activations that are held."""
    begin = [[0.0] * len(actions) for actions in schedule.ranks]
    end = [[0.0] * len(actions) for actions in schedule.ranks]
    ready: dict[tuple[str, int, int], tuple[float, int]] = {}  # when data are there, and on which rank
    for rank, k in order(schedule, costs.late_recompute):
        a = schedule.ranks[rank][k]
        start = end[rank][k - 1] if k else 0.0
        for need in _needs(schedule, a, costs.late_recompute):
            when, where = ready[need]
            start = max(start, when + costs.latency * (where != rank))
        begin[rank][k] = start
        end[rank][k] = start + costs.of(a.op, a.stage)
        ready[a.op, a.stage, a.micro] = (end[rank][k], rank)
        if a.op in ("B", "I"):
            ready["G", a.stage, a.micro] = (end[rank][k], rank)
    return Timeline(schedule, begin, end, [_peak(actions, costs) for actions in schedule.ranks])


def happened(name: str, trace: Sequence[Sequence[tuple[Action, float, float]]]) -> Timeline:
    """The timeline of a run: per rank its actions with their begin and end in seconds. The first begins at 0; `peak` counts activations."""
    first = min((begin for rank in trace for _, begin, _ in rank), default=0.0)
    schedule = Ranks([[a for a, _, _ in rank] for rank in trace], name)
    begin = [[b - first for _, b, _ in rank] for rank in trace]
    end = [[e - first for _, _, e in rank] for rank in trace]
    return Timeline(schedule, begin, end, [_peak(actions, Costs()) for actions in schedule.ranks])


def _peak(actions: Sequence[Action], costs: Costs) -> float:
    """The most that a rank holds: a forward's activations until its last backward; its input alone until a recompute."""
    again = {(a.stage, a.micro) for a in actions if a.op == "R"}
    backward = any(a.op in ("B", "W") for a in actions)
    held = peak = 0.0
    for a in actions:
        if a.op == "F" and not backward:
            peak = max(peak, costs.of("activation", a.stage))
        elif a.op == "F":
            here = costs.of("activation", a.stage)
            if (a.stage, a.micro) in again:
                peak = max(peak, held + here)
                here = costs.of("boundary", a.stage)
            held += here
        elif a.op == "R":
            held += costs.of("activation", a.stage)
        elif a.op == "I":
            held += costs.of("waiting", a.stage) - costs.of("activation", a.stage)
        elif a.op in ("B", "W"):
            held -= costs.of("activation" if a.op == "B" else "waiting", a.stage)
            if (a.stage, a.micro) in again:
                held -= costs.of("boundary", a.stage)
        peak = max(peak, held)
    return peak
