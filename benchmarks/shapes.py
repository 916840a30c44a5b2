"""Shapes that were not there before: sentences, signals and pictures that have another size each time, beside PyTorch.

    python benchmarks/shapes.py [--torch PYTHON] [--rounds 3] [--threads 2] [--programs encoder,conv1d] [--markdown]

Each library has a process of its own per round, in turn. It goes through 60 sizes twice: "new" is a call's mean time the first time,
when kernels have to be chosen or made for the size, "seen" the second time. Numbers are medians over the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Program = Callable[[int], Any]
SIZES = random.Random(0).sample(range(20, 400), 61)


def _trained(tl: Any, model: Any, inputs: Callable[[int], Any]) -> Program:
    def step(n: int) -> None:
        y = model(inputs(n))
        (y[0] if isinstance(y, tuple) else y).sum().backward()
        model.zero_grad()

    return step


def linear(tl: Any) -> Program:
    """A training step of Linear 256-512-256 with n rows."""
    nn = tl.nn
    return _trained(tl, nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)), lambda n: tl.randn(n, 256))


def encoder(tl: Any) -> Program:
    """A training step of two transformer layers of width 64, two sentences of n words."""
    nn = tl.nn
    return _trained(tl, nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2), lambda n: tl.randn(2, n, 64))


def attention(tl: Any) -> Program:
    """One word that attends to n others, width 128."""
    layer = tl.nn.MultiheadAttention(128, 4, batch_first=True).eval()

    def run(n: int) -> None:
        with tl.no_grad():
            keys = tl.randn(1, n, 128)
            layer(tl.randn(1, 1, 128), keys, keys, need_weights=False)

    return run


def lstm(tl: Any) -> Program:
    """A training step of an LSTM of width 64, four sequences of n."""
    return _trained(tl, tl.nn.LSTM(64, 64, batch_first=True), lambda n: tl.randn(4, n, 64))


def conv1d(tl: Any) -> Program:
    """A training step of two convolutions of signals of 10 n elements, without a stride."""
    nn = tl.nn
    return _trained(tl, nn.Sequential(nn.Conv1d(8, 32, 5), nn.GELU(), nn.Conv1d(32, 64, 5)), lambda n: tl.randn(2, 8, 10 * n))


def strided_conv1d(tl: Any) -> Program:
    """A training step of two convolutions with a stride of 2, of signals of 40 n elements."""
    nn = tl.nn
    model = nn.Sequential(nn.Conv1d(1, 32, 9, stride=2), nn.GELU(), nn.Conv1d(32, 64, 5, stride=2, groups=2))
    return _trained(tl, model, lambda n: tl.randn(2, 1, 40 * n))


def conv2d(tl: Any) -> Program:
    """A training step of two convolutions 3-32-32 of pictures of about 80 x 60."""
    nn = tl.nn
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.MaxPool2d(2))
    return _trained(tl, model, lambda n: tl.randn(1, 3, 32 + n % 97, 32 + n // 7))


PROGRAMS = {f.__name__: f for f in (linear, encoder, attention, lstm, conv1d, strided_conv1d, conv2d)}


def child(library: str, name: str, threads: int) -> None:
    tl = importlib.import_module(library)
    tl.set_num_threads(threads)
    tl.manual_seed(0)
    run = PROGRAMS[name](tl)
    run(SIZES[0])
    passes = []
    for _ in range(2):
        begin = time.perf_counter()
        for n in SIZES[1:]:
            run(n)
        passes.append((time.perf_counter() - begin) / (len(SIZES) - 1) * 1e3)
    print(json.dumps(passes))


def measured(python: str, library: str, name: str, threads: int) -> list[float]:
    command = [python, __file__, "--child", library, name, str(threads)]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=quiet)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--markdown", action="store_true")
    given = parser.parse_args()
    sides = [("flambeau", sys.executable), *([("torch", given.torch)] if given.torch else [])]
    if given.markdown:
        print("| milliseconds a call | flambeau, new | seen | PyTorch, new | seen |\n| --- | --- | --- | --- | --- |")
    for name in given.programs.split(","):
        times: dict[str, list[list[float]]] = {library: [] for library, _ in sides}
        for _ in range(given.rounds):
            for library, python in sides:
                times[library].append(measured(python, library, name, given.threads))
        columns = [[t[k] for t in times[library]] for library, _ in sides for k in (0, 1)]
        cells = [f"{statistics.median(column):.2f} ({min(column):.2f}..{max(column):.2f})" for column in columns]
        print(f"| {name} | {' | '.join(cells)} |" if given.markdown else f"{name:16s} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
