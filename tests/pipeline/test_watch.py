"""The bell and the watch over other processes, with processes that are no MPI's."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from flambeau.pipeline._watch import Bell, Watch, identity


@contextmanager
def child():
    """A process that waits for the end of its input, and what others need to know of it."""
    with Bell() as bell, subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            yield process, {**identity(bell), "pid": process.pid}, bell
        finally:
            process.kill()


@contextmanager
def watching(other, timeout=60.0, **changes):
    bell = Bell()
    watch = Watch(0, [identity(bell), {**other, **changes}], bell, timeout)
    try:
        yield watch
    finally:
        watch.close()


def test_a_ring_ends_the_wait():
    with child() as (_, other, bell), watching(other) as watch:
        watch.ring(1)
        assert bell.rang() and not bell.rang()
        bell.ring(watch._names[0])
        assert watch.wait(60.0) and not watch.wait(0.001)


def test_many_rings_are_one():
    with Bell() as bell:
        for _ in range(10_000):
            bell.ring(bell.name)
        assert bell.rang() and not bell.rang()


def test_nobody_is_at_the_bell():
    with Bell() as bell:
        bell.ring("nobody")


@pytest.mark.parametrize("end", [lambda process: process.kill(), lambda process: process.communicate(b"\n")], ids=["killed", "ended"])
def test_the_end_of_a_process_is_noticed(end):
    with child() as (process, other, _), watching(other) as watch:
        assert watch.all_here and watch.gone() == []
        end(process)
        assert watch.wait(60.0)
        ((rank, text),) = watch.gone()
        assert rank == 1 and text.startswith(f"rank 1 (process {process.pid} on ") and "has ended without a word" in text
        assert watch.gone() == []


def test_one_that_has_ended_before_is_noticed_too():
    with child() as (process, other, _):
        process.kill()
        process.wait()
        with watching(other, timeout=0.0) as watch:
            while not (found := watch.gone()):
                watch.wait(0.01)
        assert found[0][0] == 1


def test_one_elsewhere_is_gone_when_it_is_silent(monkeypatch):
    now = 100.0
    monkeypatch.setattr("flambeau.pipeline._watch.time.monotonic", lambda: now)
    with child() as (_, other, _), watching(other, timeout=4.0, machine="another") as watch:
        assert not watch.all_here
        assert watch.due() == [1] and watch.due() == []
        now += 3.0
        assert watch.due() == [1] and watch.gone() == []
        watch.heard(1)
        now += 3.0
        assert watch.gone() == []
        now += 1.5
        ((rank, text),) = watch.gone()
        assert rank == 1 and text.endswith("has been silent for 4.0 s")
        assert watch.gone() == [] and watch.due() == []


def test_a_kernel_without_process_descriptors(monkeypatch):
    def refuse(pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("os.pidfd_open", refuse)
    with child() as (_, other, _), watching(other) as watch:
        assert not watch.all_here and watch.due() == [1]
