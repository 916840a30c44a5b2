"""What everyday calls cost beside PyTorch: statements that Python programs run all day, of small tensors, so that the work is in the calls.

    python benchmarks/everyday.py [--torch PYTHON] [--rounds 3] [--areas modules,data] [--match REGEX] [--above 1.15] [--markdown]

Each library goes through an area in a process of its own per round, in turn, with one thread. A number is the least time of the statement,
in microseconds, over all rounds: what other processes took counts less so. With --above only statements are printed that take more than
that many times PyTorch's time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from everyday_statements import AREAS, Names

STATEMENT_S = 0.03  # of a statement in a round
GROUP_S = 1e-4  # short statements are timed in groups that take about this long


def least(statement: str, names: Names) -> float:
    """Microseconds of the fastest of some runs."""
    made: Names = {}
    exec(f"def run(count_):\n    for _ in range(count_):\n        {statement}", names, made)
    run: Callable[[int], None] = made["run"]
    run(1)
    begin = time.perf_counter()
    run(2)
    group = max(1, min(1000, int(GROUP_S / max((time.perf_counter() - begin) / 2, 1e-8))))
    best, end = math.inf, time.perf_counter() + STATEMENT_S
    while True:
        begin = time.perf_counter()
        run(group)
        now = time.perf_counter()
        best = min(best, (now - begin) / group)
        if now > end:
            return best * 1e6


def child(library: str, name: str, match: str) -> None:
    tl = importlib.import_module(library)
    tl.set_num_threads(1)
    tl.manual_seed(0)
    area = AREAS[name]
    names = {"T": tl, "nn": tl.nn, "F": tl.nn.functional, "math": math} | area.names(tl)
    times: dict[str, float | None] = {}
    for statement in area.lines():
        if re.search(match, statement):
            try:
                times[statement] = least(statement, names)
            except Exception as error:
                print(f"{library}: {statement}: {type(error).__name__}: {error}", file=sys.stderr)
                times[statement] = None
    print(json.dumps(times))


def measured(python: str, library: str, name: str, match: str) -> dict[str, float | None]:
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([python, __file__, "--child", library, name, match], stdout=subprocess.PIPE, text=True, check=True, env=quiet)
    found: dict[str, float | None] = json.loads(done.stdout)
    return found


def _us(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3, help="processes per library and area (%(default)s)")
    parser.add_argument("--areas", default=",".join(AREAS), help="some of %(default)s")
    parser.add_argument("--match", metavar="REGEX", default="", help="only statements in which this is found")
    parser.add_argument("--above", type=float, metavar="RATIO", help="print only what takes more than so many times PyTorch's time")
    parser.add_argument("--markdown", action="store_true", help="print tables for a report")
    given = parser.parse_args()
    if unknown := [name for name in given.areas.split(",") if name not in AREAS]:
        parser.error(f"--areas: no area {', '.join(unknown)}; there are {', '.join(AREAS)}")
    sides = [("flambeau", sys.executable), *([("torch", given.torch)] if given.torch else [])]
    ratios: list[float] = []
    for name in given.areas.split(","):
        best: dict[str, dict[str, float]] = {library: {} for library, _ in sides}
        for _ in range(given.rounds):
            for library, python in sides:
                for statement, us in measured(python, library, name, given.match).items():
                    if us is not None:
                        best[library][statement] = min(us, best[library].get(statement, math.inf))
        ours, theirs = best["flambeau"], best.get("torch", {})
        rows = []
        for statement, us in ours.items():
            ratio = us / theirs[statement] if statement in theirs else None
            if ratio is not None:
                ratios.append(ratio)
            if given.above is None or (ratio is not None and ratio > given.above):
                rows.append((statement, _us(us), *((_us(theirs[statement]), f"{ratio:.2f}") if ratio is not None else ("", ""))))
        if given.markdown and rows:
            print(f"\n| {name}, us | flambeau | PyTorch | ratio |\n| --- | --- | --- | --- |")
        for row in rows:
            cells = ("`" + row[0].replace("|", "\\|") + "`", *row[1:])
            plain = f"{name:13s} {row[1]:>9s} {row[2]:>9s} {row[3]:>6s}  {row[0]}"
            print(f"| {' | '.join(cells)} |" if given.markdown else plain, flush=True)
    if ratios:
        slower = sum(ratio > 1.15 for ratio in ratios)
        mean = statistics.geometric_mean(ratios)
        print(f"\n{len(ratios)} statements, flambeau / PyTorch: geometric mean {mean:.2f}, above 1.15: {slower}")


if __name__ == "__main__":
    main()
