"""Llama and BERT of the package transformers, with random weights: flambeau beside PyTorch.

    make build/packages/.stamp build/torch/.stamp
    python benchmarks/transformers_models.py --packages build/packages --torch-path build/torch --rounds 3

Per model and task a process of its own, the libraries in turn. `prompt` is a forward of 256 tokens of one sequence, `generate` 32 tokens
after them with a cache, one forward each, `train` a step of AdamW over four sequences, `first` the time from the start of a process
that loads the model to its first token. Memory is the most that the process had less what it had when the weights had been read, so that
these are left out. Goals are 1.2 times PyTorch's throughput, 0.6 of its start and 0.5 of its memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import harness

HERE = pathlib.Path(__file__).resolve().parent
TASKS = {"llama": ("first", "prompt", "generate", "train"), "bert": ("first", "prompt", "train")}
LIBRARIES = ("flambeau", "PyTorch")
HEAD = ["model", "task", "flambeau", "PyTorch", "speed", "memory beyond the weights, flambeau", "PyTorch", "ratio", "goals"]
LIMIT_S = 900


def measure(library: str, model: str, task: str, folder: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """One process.

    Raises:
        RuntimeError: it failed.
    """
    options = ["--threads", str(chosen.threads), "--seconds", str(chosen.seconds)]
    program = [str(HERE / "transformers_program.py"), model, task, folder, *options]
    ours = library == "flambeau"
    command = [sys.executable, "-m", "flambeau", "run", *program] if ours else [sys.executable, *program]
    path = [chosen.packages] if ours else [chosen.packages, chosen.torch_path]
    threads = {name: str(chosen.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, path)), "TRANSFORMERS_VERBOSITY": "error"}
    start = time.monotonic()  # the clock that the process reads, too
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"{library} failed on {model}, {task}:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "start": start}


def linked(packages: str, folder: str) -> str:
    """A folder of links to the packages, without torchvision, which transformers would import and PyTorch's wheels may not fit."""
    out = os.path.join(folder, "packages")
    os.mkdir(out)
    for entry in os.scandir(packages):
        if not entry.name.startswith("torchvision"):
            os.symlink(os.path.abspath(entry.path), os.path.join(out, entry.name))
    return out


def spread(values: Sequence[float], unit: str, digits: int) -> str:
    """median (least..most) unit"""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f}) {unit}"


def row(model: str, task: str, rounds: dict[str, list[dict[str, Any]]]) -> list[str]:
    """A line of the table: above 1 flambeau is faster."""
    first = task == "first"

    def of_one(r: dict[str, Any]) -> float:
        return r["at"] - r["start"] if first else r["tokens"] / statistics.median(r["took"])

    speeds = {of: [of_one(r) for r in found] for of, found in rounds.items()}
    held = {of: [(r["peak"] - r["before"]) / 1e6 for r in found] for of, found in rounds.items()}
    ours, theirs = (statistics.median(speeds[of]) for of in LIBRARIES)
    speed = theirs / ours if first else ours / theirs
    met = "met" if speed >= (1 / 0.6 if first else 1.2) else "missed"
    unit, digits = ("s", 2) if first else ("tokens/s", 1)
    line = [model, task, *(spread(speeds[of], unit, digits) for of in LIBRARIES), f"{speed:.2f}"]
    if first:
        return [*line, "", "", "", met]
    memory = statistics.median(held["flambeau"]) / statistics.median(held["PyTorch"])
    return [*line, *(spread(held[of], "MB", 0) for of in LIBRARIES), f"{memory:.2f}", f"{met}, {'met' if memory <= 0.5 else 'missed'}"]


def check(model: str, task: str, said: list[float]) -> None:
    """Both libraries computed the same.

    Raises:
        RuntimeError: they did not.
    """
    if any(not math.isclose(x, said[0], rel_tol=1e-3, abs_tol=1e-5) for x in said):
        raise RuntimeError(f"{model}, {task}: the libraries computed {said}; expected one number")


def main() -> None:
    """The command line."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--packages", default="build/packages", help="a folder with transformers (make packages)")
    p.add_argument("--torch-path", default="build/torch", help="a folder with PyTorch (make parity)")
    p.add_argument("--models", default="llama,bert")
    p.add_argument("--tasks", default="first,prompt,generate,train")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5.0)
    chosen = p.parse_args()
    load, lines = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        chosen.packages = linked(chosen.packages, folder)
        for model in chosen.models.split(","):
            saved = os.path.join(folder, model)
            measure("PyTorch", model, "save", saved, chosen)
            for of in LIBRARIES:  # reads their files, and does not count
                measure(of, model, "first", saved, chosen)
            for task in (t for t in TASKS[model] if t in chosen.tasks.split(",")):
                rounds: dict[str, list[dict[str, Any]]] = {of: [] for of in LIBRARIES}
                for k in range(chosen.rounds):
                    for of in LIBRARIES:
                        print(f"round {k + 1} of {chosen.rounds}: {model}, {task}, {of}", file=sys.stderr, flush=True)
                        rounds[of].append(measure(of, model, task, saved, chosen))
                check(model, task, [r["said"] for of in LIBRARIES for r in rounds[of]])
                lines.append(row(model, task, rounds))
                theirs = rounds["PyTorch"][0]
    print(
        f"{harness.machine()}; PyTorch {theirs['version']}, transformers {theirs['transformers']}; {chosen.threads} threads; median of "
        f"{chosen.rounds} processes (least..most), load {load:.1f} before and {os.getloadavg()[0]:.1f} after\n"
    )
    for line in [HEAD, ["---"] * len(HEAD), *lines]:
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
