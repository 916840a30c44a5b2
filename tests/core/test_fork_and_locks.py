"""Forks in the middle of everything, threads that must agree on their number, and locks that must not meet the GIL.

Each script runs in a process of its own, which is killed when it hangs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

COMMON = """
import os, signal, sys, threading, time
import numpy as np
import flambeau as fl
from flambeau import nn

def child(work, seconds=20):
    "Runs work() in a forked child; whether it ended well, and in time."
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print("child:", repr(e), file=sys.stderr, flush=True)
            os._exit(3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got, status = os.waitpid(pid, os.WNOHANG)
        if got:
            assert os.waitstatus_to_exitcode(status) == 0, status
            return
        time.sleep(0.0005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")

class Busy:
    "Threads that do the same again and again."
    def __init__(self, work, threads=2):
        self.go = True
        def loop():
            while self.go:
                work()
        self.threads = [threading.Thread(target=loop) for _ in range(threads)]
    def __enter__(self):
        for t in self.threads: t.start()
    def __exit__(self, *_):
        self.go = False
        for t in self.threads: t.join()
"""

SCRIPTS = {
    # A thread's OpenMP count is its own; the primitives' is the process's.
    "convolution_on_a_thread_of_a_child": """
        fl.set_num_threads(4)
        conv, x = nn.Conv2d(16, 32, 3, padding=1), fl.randn(4, 16, 20, 20)
        conv(x).sum().backward()
        def work():
            t = threading.Thread(target=lambda: conv(x).sum().backward())
            t.start(); t.join()
            for _ in range(3):
                conv(x).sum().backward()
                (x.reshape(64, -1) @ x.reshape(64, -1).t()).sum().item()
        for _ in range(5):
            child(work)
    """,
    "one_thread_is_one_thread_everywhere": """
        conv, x = nn.Conv2d(16, 32, 3, padding=1), fl.randn(4, 16, 40, 40)
        a = fl.randn(300, 300)
        before, after = threading.Event(), threading.Event()
        found = []
        def work(wait):
            if wait:
                before.set()
                after.wait()
            conv(x).sum().backward()
            (a @ a).exp().sum()
            found.append(tasks())
        def tasks():
            return len(os.listdir("/proc/self/task"))
        early = threading.Thread(target=work, args=(True,))
        early.start()
        before.wait()
        fl.set_num_threads(1)
        there = tasks()
        late = threading.Thread(target=work, args=(False,))
        late.start(); late.join()
        while tasks() > there:  # the system sees the end of a thread a little later
            pass
        after.set(); early.join()
        assert found == [there + 1, there], (found, there)  # no thread but Python's
    """,
    "convolution_while_the_number_of_threads_changes": """
        conv, x = nn.Conv2d(16, 32, 3, padding=1), fl.randn(4, 16, 20, 20)
        lstm, rows = nn.LSTM(64, 64), fl.randn(8, 16, 64)
        def work():
            conv(x).sum().backward()
            lstm(rows)[0].sum().backward()
        with Busy(work):
            for i in range(300):
                fl.set_num_threads(1 + i % 4)
                conv(x)
    """,
    # Every mutex is held by somebody, now and then, when the process forks.
    "fork_while_threads_allocate": """
        sizes = [1000, 3000, 100_000, 1_000_000]
        def work():
            for n in sizes:
                fl.empty(n)
        with Busy(work, 3):
            for _ in range(60):
                child(work)
    """,
    "fork_while_threads_train": """
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1, 2), nn.Flatten(), nn.Linear(200, 10))
        x = fl.randn(2, 3, 20, 20)
        net(x)
        def work():
            net(x + fl.rand(1)).sum().backward()
            fl.Generator().manual_seed(1)
        with Busy(work):
            for _ in range(40):
                child(work)
    """,
    "fork_while_threads_make_primitives": """
        sizes = iter(range(3, 10_000))
        def work():
            n = next(sizes)
            (fl.randn(n, 40) @ fl.randn(40, n)).sum()
            nn.functional.conv2d(fl.randn(1, 3, n % 50 + 5, 9), fl.randn(4, 3, 3, 3)).sum()
        with Busy(work):
            for _ in range(30):
                child(work)
    """,
    "fork_while_threads_record": """
        from flambeau.profiler import profile
        def work():
            (fl.ones(100) * 2).sum().item()
        with profile(), Busy(work):
            for _ in range(40):
                child(work)
    """,
    "fork_while_a_layout_changes": """
        w = fl.randn(16, 3, 1, 1)
        x = fl.randn(4, 3, 40, 40)
        y = nn.functional.conv2d(x, w)
        def work():
            z = nn.functional.conv2d(x, w)
            z.relu_()
            z.numpy()
        with Busy(work):
            for _ in range(40):
                child(lambda: (work(), y.sum().item()))
    """,
    # NumPy's memory goes with the GIL; whoever reads .grad has the GIL and wants the leaf's lock.
    "a_child_of_a_child_while_pieces_enter": """
        q = fl.randn(8, 8, 256, 64, requires_grad=True)
        def attend():
            nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
        def fork_again():
            signal.alarm(5)
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        with Busy(attend, 1):
            for _ in range(150):
                child(fork_again)
    """,
    "gradients_with_packed_tensors_are_replaced": """
        x = fl.ones(64, requires_grad=True)
        def train():
            with fl.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
                (x * x * x).sum().backward(create_graph=True)
        with Busy(train, 1):
            for _ in range(100_000):
                x.grad = None
    """,
    "gradients_of_numpy_memory": """
        leaf = fl.zeros(20_000, requires_grad=True)
        class Foreign(fl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, dy):
                return fl.from_numpy(np.ones(40_000, dtype=np.float32))[::2]
        def train():
            leaf.grad = None
            for _ in range(3):
                Foreign.apply(leaf).sum().backward()
        with Busy(train, 2):
            for _ in range(300_000):
                leaf.grad
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCRIPTS))
def test_in_a_process_of_its_own(name):
    env = {**os.environ, "FLAMBEAU_NUM_THREADS": "2", "FLAMBEAU_OVERSUBSCRIBE": "1"}
    script = COMMON + textwrap.dedent(SCRIPTS[name])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env=env, timeout=120, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
