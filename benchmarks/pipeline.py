"""Pipelines over virtual devices: what the executor takes beside the simulation of its schedule.

    python benchmarks/pipeline.py
    python benchmarks/pipeline.py --ranks 2,4 --unit 0.02 --rounds 3

A stage sleeps in its forward and in its backward, so the number of processors does not matter: what is measured is threads, queues,
autograd and the order of actions. The last column is the time over that of the simulation, which knows no overhead at all.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import harness

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule

HEAD = ["ranks", "micro-batches", "schedule", "checkpoint", "simulated", "measured, of it"]
CASES = [
    ("gpipe", {}, "never"), ("gpipe", {}, "except_last"), ("1f1b", {}, "never"), ("eager-1f1b", {}, "never"),
    ("interleaved", {"chunks": 2}, "never"), ("looped-bfs", {"chunks": 2}, "never"),
]  # fmt: skip


class _Sleep(fl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: fl.Tensor, forward_s: float, backward_s: float) -> fl.Tensor:
        time.sleep(forward_s)
        ctx.backward_s = backward_s
        return x * 1

    @staticmethod
    def backward(ctx: Any, dy: fl.Tensor) -> tuple[Any, ...]:
        time.sleep(ctx.backward_s)
        return dy, None, None


class Stage(nn.Module):
    """Takes `forward_s` forward and `backward_s` back, and has a parameter."""

    def __init__(self, forward_s: float, backward_s: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(fl.ones(4))
        self.times = forward_s, backward_s

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        return _Sleep.apply(x * self.weight, *self.times)


def measure(schedule: Schedule, checkpoint: str, unit: float, chunks: int, rounds: int) -> list[float]:
    """Seconds of training steps; a backward takes two units, a forward one, of the rank's whole share."""
    stages = [Stage(unit / chunks, 2 * unit / chunks) for _ in range(schedule.stages)]
    pipe = Pipeline(
        nn.Sequential(*stages), len(schedule.ranks), schedule=schedule, micro_batches=schedule.micro_batches, checkpoint=checkpoint
    )
    x, y = fl.ones(schedule.micro_batches, 4, requires_grad=True), fl.zeros(schedule.micro_batches, 4)
    took = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        pipe.step(x, y, nn.functional.mse_loss)
        took.append(time.perf_counter() - start)
    return took[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks (%(default)s)")
    parser.add_argument("--unit", type=float, default=0.02, help="seconds of a forward (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="steps of each case (%(default)s)")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    line, between = ("| {} |", " | ") if chosen.markdown else ("{}", "  ")
    print(f"{harness.machine()}; sleeping stages, forward {chosen.unit} s; median of {chosen.rounds} steps (least..most)")
    print(line.format(between.join(HEAD)))
    if chosen.markdown:
        print("|" + "---|" * len(HEAD))
    for ranks in map(int, chosen.ranks.split(",")):
        for name, options, checkpoint in CASES:
            chunks = options.get("chunks", 1)
            schedule = Schedule.make(name, ranks, 2 * ranks, **options)
            part = chosen.unit / chunks
            ideal = schedule.with_recompute(checkpoint).simulate(F=part, B=2 * part).makespan
            took = measure(schedule, checkpoint, chosen.unit, chunks, chosen.rounds)
            ratios = [seconds / ideal for seconds in took]
            spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})"
            print(line.format(between.join([str(ranks), str(2 * ranks), name, checkpoint, f"{ideal:.3f} s", spread])), flush=True)


if __name__ == "__main__":
    main()
