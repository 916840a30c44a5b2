"""Real compute: two ranks, each with one thread, beside the model without a pipeline that takes the same micro-batches.

The model alone has both threads, or one as a rank has. All variants take turns, in an order that is turned round from round to round, and
ratios are those of one round. `capacity` is what two threads of products do beside one, before and after: two processors that share a
memory, or have other work, are worth less than two. Predictions are simulations: by stages that run one after the other in this process,
and by layers, as `flambeau pipeline plan` measures them; both with one thread, once in each round, since a machine that others use is not
as fast in one minute as in the next.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import harness
import numpy as np
from models.gpt import Gpt
from models.program import Program, Settings
from models.resnet import ResNet50
from pipeline_cases import Alone, Table, spread

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline._measure import LayerCost, costs_of, measure
from flambeau.pipeline._microbatch import scatter
from flambeau.pipeline.balance import balance_cost

RANKS = 2
SCHEDULES = [("gpipe", {}), ("1f1b", {}), ("interleaved", {"chunks": 2}), ("zb-h1", {}), ("zb-v", {})]
TOLERANCE = 1e-3  # of losses, relative
Variants = dict[str, tuple[Callable[[], Any], int]]  # by name what makes a step, and with how many threads


class Embeddings(nn.Module):
    """The first layer of the GPT; its weight is the head's, too."""

    def __init__(self, gpt: Any) -> None:
        super().__init__()
        self.tokens, self.positions = gpt.tokens, gpt.positions

    def forward(self, tokens: fl.Tensor) -> fl.Tensor:
        return self.tokens(tokens) + self.positions(fl.arange(tokens.size(1)))


def gpt(program: Program) -> nn.Sequential:
    model = program.modules["gpt"]
    return nn.Sequential(Embeddings(model), *model.blocks, nn.Sequential(model.ln, model.head))


def resnet(program: Program) -> nn.Sequential:
    model = program.modules["resnet"]
    stem = nn.Sequential(model.conv1, model.bn1, model.relu, model.maxpool)
    return nn.Sequential(stem, *model.layers, nn.Sequential(model.avgpool, nn.Flatten(), model.fc))


MODELS: list[tuple[type[Program], Callable[[Program], nn.Sequential]]] = [(Gpt, gpt), (ResNet50, resnet)]


def capacity(seconds: float = 0.4, size: int = 384) -> float:
    """Products per second of two threads beside those of one."""

    def count(found: list[int]) -> None:
        a, n, end = fl.rand(size, size), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            a @ a
            n += 1
        found.append(n)

    def together(threads: int) -> int:
        found: list[int] = []
        workers = [threading.Thread(target=count, args=(found,)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(found)

    before = fl.get_num_threads()
    fl.set_num_threads(1)
    try:
        one, two = together(1), together(2)
    finally:
        fl.set_num_threads(before)
    return two / one


class Rig:
    """A model, its batch, and the ways to train it."""

    def __init__(self, kind: type[Program], cut: Callable[[Program], nn.Sequential], batch: int, micro_batches: int) -> None:
        self.program = kind(fl, batch, Settings())
        self.model, self.m = cut(self.program), micro_batches
        (self.x,), self.target = self.program.inputs, self.program.targets
        self.loss = self.program.loss

    def plain(self, micro_batches: int) -> float:
        """The model without a pipeline, gradients added up over its micro-batches."""
        total = 0.0
        for x, target in scatter((self.x, self.target), micro_batches):
            loss = self.loss(self.model(x), target) * (len(target) / len(self.target))
            loss.backward()
            total += loss.item()
        return total

    def pipelines(self, layers: Sequence[LayerCost]) -> dict[str, tuple[Pipeline, Schedule]]:
        """By the name of its schedule, cut where that gives the most equal times."""
        found = {}
        for name, options in SCHEDULES:
            schedule = Schedule.make(name, RANKS, self.m, **options)
            balance = balance_cost([c.forward_s + c.backward_s for c in layers], schedule.stages)
            found[name] = Pipeline(self.model, RANKS, schedule=schedule, micro_batches=self.m, balance=balance), schedule
        return found

    def layers(self, seconds: float) -> list[LayerCost]:
        """What they take, of one micro-batch, with one thread."""
        fl.set_num_threads(1)
        self.model.zero_grad()
        return measure(self.model, scatter(self.x, self.m)[0], seconds)

    def timed(self, step: Callable[[], Any], threads: int) -> tuple[float, float]:
        """Seconds of a step, and its loss."""
        fl.set_num_threads(threads)
        self.model.zero_grad()
        start = time.perf_counter()
        loss = float(step())
        return time.perf_counter() - start, loss


def by_layers(rounds: Sequence[Sequence[LayerCost]], balance: Sequence[int]) -> dict[str, list[float]]:
    """Seconds of each op of each stage, of medians over the rounds."""
    ends = np.cumsum([0, *balance])
    names = ("forward_s", "backward_s", "inputs_s", "parameters_s")
    layers = [replace(found[0], **{name: statistics.median(getattr(c, name) for c in found) for name in names}) for found in zip(*rounds)]
    parts = [layers[a:b] for a, b in zip(ends, ends[1:])]
    costs = costs_of(parts)
    return {op: [costs.of(op, stage) for stage in range(len(parts))] for op in "FBIW"}


def measured(rig: Rig, variants: Variants, rounds: int, between: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of each variant by round, after a round that does not count; after a variant what is `between` is called.

    Raises:
        RuntimeError: a variant has another loss than the first.
    """
    took: dict[str, list[float]] = {name: [] for name in variants}
    for n in range(rounds + 1):
        losses = {}
        for name in list(variants)[:: 1 if n % 2 else -1]:
            seconds, losses[name] = rig.timed(*variants[name])
            if n:
                took[name].append(seconds)
                between.get(name, int)()
        first = losses[next(iter(variants))]
        for name, loss in losses.items():
            if name != WHOLE and abs(loss - first) > TOLERANCE * abs(first):  # norms see other batches there
                raise RuntimeError(f"{name}: the loss is {loss}; expected {first}")
    return took


ONE, TWO, WHOLE = "model, 1 thread", "model, 2 threads", "model, 1 thread, whole batch"


def run(rig: Rig, chosen: argparse.Namespace) -> None:
    """Measures a model and prints its table."""
    layers = [rig.layers(chosen.seconds)]
    pipes = rig.pipelines(layers[0])
    variants: Variants = {ONE: (partial(rig.plain, rig.m), 1), TWO: (partial(rig.plain, rig.m), 2), WHOLE: (partial(rig.plain, 1), 1)}
    alone = {name: Alone(pipe, schedule, rig.x, rig.target, rig.loss) for name, (pipe, schedule) in pipes.items()}
    between: dict[str, Callable[[], Any]] = {ONE: lambda: layers.append(rig.layers(0.0))}
    for name, (pipe, _) in pipes.items():
        variants[name] = (partial(pipe.step, rig.x, rig.target, rig.loss), 1)
        between[name] = alone[name].measure
    took = measured(rig, variants, chosen.rounds, between)
    fl.set_num_threads(1)
    print(f"\n{rig.program.title}; here batch {len(rig.target)} in {rig.m} micro-batches, without optimizer")
    head = ["variant", "s", "speed-up over 1 thread", "over 2 threads", "bubble", "of predicted by stages", "of predicted by layers"]
    table = Table(head, chosen.markdown)
    for name, seconds in took.items():
        ratios = [spread([a / b for a, b in zip(took[other], seconds)], 2) for other in (ONE, TWO)]
        if name not in pipes:
            table.row([name, spread(seconds), *ratios, "", "", ""])
            continue
        pipe, schedule = pipes[name]
        stages = schedule.simulate(**alone[name].seconds()).makespan
        simulated = schedule.simulate(**by_layers(layers, pipe.balance)).makespan
        predicted = [f"{statistics.median(seconds) / p:.2f} ({p:.3f} s)" for p in (stages, simulated)]
        table.row([name, spread(seconds), *ratios, f"{pipe.timeline.bubble:.0%}", *predicted])
    efficiency = statistics.median(a / b for a, b in zip(took[WHOLE], took[ONE]))
    print(f"efficiency of {rig.m} micro-batches, whole batch over micro-batches with 1 thread: {efficiency:.2f}")


def main(chosen: argparse.Namespace) -> None:
    """The rig of real compute."""
    threads = fl.get_num_threads()
    print(f"{harness.machine()}; {RANKS} ranks; median of {chosen.rounds} rounds (least..most)")
    print(f"load {os.getloadavg()[0]:.1f}, capacity of two threads before {capacity():.2f}")
    try:
        for kind, cut in (model for model in MODELS if model[0].name in chosen.models.split(",")):
            run(Rig(kind, cut, chosen.batch, chosen.micro_batches), chosen)
    finally:
        fl.set_num_threads(threads)
    print(f"\nload {os.getloadavg()[0]:.1f}, capacity of two threads after {capacity():.2f}")
