"""A replay for which there is no memory changes nothing, and the next one is what it would have been."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, warnings
import flambeau as fl

warnings.simplefilter("error", UserWarning)
CALLS = 12

def held():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

count, p = fl.zeros(2), fl.nn.Parameter(fl.rand(1 << 18))
optimizer = fl.optim.Adam([p], 1e-3)

def step(x):
    count.add_(1)
    x.mul_(2)
    optimizer.zero_grad()
    y = p + x[0] + fl.rand(())
    for _ in range(16):  # each keeps its input for the backward
        y = (y * y + 0.5).sin()
    y.sum().backward()
    optimizer.step()
    return count * 2

def inside(x):
    count.add_(1)
    x.mul_(2)
    return x.repeat(1 << 20).cumsum(0).sum() + fl.rand(())

f = {"step": step, "inside": inside}[sys.argv[1]]

def state():
    return [t.sum().item() for t in (count, p.detach())], [v.sum().item() for s in optimizer.state.values() for v in s.values()], fl.get_rng_state().tolist()

def begin(function):
    with fl.no_grad():
        count.zero_()
        p.fill_(0.5)
    optimizer.state.clear()
    fl.manual_seed(0)
    for _ in range(CALLS):
        function(fl.ones(3))

begin(f)
f(fl.ones(3))
expected = state()
compiled = fl.compile(f, mode="replay")
begin(compiled)
(entry,) = [e for known in compiled.entries.values() for e in known]
assert entry.confirmed and not {entry.calls + 1, entry.calls + 2} & {1, 2, 4, 8, 16}, entry.calls  # both that follow are replayed
p.grad = None  # it lies there
entry.program.rest()  # it has no memory now
fl._C.empty_cache()
x, before = fl.ones(3), state()
resource.setrlimit(resource.RLIMIT_AS, (held() + (1 << 20), -1))
try:
    compiled(x)
except MemoryError as error:
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    print(type(error).__name__)
assert x.tolist() == [1] * 3 and state() == before
replayed = fl.compiler.stats()["replayed"]
compiled(fl.ones(3))
assert fl.compiler.stats()["replayed"] == replayed + 1
assert state() == expected
"""


@pytest.mark.slow
@pytest.mark.parametrize("function", ["step", "inside"])
def test_no_memory_for_the_arena(function):
    done = subprocess.run([sys.executable, "-c", PROGRAM, function], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["OutOfMemoryError"]
