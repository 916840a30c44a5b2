"""The number of live objects is right whatever their threads do meanwhile: other leak tests compare it before and after."""

from __future__ import annotations

import os
import threading

import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import _C

COUNT = 50


class Maker(threading.Thread):
    """Makes tensors and lives on until it is told to end."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.made, self.may_end, self.tensors = threading.Event(), threading.Event(), []

    def run(self) -> None:
        self.tensors = [fl.ones(2) for _ in range(COUNT)]
        self.made.set()
        self.may_end.wait(60)

    def end(self) -> None:
        self.may_end.set()
        self.join(60)


@pytest.fixture
def maker():
    thread = Maker()
    thread.start()
    yield thread
    thread.end()


def test_objects_count_while_their_thread_lives():
    before = _C.live_objects()
    thread = Maker()
    thread.start()
    assert thread.made.wait(60)
    while_it_lives = _C.live_objects()
    assert while_it_lives >= before + COUNT
    thread.end()
    assert _C.live_objects() == while_it_lives
    thread.tensors.clear()
    assert _C.live_objects() == before


def test_objects_given_back_by_another_thread(maker):
    assert maker.made.wait(60)
    before = _C.live_objects()
    maker.tensors.clear()
    assert _C.live_objects() <= before - COUNT


def test_many_threads_one_after_the_other():
    def work() -> None:
        (fl.ones(2, requires_grad=True) * 2).sum().backward()

    def round_of_threads() -> None:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert_nothing_stays(round_of_threads)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_counts_on(maker):
    assert maker.made.wait(60)
    before = _C.live_objects()
    child = os.fork()
    if not child:
        same = _C.live_objects() == before
        maker.tensors.clear()
        os._exit(0 if same and _C.live_objects() <= before - COUNT else 1)
    assert os.waitpid(child, 0)[1] == 0
