"""Pipelines beside what they should take: time, and memory.

    python benchmarks/pipeline.py sleep --ranks 2,4,8 --rounds 5      stages that sleep, beside the simulation of their schedule
    python benchmarks/pipeline.py compute --rounds 9                  GPT and ResNet-50 on two ranks, beside the model without a pipeline
    python benchmarks/pipeline.py memory                              bytes of each rank beside the plan; the largest U-Net under a cap

`--quick` makes each of them short, `--markdown` prints tables for a document.

sleep: a stage sleeps in its forward and in its backward, so the number of processors does not matter: what is measured is threads,
queues, autograd and the order of actions. `ideal` is a simulation that knows no overhead at all, `predicted` one by what the stages take
when they run one after the other.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import pipeline_compute
import pipeline_memory
from pipeline_cases import Table, one_after_the_other, spread

import flambeau as fl
from flambeau import nn
from flambeau.pipeline import Pipeline, Schedule

CASES = [
    ("gpipe", {}, "never"), ("gpipe", {}, "except_last"), ("1f1b", {}, "never"), ("eager-1f1b", {}, "never"),
    ("interleaved", {"chunks": 2}, "never"), ("looped-bfs", {"chunks": 2}, "never"), ("zb-h1", {}, "never"), ("zb-h2", {}, "never"),
    ("zb-v", {}, "never"), ("dualpipe-v", {}, "never"),
]  # fmt: skip
# Of others, as times of the ideal: torch.distributed.pipelining 2.13 over gloo, a process per rank, and torchgpipe 0.0.7, on devices of one
# processor; stages of 10 ms for each of forward and both parts of the backward, 8 micro-batches, least of 4.
OTHERS = {
    (2, "gpipe", "never"): "1.07, torchgpipe 1.87", (2, "1f1b", "never"): "1.09", (2, "interleaved", "never"): "1.17",
    (2, "zb-h1", "never"): "1.07", (2, "zb-v", "never"): "1.14", (2, "dualpipe-v", "never"): "1.16",
    (4, "gpipe", "never"): "1.11, torchgpipe 3.04", (4, "gpipe", "except_last"): "torchgpipe 3.30", (4, "1f1b", "never"): "1.09",
    (4, "interleaved", "never"): "1.16", (4, "zb-h1", "never"): "1.12", (4, "zb-v", "never"): "1.18", (4, "dualpipe-v", "never"): "1.22",
}  # fmt: skip


class Stage(nn.Module):
    """Takes as long forward as for each part of the backward, and has a parameter.

    Sleeps in hooks of gradients, which cost a tenth of what a Function in Python does: that would be the rig's time, not the executor's.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(fl.ones(4))
        self.seconds = seconds

    def _wait(self, dy: fl.Tensor) -> None:
        time.sleep(self.seconds)

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        time.sleep(self.seconds)
        inputs, weight = x * 1, self.weight * 1
        if inputs.requires_grad:
            inputs.register_hook(self._wait)
        if weight.requires_grad:
            weight.register_hook(self._wait)
        return inputs * weight


def exact_timers() -> None:
    """Asks Linux not to put sleeps together: by default a thread wakes up to 50 us late. Threads inherit it."""
    if sys.platform == "linux":
        set_timer_slack = 29
        ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)


def overshoot(seconds: float) -> float:
    """How much longer `time.sleep` takes than it is told."""
    took = []
    for _ in range(20):
        start = time.perf_counter()
        time.sleep(seconds)
        took.append(time.perf_counter() - start)
    return max(0.0, statistics.median(took) - seconds)


def times(step: Callable[[], Any], rounds: int) -> list[float]:
    """Seconds of each call, after one that does not count."""
    took = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        step()
        took.append(time.perf_counter() - start)
    return took[1:]


def sleeping(chosen: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row per case."""
    for ranks in map(int, chosen.ranks.split(",")):
        m = chosen.micro_batches or 2 * ranks
        for name, options, checkpoint in CASES:
            schedule = Schedule.make(name, ranks, m, **options)
            part = chosen.unit * ranks / schedule.stages
            model = nn.Sequential(*(Stage(part - overshoot(part)) for _ in range(schedule.stages)))
            x, y = fl.ones(m, 4, requires_grad=True), fl.zeros(m, 4)
            pipe = Pipeline(model, ranks, schedule=schedule, micro_batches=m, checkpoint=checkpoint)
            full = schedule.with_recompute(checkpoint)
            ideal = full.simulate(F=part, I=part, W=part).makespan
            seconds = one_after_the_other(pipe, schedule, x, y, nn.functional.mse_loss)
            predicted = full.simulate(**seconds).makespan
            took = times(lambda: pipe.step(x, y, nn.functional.mse_loss), chosen.rounds)  # noqa: B023 (called at once)
            beside = [OTHERS.get((ranks, name, checkpoint), "")] if m == 8 else []
            yield (
                f"{ranks}", f"{m}", name, checkpoint, f"{ideal:.3f} s", spread([t / ideal for t in took]),
                spread([t / predicted for t in took]), *beside,
            )  # fmt: skip


def sleep(chosen: argparse.Namespace) -> None:
    """The rig of stages that sleep."""
    exact_timers()
    print(f"{harness.machine()}; sleeping stages, forward {chosen.unit} s; median of {chosen.rounds} steps (least..most)")
    head = ["ranks", "micro-batches", "schedule", "checkpoint", "ideal", "measured, of it", "measured, of predicted"]
    table = Table([*head, *(["others, of the ideal"] if chosen.micro_batches == 8 else [])], chosen.markdown)
    for row in sleeping(chosen):
        table.row(row)


RIGS = {"sleep": sleep, "compute": pipeline_compute.main, "memory": pipeline_memory.main}
QUICK = {
    "sleep": {"ranks": "2", "unit": 0.005, "rounds": 1},
    "compute": {"rounds": 1, "batch": 4, "micro_batches": 2, "seconds": 0.0, "models": "gpt"},
    "memory": {"ranks": "1,2", "cap": "16MiB"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rig", nargs="?", choices=list(RIGS), default="sleep")
    parser.add_argument("--ranks", help="numbers of ranks (sleep: 2,4,8; memory: 1,2,4,8)")
    parser.add_argument("--micro-batches", type=int, help="how many (sleep: twice the ranks; compute: 4; memory: 16)")
    parser.add_argument("--rounds", type=int, help="steps of each case (sleep: 3; compute: 9)")
    parser.add_argument("--unit", type=float, help="sleep: seconds of a forward (0.02)")
    parser.add_argument("--batch", type=int, help="compute: samples of a step (8)")
    parser.add_argument("--seconds", type=float, help="compute: of measuring the layers (5)")
    parser.add_argument("--models", help="compute: which (gpt,resnet50)")
    parser.add_argument("--cap", help="memory: of a rank (32MiB)")
    parser.add_argument("--quick", action="store_true", help="some seconds, for a look whether it runs")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    defaults = {
        "ranks": "1,2,4,8" if chosen.rig == "memory" else "2,4,8", "micro_batches": {"compute": 4, "memory": 16}.get(chosen.rig),
        "rounds": 9 if chosen.rig == "compute" else 3, "unit": 0.02, "batch": 8, "seconds": 5.0, "cap": "32MiB",
        "models": "gpt,resnet50",
    }  # fmt: skip
    for name, value in {**defaults, **(QUICK[chosen.rig] if chosen.quick else {})}.items():
        if getattr(chosen, name) is None:
            setattr(chosen, name, value)
    RIGS[chosen.rig](chosen)


if __name__ == "__main__":
    main()
