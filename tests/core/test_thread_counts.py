"""The same programs with one, two and eight threads give the same bits, in processes of their own.

Our own kernels always do. Programs of ONEDNN go through oneDNN's kernels, which may split sums by the number of
threads: ARCHITECTURE.md, "Threads and the GIL", lists which differ. They are held to the same bits in a build without
oneDNN alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support import programs

COUNTS = (1, 2, 8)


def run(threads: int, names: list[str]) -> dict[str, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "FLAMBEAU_NUM_THREADS": str(threads),
        "FLAMBEAU_OVERSUBSCRIBE": "1",
    }
    done = subprocess.run([sys.executable, programs.__file__, *names], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def hashes():
    return {n: run(n, list(programs.PROGRAMS)) for n in COUNTS}


@pytest.mark.slow
@pytest.mark.parametrize("threads", COUNTS)
def test_there_are_as_many_threads_as_were_asked_for(hashes, threads):
    assert hashes[threads]["threads"] == [threads, threads], "get_num_threads, and threads that work made"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_bits_do_not_depend_on_the_number_of_threads(hashes, name):
    if name in programs.ONEDNN and hashes[1]["onednn"]:
        pytest.skip("uses kernels of oneDNN")
    results = [hashes[n][name] for n in COUNTS]
    assert len(results[0]) >= 1
    for other in results[1:]:
        differing = [part for part in results[0] if results[0][part] != other[part]]
        assert differing == []


KEEPS_THREADS = """
import os, flambeau as fl
fl.set_num_threads(8)
assert fl.get_num_threads() == 8
x = [fl.rand(n * 40_000) for n in range(1, 9)]  # work for one thread, for some, for all
fl.rand(4_000_000).exp()
before = set(os.listdir("/proc/self/task"))
for _ in range(20):
    for part in x:
        part.exp().sum()
assert len(before) >= 8 and set(os.listdir("/proc/self/task")) == before
"""


@pytest.mark.slow
def test_threads_are_not_ended_by_small_work():
    """libgomp ends the threads that a smaller team leaves out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", KEEPS_THREADS], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
