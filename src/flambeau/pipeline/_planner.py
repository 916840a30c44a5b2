"""`flambeau pipeline plan`: which schedule a model should take, by measured layers and simulated schedules."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from flambeau import get_num_threads, memory_stats, reset_peak_memory_stats, set_num_threads
from flambeau._C import Tensor
from flambeau.graph._memory import size_text
from flambeau.nn import Module, Sequential
from flambeau.pipeline._cut import Split, split_for
from flambeau.pipeline._measure import LayerCost, costs_of, measure
from flambeau.pipeline._microbatch import scatter, tensors_of
from flambeau.pipeline._pipeline import Pipeline
from flambeau.pipeline._rules import NAMES
from flambeau.pipeline.balance import balance_cost
from flambeau.pipeline.schedule import Schedule
from flambeau.pipeline.simulate import Costs, Timeline, in_turn

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def bytes_of(text: str) -> int:
    """`2GiB`, `500MB` or `1000000` as a number.

    >>> bytes_of("1.5 KiB")
    1536
    """
    match = re.fullmatch(r"([0-9.]+)\s*([a-zA-Z]*)", text.strip())
    if not match or match[2].lower() not in _UNITS or match[1].count(".") > 1 or match[1] == ".":
        raise ValueError(f"{text!r} is no amount of memory; expected a number with KiB, MiB, GiB, KB, MB or GB, as 2GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def load(place: str) -> tuple[Module, Any]:
    """Calls a function of a file, `model.py:make`, which gives a module and a sample batch.

    Raises:
        ValueError, TypeError: there is no such file or function, or it gives something else.
    """
    path, colon, name = place.rpartition(":")
    if not colon or not name.isidentifier() or not os.path.isfile(path):
        raise ValueError(f"{place!r}; expected a file and a function in it, as model.py:make")
    spec = importlib.util.spec_from_file_location("__flambeau_model__", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path!r} can not be imported; expected a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # classes of it can be copied
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    make: Callable[[], Any] | None = getattr(module, name, None)
    if make is None:
        raise ValueError(f"{path} has no {name!r}; expected a function that returns a module and a sample batch")
    made = make()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Module)):
        raise TypeError(f"{place} returned {type(made).__name__}; expected a pair of a module and a sample batch")
    return made


@dataclass(frozen=True)
class Choice:
    """A schedule with what it would take.

    Attributes:
        module: the layers, or segments, of which `balance` makes stages.
    """

    module: Sequential
    schedule: Schedule
    checkpoint: str
    balance: list[int]
    timeline: Timeline
    memory: list[int]  # per rank
    costs: Costs

    @property
    def title(self) -> str:
        chunks = self.schedule.stages // len(self.schedule.ranks)
        return self.schedule.name + (f", {chunks} stages per rank" if chunks > 1 else "")


def _schedules(names: Sequence[str], ranks: int, micro_batches: int) -> list[Schedule]:
    made = []
    for name in names:
        for chunks in (2, 4) if name in ("interleaved", "looped-bfs") else (0,):
            with suppress(ValueError):  # too few micro-batches for it
                made.append(Schedule.make(name, ranks, micro_batches, **({"chunks": chunks} if chunks else {})))
    return made


def _choice(
    module: Sequential, made: Schedule, checkpoint: str, balance: list[int], layers: Sequence[LayerCost], param_scale: float
) -> Choice:  # fmt: skip
    schedule = made.with_recompute(checkpoint)
    parts, first = [], 0
    for n in balance:
        parts.append(layers[first : first + n])
        first += n
    costs = costs_of(parts)
    timeline = schedule.simulate(costs)
    held = [0.0] * len(schedule.ranks)
    for stage, part in enumerate(parts):
        held[schedule.rank_of[stage]] += param_scale * sum(c.parameters for c in part)
    return Choice(module, schedule, checkpoint, balance, timeline, [int(p + h) for p, h in zip(timeline.peak, held)], costs)


def _measured(model: Module, piece: Any, counts: Sequence[int], seconds: float) -> tuple[Sequential, list[LayerCost], dict[int, list[int]]]:
    """Layers in a row, what they take, and for each number of stages how many of them each stage has, if there are enough."""
    if not isinstance(model, Sequential):
        parts, balances = split_for(model, piece, counts, seconds)
        return parts, measure(parts, piece, seconds), balances
    layers = measure(model, piece, seconds)
    times = [c.forward_s + c.backward_s for c in layers]
    return model, layers, {n: balance_cost(times, n) for n in counts if n <= len(layers)}


def plan(
    model: Module, batch: Any, *, ranks: int, micro_batches: int, memory: int | None = None, param_scale: float = 2.0,
    seconds: float = 1.0, schedules: Sequence[str] = NAMES,
) -> tuple[list[LayerCost], list[Choice]]:  # fmt: skip
    """Measures the layers with one micro-batch, and simulates all schedules; those that fit into `memory` first, the fastest of them.

    What is no Sequential is split: its layers are segments.
    """
    found = _schedules(schedules, ranks, micro_batches)
    with threads_each(ranks):
        module, layers, balances = _measured(model, scatter(batch, micro_batches)[0], sorted({s.stages for s in found}), seconds)
    choices = [
        _choice(module, made, checkpoint, balances[made.stages], layers, param_scale)
        for made in found
        if made.stages in balances
        for checkpoint in ("never", "except_last", "always")
    ]
    if not choices:
        most = "as many stages as the ops can be cut into" if isinstance(module, Split) else f"{len(layers)} stages, as there are layers,"
        raise ValueError(f"no schedule for {ranks} ranks has at most {most}; expected fewer ranks")
    return layers, sorted(choices, key=lambda c: (memory is not None and max(c.memory) > memory, c.timeline.makespan, max(c.memory)))


def try_out(model: Module, batch: Any, choice: Choice, micro_batches: int, steps: int = 3) -> Iterator[str]:
    """Makes steps by a choice, after one that does not count, and yields the lines that stand beside what was predicted.

    The loss is the mean square of the outputs, and nothing is updated. Ranks have the processor's threads in equal parts.
    """
    ranks = len(choice.schedule.ranks)
    made = Pipeline(choice.module, ranks, schedule=choice.schedule, micro_batches=micro_batches, balance=choice.balance)
    with threads_each(ranks):
        made.step(batch, (), _mean_square)
        before, timelines = memory_stats()["allocated_bytes"], []
        reset_peak_memory_stats()
        for _ in range(steps):
            made.step(batch, (), _mean_square)
            timelines.append(made.timeline)
        peak = memory_stats()["peak_allocated_bytes"] - before
    ran = sorted((t for t in timelines if t is not None), key=lambda t: t.makespan)[steps // 2]
    gradients = sum(p.numel() * p.itemsize for p in model.parameters() if p.requires_grad)
    together = Schedule([in_turn(choice.timeline)]).simulate(choice.costs)  # ranks that share a memory, and what they send each other
    predicted = int(together.peak[0]) + gradients
    yield f"{'':<12} {'step':>10} {'bubble':>7} {'activations and gradients':>26}"
    yield f"{'predicted':<12} {1e3 * choice.timeline.makespan:>7.1f} ms {choice.timeline.bubble:>7.1%} {size_text(predicted):>26}"
    yield f"{'run':<12} {1e3 * ran.makespan:>7.1f} ms {ran.bubble:>7.1%} {size_text(peak):>26}"


def _mean_square(output: Any, target: Any) -> Tensor:
    found = [y.square().mean() for y in tensors_of(output) if y.is_floating_point()]
    total: Tensor = found[0]
    for y in found[1:]:
        total = total + y
    return total


@contextmanager
def threads_each(ranks: int) -> Iterator[None]:
    """The threads of this process, in equal parts for as many ranks that work at the same time; at least one for each."""
    whole = get_num_threads()
    set_num_threads(max(1, whole // ranks))
    try:
        yield
    finally:
        set_num_threads(whole)


def report(layers: Sequence[LayerCost], choices: Sequence[Choice], micro_batches: int, memory: int | None, most: int = 12) -> Iterator[str]:
    """The text that the command prints, line by line."""
    alone = micro_batches * sum(c.forward_s + c.backward_s for c in layers)
    yield f"{_size_of(choices[0].module)}, {1e3 * alone:.1f} ms on one rank for {micro_batches} micro-batches"
    yield f"{'schedule':<34} {'recompute':<12} {'step':>10} {'speed-up':>9} {'bubble':>7} {'most memory':>12}"
    for c in choices[:most]:
        note = "  does not fit" if memory is not None and max(c.memory) > memory else ""
        step = c.timeline.makespan
        yield (
            f"{c.title:<34} {c.checkpoint:<12} {1e3 * step:>7.1f} ms {alone / step if step else 1:>9.2f} {c.timeline.bubble:>7.1%} "
            f"{size_text(max(c.memory)):>12}{note}"
        )
    yield ""
    best = next((c for c in choices if memory is None or max(c.memory) <= memory), None)
    if best is None:
        least = min(choices, key=lambda c: max(c.memory))
        yield (
            f"Nothing fits into {size_text(memory or 0)}; {least.title} takes least, {size_text(max(least.memory))} "
            f"with checkpoint={least.checkpoint!r}. Take more ranks or smaller micro-batches."
        )
        return
    yield f"Take {best.title}, checkpoint={best.checkpoint!r}, {_cut(best)}:"
    yield best.timeline.grid(max(1e-9, best.timeline.makespan / 48))
    first = 0
    for stage, n in enumerate(best.balance):
        part = layers[first : first + n]
        spent = 1e3 * sum(c.forward_s + c.backward_s for c in part)
        there = f"stage {stage} on rank {best.schedule.rank_of[stage]}: {_names(best.module, part, first)}"
        first += n
        yield f"{there}, {spent:.2f} ms a micro-batch; hands on {_next(layers, first)}"
    for rank, held in enumerate(best.memory):
        yield f"rank {rank}: {size_text(held)} at most, idle {best.timeline.idle[rank] / best.timeline.makespan:.0%}"


def _size_of(module: Sequential) -> str:
    return f"{len(module.recordings.programs[0].graph.nodes)} ops" if isinstance(module, Split) else f"{len(module)} layers"


def _cut(choice: Choice) -> str:
    """How a user asks for the stages."""
    if not isinstance(choice.module, Split):
        return f"balance={choice.balance}"
    ends = choice.module.recordings.cuts[0]
    return f"split(model, sample, at={[ends[k] for k in accumulate(choice.balance[:-1])]})"


def _names(module: Sequential, part: Sequence[LayerCost], first: int) -> str:
    if isinstance(module, Split):
        program, cuts = module.recordings.programs[0], module.recordings.cuts[0]
        start, last = cuts[first], cuts[first + len(part)] - 1
        return f"ops {start} to {last}, {program.found.places[start]} to {program.found.places[last]}"
    return f"layers {part[0].name}" + (f" to {part[-1].name}" if len(part) > 1 else "")


def _next(layers: Sequence[LayerCost], at: int) -> str:
    return size_text(layers[at].boundary) if at < len(layers) else "the output"
