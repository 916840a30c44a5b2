"""Where a process may have few addresses (`ulimit -v`), memory is what there is, and no more is asked for."""

import resource
import subprocess
import sys

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


def test_a_limit_of_addresses_from_the_start():
    limit = 2 << 30

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, preexec_fn=limited)
    assert done.stdout.split() == ["36", "8"], done.stderr
