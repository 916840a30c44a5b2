"""Signals while kernels run, threads that are still at it when the process exits, and other interpreters: csrc/base/signals.h."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.eager("programs in processes of their own")


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


INTERRUPTED = """
import signal, threading
import flambeau as fl
came = 0
def handler(*_):
    global came
    came += 1
def products():
    x = fl.randn(128, 128)
    for _ in range(8000):
        x @ x
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1.3e-4)
products()
thread = threading.Thread(target=products)
thread.start()
thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert came > 100, came
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_signals_during_products_leave_memory_as_it_is(threads):
    """oneDNN's kernels use the stack pointer for something else: a signal's frame would lie in the heap, and it did."""
    run(INTERRUPTED, FLAMBEAU_NUM_THREADS=threads, FLAMBEAU_OVERSUBSCRIBE="1")


BLOCKED = """
import os
import flambeau as fl
x = fl.randn(500, 500)
for threads in (4, 2, 3, 4, 4):
    fl.set_num_threads(threads)
    x @ x, x.exp(), fl.nn.functional.conv2d(x.view(1, 1, 500, 500), fl.randn(8, 1, 3, 3))
blocked = []
for task in os.listdir("/proc/self/task"):
    if int(task) != os.getpid():
        with open(f"/proc/self/task/{task}/status") as status:
            blocked.append(next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk")))
assert blocked
import signal
for mask in blocked:
    assert all(mask >> s - 1 & 1 for s in (signal.SIGINT, signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGTERM)), hex(mask)
    assert not any(mask >> s - 1 & 1 for s in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT)), hex(mask)
with open("/proc/self/status") as status:  # and this one gets them all
    assert next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk")) == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="no /proc")
def test_workers_get_no_signals():
    run(BLOCKED, FLAMBEAU_NUM_THREADS="4", FLAMBEAU_OVERSUBSCRIBE="1")


@pytest.mark.slow
def test_a_process_ends_while_daemon_threads_compute():
    program = """
import threading, time
import flambeau as fl
def work():
    while True:
        x = fl.randn(200, 200, requires_grad=True)
        y = x
        for _ in range(20):
            y = (y @ x).tanh()
        y.sum().backward()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep({})
"""
    for wait in (0.05, 0.05, 0.1, 0.3):
        run(program.format(wait))


@pytest.mark.slow
def test_an_import_in_a_subinterpreter_is_refused():
    out = run("""
import flambeau as fl
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
own = interpreters.create()
text = "try:\\n import flambeau\\nexcept ImportError as error:\\n print(error)"
interpreters.run_string(own, text)
interpreters.destroy(own)
x = fl.ones(3, requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist())
""")
    assert "sub-interpreter" in out and "[2.0, 2.0, 2.0]" in out, out
