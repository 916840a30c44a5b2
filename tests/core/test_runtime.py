"""Memory, threads, processes, and errors that change nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from support.compare import bits

import flambeau as fl
from flambeau import _C


def used():
    return fl.memory_stats()["allocated_bytes"]


# ---------------------------------------------------------------- memory


def test_memory_is_returned_at_once():
    before = used()
    x = fl.zeros(1000, 1000)
    assert used() - before >= 4_000_000
    y = x[1:]
    del x
    assert used() - before >= 4_000_000
    del y
    assert used() == before


def test_temporaries_are_returned():
    x = fl.ones(1000)
    before = used()
    for _ in range(10):
        (x * 2 + 1).exp().sum().item()
    assert used() == before


@pytest.mark.eager("memory")
def test_memory_in_use_does_not_depend_on_what_was_cached():
    fl.empty_cache()
    larger = fl.empty(2_400_000)
    del larger
    before = used()
    x = fl.empty(2_200_000)  # takes the whole of the cached block
    assert used() - before == (x.nbytes + 511) // 512 * 512


def test_peak():
    fl.reset_peak_memory_stats()
    base = fl.memory_stats()["peak_allocated_bytes"]
    x = fl.zeros(10_000)
    del x
    assert fl.memory_stats()["peak_allocated_bytes"] >= base + 40_000
    fl.empty_cache()


def test_training_loop_does_not_leak():
    w = fl.randn(8, 8, requires_grad=True)
    b = fl.zeros(8, requires_grad=True)
    x = fl.randn(16, 8)

    def step():
        loss = ((x @ w + b).relu() ** 2).mean() + w[0].sum() * 0
        loss.backward()
        with fl.no_grad():
            for p in (w, b):
                p -= 0.01 * p.grad
                p.grad = None
        return loss.item()

    for _ in range(10):
        step()
    before = used()
    for _ in range(1000):
        step()
    assert used() == before


def test_exceptions_do_not_leak():
    x = fl.ones(1000)
    before = used()
    for _ in range(20):
        with pytest.raises(fl.ShapeError):
            (x * 2) + fl.ones(7)
        with pytest.raises(TypeError):
            fl.stack([x * 1, "no"])
    assert used() == before


# ---------------------------------------------------------------- threads

OWN = {
    "sum": lambda x: x.sum(), "sum_0": lambda x: x.sum(0), "mean": lambda x: x.mean(1), "var": lambda x: x.var(0), "prod": lambda x: (x * 0.01 + 1).prod(),
    "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(0), "logsumexp": lambda x: x.logsumexp(0), "cumsum": lambda x: x.cumsum(0),
    "layer_norm": lambda x: _C.ops.layer_norm(x, [x.shape[1]]), "exp": lambda x: x.exp(), "max": lambda x: x.max(0)[0], "argmax": lambda x: x.argmax(),
    "sort": lambda x: x.sort(0)[0], "norm": lambda x: x.norm(), "add": lambda x: x + x.t().reshape(x.shape), "cat": lambda x: fl.cat([x, x], 1),
    "gather": lambda x: x[:, [0, 5, 2]], "index_add": lambda x: x.index_add(0, fl.arange(x.shape[0]) % 7, x),
    "cross_entropy": lambda x: _C.ops.cross_entropy(x, fl.arange(x.shape[0]) % x.shape[1]),
    "batch_norm": lambda x: _C.ops.batch_norm(x, None, None, training=True),
    "backward": lambda x: fl.autograd.grad((x).softmax(1).pow(2).sum(), x)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", list(OWN))
def test_bits_do_not_depend_on_the_number_of_threads(name):
    x = fl.randn(513, 257, generator=fl.Generator().manual_seed(3))
    if name == "backward":
        x.requires_grad_()
    results = []
    for n in (1, 2, 8):
        fl.set_num_threads(n)
        assert fl.get_num_threads() == n
        results.append(bits(OWN[name](x)))
    assert results[0] == results[1] == results[2]


def test_python_threads_at_once():
    x = fl.randn(200, 200)
    expected = bits((x.exp().sum(0) + x.softmax(1)).cumsum(0))
    found = []

    def work():
        for _ in range(10):
            found.append(bits((x.exp().sum(0) + x.softmax(1)).cumsum(0)) == expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 40


SCRIPTS = {
    "fork": """
        import os, flambeau as fl
        fl.set_num_threads(4)
        x = fl.randn(400, 400)
        want = (x @ x).sin().sum().item()
        x.requires_grad_()
        (x @ x).sin().sum().backward()
        pid = os.fork()
        if pid == 0:
            with fl.no_grad():
                got = (x @ x).sin().sum().item()
            (x * x).sum().backward()
            os._exit(0 if abs(got - want) < 1e-2 * abs(want) + 1e-2 else 3)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert abs((x @ x).sin().sum().item() - want) < 1e-2 * abs(want) + 1e-2
    """,
    "fork_with_layers": """
        import os, flambeau as fl
        from flambeau import nn
        fl.set_num_threads(4)
        conv, linear, lstm = nn.Conv2d(32, 64, 3, padding=1), nn.Linear(512, 512), nn.LSTM(64, 128)
        image, rows, sequence = fl.randn(8, 32, 28, 28), fl.randn(64, 512), fl.randn(12, 16, 64)
        def train():
            loss = conv(image).square().mean() + linear(rows).square().mean() + lstm(sequence)[0].square().mean()
            loss.backward()
            return loss.item()
        want = train()
        with fl.no_grad():
            for _ in range(4):
                conv(image), linear(rows), lstm(sequence)
        pid = os.fork()
        if pid == 0:
            with fl.no_grad():
                for _ in range(4):
                    conv(image), linear(rows), lstm(sequence)
            os._exit(0 if abs(train() - want) < 1e-3 else 3)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert abs(train() - want) < 1e-3
    """,
    "fork_while_kernels_are_made": """
        import os, flambeau as fl
        fl.set_num_threads(4)
        layer = fl.nn.Linear(64, 64)
        children = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                x = fl.randn(64, 64)
                same = fl.allclose(x @ layer.weight, (x[:, :, None] * layer.weight).sum(1), 1e-4, 1e-4)
                if len(children) == 1:
                    raise SystemExit(0 if same else 3)
                os._exit(0 if same else 3)
            children.append(pid)
        for pid in children:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        x = fl.randn(64, 64)
        assert fl.allclose(x @ layer.weight, (x[:, :, None] * layer.weight).sum(1), 1e-4, 1e-4)
    """,
    "exit_while_kernels_are_made": """
        import flambeau as fl
        fl.set_num_threads(2)
        fl.nn.Linear(4, 4)
    """,
    "exit_while_kernels_are_made_at_the_exit": """
        import atexit
        def late():
            import flambeau as fl
            fl.set_num_threads(2)
            fl.nn.Linear(3, 3)
        atexit.register(late)
    """,
    "fork_in_a_pool": """
        import multiprocessing, flambeau as fl
        x = fl.randn(300, 300)
        want = (x @ x).sum().item()
        def work(i):
            return abs((x @ x).sum().item() - want) < 1e-3 * abs(want) + 1e-1
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, range(4)) == [True] * 4
    """,
    "exit_with_threads": """
        import threading, flambeau as fl
        def work():
            for _ in range(50):
                fl.randn(300, 300).exp().sum()
        t = threading.Thread(target=work, daemon=True)
        t.start()
        fl.ones(10).sum()
    """,
    "exit_with_threads_in_python": """
        import threading, time, flambeau as fl
        class Twice(fl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                for _ in range(20000): pass
                return g * 2
        def hook(g):
            for _ in range(20000): pass
        def work():
            x = fl.ones(40000, requires_grad=True)
            x.register_hook(hook)
            while True:
                Twice.apply(x).sum().backward()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
    """,
    "backward_beside_a_second_interpreter": """
        import flambeau as fl
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        other = interpreters.create()
        x = y = fl.ones(30_000, requires_grad=True)
        for _ in range(50):
            y = y.sin() + y
        y.sum().backward()
        interpreters.destroy(other)
    """,
    "import_is_quiet_and_light": """
        import sys, flambeau
        assert "torch" not in sys.modules and "matplotlib" not in sys.modules
    """,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCRIPTS))
def test_in_a_process_of_its_own(name):
    import textwrap

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for _ in range(8 if "exit" in name else 1):  # what ends while others run ends in many ways
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPTS[name])], env=env, timeout=60, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="on_exit() is the C library's of Linux")
def test_a_backward_goes_on_when_python_has_ended():
    import textwrap

    script = """
        import ctypes, threading, time, flambeau as fl
        libc = ctypes.CDLL(None)
        libc.on_exit(libc.getchar, None)  # behind the end of Python, until standard input is closed
        ready = threading.Barrier(3)
        def work():
            x = y = fl.ones(300_000, requires_grad=True)
            for _ in range(150):
                y = y.sin() + y  # two gradients, whose sum is noted as a write, by its line
            loss = y.sum()
            ready.wait()
            loss.backward()
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        ready.wait()
        time.sleep(0.02)
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    program = subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(timeout=2)  # the backward takes a tenth of that
    _, stderr = program.communicate("", timeout=60)
    assert (program.returncode, stderr) == (0, "")


# ---------------------------------------------------------------- errors

ERRORS = [
    ("add", lambda: fl.ones(2) + fl.ones(3), fl.ShapeError, r"add: shapes \[2\] and \[3\] do not broadcast.*\(2\).*\(3\).*dimension 0"),
    ("mm", lambda: fl.mm(fl.ones(2, 3), fl.ones(2, 3)), fl.ShapeError, r"mm: mat1 and mat2 shapes cannot be multiplied: a has shape \[2, 3\], b has shape \[2, 3\]; expected a.shape\[1\] == b.shape\[0\]"),
    ("mm_1d", lambda: fl.mm(fl.ones(2), fl.ones(2, 2)), fl.ShapeError, r"mm: .*\[2\]"),
    ("matmul_types", lambda: fl.ones(2, 2) @ fl.ones(2, 2, dtype=fl.float64), fl.DTypeError, "matmul.*float32.*float64"),
    ("softmax_dim", lambda: fl.softmax(fl.ones(2), 3), IndexError, r"softmax: Dimension out of range \(expected to be in range of \[-1, 0\], but got dim = 3\): x has shape \[2\]"),
    ("sum_twice", lambda: fl.ones(2, 2).sum((0, 0)), (ValueError, IndexError), "sum: .*0"),
    ("max_empty", lambda: fl.zeros(0).max(), (ValueError, IndexError), "max: "),
    ("keyword", lambda: fl.exp(fl.ones(1), foo=1), TypeError, r"exp: got an unexpected keyword argument 'foo'; expected exp\(Tensor x\)"),
    ("missing", lambda: fl.softmax(fl.ones(1)), TypeError, "softmax: .*dim"),
    ("too_many", lambda: fl.exp(fl.ones(1), 2, 3), TypeError, "exp: takes at most 1 positional"),
    ("wrong_kind", lambda: fl.exp("a"), TypeError, "exp: x is a str; expected a Tensor"),
    ("wrong_dim", lambda: fl.ones(2).sum("a"), TypeError, "sum: .*dim is a str"),
    ("float_dim", lambda: fl.ones(2).softmax(1.0), TypeError, "softmax: .*dim is a float"),
    ("bitwise", lambda: fl.ones(2) & fl.ones(2), (fl.DTypeError, TypeError), "bitwise_and: .*float32"),
    ("gather_type", lambda: fl.ones(2).gather(0, fl.ones(2)), (fl.DTypeError, TypeError), "gather: .*int64.*float32"),
    ("gather_range", lambda: fl.ones(2).gather(0, fl.tensor([5])), IndexError, "gather: .*5"),
    ("index_select_range", lambda: fl.ones(2).index_select(0, fl.tensor([-3])), IndexError, "index_select: .*-3"),
    ("item", lambda: fl.ones(2).item(), ValueError, r"item: a Tensor with 2 elements .* it has shape \[2\]"),
    ("attribute", lambda: fl.ones(2).nothing, AttributeError, "nothing"),
    ("module", lambda: fl.nothing, AttributeError, "nothing"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, text", [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_error_names_op_argument_and_values(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(fl.ones(3)), lambda x: x.mul_(fl.ones(4, 2, 2)), lambda x: x.copy_(fl.ones(5)), lambda x: x.index_fill_(0, fl.tensor([0, 9]), 1.0),
        lambda x: x.scatter_(0, fl.tensor([[0, 7]]), 1.0), lambda x: x.index_add_(0, fl.tensor([0, 5]), fl.ones(2, 2)), lambda x: x.index_put_((fl.tensor([0, 9]),), fl.ones(2)),
        lambda x: x.masked_fill_(fl.ones(3, dtype=fl.bool), 1.0), lambda x: x.fill_(fl.ones(2)), lambda x: x.clamp_(fl.ones(3)), lambda x: x.put_(fl.tensor([0, 99]), fl.ones(2)),
    ],
    ids=["add_", "mul_", "copy_", "index_fill_", "scatter_", "index_add_", "index_put_", "masked_fill_", "fill_", "clamp_", "put_"],
)  # fmt: skip
def test_refused_writes_change_nothing(write):
    x = fl.zeros(2, 2)
    with pytest.raises((fl.ShapeError, ValueError, IndexError, RuntimeError)):
        write(x)
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]] and x._version == 0


def test_error_types_are_what_users_catch():
    assert issubclass(fl.ShapeError, (ValueError, RuntimeError))
    assert issubclass(fl.AutogradError, RuntimeError)
    assert issubclass(fl.DTypeError, (TypeError, RuntimeError))
    assert issubclass(fl.DeviceError, RuntimeError)


def test_numbers_of_numpy_are_numbers():
    x = fl.ones(2)
    assert (x * np.float64(2)).tolist() == [2.0, 2.0] and (x * np.float64(2)).dtype is fl.float32
    assert (np.float64(2) * x).tolist() == [2.0, 2.0]
    assert (fl.ones(2, dtype=fl.int64) * np.int32(3)).tolist() == [3, 3]
    assert x.sum(np.int64(0)).item() == 2.0 and x[np.int64(1)].item() == 1.0
    assert fl.zeros(np.int64(2), np.int32(3)).shape == (2, 3)
