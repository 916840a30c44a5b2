"""`flambeau doctor` on machines that are made up."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flambeau import _C, _doctor
from flambeau._doctor import CHECKS, Machine, examine, report


@pytest.fixture
def machine(tmp_path):
    """One on which all is well, to be spoiled."""
    files = {
        "proc/cpuinfo": "model name : made up\nflags : sse4_1 avx avx2 fma avx512f\n",
        "proc/loadavg": "0.10 0.20 0.30 1/100 1000",
        "proc/meminfo": "MemTotal: 1024 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "sys/fs/cgroup/cpu.max": "max 100000",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Machine(root=tmp_path, environ={}, path=[], processors=_C.get_num_threads(), libraries=["/usr/lib/libgomp.so.1", "/lib/libc.so.6"], files=1 << 20)


def said(machine, subject):
    return [(f.grade, f.text) for f in examine(machine) if f.subject == subject]


def write(machine, name, text):
    (machine.root / name).parent.mkdir(parents=True, exist_ok=True)
    (machine.root / name).write_text(text)


def test_all_is_well(machine):
    findings = examine(machine)
    assert {f.grade for f in findings} <= {"good", "note"}, report(findings)
    assert report(findings).endswith("nothing to mend")


SPOILED = {
    "a lowered instruction set": (lambda m: m.environ.update(FLAMBEAU_ISA="base"), "processor", "slow", "FLAMBEAU_ISA=base holds"),
    "an old processor": (lambda m: write(m, "proc/cpuinfo", "flags : sse2\n"), "processor", "slow", "no AVX2"),
    "oneDNN held back": (lambda m: m.environ.update(ONEDNN_MAX_CPU_ISA="AVX2"), "processor", "slow", "ONEDNN_MAX_CPU_ISA=AVX2"),
    "a slow clock": (lambda m: write(m, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"), "processor", "slow", "powersave"),
    "idle processors": (lambda m: setattr(m, "processors", 64), "threads", "slow", "64 processors may be used: the others do nothing"),
    "a quota": (lambda m: (setattr(m, "processors", 64), write(m, "sys/fs/cgroup/cpu.max", "6400000 100000")), "threads", "slow", "64 processors may be used"),
    "pinned threads": (lambda m: m.environ.update(OMP_PROC_BIND="close"), "threads", "note", "OMP_PROC_BIND=close"),
    "active waiting": (lambda m: m.environ.update(OMP_WAIT_POLICY="ACTIVE"), "threads", "slow", "OMP_WAIT_POLICY=active"),
    "a busy machine": (lambda m: write(m, "proc/loadavg", "500.0 1 1"), "threads", "slow", "500.0 processes want to run"),
    "two OpenMPs": (lambda m: setattr(m, "libraries", ["/a/libgomp.so.1", "/b/libiomp5.so"]), "OpenMP", "slow", "2 OpenMP libraries are loaded: /a/libgomp.so.1, /b/libiomp5.so"),
    "a preloaded library": (lambda m: m.environ.update(LD_PRELOAD="/x.so"), "OpenMP", "note", "LD_PRELOAD=/x.so"),
    "swapped out": (lambda m: write(m, "proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 900 kB\nSwapFree: 100 kB\n"), "memory", "slow", "800.00 KiB lie in swap"),
    "little memory": (lambda m: write(m, "proc/meminfo", f"MemTotal: {1 << 40} kB\n"), "memory", "slow", "are left of"),
    "no overcommitment": (lambda m: write(m, "proc/sys/vm/overcommit_memory", "2"), "memory", "note", "overcommit_memory = 2"),
    "no huge pages": (lambda m: write(m, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"), "huge pages", "slow", "the system gives none"),
    "few files": (lambda m: setattr(m, "files", 256), "shared memory", "wrong", "may open 256 files"),
    "a debugging allocator": (lambda m: m.environ.update(FLAMBEAU_ALLOCATOR="guard"), "settings", "slow", "FLAMBEAU_ALLOCATOR=guard"),
    "a slower Python": (lambda m: m.environ.update(PYTHONMALLOC="debug"), "settings", "slow", "PYTHONMALLOC=debug"),
    "a GPU": (lambda m: write(m, "dev/nvidia0", ""), "GPU", "note", "this build computes on the CPU alone"),
    "a hidden package": (lambda m: (write(m, "numpy.py", ""), setattr(m, "path", [str(m.root)])), "installation", "wrong", "numpy.py hides the package numpy"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_not_well_is_found(machine, name):
    spoil, subject, grade, text = SPOILED[name]
    assert not any(g == grade and text in t for g, t in said(machine, subject))
    spoil(machine)
    assert any(g == grade and text in t for g, t in said(machine, subject)), said(machine, subject)
    assert all(f.advice for f in examine(machine) if f.grade in ("slow", "wrong"))


def test_more_threads_than_processors(machine):
    machine.processors = 1
    write(machine, "sys/fs/cgroup/cpu.max", "50000 100000")
    assert any("0.5 processors may be used" in text for _, text in said(machine, "threads"))


def test_nothing_readable(tmp_path):
    """A machine without any of the files."""
    findings = [f for check in CHECKS for f in check(Machine(root=tmp_path, environ={}, path=[], processors=2, libraries=[]))]
    assert {f.subject for f in findings} >= {"installation", "processor", "threads", "memory"}


@pytest.mark.slow
def test_command():
    done = subprocess.run([sys.executable, "-m", "flambeau", "doctor"], capture_output=True, text=True, timeout=60)
    assert "installation" in done.stdout and done.returncode == ("to mend" in done.stdout and "nothing to mend" not in done.stdout), done
    assert _doctor.main() in (0, 1)
