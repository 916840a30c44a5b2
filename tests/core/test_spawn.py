"""`flambeau.multiprocessing.spawn`: what its processes raise reaches who waits for them."""

from __future__ import annotations

import os
import signal

import pytest

import flambeau.multiprocessing as mp

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in mp.get_all_start_methods()]


def _work(index, queue):
    queue.put(index)


def _fail(index, which, text):
    if index == which:
        raise ValueError(text)
    signal.pause()  # ended by who waits


def _leave(index, status):
    os._exit(status)


@pytest.mark.parametrize("method", METHODS)
def test_functions_get_their_index(method):
    queue = mp.get_context(method).SimpleQueue()
    mp.start_processes(_work, (queue,), nprocs=2, start_method=method)
    assert sorted((queue.get(), queue.get())) == [0, 1]


@pytest.mark.parametrize("length", [10, 1 << 20], ids=["short", "longer than a pipe holds"])
def test_the_first_exception_ends_the_others(length):
    with pytest.raises(mp.ProcessRaisedException, match=f"process 1 of spawn raised(?s:.)*ValueError: x{{{min(length, 1000)}}}") as caught:
        mp.start_processes(_fail, (1, "x" * length), nprocs=3, start_method="fork")
    assert caught.value.error_index == 1
    assert caught.value.exitcode == 1


def test_a_process_that_says_nothing_is_named():
    with pytest.raises(mp.ProcessExitedException, match="process 0 of spawn ended with status 7"):
        mp.start_processes(_leave, (7,), nprocs=1, start_method="fork")


def test_join_says_whether_all_have_ended():
    queue = mp.get_context("fork").SimpleQueue()
    context = mp.start_processes(_work, (queue,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=10):
        pass
    assert context.join()
