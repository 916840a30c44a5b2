"""Passes over schedules: recomputes, and what ranks send each other."""

from __future__ import annotations

from flambeau.pipeline._actions import COMPUTE, Action, Ranks

MODES = ("always", "except_last", "never")


def with_recompute(schedule: Ranks, mode: str) -> list[list[Action]]:
    """See `Schedule.with_recompute`."""
    if mode not in MODES:
        raise ValueError(f"with_recompute: mode = {mode!r}; expected 'always', 'except_last' or 'never'")
    if "R" in schedule.ops:
        raise ValueError("with_recompute: the schedule has recomputes already; expected one without")
    stop = {"always": schedule.micro_batches, "except_last": schedule.micro_batches - 1, "never": 0}[mode]
    ranks = []
    for actions in schedule.ranks:
        out: list[Action] = []
        for a in actions:
            if a.op in ("B", "I") and a.micro < stop:
                if out and out[-1].overlaps:  # a recompute goes before both of a pair
                    out.insert(-1, Action("R", a.stage, a.micro))
                else:
                    out.append(Action("R", a.stage, a.micro))
            out.append(a)
        ranks.append(out)
    return ranks


def with_communication(schedule: Ranks) -> list[list[Action]]:
    """See `Schedule.with_communication`.

    Ranks go on in rounds, one action each where its data are there. Who sends appends the receive to the other's list at once, so that
    both see what goes between them in one order, and no two ranks can wait for each other.
    """
    if schedule.ops - set(COMPUTE):
        raise ValueError("with_communication: the schedule has sends or receives already; expected computations alone")
    waiting = [_with_reduce(actions) for actions in schedule.ranks]
    out: list[list[Action]] = [[] for _ in waiting]
    there: set[tuple[str, int, int]] = set()  # data that a stage has, or will have when it comes to that
    at = [0] * len(waiting)
    while any(at[r] < len(actions) for r, actions in enumerate(waiting)):
        for rank, actions in enumerate(waiting):
            if at[rank] == len(actions):
                continue
            a = actions[at[rank]]
            if not _ready(a, there, schedule.stages):
                continue
            at[rank] += 1
            out[rank].append(a)
            step = {"F": 1, "B": -1, "I": -1}.get(a.op)
            if step is None or not 0 <= a.stage + step < schedule.stages:
                continue
            kind, to = "F" if step > 0 else "B", a.stage + step
            there.add((kind, to, a.micro))
            if schedule.rank_of[to] != rank:
                out[rank].append(Action("SEND" + kind, a.stage, a.micro))
                out[schedule.rank_of[to]].append(Action("RECV" + kind, to, a.micro))
    return [[a._replace(overlaps=False) for a in actions] for actions in out]


def _ready(a: Action, there: set[tuple[str, int, int]], stages: int) -> bool:
    if a.op == "F":
        return a.stage == 0 or ("F", a.stage, a.micro) in there
    if a.op in ("B", "I"):
        return a.stage == stages - 1 or ("B", a.stage, a.micro) in there
    return True


def _with_reduce(actions: tuple[Action, ...]) -> list[Action]:
    last = {a.stage: k for k, a in enumerate(actions) if a.op in ("B", "W")}
    out = []
    for k, a in enumerate(actions):
        out.append(a)
        if last.get(a.stage) == k:
            out.append(Action("REDUCE", a.stage))
    return out
