"""Regions of several threads, and of forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from support.both import failing, in_thread, late
from support.compare import bits

import flambeau as fl
from flambeau import _C, nn

pytestmark = pytest.mark.eager("has regions of its own")


def test_a_region_is_its_threads():
    with fl.lazy():
        assert in_thread(_C.graph.recording) is False


def test_another_thread_reads_what_is_pending():
    with fl.lazy():
        x = fl.rand(100) + 1
        y = x * 2
        assert in_thread(lambda: (y - x).tolist()) == x.tolist()


def test_another_thread_records_with_what_is_pending():
    with fl.lazy():
        x = fl.ones(4) * 3

        def other():
            with fl.lazy():
                y = x + 1
            return y.tolist()

        assert in_thread(other) == [4] * 4
        z = x * 2
    assert z.tolist() == [6] * 4


def test_another_thread_writes_what_will_be_read():
    w = fl.ones(4)
    with fl.lazy():
        y = w * 2
        in_thread(lambda: w.add_(10))
        z = w * 2
    assert y.tolist() == [2] * 4 and z.tolist() == [22] * 4


def test_another_thread_records_a_write_to_what_will_be_read():
    w = fl.ones(4)
    with fl.lazy():
        y = w * 2

        def other():
            with fl.lazy():
                w.add_(10)

        in_thread(other)
    assert y.tolist() == [2] * 4 and w.tolist() == [11] * 4


def test_an_error_of_another_thread():
    with late(), fl.lazy():
        wrong = failing()
        with late():
            in_thread(wrong.tolist)
        wrong.tolist()


def test_threads_that_share_weights():
    fl.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    inputs = [fl.randn(5, 8) for _ in range(4)]
    expected = [bits(net(x)) for x in inputs]
    found = [[] for _ in inputs]

    def work(i):
        for _ in range(30):
            with fl.lazy():
                y = net(inputs[i])
                z = y + net(inputs[i])
            found[i].append((bits(y), bool((z == 2 * y).all())))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    assert found == [[(bits_, True)] * 30 for bits_ in expected]


def test_threads_that_write_and_read_one_tensor():
    """Every read sees whole writes: all elements are equal."""
    w = fl.zeros(1000)
    torn = []

    def write():
        for _ in range(200):
            with fl.lazy():
                w.add_(1)

    def read():
        for _ in range(200):
            with fl.lazy():
                a = w + 0
            values = a.numpy()
            if values.max() > 200 or values.min() < 0:
                torn.append(values)

    threads = [threading.Thread(target=f) for f in (write, read, read)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    assert not torn and w.tolist() == [200] * 1000


HOGWILD = """
    import sys, threading
    import flambeau as fl
    from flambeau import nn

    how = {"lazy": lambda f: fl.compile(f, mode="lazy"), "replay": lambda f: fl.compile(f, mode="replay"), "compile": fl.compile}[sys.argv[1]]
    w, v = nn.Parameter(fl.rand(64, 300) * 0.01), nn.Parameter(fl.rand(64))

    def work():
        opt, x = fl.optim.SGD([w, v], lr=1e-4), fl.rand(40, 300)

        def step():
            (nn.functional.linear(x, w) * v).relu().sum().backward()
            opt.step()

        step = how(step)
        for _ in range(300):
            try:
                step()
            except fl.AutogradError:  # another thread has written what the backward needs, as in eager mode
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(w.isfinite().all().item())
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lazy", "replay", "compile"])
def test_threads_that_train_the_same_parameters_at_once(mode):
    """Nobody waits for what waits for him."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HOGWILD), mode]
    assert subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout == "True\n"


def test_a_thread_that_ends_inside_of_a_region():
    def begin():
        fl.lazy().__enter__()
        return fl.ones(3) * 2

    assert in_thread(begin).tolist() == [2, 2, 2]


CROSSED = {
    "generator": """
        def f():
            with fl.lazy():
                x = fl.ones(3) * 2
                yield
        g = f()
        next(g)
        t = threading.Thread(target=lambda: next(g, None))
        t.start()
        t.join()
        """,
    "end without beginning": """
        try:
            fl.lazy().__exit__(None, None, None)
        except ValueError as error:
            assert "a region ends on a thread" in str(error)
        else:
            raise AssertionError("no error")
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("program", CROSSED.values(), ids=CROSSED)
def test_a_region_that_ends_on_another_thread(program):
    lines = "import threading\nimport flambeau as fl\nfrom flambeau import _C\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


def test_threads_that_write_share_and_read_what_others_have_pending():
    """No order is lost and nobody waits for ever: sums of integers do not depend on who came first."""
    shared, published = [fl.zeros(64) for _ in range(4)], [fl.zeros(64)] * 8
    totals, wrong, lock = [0] * 4, [], threading.Lock()
    interval = sys.getswitchinterval()

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(100):
            with fl.lazy():
                for _ in range(rng.integers(1, 8)):
                    j, k, what = rng.integers(4), rng.integers(8), rng.random()
                    if what < 0.4:
                        with lock:
                            totals[j] += k
                        shared[j].add_(int(k))
                    elif what < 0.7:
                        published[k] = shared[j] * 2 + 1
                    elif what < 0.9:
                        seen = published[k]
                        if (seen - seen).abs().sum().item() != 0 or bool((seen != seen[0]).any()):
                            wrong.append(seen)
                    else:
                        _C.graph.settle()

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
            assert not t.is_alive()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and [x.tolist() for x in shared] == [[total] * 64 for total in totals]


# ---------------------------------------------------------------- fork


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_in_a_region():
    with fl.lazy():
        x = fl.ones(50_000) * 2
        y = x + 1
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                z = y * 2
                total = z.sum().item() + y.sum().item()
                os.write(w, str(total).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(w)
        with os.fdopen(r) as pipe:
            text = pipe.read()
        assert os.waitpid(pid, 0)[1] == 0
    assert float(text) == 50_000 * 9 and y.sum().item() == 150_000
