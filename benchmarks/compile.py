"""Eager, recorded and replayed: the same functions in turn, the least time of each.

    python benchmarks/compile.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn


def chain() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Ten element-wise ops over 16 M elements."""

    def f(x: fl.Tensor, y: fl.Tensor) -> fl.Tensor:
        for _ in range(5):
            x = x * 1.0001 + y
        return x

    return f, (fl.randn(1 << 24), fl.randn(1 << 24))


def mlp() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step of a network 64 wide, whose update is written with tensor ops."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    parameters = list(model.parameters())

    def f(x: fl.Tensor, target: fl.Tensor) -> fl.Tensor:
        loss = F.cross_entropy(model(x), target)
        grads = fl.autograd.grad(loss, parameters)
        with fl.no_grad():
            for p, g in zip(parameters, grads, strict=True):
                p.sub_(g * 0.01)
        return loss.detach()

    return f, (fl.randn(16, 64), fl.randint(0, 10, (16,)))


def lstm() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Twenty steps of an LSTM cell in a loop of Python."""
    cell = nn.LSTMCell(32, 32)

    def f(xs: fl.Tensor) -> fl.Tensor:
        h, c = fl.zeros(8, 32), fl.zeros(8, 32)
        with fl.no_grad():
            for x in xs:
                h, c = cell(x, (h, c))
        return h

    return f, (fl.randn(20, 8, 32),)


def resnet_block() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Prediction by two convolutions with batch norm and a shortcut."""
    body = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)
    ).eval()

    def f(x: fl.Tensor) -> fl.Tensor:
        with fl.no_grad():
            return (body(x) + x).relu()

    return f, (fl.randn(4, 64, 28, 28),)


def least(f: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> float:
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        f(*args)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each variant in each round")
    options = parser.parse_args()
    print(f"{platform.machine()}, {fl.get_num_threads()} threads; milliseconds, least of {options.rounds} rounds in turn")
    print(f"{'':14}{'eager':>10}{'compile':>10}{'replay':>10}{'eager/compile':>15}{'eager/replay':>14}")
    for make in (chain, mlp, lstm, resnet_block):
        function, args = make()
        variants = (function, fl.compile(function), fl.compile(function, mode="replay"))
        for _ in range(4):
            variants[2](*args)
        times = [float("inf")] * 3
        for _ in range(options.rounds):
            for i, variant in enumerate(variants):
                times[i] = min(times[i], least(variant, args, options.seconds))
        eager, recorded, replayed = times
        shown = "".join(f"{t * 1e3:10.3f}" for t in times)
        print(f"{make.__name__:14}{shown}{eager / recorded:15.2f}{eager / replayed:14.2f}")


if __name__ == "__main__":
    main()
