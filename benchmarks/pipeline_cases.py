"""What the rigs of pipelines share: tables, and what each stage takes when nothing runs beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._microbatch import map_tensors, scatter, tensors_of

ROUNDS, MICRO_BATCHES = 4, 2  # steps, of which the first does not count, of so many micro-batches


class Table:
    """Prints rows as they come, plain or as Markdown."""

    def __init__(self, head: Sequence[str], markdown: bool) -> None:
        self.line, self.between = ("| {} |", " | ") if markdown else ("{}", "  ")
        self.row(head)
        if markdown:
            print("|" + "---|" * len(head))

    def row(self, cells: Sequence[str]) -> None:
        print(self.line.format(self.between.join(cells)), flush=True)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """median (least..most)"""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def in_one_rank(stages: int, micro_batches: int, backward: Sequence[str]) -> Schedule:
    """Each micro-batch forward through all stages, then each back, in one thread."""
    words = [
        *(f"{s}F{i}" for i in range(micro_batches) for s in range(stages)),
        *(f"{s}{op}{i}" for i in range(micro_batches) for s in reversed(range(stages)) for op in backward),
    ]
    return Schedule.parse("rank 0: " + " ".join(words))


def one_after_the_other(pipe: Pipeline, schedule: Schedule, x: Any, target: Any, loss: Callable[..., Any]) -> dict[str, list[float]]:
    """Median seconds of each op of each stage, as `Schedule.simulate` takes them, where only one runs at a time."""
    pieces = scatter((x, target), pipe.micro_batches)[:MICRO_BATCHES]
    n_samples = sum(len(tensors_of(piece)[0]) for piece in pieces)
    x, target = map_tensors((x, target), lambda t: t[:n_samples].detach().requires_grad_(t.requires_grad))
    found: dict[str, list[float]] = {}
    for backward in ("B", "IW"):
        if not set(backward) <= schedule.ops:
            continue
        flat = in_one_rank(schedule.stages, len(pieces), backward)
        alone = Pipeline(pipe.module, 1, schedule=flat, micro_batches=len(pieces), balance=pipe.balance)
        spent: dict[tuple[str, int], list[float]] = {}
        for n in range(ROUNDS):
            alone.step(x, target, loss)
            timeline = alone.timeline
            if n:  # the first makes kernels and takes memory
                for a, begin, end in zip(timeline.schedule.ranks[0], timeline.begin[0], timeline.end[0]):
                    spent.setdefault((a.op, a.stage), []).append(end - begin)
        for op in ("F", *backward):
            found[op] = [statistics.median(spent[op, s]) for s in range(schedule.stages)]
    return found
