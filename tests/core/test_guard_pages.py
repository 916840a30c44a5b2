"""No kernel reads or writes beyond its operands: all of them run where an access beyond a buffer ends the process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
# FLAMBEAU_SWEEP=n runs n times as many cases, in all combinations.
SWEEP = int(os.environ.get("FLAMBEAU_SWEEP", "0"))

FEW = [
    ("guard", 2, "deferred", {}),
    ("guard-front", 3, "deferred", {"ONEDNN_MAX_CPU_ISA": "AVX2", "FLAMBEAU_ISA": "v3"}),
    ("guard", 4, "plain", {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "FLAMBEAU_ISA": "v4"}),
    ("guard", 1, "deferred", {"ONEDNN_MAX_CPU_ISA": "SSE41", "FLAMBEAU_ISA": "base"}),
]
ALL = [
    (allocator, threads, layout, {"ONEDNN_MAX_CPU_ISA": theirs, "FLAMBEAU_ISA": ours})
    for allocator in ("guard", "guard-front")
    for threads in (1, 2, 3, 4)
    for layout in ("deferred", "plain")
    for theirs, ours in (("ALL", "v4"), ("AVX512_CORE", "v4"), ("AVX2", "v3"), ("SSE41", "base"))
]


@pytest.mark.slow
def test_the_switch_works():
    """A read beyond the end of a block is found."""
    script = """
        import ctypes, flambeau as fl
        x = fl.ones(1001)
        ctypes.c_float.from_address(x.data_ptr() + 4000).value
        print("inside", flush=True)
        ctypes.c_float.from_address(x.data_ptr() + 4004).value
    """
    code = "\n".join(line.strip() for line in script.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "FLAMBEAU_ALLOCATOR": "guard"}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "inside\n" and done.returncode < 0, done.stderr


def stays_inside(module, *args, **env):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "tools"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", f"support.{module}", *map(str, args)], env={**os.environ, **env, "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=1200, check=False,
    )  # fmt: skip
    last = (done.stdout.splitlines() or ["nothing"])[-1]
    assert done.returncode == 0 and last == "whole", f"exit status {done.returncode} after {last}\n{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conv", "pool", "product"])
@pytest.mark.parametrize(
    ("allocator", "threads", "layout", "isa"), ALL if SWEEP else FEW, ids=lambda v: "-".join(v.values()) if isinstance(v, dict) else str(v)
)
def test_kernels_stay_inside(kind, allocator, threads, layout, isa):
    count, seed = (60 * SWEEP, threads) if SWEEP else (25, threads)
    stays_inside(
        "guarded", kind, seed, count, **isa, FLAMBEAU_ALLOCATOR=allocator, FLAMBEAU_LAYOUT=layout, FLAMBEAU_NUM_THREADS=str(threads),
        FLAMBEAU_OVERSUBSCRIBE="1",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("allocator", ["guard", "guard-front"])
@pytest.mark.parametrize("part", range(2))  # each reads the table anew
def test_entries_of_the_table_stay_inside(part, allocator):
    """With an axis of size 0, too: a kernel that walks along another one finds its first element beyond the buffer."""
    stays_inside("guarded_ops", part, 2, FLAMBEAU_ALLOCATOR=allocator)
