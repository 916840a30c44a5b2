"""Runs the cases in child processes, flambeau and PyTorch in turn, and collects what they say.

    round 1: flambeau | PyTorch | round 2: flambeau | PyTorch | ...

Cases that are timed share one process per library and round; programs whose memory or import is looked
at have one each. A machine that slows down for a while so slows both libraries down.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.case import Case

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 600
# Cases of one process. Few, so that both libraries meet each mood of the machine: a shared one has minutes in which
# every parallel region takes half as long again.
TOGETHER = 16


class ChildError(RuntimeError):
    """A library could not be measured."""


@dataclass(frozen=True)
class Library:
    """A library and the interpreter that has it."""

    module: str
    title: str
    python: str

    def importable(self) -> bool:
        """True if its interpreter finds it."""
        found = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)"
        try:
            return subprocess.run([self.python, "-c", found, self.module]).returncode == 0
        except OSError:
            return False

    def measure(self, cases: Sequence[Case], threads: int) -> dict[str, Any]:
        """One process that runs these cases."""
        names = [case.name for case in cases]
        count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        done = subprocess.run(
            [self.python, str(HERE / "child.py"), self.module, str(threads), *names],
            capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | count,
        )  # fmt: skip
        if done.returncode != 0:
            raise ChildError(f"{self.title} failed on {', '.join(names)}:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


@dataclass
class Result:
    """The rounds of one case: flambeau's values and PyTorch's (none where it is not there)."""

    suite: str
    case: Case
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    share_of: Result | None = None  # the result that `case.share_of` names

    @property
    def ratio(self) -> float | None:
        """flambeau's median over PyTorch's; of rates the other way round, so that below 1 flambeau is faster."""
        if not self.theirs:
            return None
        ratio = statistics.median(self.ours) / statistics.median(self.theirs)
        return 1 / ratio if self.case.moved_bytes else ratio

    @property
    def share(self) -> float | None:
        """flambeau's median over the better library's in the case that this one is compared with."""
        if self.share_of is None:
            return None
        best = max(statistics.median(rounds) for rounds in (self.share_of.ours, self.share_of.theirs) if rounds)
        return statistics.median(self.ours) / best

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where that can not be said."""
        if self.case.min_share is not None and self.share is not None:
            return self.share >= self.case.min_share
        if self.case.max_value is not None:
            return statistics.median(self.ours) <= self.case.max_value
        if self.case.max_ratio is None or self.ratio is None:
            return None
        return self.ratio <= self.case.max_ratio

    def as_json(self) -> dict[str, Any]:
        """Everything, with the value of every round."""
        return {
            "suite": self.suite,
            "case": self.case.name,
            "unit": self.case.unit,
            "flambeau": self.ours,
            "pytorch": self.theirs,
            "ratio_of_medians": self.ratio,
            "max_ratio": self.case.max_ratio,
            "max_value": self.case.max_value,
            "share": self.share,
            "min_share": self.case.min_share,
            "met": self.met,
        }


@dataclass
class Report:
    """A whole run."""

    machine: str
    versions: dict[str, str]
    rounds: int
    threads: int
    load: tuple[float, float]  # before and after, the 1-minute averages
    results: list[Result]

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "machine": self.machine,
            "versions": self.versions,
            "rounds": self.rounds,
            "threads": self.threads,
            "load_before_and_after": self.load,
            "results": [result.as_json() for result in self.results],
        }


# What kernels are chosen by; the last that a processor has says most.
INSTRUCTION_SETS = {
    "avx2": "AVX2",
    "f16c": "F16C",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "BF16",
    "avx512_fp16": "FP16",
    "amx_bf16": "AMX",
}


def processor() -> str:
    """The processor's name as the system gives it, its family and model, and its instruction sets.

    A virtual machine's name is often that of a whole line (AMD EPYC): the numbers tell which of it.
    """
    found: dict[str, str] = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    name = found.get("model name") or platform.processor() or platform.machine()
    numbers = ", ".join(f"{key} {found[of]}" for key, of in (("family", "cpu family"), ("model", "model")) if of in found)
    flags = set(found.get("flags", "").split())
    sets = " ".join(title for flag, title in INSTRUCTION_SETS.items() if flag in flags)
    inside = "; ".join(part for part in (numbers, sets) if part)
    return f"{name} ({inside})" if inside else name


def machine() -> str:
    """Processor, how many, memory, system and Python, as one line."""
    memory = ""
    try:
        memory_kb = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
        memory = f"{memory_kb / 1e6:.0f} GB, "
    except OSError:
        pass
    processors = len(os.sched_getaffinity(0))
    return (
        f"{processor()}, {processors} processors, {memory}"
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def run(
    suites: dict[str, list[Case]],
    torch_python: str | None,
    rounds: int,
    threads: int,
    say: Callable[[str], None] = lambda text: None,
    again: int = 0,
) -> Report:
    """Measures all cases of these suites, and what missed its target in `again` more rounds, whose values count, too.

    Raises:
        ChildError: a library is not there or fails.
    """
    ours = Library("flambeau", "flambeau", sys.executable)
    theirs = Library("torch", "PyTorch", torch_python or sys.executable)
    libraries = [ours]
    if not ours.importable():
        raise ChildError(f"{sys.executable} does not find flambeau")
    if theirs.importable():
        libraries.append(theirs)
    elif torch_python:
        raise ChildError(f"{torch_python} does not find torch")
    else:
        say("PyTorch is not there; only flambeau is measured (see --torch)")

    load_before = os.getloadavg()[0]
    results = [Result(suite, case) for suite, cases in suites.items() for case in cases]
    by_name = {r.case.name: r for r in results}
    for r in results:
        r.share_of = by_name.get(r.case.share_of)
    together = [r for r in results if not r.case.fresh]
    groups = [together[i : i + TOGETHER] for i in range(0, len(together), TOGETHER)]
    groups += [[r] for r in results if r.case.fresh]
    versions = {}
    for library in libraries:  # its files are read once before anything counts
        versions[library.title] = library.measure([], threads)["version"]

    def measure(groups: Sequence[Sequence[Result]], what: str) -> None:
        for group in groups:
            for library in libraries:
                say(f"{what}: {library.title}, {_what(group)}")
                values = library.measure([r.case for r in group], threads)["values"]
                for r in group:
                    (r.ours if library is ours else r.theirs).append(values[r.case.name])

    for k in range(rounds):
        measure(groups, f"round {k + 1} of {rounds}")
    missed = [[r for r in group if r.met is False] for group in groups]  # in the processes' parts that they were in
    missed = [group for group in missed if group]
    for k in range(again if missed else 0):
        measure(missed, f"what missed, round {k + 1} of {again}")
    load = (load_before, os.getloadavg()[0])
    return Report(machine(), versions, rounds, threads, load, results)


def _what(group: Sequence[Result]) -> str:
    return group[0].case.name if len(group) == 1 else f"{len(group)} cases"
