"""That a schedule is one: each micro-batch goes forward and back through each stage once, in an order that can be followed."""

from __future__ import annotations

from flambeau.pipeline._actions import COMMUNICATION, COMPUTE, OPS, Action, Ranks, ScheduleError
from flambeau.pipeline.simulate import order


def check(schedule: Ranks) -> None:
    """That each micro-batch goes forward and back through each stage once, in an order that can be followed."""
    if not schedule.ranks:
        raise ScheduleError("the schedule has no ranks; expected one or more lists of actions")
    missing = [rank for rank, actions in enumerate(schedule.ranks) if not actions]
    if missing:
        raise ScheduleError(f"rank {missing[0]} of {len(schedule.ranks)} has nothing to do; expected actions for each rank")
    gone = sorted(set(range(max(schedule.rank_of) + 1)) - schedule.rank_of.keys())
    if gone:
        raise ScheduleError(f"stage {gone[0]} is on no rank; expected stages 0 to {max(schedule.rank_of)}")
    if schedule.micro_batches == 0:
        raise ScheduleError("there is no micro-batch; expected a forward of each stage at least")
    _check_work(schedule)
    if schedule.ops & set(COMMUNICATION):
        _check_communication(schedule)
    order(schedule)


def _check_work(schedule: Ranks) -> None:
    forward_only = not schedule.ops & {"B", "I", "W", "R"}
    places: dict[tuple[int, int], dict[str, int]] = {(s, i): {} for s in range(schedule.stages) for i in range(schedule.micro_batches)}
    for rank, actions in enumerate(schedule.ranks):
        for at, a in enumerate(actions):
            if a.op not in OPS:
                raise ScheduleError(f"rank {rank}: {a.op!r} is no op; expected one of {', '.join(OPS)}")
            if a.overlaps and (at + 1 == len(actions) or {a.op, actions[at + 1].op} != {"F", "B"}):
                raise ScheduleError(f"rank {rank}: {a} overlaps with what comes next; expected a forward beside a backward")
            if a.op not in COMPUTE:
                continue
            seen = places[a.stage, a.micro]
            if seen.setdefault(a.op, at) != at:
                raise _fault(schedule, rank, at, f"{a} comes twice")
            for before in {"F": "", "R": "F", "B": "F", "I": "F", "W": "I"}[a.op]:
                if before not in seen:
                    raise _fault(schedule, rank, at, f"{a} comes before {a._replace(op=before)}")
            if a.op == "R" and seen.keys() & {"B", "I"}:
                raise _fault(schedule, rank, at, f"{a} comes after the backward that needs it")
            if "B" in seen and seen.keys() & {"I", "W"}:
                raise _fault(schedule, rank, at, f"{a}: the backward is both whole (B) and in two parts (I, W)")
    wanted = [{"F"}] if forward_only else [{"F", "B"}, {"F", "I", "W"}]
    for (stage, micro), seen in places.items():
        if seen.keys() - {"R"} not in wanted:
            has = " ".join(str(Action(op, stage, micro)) for op in seen) or "nothing"
            raise ScheduleError(f"stage {stage}, micro-batch {micro}, rank {schedule.rank_of[stage]}: there is {has}; "
                                f"expected {'F' if forward_only else 'F and either B or I and W'}")


def _check_communication(schedule: Ranks) -> None:
    """That all data which go to another rank are sent once, after they are made, and received once, before they are used."""
    done: set[tuple[int, Action]] = set()
    for rank, actions in enumerate(schedule.ranks):
        for at, a in enumerate(actions):
            made = [a.op] if a.op in COMPUTE else {"SENDF": ["F"], "SENDB": ["B", "I"]}.get(a.op, [])
            if a.op not in COMPUTE and made and not any((rank, Action(op, a.stage, a.micro)) in done for op in made):
                raise _fault(schedule, rank, at, f"{a} comes before what it sends")
            if a.op in COMMUNICATION and (rank, a) in done:
                raise _fault(schedule, rank, at, f"{a} comes twice")
            for kind, step in (("F", -1), ("B", 1)):
                uses = a.op in (("F",) if kind == "F" else ("B", "I"))
                source = schedule.rank_of.get(a.stage + step)
                if uses and source not in (None, rank) and (rank, Action("RECV" + kind, a.stage, a.micro)) not in done:
                    raise _fault(schedule, rank, at, f"{a} comes before its data are received")
            done.add((rank, a._replace(overlaps=False)))
    for rank, a in done:
        step = 1 if a.op.endswith("F") else -1
        if a.op in ("SENDF", "SENDB"):
            to = schedule.rank_of.get(a.stage + step, rank)
            if to == rank or (to, Action("RECV" + a.op[-1], a.stage + step, a.micro)) not in done:
                other = Action("RECV" + a.op[-1], a.stage + step, a.micro)
                raise ScheduleError(f"rank {rank}: nobody receives {a}; expected {other} on another rank")
        elif a.op in ("RECVF", "RECVB"):
            source = schedule.rank_of.get(a.stage - step, rank)
            if source == rank or (source, Action("SEND" + a.op[-1], a.stage - step, a.micro)) not in done:
                other = Action("SEND" + a.op[-1], a.stage - step, a.micro)
                raise ScheduleError(f"rank {rank}: nobody sends {a}; expected {other} on another rank")


def _fault(schedule: Ranks, rank: int, at: int, what: str) -> ScheduleError:
    """An error that shows where in the rank's list it is."""
    actions = schedule.ranks[rank]
    around = " ".join(map(str, actions[max(0, at - 6) : at])), " ".join(map(str, actions[at + 1 : at + 4]))
    dots = "... " if at > 6 else "", " ..." if at + 4 < len(actions) else ""
    return ScheduleError(f"rank {rank}, action {at}: {what}\n  {dots[0]}{around[0]} >{actions[at]}< {around[1]}{dots[1]}")
