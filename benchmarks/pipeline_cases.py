"""What the rigs of pipelines share: tables, and what each stage takes when nothing runs beside it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._microbatch import map_tensors, scatter, tensors_of

ROUNDS, MICRO_BATCHES = 3, 2  # steps, of so many micro-batches


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


class Alone:
    """What each op of each stage takes where only one runs at a time.

    Args:
        pipe, schedule: the pipeline. x, target, loss: those of its steps, of which two micro-batches are taken.
    """

    def __init__(self, pipe: Pipeline, schedule: Schedule, x: Any, target: Any, loss: Callable[..., Any]) -> None:
        pieces = scatter((x, target), pipe.micro_batches)[:MICRO_BATCHES]
        n_samples = sum(len(tensors_of(piece)[0]) for piece in pieces)
        self.x, self.target = map_tensors((x, target), lambda t: t[:n_samples].detach().requires_grad_(t.requires_grad))
        self.loss, self.stages = loss, schedule.stages
        self.flat: list[tuple[str, Pipeline]] = []
        for backward in (way for way in ("B", "IW") if set(way) <= schedule.ops):
            order = in_one_rank(schedule.stages, len(pieces), backward)
            self.flat.append((backward, Pipeline(pipe.module, 1, schedule=order, micro_batches=len(pieces), balance=pipe.balance)))
        self.spent: dict[tuple[str, int], list[float]] = {}
        self.measure()  # makes kernels and takes memory
        self.spent.clear()

    def measure(self) -> None:
        """Once."""
        for _, flat in self.flat:
            flat.module.zero_grad()
            flat.step(self.x, self.target, self.loss)
            timeline = flat.timeline
            for a, begin, end in zip(timeline.schedule.ranks[0], timeline.begin[0], timeline.end[0]):
                self.spent.setdefault((a.op, a.stage), []).append(end - begin)

    def seconds(self) -> dict[str, list[float]]:
        """Medians so far, as `Schedule.simulate` takes them."""
        ops = {op for backward, _ in self.flat for op in ("F", *backward)}
        return {op: [statistics.median(self.spent[op, s]) for s in range(self.stages)] for op in ops}


def one_after_the_other(pipe: Pipeline, schedule: Schedule, x: Any, target: Any, loss: Callable[..., Any]) -> dict[str, list[float]]:
    """Median seconds of each op of each stage, where only one runs at a time."""
    alone = Alone(pipe, schedule, x, target, loss)
    for _ in range(ROUNDS):
        alone.measure()
    return alone.seconds()
