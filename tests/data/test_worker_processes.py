"""Workers of a DataLoader that are processes: data, seeds, errors, ends."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import flambeau as fl
from flambeau.multiprocessing import _sharing
from flambeau.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)
from flambeau.utils.data.datapipes.iter import IterableWrapper

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]
LARGE = 20_000  # float32s, which come in shared memory


def files():
    """Descriptors of this process, but for those of what multiprocessing itself keeps."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return [target for target in found.values() if "memfd:flambeau" in target or target.startswith("socket:")]


def shared_files():
    """Those of MPI, and semaphores of multiprocessing, of which a loader makes none, are of programs that run at the same time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("sm_segment.", "vader_segment.", "sem.mp-"))}


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before, sockets = shared_files(), len(files())
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert shared_files() == before and len(files()) == sockets


def processes(dataset, method="fork", num_workers=2, **options):
    return DataLoader(dataset, num_workers=num_workers, multiprocessing_context=method, **options)


# ---- what workers do; at the top, so that spawned ones find it


class Rows(Dataset):
    """Of many types."""

    def __init__(self, n=10):
        self.n = n
        self.images = fl.arange(n * LARGE).reshape(n, LARGE) % 251.0

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"image": self.images[i], "array": np.full((2, 3), i), "pair": (i, float(i)), "name": f"row {i}"}


class Stream(IterableDataset):
    """Shares its numbers out among the workers."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from range(first, self.n, step)


class Calls(Dataset):
    """Samples are what a function of a sample's number returns."""

    def __init__(self, call, n=8):
        self.call, self.n = call, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.call(i)


def same(x):
    return x


def second(a, b):
    return b


def draws(i):
    return get_worker_info().id, fl.rand(()).item(), random.random(), np.random.rand()


def seeds(i):
    info = get_worker_info()
    return info.id, info.num_workers, info.seed, fl.initial_seed(), len(info.dataset), fl.get_num_threads(), os.getpid()


def seed_it(worker):
    fl.manual_seed(100 + worker)


def product(i):
    x = fl.full((300, 300), 1.0)
    return fl.sin(x @ x).sum()


def large(i):
    return fl.full((LARGE,), float(i))


class Custom(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def fail(i, error=None):
    if i == 5:
        if error is None:

            class Local(Exception):
                pass

            error = Local("five")
        raise error
    return i


def fail_init(worker):
    raise OSError("no disk")


def die(i, how=None):
    if i == 5:
        if isinstance(how, int):
            os._exit(how)
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # whatever shows where it was
        os.kill(os.getpid(), getattr(signal, how))
    return i


def sleep(i):
    time.sleep(30)


def wide(indices):
    return np.zeros(200_000), len(indices)


def lambdas(i):
    return lambda: i


class Unreadable:
    def __init__(self):
        self.there = True

    def __setstate__(self, state):
        raise LookupError("can not be read")


def unreadable(i):
    return Unreadable()


class Counting(IterableDataset):
    passes = 0

    def __iter__(self):
        self.passes += 1
        yield get_worker_info().id, self.passes, os.getpid(), getattr(self, "marks", 0)


def mark(worker):
    dataset = get_worker_info().dataset
    dataset.marks = getattr(dataset, "marks", 0) + 1


def no_memory(worker):
    _sharing._C.available_memory = lambda: 1000


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield fl.zeros(LARGE)


# ---- data


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_batches_are_those_without_workers(method):
    fl.manual_seed(4)
    expected = list(DataLoader(Rows(), batch_size=3, shuffle=True))
    fl.manual_seed(4)
    found = list(processes(Rows(), method, batch_size=3, shuffle=True))
    assert len(found) == len(expected) == 4
    for a, b in zip(found, expected):
        assert fl.equal(a["image"], b["image"]) and fl.equal(a["array"], b["array"]) and a["name"] == b["name"]
        assert [x.tolist() for x in a["pair"]] == [x.tolist() for x in b["pair"]]
        assert a["image"].is_shared() and not a["array"].is_shared(), "what is small costs no descriptor"


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset, options",
    [
        (Stream(11), {"batch_size": 2}),
        (Stream(7), {"batch_size": None}),
        (Stream(9), {"batch_size": 2, "drop_last": True}),
        (Calls(same, 4), {"batch_size": None}),
        (Calls(same, 5), {"batch_sampler": [[0, 4], [1]]}),
        (Calls(same, 5), {"batch_size": 2, "collate_fn": tuple, "in_order": False}),
        (Calls(same, 5), {"sampler": [3, 1], "prefetch_factor": 1}),
        (list(range(5)), {"batch_size": 2}),
        (IterableWrapper(range(10)).shuffle().sharding_filter(), {"batch_size": 2}),
    ],
    ids=["stream", "samples of a stream", "full batches", "samples", "batch_sampler", "collate_fn", "sampler", "list", "pipe"],
)
def test_batches_are_those_of_threads(dataset, options):
    runs = []
    for method in (None, "fork"):
        fl.manual_seed(1)
        loader = processes(dataset, method, **options)
        runs.append([[x.tolist() if isinstance(x, fl.Tensor) else x for x in loader] for _ in range(2)])
    assert runs[0] == runs[1] and runs[0][0]


@pytest.mark.slow
def test_pipes_of_persistent_workers_get_new_seeds():
    runs = []
    for options in ({"num_workers": 0, "method": None}, {"num_workers": 1, "persistent_workers": True}):
        fl.manual_seed(1)
        loader = processes(IterableWrapper(range(10)).shuffle(), batch_size=10, **options)
        runs.append([next(iter(loader)).tolist() for _ in range(3)])
    assert runs[0] == runs[1] and runs[0][0] != runs[0][1]


@pytest.mark.slow
def test_what_comes_is_no_memory_of_the_dataset():
    images = fl.zeros(2, LARGE)
    for _ in range(2):
        loader = processes(TensorDataset(images), batch_size=None, num_workers=1, persistent_workers=True)
        for (x,) in loader:
            assert x.is_shared() and x.sum().item() == 0
            x.fill_(1)


@pytest.mark.slow
def test_what_the_dataset_shares_comes_without_a_copy():
    images = fl.zeros(2, LARGE).share_memory_()
    for x, again in processes(TensorDataset(images, images), "spawn", batch_size=None, num_workers=1):
        x.fill_(1)
        assert again.min().item() == 1
    assert images.sum().item() == 2 * LARGE


@pytest.mark.slow
@pytest.mark.parametrize(
    "x",
    [
        fl.ones(300, 300).t(), fl.ones(1, 300).expand(300, 300), fl.ones(70_000, dtype=fl.bool), fl.zeros(0, 5), fl.tensor(3.0),
        fl.ones(LARGE, dtype=fl.bfloat16), fl.ones(LARGE, dtype=fl.complex64), fl.ones(LARGE, requires_grad=True),
        fl.nn.Parameter(fl.ones(LARGE)),
        fl.eye(3).to_sparse(),
    ],
    ids=lambda x: f"{x.dtype}-{list(x.shape)}",
)  # fmt: skip
def test_tensors_of_all_kinds(x):
    (found,) = processes([x], batch_size=None, num_workers=1, collate_fn=same)
    assert type(found) is type(x) and found.dtype == x.dtype and found.requires_grad == x.requires_grad and found.shape == x.shape
    assert fl.equal(found.to_dense() if x.is_sparse else found, x.to_dense() if x.is_sparse else x)


def mapped():
    with open("/proc/self/maps") as maps:
        return sum("memfd:flambeau" in line for line in maps)


@pytest.mark.slow
def test_memory_goes_with_the_batch():
    before = mapped()
    for x in processes(Calls(large, 12), batch_size=2):
        assert mapped() - before <= 2  # this one, and the one before that is still `x` when this comes
    del x
    assert mapped() == before


@pytest.mark.slow
def test_nobody_waits_for_each_other():
    """Long lists of indices one way and large batches the other, more than a socket holds of either."""
    sampler = [list(range(100_000))] * 6
    loader = processes(Calls(same, 100_000), batch_sampler=sampler, collate_fn=wide, num_workers=1, prefetch_factor=4)
    assert [n for _, n in loader] == [100_000] * 6


@pytest.mark.slow
def test_many_tensors_in_one_batch():
    (found,) = processes(Calls(large, 300), batch_size=300, collate_fn=same, num_workers=1)
    assert [int(x[0]) for x in found] == list(range(300))


# ---- what a worker is


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_draws_are_seeded_in_each_worker(method):
    runs = []
    for _ in range(2):
        fl.manual_seed(3)
        runs.append(list(processes(Calls(draws, 4), method, batch_size=None)))
        after = fl.rand(()).item()
    assert runs[0] == runs[1]
    for column in zip(*runs[0]):
        assert len(set(column[1:])) > 1
    flat = [x for row in runs[0] for x in row[1:]]
    assert len(set(flat)) == len(flat) and after not in flat


@pytest.mark.slow
def test_what_workers_know():
    assert get_worker_info() is None
    loader = processes(Calls(seeds, 4), "spawn", batch_size=None)
    fl.manual_seed(2)
    rows = list(loader)
    assert [row[0] for row in rows] == [0, 1, 0, 1]
    assert len({row[2] - row[0] for row in rows}) == 1, "a base for all, and the worker's number"
    assert all(row[1] == 2 and row[2] == row[3] and row[4] == 4 and row[5] == 1 for row in rows)
    assert len({row[6] for row in rows} - {os.getpid()}) == 2


@pytest.mark.slow
def test_a_worker_init_fn_that_seeds():
    rows = list(processes(Calls(seeds, 2), batch_size=None, worker_init_fn=seed_it))
    assert [row[3] for row in rows] == [100, 101]


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_persistent_workers(persistent):
    loader = processes(Counting(), batch_size=None, persistent_workers=persistent, worker_init_fn=mark, collate_fn=same)
    rows = [list(loader) for _ in range(3)]
    assert [[row[:2] for row in p] for p in rows] == [[(0, k), (1, k)] for k in ((1, 2, 3) if persistent else (1, 1, 1))]
    assert all(row[3] == 1 for p in rows for row in p), "initialised once"
    assert len({row[2] for p in rows for row in p}) == (2 if persistent else 6)
    assert len(multiprocessing.active_children()) == (2 if persistent else 0)


@pytest.mark.slow
def test_persistent_workers_give_up_a_pass():
    loader = processes(Calls(large, 40), batch_size=2, persistent_workers=True)
    for _ in range(3):
        batches = iter(loader)
        assert next(batches)[:, 0].tolist() == [0, 1]
        del batches
    assert iter(loader) is iter(loader)
    first, second = loader._get_iterator(), loader._get_iterator()
    assert next(second)[:, 0].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="another pass has begun"):
        next(first)
    del first
    assert [int(x[0, 0]) for x in second] == list(range(2, 40, 2))
    assert len(multiprocessing.active_children()) == 2


@pytest.mark.slow
def test_two_passes_at_once():
    loader = processes(Calls(same, 6), batch_size=2)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader)] == [([i, i + 1],) * 2 for i in (0, 2, 4)]


@pytest.mark.slow
def test_a_fork_of_a_process_with_threads_computes():
    fl.set_num_threads(2)
    expected = product(0)
    found = list(processes(Calls(product, 4), batch_size=None, timeout=60))
    assert all(fl.allclose(x, expected) for x in found)


def test_threads_are_the_default():
    loader = DataLoader(Calls(same, 4), num_workers=2)
    assert loader.multiprocessing_context is None
    batches = iter(loader)
    assert multiprocessing.active_children() == []
    assert len(list(batches)) == 4


def test_the_context_is_kept_as_one():
    spawn = multiprocessing.get_context("spawn")
    loader = processes(Calls(same), "spawn")
    assert loader.multiprocessing_context is spawn and processes(Calls(same), spawn).multiprocessing_context is spawn
    loader.multiprocessing_context = None
    assert loader.multiprocessing_context is None and len(list(loader)) == 8
    with pytest.raises(ValueError, match=r"'threads'; expected one of \['fork'"):
        loader.multiprocessing_context = "threads"
    with pytest.raises(TypeError, match="multiprocessing_context is a int"):
        loader.multiprocessing_context = 3
    with pytest.raises(ValueError, match="needs num_workers > 0"):
        DataLoader(Calls(same)).multiprocessing_context = "spawn"


# ---- errors


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyError("five"), ValueError("five"), ZeroDivisionError()], ids=repr)
def test_an_error_keeps_type_text_and_place(error):
    found = []
    with pytest.raises(type(error)) as caught:
        for batch in processes(Calls(functools.partial(fail, error=error)), batch_size=2):
            found.append(batch.tolist())
    text = str(caught.value)
    assert "in DataLoader worker 0 of 2, batch indices [4, 5]\nTraceback" in text and ", in fail" in text
    assert found == [[0, 1], [2, 3]] and type(caught.value.__cause__) is type(error) and caught.value.__cause__.args == error.args


@pytest.mark.slow
@pytest.mark.parametrize("error, name", [(Custom(1, 2), "Custom"), (None, "Local")], ids=repr)
def test_an_error_of_a_type_that_can_not_be_made_again(error, name):
    with pytest.raises(RuntimeError, match=f"^{name} in DataLoader worker 1 of 2") as caught:
        list(processes(Calls(functools.partial(fail, error=error))))
    assert ", in fail" in str(caught.value)


@pytest.mark.slow
def test_the_batch_behind_an_error_can_be_had():
    batches = iter(processes(Calls(functools.partial(fail, error=ValueError("five"))), batch_size=2))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="five"):
        next(batches)
    assert [x.tolist() for x in batches] == [[6, 7]]


@pytest.mark.slow
def test_a_stop_of_the_dataset_ends_a_loop():
    batches = iter(processes(Calls(functools.partial(fail, error=StopIteration())), batch_size=None))
    assert list(batches) == list(range(5)) and list(batches) == [6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"worker_init_fn": fail_init}, {"collate_fn": fail_init}], ids=["worker_init_fn", "collate_fn"])
def test_errors_in_functions_of_the_loader(options):
    with pytest.raises(OSError, match="no disk"):
        list(processes(Calls(same), **options))


@pytest.mark.slow
def test_persistent_workers_survive_errors():
    loader = processes(Calls(functools.partial(fail, error=ValueError("five"))), batch_size=2, persistent_workers=True)
    pids = []
    for _ in range(2):
        with pytest.raises(ValueError, match="five"):
            list(loader)
        pids.append(sorted(p.pid for p in multiprocessing.active_children()))
    assert pids[0] == pids[1] and len(pids[0]) == 2


class Nested(Rows):
    def __init__(self, transforms):
        super().__init__(2)
        self.steps = [same, {"all": transforms}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset, options, named",
    [
        (Nested(lambda x: x), {}, r"dataset\.steps\[1\]\['all'\] = <function <lambda>"),
        (Calls(functools.partial(second, threading.Lock())), {}, r"dataset\.call\.args\[0\] = <unlocked _thread.lock"),
        (Calls(same), {"collate_fn": lambda x: x}, "collate_fn = <function <lambda>"),
        (Calls(same), {"worker_init_fn": lambda i: None}, "worker_init_fn = <function <lambda>"),
    ],
    ids=["transform", "lock", "collate_fn", "worker_init_fn"],
)  # fmt: skip
def test_what_can_not_be_pickled_is_named(dataset, options, named):
    with pytest.raises(pickle.PicklingError, match=f"^DataLoader: {named}.* can not be pickled .* or take worker threads"):
        iter(processes(dataset, "spawn", **options))
    assert len(list(processes(dataset, "fork", collate_fn=options.pop("collate_fn", same), **options))) == len(dataset)


@pytest.mark.slow
def test_what_can_not_be_sent_is_named():
    with pytest.raises(Exception, match="worker 0 of 2, while it sent a batch\n(.|\n)*lambda"):
        list(processes(Calls(lambdas), batch_size=None, collate_fn=same))
    with pytest.raises(LookupError, match="can not be read"):
        list(processes(Calls(unreadable), batch_size=None, collate_fn=same))


@pytest.mark.slow
def test_what_a_worker_can_not_read_is_named():
    dataset = Calls(same)
    dataset.part = Unreadable()
    with pytest.raises(LookupError, match=r"worker 0 of 1, while it unpickled the dataset \(its classes"):
        list(processes(dataset, "spawn", num_workers=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "how, text",
    [
        (3, "exited unexpectedly with code 3$"),
        (0, "exited unexpectedly with code 0$"),
        ("SIGKILL", "is killed by signal: SIGKILL; the kernel does that when memory runs out"),
        ("SIGSEGV", "is killed by signal: SIGSEGV; compiled code"),
        ("SIGTERM", "is killed by signal: SIGTERM$"),
    ],
)
def test_a_worker_that_dies(how, text):
    found, began = [], time.monotonic()
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker 0 of 2 \(pid \d+\) {text}"):
        for batch in processes(Calls(functools.partial(die, how=how)), batch_size=2):
            found.append(batch.tolist())
    assert found == [[0, 1], [2, 3]] and time.monotonic() - began < 5


@pytest.mark.slow
def test_a_persistent_worker_that_dies_is_started_again():
    loader = processes(Calls(same), batch_size=2, persistent_workers=True)
    assert len(list(loader)) == 4
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="is killed by signal: SIGKILL"):
        list(loader)
    assert len(list(loader)) == 4


@pytest.mark.slow
def test_ctrl_c_while_they_wait_leaves_persistent_workers():
    """A terminal, and a notebook, interrupt all processes of a program."""
    loader = processes(Calls(same), batch_size=2, persistent_workers=True)
    pids = []
    for _ in range(2):
        assert len(list(loader)) == 4
        pids.append(sorted(p.pid for p in multiprocessing.active_children()))
        for pid in pids[-1]:
            os.kill(pid, signal.SIGINT)
    assert pids[0] == pids[1] and len(pids[0]) == 2


@pytest.mark.slow
def test_timeout_shows_where_the_workers_are(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._processes.JOIN_SECONDS", 0.1)  # then it is ended by a signal
    batches = iter(processes(Calls(sleep), num_workers=1, timeout=0.5))
    with pytest.raises(RuntimeError, match=r"batch 0 did not come within timeout = 0.5 s\nworker 0 of 1 \(pid \d+\):\n") as caught:
        next(batches)
    assert "time.sleep(30)" in str(caught.value)


@pytest.mark.slow
def test_no_shared_memory_is_left():
    text = "no shared memory for a batch: 160000 bytes of shared memory; 1000 bytes are available; take a smaller batch_size"
    with pytest.raises(OSError, match=text):
        list(processes(Calls(large), batch_size=2, worker_init_fn=no_memory))


@pytest.mark.slow
def test_too_many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    loader = processes(Calls(large, 64), batch_size=64, num_workers=1, collate_fn=same)
    batches = iter(loader)
    used = set(map(int, os.listdir("/proc/self/fd")))
    free = [fd for fd in range(soft) if fd not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[30], hard))
    try:
        with pytest.raises(OSError, match=r"64 tensors came in shared memory.* may open \d+ files: let go of tensors"):
            next(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- ends


@pytest.mark.slow
@pytest.mark.parametrize("method, taken", [("fork", 0), ("fork", 2), ("spawn", 0), ("forkserver", 2)])
def test_dropping_the_iterator_ends_the_processes(method, taken):
    batches = iter(processes(Endless(), method, batch_size=2))
    for _ in range(taken):
        next(batches)
    assert len(multiprocessing.active_children()) == 2
    del batches
    assert multiprocessing.active_children() == []


def alive(pids):
    states = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return [state for state in states if state not in "ZX"]


PROGRAM = """
    import multiprocessing, os, signal, sys, time
    import flambeau as fl
    from flambeau.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self):
            return 1000
        def __getitem__(self, i):
            return fl.zeros(20_000)

    if __name__ == "__main__" or sys.argv[1] == "unguarded":
        method = "spawn" if sys.argv[1] == "unguarded" else sys.argv[1]
        loaders = [DataLoader(Data(), num_workers=1, multiprocessing_context=method) for _ in range(2)]
        passes = [iter(loader) for loader in loaders]
        for batches in passes:
            next(batches)
        print(*(p.pid for p in multiprocessing.active_children()), flush=True)
        if sys.argv[2] == "end":
            sys.exit()
        while True:
            for batches in passes:
                next(batches)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("end", ["end", "SIGINT", "SIGKILL"])
def test_workers_end_with_the_program(tmp_path, method, end):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    words = [sys.executable, str(path), method, end]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            pids = program.stdout.readline().split()
            assert len(pids) == 2
            if end != "end":
                program.send_signal(getattr(signal, end))
            program.wait(20)
            deadline = time.monotonic() + 10
            while alive(pids) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert alive(pids) == []
            text = program.stderr.read()
        finally:
            program.kill()
    assert {"end": text == "", "SIGINT": text.count("KeyboardInterrupt") == 1, "SIGKILL": text == ""}[end], text


@pytest.mark.slow
def test_a_script_that_workers_import_and_run(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run([sys.executable, str(path), "unguarded", "end"], capture_output=True, text=True, timeout=60)
    said = "exited unexpectedly with code 1 before its first batch; what it wrote to stderr says why"
    assert done.returncode == 1 and said in done.stderr, done.stderr  # among what the workers say
    assert '`if __name__ == "__main__":`' in done.stderr


@pytest.mark.slow
def test_default_collate_runs_in_the_worker():
    (batch,) = processes(Calls(large, 3), batch_size=3, num_workers=1, collate_fn=default_collate)
    assert batch.shape == (3, LARGE) and batch.is_shared()
