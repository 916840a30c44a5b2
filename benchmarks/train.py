"""Whole models beside PyTorch: training steps, predictions and memory.

    python benchmarks/train.py --torch PYTHON                        # every model, training and inference
    python benchmarks/train.py --torch PYTHON --models mlp,ncf --train
    python benchmarks/train.py --torch PYTHON --check                # do both compute the same?

Each model is written once (models/) and run by both libraries, every measurement in a process of its
own, in turn. PyTorch is measured as it comes and at its best: fused optimizers, channels_last for
convolutions; the best is whichever of them was fastest. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import harness
import numpy as np
from models import MODELS, compare, program_named
from models.program import Settings

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 1800
MODES = {"train": "Training", "infer-1": "Inference, batch 1", "infer-32": "Inference, batch 32"}
OURS, DEFAULT = "flambeau", "default"
HEAD = [
    "", "", "flambeau", "PyTorch", "PyTorch at its best", "ratio", "ratio to best",
    "memory, flambeau", "PyTorch", "at its best", "ratio",
]  # fmt: skip
Say = Callable[[str], None]


class Unavailable(RuntimeError):
    """The library does not have what was asked for."""


def run_job(library: harness.Library, job: dict[str, Any]) -> dict[str, Any]:
    """What the process of one job says.

    Raises:
        Unavailable: the library does not have it.
        harness.ChildError: it failed; the message ends in the error.
    """
    count = {name: str(job["threads"]) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [library.python, str(HERE / "models" / "process.py")]
    try:
        done = subprocess.run(
            [*command, json.dumps({"library": library.module, **job})],
            capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | count,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise harness.ChildError(f"no end within {LIMIT_S} s") from None
    if done.returncode != 0:
        raise harness.ChildError(done.stderr.strip() or f"exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in result:
        raise Unavailable(result["unavailable"])
    return result


@dataclass
class Series:
    """One model in one mode by one library with its settings: a result per round."""

    library: harness.Library
    settings: Settings
    rounds: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""  # why there are none

    def median(self, key: str) -> float | None:
        """Over the rounds; None without any."""
        return statistics.median(r[key] for r in self.rounds) if self.rounds else None


@dataclass
class Entry:
    """One model in one mode: flambeau's series and PyTorch's, by their settings."""

    program: Any
    mode: str
    series: dict[str, Series]

    @property
    def ours(self) -> Series:
        """flambeau's."""
        return self.series[OURS]

    @property
    def default(self) -> Series | None:
        """PyTorch's as it comes; None where there is no PyTorch."""
        return self.series.get(DEFAULT)

    @property
    def best(self) -> Series | None:
        """PyTorch's fastest."""
        theirs = [s for name, s in self.series.items() if name != OURS and s.rounds]
        return max(theirs, key=lambda s: s.median("throughput") or 0.0, default=None)

    def ratio(self, other: Series | None, key: str) -> float | None:
        """flambeau's median over the other's."""
        mine, their = self.ours.median(key), other.median(key) if other else None
        return mine / their if mine is not None and their is not None else None

    def as_json(self) -> dict[str, Any]:
        """Every round of every series."""
        return {
            "model": self.program.name,
            "title": self.program.title,
            "item": self.program.item,
            "mode": self.mode,
            "series": {
                name: {"settings": asdict(s.settings), "rounds": s.rounds, "problem": s.problem}
                for name, s in self.series.items()
            },
            "best": self.best.settings.title if self.best else None,
            "throughput_ratio_to_default": self.ratio(self.default, "throughput"),
            "throughput_ratio_to_best": self.ratio(self.best, "throughput"),
            "memory_ratio_to_default": self.ratio(self.default, "peak_mb"),
        }


@dataclass
class Report:
    """A whole run."""

    machine: str
    date: str
    dtype: str
    threads: int
    rounds: int
    seconds: float
    load: tuple[float, float]  # before and after, the 1-minute averages
    entries: list[Entry]

    def all_series(self) -> list[Series]:
        """Of all entries, those with results."""
        return [s for entry in self.entries for s in entry.series.values() if s.rounds]

    def versions(self) -> dict[str, str]:
        """Of the libraries that were measured."""
        return {s.library.title: s.rounds[0]["version"] for s in self.all_series()}

    def baselines(self) -> dict[str, float]:
        """Megabytes resident after the import, per library."""
        found: dict[str, list[float]] = {}
        for s in self.all_series():
            found.setdefault(s.library.title, []).extend(r["baseline_mb"] for r in s.rounds)
        return {title: statistics.median(values) for title, values in found.items()}

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "machine": self.machine,
            "date": self.date,
            "versions": self.versions(),
            "baseline_mb": self.baselines(),
            "dtype": self.dtype,
            "threads": self.threads,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "load_before_and_after": self.load,
            "geometric_means": {
                mode: means([e for e in self.entries if e.mode == mode])
                for mode in MODES
                if any(e.mode == mode for e in self.entries)
            },
            "results": [entry.as_json() for entry in self.entries],
        }


def means(entries: Sequence[Entry]) -> dict[str, float | None]:
    """The geometric means of the ratios, over the models that both libraries ran."""

    def mean(ratios: Sequence[float | None]) -> float | None:
        known = [ratio for ratio in ratios if ratio is not None]
        return statistics.geometric_mean(known) if known else None

    return {
        "throughput_to_default": mean([e.ratio(e.default, "throughput") for e in entries]),
        "throughput_to_best": mean([e.ratio(e.best, "throughput") for e in entries]),
        "memory_to_default": mean([e.ratio(e.default, "peak_mb") for e in entries]),
    }


def candidates(program: Any, mode: str, dtype: str) -> list[Settings]:
    """How PyTorch is run: as it comes, then with what may be faster."""
    fused = mode == "train"
    found = [Settings(dtype=dtype)]
    if fused:
        found.append(Settings(dtype=dtype, fused=True))
    if program.images:
        found.append(Settings(dtype=dtype, fused=fused, channels_last=True))
    return found


def measure(
    names: Sequence[str], modes: Sequence[str], libraries: Sequence[harness.Library],
    args: argparse.Namespace, say: Say,
) -> Report:  # fmt: skip
    """Measures these models in these modes, every library in turn."""
    load_before = os.getloadavg()[0]
    entries = []
    for program in map(program_named, names):
        for mode in modes:
            series = {OURS: Series(libraries[0], Settings(dtype=args.dtype))}
            for library in libraries[1:]:
                for settings in candidates(program, mode, args.dtype):
                    series[settings.title] = Series(library, settings)
            entries.append(Entry(program, mode, series))
    for k in range(args.rounds):
        for entry in entries:
            say(f"round {k + 1} of {args.rounds}: {entry.program.name}, {entry.mode}")
            for name, series in entry.series.items():
                if series.problem:
                    continue
                job = {
                    "model": entry.program.name,
                    "mode": entry.mode,
                    "threads": args.threads,
                    "seconds": args.seconds,
                    "settings": asdict(series.settings),
                }
                try:
                    series.rounds.append(run_job(series.library, job))
                except Unavailable as error:
                    series.problem = f"not available: {error}"
                except harness.ChildError as error:
                    series.problem = "failed: " + str(error).splitlines()[-1]
                    say(f"{name} failed:\n{error}")
    return Report(
        harness.machine(), datetime.date.today().isoformat(), args.dtype, args.threads,
        args.rounds, args.seconds, (load_before, os.getloadavg()[0]), entries,
    )  # fmt: skip


def check(
    names: Sequence[str], libraries: Sequence[harness.Library], args: argparse.Namespace, say: Say
) -> bool:
    """Compares the libraries on the same weights, without dropout; True if all models agree.

    Predictions; the losses of a few training steps; the gradients of the first; at the end what the
    optimizer has changed and the buffers (the statistics of batch normalization). The truth is PyTorch's
    float64.
    """
    agree = True
    for name in names:
        say(f"checking {name}")
        try:
            with tempfile.TemporaryDirectory() as folder:
                good, text = check_one(name, *libraries, args, pathlib.Path(folder))
        except Unavailable as error:
            good, text = True, f"not available: {error}"
        except (harness.ChildError, ValueError) as error:
            good, text = False, f"FAILED: {error}"
        agree = agree and good
        print(f"{name}: {text}", flush=True)
    return agree


def check_one(
    name: str, ours: harness.Library, theirs: harness.Library, args: argparse.Namespace,
    folder: pathlib.Path,
) -> tuple[bool, str]:  # fmt: skip
    """Whether they agree on this model, and the errors of both.

    Raises:
        Unavailable: a library does not have the dtype.
        harness.ChildError: a library failed.
        ValueError: the models are not the same.
    """
    start = folder / "theirs.npz"
    arrays = []
    for library, file, dtype in (
        (theirs, start, args.dtype),
        (ours, folder / "ours.npz", args.dtype),
        (theirs, folder / "truth.npz", "float64"),
    ):
        job = {
            "model": name,
            "mode": "check",
            "threads": args.threads,
            "settings": asdict(Settings(dtype=dtype)),
            "weights": str(start) if start.exists() else None,
            "out": str(file),
        }
        run_job(library, job)
        with np.load(file) as loaded:
            arrays.append(dict(loaded))
    their_arrays, our_arrays, truth = arrays
    compare.same_form(our_arrays, their_arrays)
    mine, other = compare.errors(our_arrays, truth), compare.errors(their_arrays, truth)
    bad = [kind for kind in mine if not compare.agrees(kind, mine[kind], other[kind], args.dtype)]
    values = ", ".join(f"{kind} {mine[kind]:.1e} ({other[kind]:.1e})" for kind in sorted(mine))
    verdict = f"DIFFERS in {', '.join(bad)}" if bad else "agrees"
    return not bad, f"{verdict}; relative errors (PyTorch's): {values}"


def rows(entries: Sequence[Entry]) -> list[list[str]]:
    """A row per model and one of geometric means."""
    table = []
    for e in entries:
        best = e.best
        table.append(
            [
                e.program.title if e.mode == "train" else e.program.title.partition(", batch")[0],
                f"{e.program.item}/s",
                _throughput(e.ours),
                _throughput(e.default),
                _throughput(best) + (f", {best.settings.title}" if best else ""),
                _ratio(e.ratio(e.default, "throughput")),
                _ratio(e.ratio(best, "throughput")),
                _memory(e.ours),
                _memory(e.default),
                _memory(best),
                _ratio(e.ratio(e.default, "peak_mb")),
            ]
        )
    mean = means(entries)
    to_default, to_best, memory = (_ratio(value) for value in mean.values())
    table.append(["geometric mean", "", "", "", "", to_default, to_best, "", "", "", memory])
    return table


def as_text(report: Report) -> str:
    """For a terminal."""
    parts = [describe(report)]
    for mode, title in MODES.items():
        entries = [e for e in report.entries if e.mode == mode]
        if entries:
            lines = [HEAD, *rows(entries)]
            widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
            table = "\n".join(
                "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                for line in lines
            )
            parts.append(f"{title}\n{table}")
    return "\n\n".join([*parts, *problems(report)])


def as_markdown(report: Report, command: str) -> str:
    """A page of its own."""
    baselines = ", ".join(f"{title} {mb:.0f} MB" for title, mb in report.baselines().items())
    parts = [
        "# Training and inference of whole models",
        describe(report),
        f"    {command}",
        "Medians over the rounds, with the lowest and the highest round; every round of every cell is "
        "a process of\nits own, flambeau's and PyTorch's in turn. PyTorch at its best is the fastest of: "
        "as it comes, fused optimizer,\nchannels_last (models of convolutions); what it was stands "
        "beside it. Ratios of throughput are flambeau over\nPyTorch: above 1 flambeau is faster. "
        "Memory is the process's largest resident size, in MB; its ratio is\nto PyTorch as it comes: "
        "below 1 flambeau is smaller. " + f"After the import alone: {baselines}.",
    ]
    for mode, title in MODES.items():
        entries = [e for e in report.entries if e.mode == mode]
        if entries:
            lines = [HEAD, ["---"] * len(HEAD), *rows(entries)]
            table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
            parts += [f"## {title}", table]
    return "\n\n".join([*parts, *problems(report)]) + "\n"


def describe(report: Report) -> str:
    """The machine, the day, the versions and how it was run."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions().items())
    autocast = "" if report.dtype == "float32" else f" (autocast to {report.dtype})"
    return (
        f"{report.machine}; {report.date}; {versions}{autocast}; {report.threads} threads, "
        f"{report.rounds} rounds of {report.seconds:g} s, "
        f"load {report.load[0]:.1f} before and {report.load[1]:.1f} after"
    )


def problems(report: Report) -> list[str]:
    """What could not be measured, as one list."""
    lines = [
        f"- {e.program.name}, {e.mode}, {s.library.title} ({s.settings.title}): {s.problem}"
        for e in report.entries
        for s in e.series.values()
        if s.problem
    ]
    return ["Not measured:\n\n" + "\n".join(lines)] if lines else []


def _throughput(series: Series | None) -> str:
    if series is None or not series.rounds:
        return "-"
    values = [r["throughput"] for r in series.rounds]
    middle = statistics.median(values)
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    return f"{middle:.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def _memory(series: Series | None) -> str:
    peak = series.median("peak_mb") if series else None
    return "-" if peak is None else f"{peak:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    found.add_argument("--models", metavar="A,B", help=f"some of {','.join(MODELS)}")
    found.add_argument("--rounds", type=int, default=5, help="processes per cell (%(default)s)")
    found.add_argument("--seconds", type=float, default=5.0, help="per process (%(default)s)")
    found.add_argument("--threads", type=int, default=2, help="for both (%(default)s)")
    found.add_argument("--train", action="store_true", help="training only")
    found.add_argument("--infer", action="store_true", help="inference only")
    found.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    found.add_argument("--json", metavar="FILE", help="write every round's values there")
    found.add_argument("--markdown", metavar="FILE", help="write the tables there")
    found.add_argument("--check", action="store_true", help="compare what they compute; no timing")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    commands = parser()
    args = commands.parse_args(argv)
    if args.rounds < 1 or args.threads < 1 or args.seconds <= 0:
        commands.error("--rounds and --threads must be at least 1, --seconds more than 0")
    names = args.models.split(",") if args.models else list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        commands.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    modes = [m for m in MODES if args.train == args.infer or args.train == (m == "train")]

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    ours = harness.Library("flambeau", "flambeau", sys.executable)
    theirs = harness.Library("torch", "PyTorch", args.torch or sys.executable)
    libraries = [ours]
    if not ours.importable():
        say(f"{sys.executable} does not find flambeau")
        return 1
    if theirs.importable():
        libraries.append(theirs)
    elif args.torch or args.check:
        say(f"{theirs.python} does not find torch")
        return 1
    else:
        say("PyTorch is not there; only flambeau is measured (see --torch)")

    if args.check:
        return 0 if check(names, libraries, args, say) else 1
    report = measure(names, modes, libraries, args, say)
    print(as_text(report))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(report.as_json(), indent=1) + "\n")
    if args.markdown:
        pathlib.Path(args.markdown).write_text(as_markdown(report, _command(args)))
    failed = any(s.problem.startswith("failed") for e in report.entries for s in e.series.values())
    return 1 if failed else 0


def _command(args: argparse.Namespace) -> str:
    """The command that does the same elsewhere: without this machine's paths."""
    parts = ["python benchmarks/train.py"]
    if args.torch:
        parts.append("--torch PYTHON")
    for name in ("models", "rounds", "seconds", "threads", "dtype"):
        value = getattr(args, name)
        if value != parser().get_default(name):
            shown = f"{value:g}" if isinstance(value, float) else value
            parts.append(f"--{name} {shown}")
    parts += [f"--{name}" for name in ("train", "infer") if getattr(args, name)]
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
