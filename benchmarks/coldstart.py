"""The first training step of a fresh process, and from its start to its first loss, beside PyTorch.

    python benchmarks/coldstart.py --torch PYTHON
    python benchmarks/coldstart.py --torch PYTHON --models mobilenet,mlp --rounds 5

Before every process the machine rests for some seconds: in a virtual machine the host takes idle memory back, and
getting it again is part of a cold start. The files of both libraries have been read before, by a process that does
not count. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import harness
from models import MODELS, program_named
from models.program import Settings
from train import run_job

HEAD = [
    "", "first step, flambeau", "PyTorch", "ratio",
    "start to first loss, flambeau", "PyTorch", "ratio", "target",
]  # fmt: skip
MAX_RATIO = 0.8


@dataclass
class Start:
    """Seconds per round: of the first step, and from the process's start to its first loss."""

    step: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    version: str = ""


def measure(library: harness.Library, model: str, threads: int, into: Start | None) -> None:
    """One process."""
    job: dict[str, Any] = {"model": model, "mode": "start", "threads": threads, "settings": asdict(Settings())}
    before = time.monotonic()  # the clock that the process reads, too
    result = run_job(library, job)
    if into is not None:
        into.step.append(result["first_step_s"])
        into.whole.append(result["at_s"] - before)
        into.version = result["version"]


def _seconds(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} s ({min(values):.2f}..{max(values):.2f})"


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    return statistics.median(ours) / statistics.median(theirs) if theirs else None


def row(model: str, ours: Start, theirs: Start) -> list[str]:
    """A model's line of the table."""
    ratios = [_ratio(ours.step, theirs.step), _ratio(ours.whole, theirs.whole)]
    met = "" if None in ratios else "met" if max(r or 0.0 for r in ratios) <= MAX_RATIO else "missed"
    first, whole = ("-" if r is None else f"{r:.2f}" for r in ratios)
    return [
        program_named(model).title, _seconds(ours.step), _seconds(theirs.step), first,
        _seconds(ours.whole), _seconds(theirs.whole), whole, met and f"<= {MAX_RATIO}, {met}",
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    p = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    p.add_argument("--models", metavar="A,B", help=f"some of {','.join(MODELS)}")
    p.add_argument("--rounds", type=int, default=3, help="processes per cell (%(default)s)")
    p.add_argument("--threads", type=int, default=2, help="for both (%(default)s)")
    p.add_argument("--idle", type=float, default=10.0, help="seconds of rest before each process (%(default)s)")
    p.add_argument("--markdown", metavar="FILE", help="write the table there")
    args = p.parse_args(argv)
    names = args.models.split(",") if args.models else list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        p.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")

    libraries = [harness.Library("flambeau", "flambeau", sys.executable)]
    theirs = harness.Library("torch", "PyTorch", args.torch or sys.executable)
    if theirs.importable():
        libraries.append(theirs)
    elif args.torch:
        print(f"{theirs.python} does not find torch", file=sys.stderr)
        return 1
    load = os.getloadavg()[0]
    starts = {(library.title, name): Start() for library in libraries for name in names}
    for library in libraries:
        measure(library, "mlp", args.threads, None)
    for k in range(args.rounds):
        for name in names:
            print(f"round {k + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            for library in libraries:
                time.sleep(args.idle)
                measure(library, name, args.threads, starts[library.title, name])

    lines = [row(name, starts["flambeau", name], starts.get(("PyTorch", name), Start())) for name in names]
    table = "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ["---"] * len(HEAD), *lines])
    versions = ", ".join(f"{lib.title} {starts[lib.title, names[0]].version}" for lib in libraries)
    text = (
        f"{harness.machine()}; {versions}; {args.threads} threads, {args.rounds} rounds, {args.idle:g} s of rest before "
        f"each process, load {load:.1f} before and {os.getloadavg()[0]:.1f} after\n\n{table}\n"
    )
    print(text)
    if args.markdown:
        title = "# Cold start: the first training step of a fresh process\n\n"
        pathlib.Path(args.markdown).write_text(title + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
