"""`flambeau.multiprocessing.spawn`: what its processes raise reaches who waits for them."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from types import SimpleNamespace

import pytest

import flambeau.multiprocessing as mp
from flambeau.multiprocessing import _spawn

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in mp.get_all_start_methods()]


# ---- what children do; at the top, so that spawned ones find it


def put(index, queue):
    queue.put(index)


def fail(index, which, text):
    if index == which:
        raise ValueError(text)
    signal.pause()  # ended by who waits


def leave(index, status):
    os._exit(status)


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def complain(index, ready):
    """The first fails; the second says much when it is told to end, the third does not listen."""

    def say(*_):
        raise RuntimeError("y" * (1 << 20))

    if index == 0:
        for _ in range(2):
            ready.get()
        raise ValueError("the first")
    signal.signal(signal.SIGTERM, say if index == 1 else signal.SIG_IGN)
    ready.put(index)
    while True:
        signal.pause()


# ---- and what becomes of it


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_functions_get_their_index(method):
    queue = mp.get_context(method).SimpleQueue()
    mp.start_processes(put, (queue,), nprocs=2, start_method=method)
    assert sorted((queue.get(), queue.get())) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("length", [10, 1 << 20], ids=["short", "longer than a pipe holds"])
def test_the_first_exception_ends_the_others(length):
    with pytest.raises(mp.ProcessRaisedException, match=f"Process 1 terminated(?s:.)*ValueError: x{{{min(length, 1000)}}}") as caught:
        mp.start_processes(fail, (1, "x" * length), nprocs=3, start_method="fork")
    assert caught.value.error_index == 1
    assert caught.value.pid == caught.value.error_pid


@pytest.mark.slow
def test_who_does_not_end_when_told_is_killed():
    ready = mp.get_context("fork").SimpleQueue()
    context = mp.start_processes(complain, (ready,), nprocs=3, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: the first"):
        while not context.join(grace_period=0.5):
            pass
    assert [p.exitcode for p in context.processes] == [1, 1, -signal.SIGKILL]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "args", "said", "code", "name"),
    [(leave, (7,), "exit code 7", 7, None), (die, (), "signal SIGKILL", -signal.SIGKILL, "SIGKILL")],
    ids=["status", "signal"],
)
def test_a_process_that_says_nothing_is_named(fn, args, said, code, name):
    with pytest.raises(mp.ProcessExitedException, match=f"process 0 terminated with {said}") as caught:
        mp.start_processes(fn, args, nprocs=1, start_method="fork")
    assert not isinstance(caught.value, mp.ProcessRaisedException)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.exit_code, again.signal_name, again.pid, str(again)) == (code, name, caught.value.pid, str(caught.value))


@pytest.mark.slow
def test_join_says_whether_all_have_ended():
    queue = mp.get_context("fork").SimpleQueue()
    context = mp.start_processes(put, (queue,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=10):
        pass
    assert context.join()


def test_exceptions_by_the_names_of_pytorch():
    raised = mp.ProcessRaisedException("text", error_index=1, error_pid=7)
    ended = mp.ProcessExitedException("text", error_index=1, error_pid=7, exit_code=-9, signal_name="SIGKILL")
    for error in (raised, ended, *pickle.loads(pickle.dumps((raised, ended)))):
        assert (error.msg, error.error_index, error.error_pid, error.pid) == ("text", 1, 7, 7)


def test_who_was_left_alone_while_it_began_does_nothing(monkeypatch):
    """A parent that is gone before its death can be asked for tells nobody."""
    called = []
    gone = SimpleNamespace(is_alive=lambda: False)
    monkeypatch.setattr(_spawn, "ctypes", SimpleNamespace(CDLL=lambda name: SimpleNamespace(prctl=lambda *args: called.append("prctl"))))
    monkeypatch.setattr(_spawn.multiprocessing, "parent_process", lambda: gone)
    with pytest.raises(SystemExit):
        _spawn._entry(called.append, 3, (), None)
    assert "prctl" in called or sys.platform != "linux"
    assert 3 not in called
