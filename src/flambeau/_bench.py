"""`flambeau bench`: what this machine can do, and how much of it the library reaches, in about ten seconds."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import flambeau as fl
from flambeau import nn
from flambeau.profiler._limits import best_seconds, machine_limits


def _has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 itself."""
    try:
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _time_text(seconds: float) -> str:
    from flambeau.profiler._events import time_text

    return f"{seconds * 1e9:.0f} ns" if seconds < 1e-6 else time_text(seconds * 1e6)


def _per_call(run: Callable[[], Any], budget_s: float) -> float:
    """Seconds of one call of something short."""
    count = 2000

    def many() -> None:
        for _ in repeat(None, count):
            run()

    return best_seconds(many, budget_s) / count


def _training_step(model: nn.Module, optimizer: fl.optim.Optimizer, x: fl.Tensor, target: fl.Tensor) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()

    return step


def rows(budget_s: float = 1.0) -> Iterator[tuple[str, str, str]]:
    """What was measured, the result, and what to compare it with; `budget_s` is spent on each."""
    limits = machine_limits(refresh=True)
    yield "copy, 64 MiB", f"{limits.bandwidth / 1e9:.1f} GB/s", "read and written"
    n = 1024
    a, b = fl.rand(n, n), fl.rand(n, n)
    rate = max(2 * n**3 / best_seconds(lambda: fl.mm(a, b), budget_s), limits.matmul)
    yield f"matrix product {n}x{n}x{n}, float32", f"{rate / 1e9:.0f} GFLOP/s", f"{limits.threads} threads"
    if _has_bf16():
        c, d = a.to(fl.bfloat16), b.to(fl.bfloat16)
        half = 2 * n**3 / best_seconds(lambda: fl.mm(c, d), budget_s)
        yield f"matrix product {n}x{n}x{n}, bfloat16", f"{half / 1e9:.0f} GFLOP/s", f"{half / rate:.1f} times float32"
    else:
        yield f"matrix product {n}x{n}x{n}, bfloat16", "--", "not native on this processor"
    x, y = fl.rand(4, 4), fl.rand(4, 4)
    yield "a + b, 4x4", _time_text(_per_call(lambda: x + y, budget_s)), "a call's overhead"
    z = fl.rand(4, 4, requires_grad=True)
    yield "a + b, 4x4, requires_grad", _time_text(_per_call(lambda: z + y, budget_s)), "with its node"
    big, other = fl.rand(1 << 24), fl.rand(1 << 24)
    for name, streams, run in (("a + b", 3, lambda: big + other), ("exp(a)", 2, lambda: fl.exp(big))):
        speed = streams * 4 * big.numel() / best_seconds(run, budget_s)
        yield f"{name}, 16 M float32", f"{speed / 1e9:.1f} GB/s", f"{100 * speed / limits.bandwidth:.0f} % of copying"
    target = fl.randint(0, 10, (64,))
    mlp = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    step = _training_step(mlp, fl.optim.Adam(mlp.parameters()), fl.rand(64, 784), target)
    yield "MLP 784-256-10, batch 64, Adam: training step", _time_text(best_seconds(step, budget_s)), ""
    lenet = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    step = _training_step(lenet, fl.optim.SGD(lenet.parameters(), lr=0.01), fl.rand(64, 1, 28, 28), target)
    yield "LeNet 28x28, batch 64, SGD: training step", _time_text(best_seconds(step, budget_s)), ""


def run(budget_s: float = 1.0) -> None:
    """Prints the table, a row as soon as it is measured."""
    print(fl.show_config(), end="\n\n")
    for name, result, remark in rows(budget_s):
        print(f"{name:<46} {result:>14}   {remark}".rstrip(), flush=True)
