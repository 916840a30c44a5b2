"""Where a process may have few addresses (`ulimit -v`), memory is what there is, and no more is asked for."""

import os
import resource
import subprocess
import sys

import pytest

import flambeau as fl

PROGRAM = """
import flambeau as fl

total = 0.0
for k in range(1, 9):  # 4 to 32 MB each, together more than the limit leaves
    total += fl.ones(k << 20).sum().item()
kept = [fl.ones(1 << 20) for _ in range(8)]
try:
    fl.empty((1 << 30,), dtype=fl.float64)
except fl.OutOfMemoryError:
    print(int(total) >> 20, sum(int(x.sum()) for x in kept) >> 20)
"""


@pytest.mark.slow
def test_a_limit_of_addresses_from_the_start():
    limit = 2 << 30

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, preexec_fn=limited)
    assert done.stdout.split() == ["36", "8"], done.stderr


KERNELS = """
import os
import resource
import flambeau as fl

fl.ones(3).exp()
with open("/proc/self/statm") as numbers:
    mapped = int(numbers.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (48 << 20),) * 2)
try:
    fl.nn.functional.conv3d(fl.ones(1, 2, 4, 4, 3), fl.ones(2, 2, 2, 2, 2))
except fl.OutOfMemoryError as e:
    print(e)
"""


@pytest.mark.slow
@pytest.mark.skipif(fl._C.onednn_version() is None, reason="built without oneDNN")
def test_kernels_that_have_no_room_are_not_made():
    """oneDNN would go on without them, and jump to nothing later: Note [Room for code]."""
    done = subprocess.run([sys.executable, "-c", KERNELS], capture_output=True, text=True, env={**os.environ, "FLAMBEAU_NUM_THREADS": "1"})
    assert "no 64 MiB of addresses are left for a kernel of oneDNN" in done.stdout, done.stderr
