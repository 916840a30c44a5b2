"""`flambeau doctor`: what makes programs slow or wrong on this machine, and what to do about it.

Each check looks at one thing and says what it found. They see the machine through `Machine` alone, so that tests can show them others.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flambeau._units import bytes_text

Grade = Literal["good", "note", "slow", "wrong"]


@dataclass(frozen=True)
class Finding:
    """What a check found: "slow" costs time, "wrong" can end or mislead a program, a "note" is good to know."""

    grade: Grade
    subject: str
    text: str
    advice: str = ""


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _mapped() -> list[str]:
    """The libraries of this process, with all that the package itself loads."""
    import flambeau  # noqa: F401

    try:
        lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return sorted({parts[5] for line in lines if len(parts := line.split(maxsplit=5)) == 6 and ".so" in parts[5]})


def _files() -> int | None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


@dataclass
class Machine:
    """What checks look at: files below `root`, the environment, the module, and this process."""

    root: pathlib.Path = pathlib.Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    path: Sequence[str] = field(default_factory=lambda: sys.path)
    processors: int = field(default_factory=_affinity)
    libraries: Sequence[str] = field(default_factory=_mapped)
    files: int | None = field(default_factory=_files)  # that a process may open; None: any number

    def read(self, name: str) -> str:
        """The text of a file, empty where it can not be read."""
        try:
            return (self.root / name.lstrip("/")).read_text(errors="replace").strip()
        except OSError:
            return ""

    def quota(self) -> float | None:
        """How many processors the control group allows, by version 2 and 1."""
        limit, _, period = self.read("/sys/fs/cgroup/cpu.max").partition(" ")
        if not limit:
            limit, period = self.read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), self.read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
        try:
            return int(limit) / int(period) if int(limit) > 0 else None
        except (ValueError, ZeroDivisionError):
            return None

    def memory(self) -> dict[str, int]:
        """/proc/meminfo in bytes."""
        rows = (line.split() for line in self.read("/proc/meminfo").splitlines())
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) >= 2 and row[1].isdigit()}


# ---------------------------------------------------------------------------------------- processors


def processor(machine: Machine) -> Iterator[Finding]:
    """Vector instructions: those that are there, and those that are used."""
    from flambeau import _C

    used = _C.isa_name()
    flags = set(machine.read("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split())
    if asked := machine.environ.get("FLAMBEAU_ISA"):
        yield Finding("slow", "processor", f"FLAMBEAU_ISA={asked} holds the kernels to {used}", "unset it")
    elif flags and "avx2" not in flags:
        yield Finding("slow", "processor", "it has no AVX2, so most kernels run at an eighth of a newer one's rate", "use another machine")
    else:
        yield Finding("good", "processor", f"kernels use {used}")
    if asked := machine.environ.get("ONEDNN_MAX_CPU_ISA"):
        yield Finding("slow", "processor", f"ONEDNN_MAX_CPU_ISA={asked} holds products and convolutions to it", "unset it")
    governor = machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor == "powersave" and not machine.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").startswith("intel_pstate"):
        yield Finding("slow", "processor", "the governor is powersave, which keeps the clock low", "cpupower frequency-set -g performance")


def threads(machine: Machine) -> Iterator[Finding]:
    """Threads against the processors that this process may use."""
    from flambeau import _C

    count, origin, quota = _C.get_num_threads(), _C.threads_origin(), machine.quota()
    may_use = machine.processors if quota is None else min(float(machine.processors), quota)
    said = f"{count} thread{'s' * (count != 1)} ({origin}), and {may_use:g} processor{'s' * (may_use != 1)} may be used"
    if count > max(1, round(may_use)):
        yield Finding("slow", "threads", f"{said}: they wait for each other", f"flambeau.set_num_threads({max(1, int(may_use))})")
    elif count < int(may_use):
        yield Finding(
            "slow", "threads",
            f"{said}: the others do nothing",
            f"flambeau.set_num_threads({int(may_use)}), or unset OMP_NUM_THREADS",
        )
    else:
        yield Finding("good", "threads", said)
    for name in ("GOMP_CPU_AFFINITY", "OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY"):
        if machine.environ.get(name, "").lower() not in ("", "false"):
            yield Finding(
                "note", "threads",
                f"{name}={machine.environ[name]} ties threads to processors, also those of loaders and workers",
                "unset it if other work runs beside",
            )
    if machine.environ.get("OMP_WAIT_POLICY", "").lower() == "active":
        yield Finding("slow", "threads", "OMP_WAIT_POLICY=active: waiting threads take processors from those that work", "unset it")
    load = machine.read("/proc/loadavg").split()
    if load and float(load[0]) > 1.5 * machine.processors:
        yield Finding(
            "slow", "threads",
            f"{load[0]} processes want to run on {machine.processors} processors",
            "measure when the machine is quiet",
        )


def runtimes(machine: Machine) -> Iterator[Finding]:
    """Several OpenMPs in one process wait for each other's threads, and may end it."""
    kinds = {"libgomp": "GNU's", "libiomp5": "Intel's", "libomp": "LLVM's"}
    found: dict[str, list[str]] = {}
    for path in machine.libraries:
        name = pathlib.PurePath(path).name
        for kind in kinds:
            if name.startswith((kind + ".", kind + "-")):
                found.setdefault(kind, []).append(path)
    paths = [path for each in found.values() for path in each]
    if len(paths) > 1:
        text = f"{len(paths)} OpenMP libraries are loaded: {', '.join(paths)}"
        yield Finding(
            "slow", "OpenMP",
            f"{text}; each has threads of its own",
            "import flambeau before the others, and set OMP_NUM_THREADS",
        )
    elif paths:
        yield Finding("good", "OpenMP", f"one library, {kinds[next(iter(found))]}")
    if preloaded := machine.environ.get("LD_PRELOAD"):
        yield Finding("note", "OpenMP", f"LD_PRELOAD={preloaded} is loaded before everything else")


# ---------------------------------------------------------------------------------------- memory


def memory(machine: Machine) -> Iterator[Finding]:
    """What is left, and what limits it."""
    from flambeau import _C

    left, rows = _C.available_memory(), machine.memory()
    total = rows.get("MemTotal", 0)
    text = f"{bytes_text(left)} are left" + (f" of {bytes_text(total)}" if total else "")
    if total and left < total // 10:
        yield Finding("slow", "memory", text, "end other programs, or take smaller batches")
    else:
        yield Finding("good", "memory", text)
    swapped = rows.get("SwapTotal", 0) - rows.get("SwapFree", 0)
    if total and swapped > total // 20:
        yield Finding("slow", "memory", f"{bytes_text(swapped)} lie in swap, from where they come back slowly", "end other programs")
    if machine.read("/proc/sys/vm/overcommit_memory") == "2":
        yield Finding(
            "note", "memory",
            "the system promises no more memory than there is (overcommit_memory = 2), so that forks of large processes fail",
            "multiprocessing.set_start_method('forkserver')",
        )
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        yield Finding("note", "memory", f"addresses are limited to {bytes_text(limit)} (ulimit -v)", "ulimit -v unlimited")


def huge_pages(machine: Machine) -> Iterator[Finding]:
    """Large tensors lie in pages of 2 MiB where the system has them."""
    chosen = machine.read("/sys/kernel/mm/transparent_hugepage/enabled").partition("[")[2].partition("]")[0]
    if chosen == "never":
        yield Finding(
            "slow", "huge pages",
            "the system gives none, so that large tensors cost more page faults",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )
    elif chosen:
        yield Finding("good", "huge pages", f"given on {'request' if chosen == 'madvise' else 'every occasion'} ({chosen})")


def shared_memory(machine: Machine) -> Iterator[Finding]:
    """Tensors that other processes see, batches of worker processes among them, lie in memory files: a descriptor each."""
    if machine.files is None:
        return
    if machine.files < 1024:
        text = f"a process may open {machine.files} files, and each shared tensor takes one"
        yield Finding("wrong", "shared memory", text, "ulimit -n 4096")
    else:
        yield Finding("good", "shared memory", f"a process may open {machine.files} files, one for each shared tensor")


# ---------------------------------------------------------------------------------------- installation


def installation(machine: Machine) -> Iterator[Finding]:
    """Which package is imported, and what stands in its way."""
    import importlib.metadata

    import flambeau

    here = pathlib.Path(flambeau.__file__).resolve().parent
    try:
        installed = importlib.metadata.version("flambeau")
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    if installed and installed != flambeau.__version__:
        yield Finding(
            "wrong", "installation",
            f"version {flambeau.__version__} is imported from {here}, and {installed} is installed",
            "pip install --force-reinstall flambeau",
        )
    else:
        yield Finding("good", "installation", f"{flambeau.__version__} in {here}")
    for folder in dict.fromkeys(machine.path):
        for name in ("flambeau", "torch", "numpy"):
            base = pathlib.Path(folder or ".")
            stranger = next((p for p in (base / f"{name}.py", base / name) if p.suffix == ".py" and p.is_file()), None)
            if stranger is not None:
                yield Finding("wrong", "installation", f"{stranger} hides the package {name}", "give it another name")


def settings(machine: Machine) -> Iterator[Finding]:
    """What the environment says that costs time."""
    for name, plain, why in (
        ("FLAMBEAU_ALLOCATOR", "", "is for finding errors: every block comes from the system"),
        ("FLAMBEAU_LAYOUT", "", "keeps convolutions from the layout that they are fastest in"),
        ("FLAMBEAU_WINOGRAD", "1", "makes convolutions multiply two to three times as much"),
        ("PYTHONMALLOC", "pymalloc", "makes Python itself slower"),
        ("PYTHONDEVMODE", "", "makes Python itself slower"),
        ("CUDA_LAUNCH_BLOCKING", "0", "makes every call of a GPU wait"),
    ):
        value = machine.environ.get(name, "")
        if value and value not in (plain, "default"):
            yield Finding("slow", "settings", f"{name}={value} {why}", "unset it")
    if (machine.root / "dev/nvidia0").exists():
        yield Finding("note", "GPU", "there is one, and this build computes on the CPU alone", "see docs/gpu.md")


CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    installation, processor, threads, runtimes, memory, huge_pages, shared_memory, settings,
)  # fmt: skip


def examine(machine: Machine | None = None) -> list[Finding]:
    """What all checks find on a machine, this one by default."""
    machine = machine or Machine()
    return [finding for check in CHECKS for finding in check(machine)]


def report(findings: Sequence[Finding]) -> str:
    """A line for each finding, with advice below it, and a last line that sums up."""
    width = max(len(f.subject) for f in findings)
    lines = []
    for f in findings:
        lines.append(f"{f.grade:5}  {f.subject.ljust(width)}  {f.text}")
        if f.advice:
            lines.append(f"{'':5}  {'':{width}}  -> {f.advice}")
    bad = sum(f.grade in ("slow", "wrong") for f in findings)
    lines += ["", f"{bad} thing{'s' * (bad != 1)} to mend" if bad else "nothing to mend"]
    return "\n".join(lines)


def main() -> int:
    """Prints the report; 1 where something is wrong or slow."""
    findings = examine()
    print(report(findings))
    return int(any(f.grade in ("slow", "wrong") for f in findings))
