"""What a schedule would take: a discrete-event simulation of ranks that issue their actions in order and wait for data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
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
        activation: memory of a micro-batch's activations in a stage, in any unit. boundary: of its input alone, which a recompute begins
            with. waiting: all that is held of a micro-batch between I and W; None is what was held before, without the gradient.
        messages: memory of what a stage sends to another: `{(0, 1): 4, (1, 0): 4}` is a value and the gradient that comes back for it. The
            receiver holds it from its arrival on, a value until the backward, beside `activation`. A skip tensor is one more pair.
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
    messages: Mapping[tuple[int, int], float] = field(default_factory=dict)
    late_recompute: bool = False

    def of(self, op: str, stage: int) -> float:
        """The cost of an op (or of `activation`, `boundary`, a `waiting` that is given) at a stage; of sends, receives and REDUCE none."""
        if op == "B" and self.B is None:
            return self.of("I", stage) + self.of("W", stage)
        if op == "R" and self.R is None:
            return self.of("F", stage)
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
        peak: per rank the most memory of activations and messages at a time, in the unit of `Costs`. What exists only during an action, and
            gradients of parameters, are left out.
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
    found = order(schedule, costs.late_recompute)
    for rank, k in found:
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
    return Timeline(schedule, begin, end, _peaks(schedule, end, found, costs))


def happened(name: str, trace: Sequence[Sequence[tuple[Action, float, float]]]) -> Timeline:
    """The timeline of a run: per rank its actions with their begin and end in seconds. The first begins at 0; `peak` counts activations."""
    first = min((begin for rank in trace for _, begin, _ in rank), default=0.0)
    schedule = Ranks([[a for a, _, _ in rank] for rank in trace], name)
    begin = [[b - first for _, b, _ in rank] for rank in trace]
    end = [[e - first for _, _, e in rank] for rank in trace]
    places = [(rank, k) for rank, actions in enumerate(schedule.ranks) for k in range(len(actions))]
    return Timeline(schedule, begin, end, _peaks(schedule, end, places, Costs()))


def in_turn(timeline: Timeline) -> list[Action]:
    """All actions in the order in which they end, one that another waits for first: as one rank alone would do them.

    Example:
        >>> from flambeau.pipeline import Schedule
        >>> from flambeau.pipeline.simulate import in_turn
        >>> print(*in_turn(Schedule.make("1f1b", ranks=2, micro_batches=2).simulate()))
        0F0 0F1 1F0 1B0 1F1 0B0 1B1 0B1
    """
    schedule = timeline.schedule
    places = sorted(order(schedule), key=lambda at: timeline.end[at[0]][at[1]])
    return [schedule.ranks[rank][k]._replace(overlaps=False) for rank, k in places]


# ------------------------------------------------------------------------------------------------------------------------------ memory


class _Memory:
    """What ranks hold. Every micro-batch has an account in each stage, which messages and forwards fill and backwards empty.

        1F1B, last of 4 stages     SF0 from 0, F0 from 2, 3F0     SF1 from 0      3B0        (SF: a skip tensor, early)
        account of micro-batch 0     skip    + input   + act.                      0
        account of micro-batch 1                                    skip
    """

    def __init__(self, schedule: Ranks, costs: Costs) -> None:
        self.schedule, self.costs = schedule, costs
        self.kept = {(a.stage, a.micro) for _, a in schedule if a.op == "R"}  # whose forwards keep their inputs alone
        self.trains = bool(schedule.ops & {"B", "W"})
        self.accounts: dict[tuple[int, int], float] = {}
        self.gradients: dict[tuple[int, int], float] = {}  # those in the accounts
        self.held = [0.0] * len(schedule.ranks)
        self.peak = [0.0] * len(schedule.ranks)

    def add(self, stage: int, micro: int, amount: float) -> None:
        """Fills or empties an account."""
        rank = self.schedule.rank_of[stage]
        self.accounts[stage, micro] = self.accounts.get((stage, micro), 0.0) + amount
        self.held[rank] += amount
        self.peak[rank] = max(self.peak[rank], self.held[rank])

    def arrive(self, a: Action, target: int, size: float) -> None:
        """What an action has sent is at a stage."""
        back = target < a.stage
        if not back and self._same_rank(a.stage, target) and (a.stage, a.micro) not in self.kept:
            return  # one tensor with the sender's output, which stays longer
        if back:
            self.gradients[target, a.micro] = self.gradients.get((target, a.micro), 0.0) + size
        self.add(target, a.micro, size)

    def _same_rank(self, a: int, b: int) -> bool:
        return self.schedule.rank_of[a] == self.schedule.rank_of[b]

    def perform(self, a: Action) -> None:
        """What an action leaves, at its end."""
        here = a.stage, a.micro
        if a.op == "F" and not self.trains:
            self.add(*here, self.costs.of("activation", a.stage))
            self.add(*here, -self.accounts[here])
        elif a.op == "F" and here in self.kept:
            self.add(*here, self.costs.of("boundary", a.stage))
        elif a.op in ("F", "R"):
            self.add(*here, self.costs.of("activation", a.stage))
        elif a.op == "I" and self.costs.waiting is None:
            self.add(*here, -self.gradients.pop(here, 0.0))
        elif a.op == "I":
            self.add(*here, self.costs.of("waiting", a.stage) - self.accounts.get(here, 0.0))
        elif a.op in ("B", "W"):
            self.add(*here, -self.accounts.get(here, 0.0))


def _check_messages(schedule: Ranks, costs: Costs) -> None:
    for (source, target), size in costs.messages.items():
        if source == target or not {source, target} <= schedule.rank_of.keys():
            last = schedule.stages - 1
            raise ValueError(f"Costs: messages from stage {source} to {target}; expected two of the stages 0 to {last}")
        if not size >= 0:
            raise ValueError(f"Costs: messages from stage {source} to {target} take {size}; expected a number >= 0")


def _peaks(schedule: Ranks, end: Sequence[Sequence[float]], places: Iterable[tuple[int, int]], costs: Costs) -> list[float]:
    """The most that each rank holds, by the ends of actions. `places` are rank and index of all, in an order that they can be done in."""
    memory = _Memory(schedule, costs)
    _check_messages(schedule, costs)
    events: list[tuple[float, Action, int | None, float]] = []  # when, what has ended; for a message the stage that gets it, and its size
    for rank, k in places:
        a, when = schedule.ranks[rank][k], end[rank][k]
        events.append((when, a, None, 0.0))
        for (source, target), size in costs.messages.items():
            if source == a.stage and (a.op == "F" if source < target else a.op in ("B", "I")):
                latency = costs.latency * (schedule.rank_of[target] != rank)
                events.append((when + latency, a, target, size))
    for _, a, receiver, size in sorted(events, key=lambda event: event[0]):
        if receiver is None:
            memory.perform(a)
        else:
            memory.arrive(a, receiver, size)
    return memory.peak
